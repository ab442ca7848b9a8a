//! `g2 messages`.

use clap::Subcommand;

use super::{Context, Outcome, filter::check_chat, show};

#[derive(Debug, Subcommand)]
pub(super) enum Messages {
    /// Messages in the order in which they came
    List {
        #[arg(long, value_name = "JID")]
        chat: Option<String>,
        /// Only those that were to wake an agent, or may be yet, and that have no answer; `g2 why SEQ` says why
        #[arg(long)]
        unanswered: bool,
        /// Show only the newest N
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
    },
}

impl Messages {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let Self::List { chat, unanswered, limit } = self;
        let store = context.store()?;
        let messages = match unanswered {
            true => store.unanswered(chat.as_deref(), limit)?,
            false => store.messages(chat.as_deref(), limit).await?,
        };
        check_chat(&store, &messages, chat.as_deref()).await?;
        show::rows(context, &messages, &["seq", "chat_jid", "thread", "sender_name", "received_at", "text"])
    }
}
