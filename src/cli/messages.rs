//! `g2 messages`.

use anyhow::Context as _;
use clap::Subcommand;
use ipc_handlers::Folder;

use super::{CliResult, Context, client::perform, filter::check_chat, show};
use crate::{
    domain::platforms::attachments::{Goes, told},
    ops::messages::skip,
};

const EXAMPLES: &str = "\
Examples:
  g2 messages list --limit 20
  g2 messages list --chat local:main --unanswered";

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
        /// Show only the newest N
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
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
        let (chat, unanswered, limit) = match self {
            Self::List { chat, unanswered, limit } => (chat, unanswered, limit),
            Self::Skip { seq, reason, group } => {
                let group =
                    group.as_deref().map(Folder::parse).transpose().context("passing over a message")?;
                return show::answer(context, &perform(context, skip::Args { seq, reason, group }).await?);
            }
        };
        let store = context.store()?;
        let mut messages = match unanswered {
            true => store.unanswered(chat.as_deref(), limit)?,
            false => store.messages(chat.as_deref(), limit).await?,
        };
        check_chat(&store, &messages, chat.as_deref()).await?;
        if !context.json {
            messages
                .iter_mut()
                .for_each(|row| row.text = told(&row.text, &row.attachments, |_| Goes::ToFolder));
        }
        show::rows(context, &messages, &["seq", "chat_jid", "thread", "sender_name", "received_at", "text"])
    }
}
