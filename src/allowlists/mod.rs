//! The two lists that users keep in their own configuration, and what they name: folders that may be mounted, senders that are heard.

pub mod mounts;
pub mod senders;
