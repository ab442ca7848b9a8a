//! Drives the real `g2-agent` as a child, with the test as its host.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the tests play the host: they start the runner, and fill and empty its folders, hostile files included"
)]
#![expect(clippy::unwrap_used, reason = "a test that meets the unexpected is to stop there")]

mod fixture;

mod acp;
mod claude;
mod gemini;
mod input;
mod launch;
mod life;
mod mailbox;
mod mcp;
mod script;
mod skills;
mod task_script;
