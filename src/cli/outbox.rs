//! `g2 outbox`.

use clap::Subcommand;

use super::{Context, Failure, Outcome, client::tell_changed, filter::check_chat, prune::missing, show};
use crate::{domain::prune::History, store::StoreError};

#[derive(Debug, Subcommand)]
pub(super) enum Outbox {
    /// What is said to chats, in order
    List {
        #[arg(long, value_name = "JID")]
        chat: Option<String>,
        /// The newest so many only
        #[arg(long)]
        limit: Option<usize>,
    },
    /// Say once more what failed
    Retry { id: i64 },
}

impl Outbox {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let store = context.store()?;
        match self {
            Self::List { chat, limit } => {
                let rows = store.outbox(chat.as_deref(), limit)?;
                check_chat(&store, &rows, chat.as_deref())?;
                show::rows(
                    context,
                    &rows,
                    &["id", "chat_jid", "status", "attempts", "cause", "created_at", "text"],
                )
            }
            Self::Retry { id } => {
                store.retry_outbox(id).await.map_err(|error| match error {
                    StoreError::NotFound { .. } => missing(&store, History::Outbox, id).into(),
                    other => Failure::from(other),
                })?;
                tell_changed(context, None).await;
                show::done(context, &format!("outbox row {id} is sent again"))
            }
        }
    }
}
