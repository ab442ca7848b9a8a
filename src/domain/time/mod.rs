//! Time: zones, clocks that are set, and times as people say them.

pub mod clocks;
pub mod times;
pub mod zone;
