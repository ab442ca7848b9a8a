//! The command line of `g2-agent`.

use std::{
    env,
    io::{self, Write as _},
    process::ExitCode,
};

const USAGE: &str = "usage: g2-agent            run the agent that the document on stdin describes
       g2-agent mcp        serve the tools to another agent, as an MCP server on stdin and stdout
                           (G2_CHAT_JID; G2_IPC_DIR, G2_IS_MAIN, TZ and G2_REPLY_TIMEOUT_MS if need be)
       g2-agent --version  say which runner this is";

/// Does what the words behind `g2-agent` ask for.
#[must_use]
pub fn program() -> ExitCode {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    match &arguments[..] {
        [] => super::main(),
        [one] if one == "mcp" => super::mcp::serve(),
        [one] if one == "--version" => {
            let said = writeln!(io::stdout(), "g2-agent {}", super::ID);
            said.map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS)
        }
        _ => {
            let _ = writeln!(io::stderr(), "{USAGE}");
            ExitCode::from(2)
        }
    }
}
