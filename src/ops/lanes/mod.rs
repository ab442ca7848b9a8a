//! Lanes: the turns of conversations.

use super::{By, Done, OpError, Operation, World};

pub mod wake;
