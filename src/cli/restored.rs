//! `g2 restored`: what a restore held back.

use clap::{Args, Subcommand};

use super::{CliResult, Context, client::perform, show};
use crate::ops::restored::{Which, drop, resume};

const LISTED: &str = "\
A backup is older than the root that it was made of: texts that were unsent and messages that
were unanswered may have been sent and answered since. So they wait here for you. So do messages
that a platform brings later and that were written before the restore.

Examples:
  g2 restored list";

const RESUMED: &str = "\
Texts are sent. Messages are judged as if they came now, and those that wake an agent are
answered.

Examples:
  g2 restored resume --message 12 --text 7
  g2 restored resume --all";

const DROPPED: &str = "\
Texts are not sent, and messages wake nobody. Both stay in the lists.

Examples:
  g2 restored drop --text 7
  g2 restored drop --all";

#[derive(Debug, Subcommand)]
pub(super) enum Restored {
    /// List texts and messages that are held back, oldest first
    #[command(after_help = LISTED)]
    List {
        /// Show only the first N of each
        #[arg(long, value_name = "N", default_value_t = 1000)]
        limit: usize,
    },
    /// Send texts and answer messages that are held back
    #[command(after_help = RESUMED)]
    Resume(These),
    /// Give up texts and messages that are held back
    #[command(after_help = DROPPED)]
    Drop(These),
}

#[derive(Debug, Args)]
pub(super) struct These {
    /// Text, by its number; may be given again
    #[arg(long = "text", value_name = "ID")]
    texts: Vec<i64>,
    /// Message, by its number; may be given again
    #[arg(long = "message", value_name = "SEQ")]
    messages: Vec<i64>,
    /// Everything that is held back
    #[arg(long, conflicts_with_all = ["texts", "messages"], required_unless_present_any = ["texts", "messages"])]
    all: bool,
}

impl From<These> for Which {
    fn from(These { texts, messages, all }: These) -> Self {
        Self { texts, messages, all }
    }
}

impl Restored {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        match self {
            Self::List { limit } => show::rows(
                context,
                &context.store()?.held_back(limit).await?,
                &["kind", "id", "chat_jid", "group", "at", "text"],
            ),
            Self::Resume(these) => {
                show::answer(context, &perform(context, resume::Args(these.into())).await?)
            }
            Self::Drop(these) => show::answer(context, &perform(context, drop::Args(these.into())).await?),
        }
    }
}
