//! What a container is launched with: what it sees, what it can reach, what it is told, and what stays on the host.
#![expect(clippy::disallowed_methods, reason = "tests play the user and the machine")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

pub(crate) mod inside;
mod keys;
mod media;
mod mounts;
mod skills;
