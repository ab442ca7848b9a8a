//! `g2 dropped`: counts of messages that woke no agent because of their sender.

use clap::Subcommand;

use super::{CliResult, Context, client::perform, show};
use crate::ops::people::clear_dropped;

#[derive(Debug, Subcommand)]
pub(super) enum Dropped {
    /// List the counts by chat, group, sender and rule, the last counted last
    #[command(after_help = "Examples:\n  g2 dropped list")]
    List {
        /// Show only the newest N
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
    },
    /// Set all counts to zero
    Clear,
}

impl Dropped {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        match self {
            Self::List { limit } => show::rows(
                context,
                &context.store()?.dropped(limit).await?,
                &["chat_jid", "group", "sender", "rule", "count", "last_at", "last_seq", "reason"],
            ),
            Self::Clear => show::answer(context, &perform(context, clear_dropped::Args {}).await?),
        }
    }
}
