//! From a message to a prompt: who is woken, what the agent is given to read, and that nothing is lost or twice.

mod crowd;
pub(crate) mod engage;
mod prompts;
