//! `g2 messages`.

use clap::Subcommand;
use ipc_handlers::Folder;

use super::{
    CliResult, Context,
    client::change,
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
        #[arg(long)]
        group: Option<Folder>,
        #[command(flatten)]
        span: Span,
        #[command(flatten)]
        rows: Rows,
    },
    #[command(after_help = SKIPPED)]
    Skip(skip::Args),
}

const SKIPPED: &str = "\
A message that an agent has in hand is ended with `g2 runs stop`.

Examples:
  g2 messages skip 7 --reason \"it makes the agent crash\"";

impl Messages {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        let (chat, unanswered, group, span, rows) = match self {
            Self::List { chat, unanswered, group, span, rows } => (chat, unanswered, group, span, rows),
            Self::Skip(args) => return change(context, args).await,
        };
        let store = context.store()?;
        let (since, until) = span.read(context)?;
        let which = Which {
            chat: chat.clone(),
            group: group.clone(),
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
        check_group(&store, &messages, group.as_ref()).await?;
        if !context.json {
            messages
                .iter_mut()
                .for_each(|row| row.text = told(&row.shown, &row.attachments, |_| Goes::ToFolder));
        }
        show::rows(context, &messages, &["seq", "chat_jid", "-thread", "sender_name", "received_at", "~text"])
    }
}
