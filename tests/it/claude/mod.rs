//! From a message to its answer with nothing left out but the model: the real Claude Code in a real container without a
//! network, started by the real daemon, and a scripted model behind its gateway.
//!
//! Skipped, and it is said, where there is no Docker, no image with Claude Code or no python3; `G2_REQUIRE_CLAUDE=1`
//! makes that a failure.

mod house;
mod model;

mod conversation;
mod crash;
mod faults;
mod health;
mod images;
mod moved;
mod resumed;
mod runners;
mod secrets;
mod servers;
mod sessions;
