//! `g2 up`: makes the root if needed, starts the daemon in this process and chats on `local:main`.

use std::io::IsTerminal as _;

use clap::Args;

use super::{
    Context, Outcome,
    client::Client,
    out,
    screen::Screen,
    send,
    serve::{Signals, stop},
    speaker,
};
use crate::{
    app::{self, Daemon},
    root::{Standing, standing},
};

#[derive(Debug, Args)]
pub(super) struct Up {
    /// Who speaks
    #[arg(long = "as", default_value = "me", value_name = "NAME", value_parser = speaker)]
    sender: String,
}

impl Up {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let mut signals = Signals::listen(context)?;
        // Where there is nothing yet, the start makes a root.
        if standing(&context.root) != Standing::Nothing {
            app::check_root(&context.root)?;
        }
        let daemon = tokio::select! {
            started = Daemon::start(context.root.clone(), context.config()?) => started?,
            () = signals.next() => return Ok(()),
        };
        let terminal = std::io::stdin().is_terminal();
        if terminal {
            out::tell(format!(
                "up at {} (agents in the {} sandbox). Type a message; end with Ctrl-D.",
                context.root.display(),
                daemon.host.sandbox.kind()
            ));
        }
        let outcome = tokio::select! {
            outcome = self.talk(context) => outcome,
            () = signals.next() => Ok(()),
        };
        // Nobody is left to talk to the agents: none stays behind, not even one in a container that would outlive us.
        stop(&mut signals, daemon.retire()).await;
        outcome
    }

    async fn talk(&self, context: &Context) -> Outcome {
        let mut client = Client::needed(context).await?;
        let screen = Screen::new(&context.config()?.assistant_name);
        send::converse(&mut client, "local:main", &self.sender, send::stdin_lines(), screen).await
    }
}
