//! `g2-agent`: the runner as a program of its own, for images.

use std::{env, process::ExitCode};

const USAGE: &str = "usage: g2-agent        run the agent that the document on stdin describes
       g2-agent mcp    serve the tools to another agent, as an MCP server on stdin and stdout
                       (G2_CHAT_JID; G2_IPC_DIR, G2_IS_MAIN, TZ and G2_REPLY_TIMEOUT_MS if need be)";

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    match &arguments[..] {
        [] => agent_runner::main(),
        [one] if one == "mcp" => agent_runner::mcp::serve(),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}
