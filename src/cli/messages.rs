//! `g2 messages`.

use clap::Subcommand;

use super::{CliResult, Context, filter::check_chat, show};
use crate::domain::platforms::attachments::{Goes, told};

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
}

impl Messages {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        let Self::List { chat, unanswered, limit } = self;
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
