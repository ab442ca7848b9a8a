//! `g2 chat`: a conversation in the terminal.

use clap::Args;

use super::{Context, Outcome, client::Client, jid, speaker, talk::Talk};

#[derive(Debug, Args)]
pub(super) struct Chat {
    /// Which local chat
    #[arg(long, default_value = "local:main", value_name = "JID", value_parser = jid)]
    chat: String,
    /// Who speaks
    #[arg(long = "as", default_value = "me", value_name = "NAME", value_parser = speaker)]
    sender: String,
}

impl Chat {
    pub(super) async fn run(self, context: &Context) -> Outcome {
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
