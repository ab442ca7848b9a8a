//! `g2 lanes`.

use clap::Subcommand;
use ipc_handlers::Folder;

use super::{
    CliResult, Context,
    client::change,
    filter::{Rows, check_group},
    show,
};
use crate::{loops::lost::is_lost, ops::lanes::wake, store::LanesShown};

const LISTED: &str = "\
A lane is a group, a chat and a thread of it: its messages are answered in order. A lane rests after
a failed run: 5 to 80 seconds, or an hour if its runs were killed three times within an hour. Then
its messages are tried again.

Fields: waiting: messages that wait; since: the oldest of them; failed_attempts: how often it could
not be answered (6 attempts are made); why: the error of the last run of a
lane that rests.

Examples:
  g2 lanes list
  g2 lanes list --all --json";

const WOKEN: &str = "\
A message of an owner to the agent does the same for its lane. A task that rests goes on with
`g2 tasks resume`.

Examples:
  g2 lanes wake main
  g2 lanes wake main --chat local:main";

#[derive(Debug, Subcommand)]
pub(super) enum Lanes {
    /// List the lanes in which something waits or is at work, and those that rest
    #[command(after_help = LISTED)]
    List {
        /// Only lanes of this group, by its folder
        #[arg(long)]
        group: Option<Folder>,
        /// List the others too
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        rows: Rows,
    },
    #[command(after_help = WOKEN)]
    Wake(wake::Args),
}

impl Lanes {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        match self {
            Self::List { group, all, rows } => {
                let store = context.store()?;
                let which = if all { LanesShown::All } else { LanesShown::Busy };
                let mut lanes =
                    store.shown_lanes(group.as_ref(), which, rows.enough(), context.world.now())?;
                for lane in &mut lanes {
                    lane.wait_for_folder(|group| is_lost(&context.root, &store, group));
                }
                check_group(&store, &lanes, group.as_ref()).await?;
                let columns = [
                    "group",
                    "chat_jid",
                    "-thread",
                    "waiting",
                    "since",
                    "failed_attempts",
                    "rest_until",
                    "-why",
                    "run",
                    "~waits_for",
                ];
                show::rows(context, &rows.of(lanes), &columns)
            }
            Self::Wake(args) => change(context, args).await,
        }
    }
}
