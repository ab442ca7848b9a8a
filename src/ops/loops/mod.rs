//! The daemon's loops.

use super::{By, Done, OpError, Operation, Site};

pub mod release;
