//! A file system for tests that forgets what was not synced when its power goes off.
//!
//! [`Disk`] is the model: what programs see, what is on the disk, and what lies between. [`Forgetful`] mounts one over a
//! folder by FUSE; [`folder`] reads one from a folder and writes one to it. The README says what is forgotten.

mod device;
mod disk;
mod faults;
pub mod folder;
mod mounted;
mod random;
mod serve;

pub use disk::{Body, Disk, Forgotten, Ino, Node, PAGE, Place, ROOT, Refused, Rights, Special, Tree};
pub use faults::{Call, Failure, Fault, Faults, Lie, Slowness};
pub use mounted::{Failed, Forgetful};
pub use random::Random;
