//! `g2 outbox`.

use clap::Subcommand;
use ipc_handlers::Folder;

use super::{
    CliResult, Context,
    client::change,
    filter::{Rows, Span, check_chat, check_group},
    show,
    word::word,
};
use crate::{
    domain::{
        platforms::attachments::{Goes, told},
        states::DeliveryStatus,
    },
    ops::outbox::{drop, retry},
    store::Which,
};

const EXAMPLES: &str = "\
States: pending (waits), sending, sent, unknown (the channel did not say whether it arrived),
failed (given up).

Examples:
  g2 outbox list --chat local:main --limit 5
  g2 outbox list --state failed --since 1d";

#[derive(Debug, Subcommand)]
pub(super) enum Outbox {
    /// List texts for chats, oldest first, with their state
    #[command(after_help = EXAMPLES)]
    List {
        /// Only texts for this chat, by its address such as local:family
        #[arg(long, value_name = "JID")]
        chat: Option<String>,
        /// Only texts of this group's agent, by its folder
        #[arg(long)]
        group: Option<Folder>,
        /// Only texts in this state
        #[arg(long, value_parser = word::<DeliveryStatus>())]
        state: Option<DeliveryStatus>,
        #[command(flatten)]
        span: Span,
        #[command(flatten)]
        rows: Rows,
    },
    #[command(after_help = "Examples:\n  g2 outbox drop 7")]
    Drop(drop::Args),
    #[command(after_help = "Examples:\n  g2 outbox retry 7")]
    Retry(retry::Args),
}

impl Outbox {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        match self {
            Self::List { chat, group, state, span, rows } => {
                let store = context.store()?;
                let (since, until) = span.read(context)?;
                let which = Which {
                    chat: chat.clone(),
                    group: group.clone(),
                    state: state.map(DeliveryStatus::as_str),
                    since,
                    until,
                    text: rows.text(),
                    limit: rows.limit,
                };
                let mut rows = store.outbox_of(which).await?;
                check_chat(&store, &rows, chat.as_deref()).await?;
                check_group(&store, &rows, group.as_ref()).await?;
                if !context.json {
                    rows.iter_mut()
                        .for_each(|row| row.text = told(&row.text, &row.attachments, |_| Goes::ToFolder));
                }
                show::rows(
                    context,
                    &rows,
                    &["id", "chat_jid", "status", "-attempts", "-cause", "created_at", "~text"],
                )
            }
            Self::Drop(args) => change(context, args).await,
            Self::Retry(args) => change(context, args).await,
        }
    }
}
