//! Messages that came in.

use super::{By, Done, OpError, Operation, World, missing};

pub mod skip;
