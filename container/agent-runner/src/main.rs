//! `g2-agent`: the runner as a program of its own, for images. `g2-agent --version` says which one it is.

use std::{
    env,
    io::{self, Write as _},
    process::ExitCode,
};

fn main() -> ExitCode {
    if env::args_os().nth(1).is_some_and(|arg| arg == "--version") {
        let said = writeln!(io::stdout(), "g2-agent {}", agent_runner::ID);
        return said.map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    agent_runner::main()
}
