//! A world for tests that one seed decides: what happens in it happens again when the seed is the same.
//!
//! [`disk`] is a disk in memory that SQLite writes to, with all that a disk may do to it.

mod chance;
pub mod disk;

pub use chance::Chance;
