//! A world for tests that one seed decides: what happens in it happens again when the seed is the same.
//!
//! [`disk`] is a disk in memory that SQLite writes to, with all that a disk may do to it.

pub mod agent;
mod chance;
mod containers;
pub mod disk;
pub mod hostile;
mod judge;
mod life;
mod mailbox;
pub mod people;
mod piece;
pub mod plan;
mod platform;
mod rests;
mod runner;
pub mod seeded;
mod shaky;
mod story;
mod tasks;
pub mod template;
mod world;

pub use chance::Chance;
pub use containers::{Asked, Containers, Mailboxes, Moods, Wants};
pub use life::Life;
pub use mailbox::{InTwin, Mailbox};
pub use platform::{Kind, Platform, Shown, Weather};
pub use story::{Faults, Tally, Told, play};
pub use world::{Calendar, Dice, OneThread, world};
