//! `g2 outbox`.

use clap::Subcommand;

use super::{CliResult, Context, client::perform, filter::check_chat, show};
use crate::{
    domain::platforms::attachments::{Goes, told},
    ops::outbox::{drop, retry},
};

const EXAMPLES: &str = "\
States: pending (waits), sending, sent, unknown (the channel did not say whether it arrived),
failed (given up).

Examples:
  g2 outbox list --chat local:main --limit 5";

#[derive(Debug, Subcommand)]
pub(super) enum Outbox {
    /// List texts for chats, oldest first, with their state
    #[command(after_help = EXAMPLES)]
    List {
        /// Only texts for this chat, by its address such as local:family
        #[arg(long, value_name = "JID")]
        chat: Option<String>,
        /// Show only the newest N
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
    },
    /// Give up a text that waits to be sent
    #[command(after_help = "Examples:\n  g2 outbox drop 7")]
    Drop {
        /// Number of the text, as `g2 outbox list` shows it
        id: i64,
    },
    /// Send a text again that failed
    #[command(after_help = "Examples:\n  g2 outbox retry 7")]
    Retry {
        /// Number of the text, as `g2 outbox list` shows it
        id: i64,
    },
}

impl Outbox {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        match self {
            Self::List { chat, limit } => {
                let store = context.store()?;
                let mut rows = store.outbox(chat.as_deref(), limit).await?;
                check_chat(&store, &rows, chat.as_deref()).await?;
                if !context.json {
                    rows.iter_mut()
                        .for_each(|row| row.text = told(&row.text, &row.attachments, |_| Goes::ToFolder));
                }
                show::rows(
                    context,
                    &rows,
                    &["id", "chat_jid", "status", "attempts", "cause", "created_at", "text"],
                )
            }
            Self::Drop { id } => show::answer(context, &perform(context, drop::Args { id }).await?),
            Self::Retry { id } => show::answer(context, &perform(context, retry::Args { id }).await?),
        }
    }
}
