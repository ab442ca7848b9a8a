//! The daemon's loops.

use super::{By, Done, OpError, Operation, World};

pub mod release;
