//! From a message to a prompt: the agent that wakes, the text that it reads, and that no message is lost or read twice.

mod crowd;
pub(crate) mod engage;
mod prompts;
