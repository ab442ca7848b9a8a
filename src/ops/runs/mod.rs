//! Runs: a container's life, ended by a person.

use super::{By, Done, OpError, Operation, World, missing};

pub mod stop;
