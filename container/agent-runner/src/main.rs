//! `g2-agent`: the runner as a program of its own, for images.

fn main() -> std::process::ExitCode {
    agent_runner::program()
}
