//! `g2 restored`: what a restore held back.

use clap::Subcommand;

use super::{CliResult, Context, client::change, show};
use crate::ops::restored::{drop, resume};

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
    #[command(after_help = RESUMED)]
    Resume(resume::Args),
    #[command(after_help = DROPPED)]
    Drop(drop::Args),
}

impl Restored {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        match self {
            Self::List { limit } => show::rows(
                context,
                &context.store()?.held_back(limit).await?,
                &["kind", "id", "chat_jid", "group", "at", "text"],
            ),
            Self::Resume(args) => change(context, args).await,
            Self::Drop(args) => change(context, args).await,
        }
    }
}
