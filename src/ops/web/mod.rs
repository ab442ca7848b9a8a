//! The operator's page: tickets that let somebody in, the end of sessions, tokens for programs.

use super::{By, Done, OpCode, OpError, Operation, Site};

pub mod add_token;
pub mod open;
pub mod revoke;
pub mod revoke_token;
