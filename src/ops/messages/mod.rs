//! Messages that came in.

use super::{By, Done, OpError, Operation, Site, missing};

pub mod skip;
