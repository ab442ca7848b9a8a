//! What moves in from another installation, and out of this one: typed, dated rows, and what is told of those that can't be taken.

pub mod findings;
pub mod look;
pub mod rehearsal;
pub mod rows;
mod stamp;
