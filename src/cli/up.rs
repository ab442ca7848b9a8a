//! `g2 up`: makes the root if needed, starts the daemon in this process and chats on `local:main`.

use std::io::IsTerminal as _;

use clap::Args;

use super::{Context, Outcome, client::Client, send};
use crate::app::Daemon;

#[derive(Debug, Args)]
pub(super) struct Up {
    /// Who speaks
    #[arg(long = "as", default_value = "me", value_name = "NAME")]
    sender: String,
}

impl Up {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let daemon = Daemon::start(context.root.clone(), context.config()?).await?;
        let terminal = std::io::stdin().is_terminal();
        if terminal {
            eprintln!(
                "g2 is up at {} (agents in the {} sandbox). Type a message; end with Ctrl-D.",
                context.root.display(),
                daemon.host.sandbox.kind()
            );
        }
        let mut client = Client::needed(context).await?;
        let talk = send::converse(
            &mut client,
            "local:main",
            &self.sender,
            send::stdin_lines(),
            terminal.then_some("> "),
        );
        let outcome = tokio::select! {
            outcome = talk => outcome,
            () = super::serve::asked_to_stop() => Ok(()),
        };
        daemon.stop().await;
        Ok(outcome?)
    }
}
