//! The root itself: where it is found, what stands there, and who may read it.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests play the user and the machine"
)]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod live;
mod lost;
mod private;
mod reached;
mod replaced;
mod settings;
mod standing;
