//! `g2 up`: makes the root if needed, starts the daemon in this process and chats on `local:main`.

use clap::Args;

use super::{
    CliResult, Context, Failure,
    client::Client,
    conversation::Talk,
    out,
    serve::{Signals, broken, stop},
    speaker,
};
use crate::{
    app::{self, Daemon},
    domain::runs::run_settings::Provider,
    root::{Standing, standing},
};

const EXAMPLES: &str = "\
Without a terminal, each line of stdin is a message, and only the answers go to stdout. `g2 up`
ends with 0 when every message is answered. In a terminal the keys are those of `g2 chat`.

Examples:
  g2 up
  echo \"hello\" | g2 up";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Up {
    /// Name of the person who speaks
    #[arg(long = "as", default_value = "me", value_name = "NAME", value_parser = speaker)]
    sender: String,
}

impl Up {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        let mut signals = Signals::listen()?;
        // Where there is nothing yet, the start makes a root.
        if standing(&context.root) != Standing::Nothing {
            app::check_root(&context.root)?;
        }
        let mut daemon = tokio::select! {
            started = Daemon::start(context.root.clone(), context.config()?) => started?,
            () = signals.next() => return Ok(()),
        };
        signals.lead_to(&daemon);
        let about = about(context, daemon.sandbox.as_str()).await?;
        let mut asked = daemon.leave_asked();
        let log = context.log.follow(daemon.config.follow());
        let outcome = tokio::select! {
            _ = asked.wait() => Ok(()),
            outcome = self.talk(context, about) => outcome,
            () = log => Ok(()),
            () = signals.next() => Ok(()),
            why = daemon.has_failed() => {
                // Agents are left to the next start: what would have them leave may be what has failed.
                stop(&mut signals, daemon.stop()).await;
                return Err(broken(&why));
            }
        };
        // Nobody is left to talk to the agents: none stays behind, not even one in a container that would outlive us.
        stop(&mut signals, daemon.retire()).await;
        if out::is_watched() {
            out::tell(
                "the daemon has stopped with this chat, and so have tasks and chats on platforms; `g2 start` keeps one running",
            );
        }
        outcome
    }

    async fn talk(&self, context: &Context, about: String) -> CliResult {
        let mut client = Client::needed(context).await?;
        let assistant = context.config()?.assistant_name;
        let (chat, about) = ("local:main", Some(about));
        Talk { context, chat, sender: &self.sender, assistant: &assistant, about }.run(&mut client).await
    }
}

/// Tells where everything lies, and which agent answers.
async fn about(context: &Context, sandbox: &str) -> Result<String, Failure> {
    let config = context.config()?;
    let main = context.store()?.groups().await?.into_iter().find(|group| group.is_main);
    let own = main.as_ref().and_then(|group| Provider::from_name(group.provider.as_deref()?));
    let script =
        main.and_then(|group| group.script).or(config.agent.script.map(|path| path.display().to_string()));
    let root = context.root.display();
    let which = match (own.unwrap_or(config.agent.provider), script) {
        (Provider::Claude, _) => "The agent is Claude Code".to_owned(),
        (Provider::Acp, _) => "The agent is one that speaks the Agent Client Protocol".to_owned(),
        (Provider::Scripted, Some(script)) => format!("The agent is the built-in one and follows {script}"),
        (Provider::Scripted, None) => {
            "The agent is the built-in one: it repeats what you say. For Claude Code: `g2 setup` leads there, step by step".to_owned()
        }
    };
    Ok(format!("{which}.\nAll files are in {root}; agents run in the {sandbox} sandbox."))
}
