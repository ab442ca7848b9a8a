//! `g2-agent`: the runner as a program of its own, for images.

use std::process::ExitCode;

fn main() -> ExitCode {
    agent_runner::main()
}
