//! `g2 dropped`: counts of messages that woke no agent because of their sender.

use clap::Subcommand;
use ipc_handlers::Folder;

use super::{
    CliResult, Context,
    client::change,
    filter::{Rows, Span, check_chat, check_group},
    show,
};
use crate::ops::people::clear_dropped;

#[derive(Debug, Subcommand)]
pub(super) enum Dropped {
    /// List the counts by chat, group, sender and rule, the last counted last
    #[command(after_help = "Examples:\n  g2 dropped list")]
    List {
        /// Only counts of this group, by its folder
        #[arg(long, value_name = "GROUP")]
        group: Option<Folder>,
        /// Only counts of this chat, by its address such as local:family
        #[arg(long, value_name = "JID")]
        chat: Option<String>,
        #[command(flatten)]
        span: Span,
        #[command(flatten)]
        rows: Rows,
    },
    Clear(clear_dropped::Args),
}

impl Dropped {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        match self {
            Self::List { group, chat, span, rows } => {
                let store = context.store()?;
                let (since, until) = span.read(context)?;
                let all = store.dropped(None).await?;
                let found = rows.that(all, |row| {
                    group.as_ref().is_none_or(|group| row.group.as_deref() == Some(group.as_str()))
                        && chat.as_ref().is_none_or(|chat| row.chat_jid == *chat)
                        && since.is_none_or(|since| row.last_at >= since)
                        && until.is_none_or(|until| row.first_at < until)
                });
                check_group(&store, &found, group.as_ref()).await?;
                check_chat(&store, &found, chat.as_deref()).await?;
                show::rows(
                    context,
                    &found,
                    &["chat_jid", "group", "sender", "rule", "count", "last_at", "-last_seq", "~reason"],
                )
            }
            Self::Clear(args) => change(context, args).await,
        }
    }
}
