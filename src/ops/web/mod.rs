//! The operator's page: tickets that let somebody in, and the end of sessions.

use super::{By, Done, OpCode, OpError, Operation, World};

pub mod open;
pub mod revoke;
