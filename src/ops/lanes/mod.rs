//! Lanes: the turns of conversations.

use super::{By, Done, OpError, Operation, Site};

pub mod wake;
