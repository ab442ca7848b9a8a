//! What goes wrong with agents: each run ends with its reason, nothing is lost, and the chat is told once.

mod failing;
mod stuck;
