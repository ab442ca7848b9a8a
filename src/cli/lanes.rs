//! `g2 lanes`.

use anyhow::Context as _;
use clap::Subcommand;
use ipc_handlers::Folder;

use super::{
    CliResult, Context,
    client::perform,
    filter::{Rows, check_group},
    show,
};
use crate::{
    loops::lost::is_lost,
    ops::{args::Jid, lanes::wake},
    store::LanesShown,
};

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
        group: Option<String>,
        /// List the others too
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        rows: Rows,
    },
    /// End the rests of a group's lanes: what waits there is tried again at once
    #[command(after_help = WOKEN)]
    Wake {
        /// Group, by its folder
        group: String,
        /// Only lanes of this chat, by its address such as local:family
        #[arg(long, value_name = "JID")]
        chat: Option<Jid>,
    },
}

impl Lanes {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        match self {
            Self::List { group, all, rows } => {
                let folder = group.as_deref().map(Folder::parse).transpose().context("listing lanes")?;
                let store = context.store()?;
                let which = if all { LanesShown::All } else { LanesShown::Busy };
                let mut lanes =
                    store.shown_lanes(folder.as_ref(), which, rows.enough(), context.world.now())?;
                for lane in &mut lanes {
                    lane.wait_for_folder(|group| is_lost(&context.root, &store, group));
                }
                check_group(&store, &lanes, group.as_deref()).await?;
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
            Self::Wake { group, chat } => {
                let group = Folder::parse(&group).context("waking lanes")?;
                show::answer(context, &perform(context, wake::Args { group, chat }).await?)
            }
        }
    }
}
