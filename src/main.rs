//! The `g2` program: the daemon and its command line.

fn main() -> std::process::ExitCode {
    g2::cli::main()
}
