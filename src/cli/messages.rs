//! `g2 messages`.

use anyhow::Context as _;
use clap::Subcommand;
use ipc_handlers::Folder;

use super::{
    CliResult, Context,
    client::perform,
    filter::{Rows, Span, check_chat, check_group},
    show,
};
use crate::{
    domain::platforms::attachments::{Goes, told},
    ops::messages::skip,
    store::Which,
};

const EXAMPLES: &str = "\
Examples:
  g2 messages list --limit 20
  g2 messages list --chat local:main --unanswered
  g2 messages list --since yesterday --grep invoice";

#[derive(Debug, Subcommand)]
pub(super) enum Messages {
    /// List messages, oldest first
    #[command(after_help = EXAMPLES)]
    List {
        /// Only messages of this chat, by its address such as local:family
        #[arg(long, value_name = "JID")]
        chat: Option<String>,
        /// Only messages that woke an agent, or still may, and have no answer; `g2 why SEQ` says why
        #[arg(long)]
        unanswered: bool,
        /// Only messages that this group got, by its folder
        #[arg(long, value_name = "GROUP")]
        group: Option<String>,
        #[command(flatten)]
        span: Span,
        #[command(flatten)]
        rows: Rows,
    },
    /// Have a message passed over that waits: no agent is given it
    #[command(after_help = SKIPPED)]
    Skip {
        /// Number of the message, as `g2 messages list` shows it
        seq: i64,
        /// Why; `g2 why` shows it
        #[arg(long)]
        reason: String,
        /// Only for this group, by its folder
        #[arg(long)]
        group: Option<String>,
    },
}

const SKIPPED: &str = "\
A message that an agent has in hand is ended with `g2 runs stop`.

Examples:
  g2 messages skip 7 --reason \"it makes the agent crash\"";

impl Messages {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        let (chat, unanswered, group, span, rows) = match self {
            Self::List { chat, unanswered, group, span, rows } => (chat, unanswered, group, span, rows),
            Self::Skip { seq, reason, group } => {
                let group =
                    group.as_deref().map(Folder::parse).transpose().context("passing over a message")?;
                return show::answer(context, &perform(context, skip::Args { seq, reason, group }).await?);
            }
        };
        let store = context.store()?;
        let (since, until) = span.read(context)?;
        let which = Which {
            chat: chat.clone(),
            group: group.as_deref().map(Folder::parse).transpose().context("listing messages")?,
            state: None,
            since,
            until,
            text: rows.text(),
            limit: rows.limit,
        };
        let mut messages = match unanswered {
            true => store.unanswered(&which)?,
            false => store.messages_of(which).await?,
        };
        check_chat(&store, &messages, chat.as_deref()).await?;
        check_group(&store, &messages, group.as_deref()).await?;
        if !context.json {
            messages
                .iter_mut()
                .for_each(|row| row.text = told(&row.text, &row.attachments, |_| Goes::ToFolder));
        }
        show::rows(context, &messages, &["seq", "chat_jid", "-thread", "sender_name", "received_at", "~text"])
    }
}
