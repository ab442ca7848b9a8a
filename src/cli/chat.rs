//! `g2 chat`: a conversation in the terminal.

use clap::Args;

use super::{CliResult, Context, client::Client, conversation::Talk, jid, speaker};

const EXAMPLES: &str = "\
The last 20 lines are shown first, and lines that are new to you are marked. In the chat, /help
lists the commands. Ctrl-C stops at once what the agent is doing; where nothing is at work, or the
second time within 5 s, it leaves the chat. Alt-Enter, or a \\ at the end of a line, goes on in a new line of the same
message. Without a terminal, each line of stdin is a message.

Examples:
  g2 chat
  g2 chat --chat local:family --as ada";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Chat {
    /// Local chat to open
    #[arg(long, default_value = "local:main", value_name = "JID", value_parser = jid)]
    chat: String,
    /// Name of the person who speaks
    #[arg(long = "as", default_value = "me", value_name = "NAME", value_parser = speaker)]
    sender: String,
}

impl Chat {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        crate::app::check_version(&context.root)?;
        let mut client = Client::needed(context).await?;
        let assistant = context.config()?.assistant_name;
        let talk =
            Talk { context, chat: &self.chat, sender: &self.sender, assistant: &assistant, about: None };
        tokio::select! {
            outcome = talk.run(&mut client) => outcome,
            _ = tokio::signal::ctrl_c() => Ok(()),
        }
    }
}
