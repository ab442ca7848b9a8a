//! `g2 outbox`.

use clap::Subcommand;

use super::{Context, Outcome, client::perform, filter::check_chat, show};
use crate::ops::outbox::retry;

#[derive(Debug, Subcommand)]
pub(super) enum Outbox {
    /// What is said to chats, in order
    List {
        #[arg(long, value_name = "JID")]
        chat: Option<String>,
        /// Show only the newest N
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
    },
    /// Say once more what failed
    Retry { id: i64 },
}

impl Outbox {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        match self {
            Self::List { chat, limit } => {
                let store = context.store()?;
                let rows = store.outbox(chat.as_deref(), limit).await?;
                check_chat(&store, &rows, chat.as_deref()).await?;
                show::rows(
                    context,
                    &rows,
                    &["id", "chat_jid", "status", "attempts", "cause", "created_at", "text"],
                )
            }
            Self::Retry { id } => show::answer(context, &perform(context, retry::Args { id }).await?),
        }
    }
}
