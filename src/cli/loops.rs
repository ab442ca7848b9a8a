//! `g2 loops`.

use clap::Subcommand;
use serde::Serialize;

use super::{
    CliResult, Context,
    client::{Client, change},
    show,
};
use crate::{
    domain::machine::loops::{Condition, LoopState},
    ops::loops::release,
};

const LISTED: &str = "\
A loop looks for work, and does it for each key (a chat, a group, a run, an account) by itself. Work
that fails is tried again after a rest. After five faults of g2's own in a row a key is set
aside.

Fields: looked_at: the last look that went well; at_work, waiting, resting: keys; failures: looks and
work that failed since the start; state: well, retrying (work for a key fails), set_aside (a key is),
failing (it can't look), stuck (it has not come round in time); trouble: why.

A daemon is needed: no loop runs without one.

Examples:
  g2 loops list
  g2 loops list --json";

const RELEASED: &str = "\
A key goes on by itself after a rest, unless it is set aside. Without a daemon no key rests.

Examples:
  g2 loops release deliver local:main
  g2 loops release deliver --all";

#[derive(Debug, Subcommand)]
pub(super) enum Loops {
    /// List the loops of the daemon, and what they fail over
    #[command(after_help = LISTED)]
    List,
    #[command(after_help = RELEASED)]
    Release(release::Args),
}

/// A loop, as it is listed.
#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    of: LoopState,
    state: Condition,
    /// What is wrong with it.
    trouble: Option<String>,
}

impl From<LoopState> for Row {
    fn from(of: LoopState) -> Self {
        Self { state: of.condition(), trouble: of.trouble(), of }
    }
}

impl Loops {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        match self {
            Self::List => {
                let states = Client::needed(context).await?.loops().await?;
                let rows: Vec<Row> = states.into_iter().map(Row::from).collect();
                let columns = [
                    "loop",
                    "-looked_at",
                    "-at_work",
                    "-waiting",
                    "-resting",
                    "-failures",
                    "state",
                    "~trouble",
                ];
                show::rows(context, &rows, &columns)
            }
            Self::Release(args) => change(context, args).await,
        }
    }
}
