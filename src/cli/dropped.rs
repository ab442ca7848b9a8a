//! `g2 dropped`: what would have woken an agent, and was not heard.

use clap::Subcommand;

use super::{Context, Outcome, show};

#[derive(Debug, Subcommand)]
pub(super) enum Dropped {
    /// By chat, group, sender and rule, newest first
    List {
        #[arg(long)]
        limit: Option<usize>,
    },
    /// Begin counting anew
    Clear,
}

impl Dropped {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let store = context.store()?;
        match self {
            Self::List { limit } => show::rows(
                context,
                &store.dropped(limit)?,
                &["chat_jid", "group", "sender", "rule", "count", "last_at", "last_seq", "reason"],
            ),
            Self::Clear => {
                let rows = store.clear_dropped().await?;
                show::done(context, &format!("{rows} rows are removed; the messages stay"))
            }
        }
    }
}
