//! What lies on the disk, how much room it may take, and how long it is kept.

pub mod backups;
pub mod disk;
pub mod folders;
pub mod held_back;
pub mod housekeeping;
pub mod memories;
pub mod prune;
pub mod templates;
pub mod writing;
