//! Runs: a container's life, ended by a person, or joined by one.

use super::{By, Done, OpError, Operation, Site, missing};

pub mod say;
pub mod stop;
