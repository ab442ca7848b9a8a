//! `g2 runs`.

use anyhow::anyhow;
use clap::Subcommand;
use serde::Serialize;

use super::{CliResult, Context, Failure, client::perform, out, show};
use crate::{
    domain::{
        host::prune::History,
        rows::Run,
        runs::usage::{RefusalRow, Total},
    },
    ops::{missing, runs::stop},
};

const EXAMPLES: &str = "\
Examples:
  g2 runs logs 1";

const STOPPED: &str = "\
The run has health.close_grace_ms (30 seconds) to finish. Its chat is told that it was stopped. Of
a task the occurrence is given up, or begins again with --retry.

Examples:
  g2 runs stop 7
  g2 runs stop 7 --now --retry";

#[derive(Debug, Subcommand)]
pub(super) enum Runs {
    /// List runs, oldest first
    #[command(after_help = "Examples:\n  g2 runs list --limit 5")]
    List {
        /// Show only the newest N
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
    },
    /// Show one run, with its use of the model and its newest refused requests
    #[command(after_help = "Examples:\n  g2 runs show 1")]
    Show {
        /// Number of the run, as `g2 runs list` shows it
        id: i64,
    },
    /// End a run: it may finish first, and is stopped if it takes too long
    #[command(after_help = STOPPED)]
    Stop {
        /// Number of the run, as `g2 ps` shows it
        id: i64,
        /// Kill it at once
        #[arg(long)]
        now: bool,
        /// Have the messages that it has in hand answered again; otherwise they are given up
        #[arg(long, conflicts_with = "give_up")]
        retry: bool,
        /// Give up the messages that it has in hand, as is done without --retry
        #[arg(long)]
        give_up: bool,
    },
    /// Print the output of a run's container
    #[command(after_help = EXAMPLES)]
    Logs {
        /// Number of the run, as `g2 runs list` shows it
        id: i64,
    },
}

/// A run, with what it used of the model.
#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    run: Run,
    #[serde(flatten)]
    used: Total,
    refusals: Vec<RefusalRow>,
}

impl Runs {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        let store = context.store()?;
        let one = |id: i64| -> Result<_, Failure> {
            Ok(store.run(id)?.ok_or_else(|| missing(&store, History::Runs, id))?)
        };
        match self {
            Self::List { limit } => show::rows(
                context,
                &store.runs(limit)?,
                &["id", "group", "lane", "kind", "status", "started_at", "ended_at", "records", "error"],
            ),
            Self::Show { id } => {
                let (used, refusals) = store.usage_of_run(id)?;
                show::object(context, &Shown { run: one(id)?, used, refusals })
            }
            Self::Stop { id, now, retry, give_up: _ } => {
                show::answer(context, &perform(context, stop::Args { id, now, retry }).await?)
            }
            Self::Logs { id } => {
                one(id)?;
                let log = crate::root::read_run_log(&context.root, id)
                    .map_err(|error| anyhow!("run {id} has no log: {error}"))?;
                if context.json {
                    return show::object(context, &serde_json::json!({ "id": id, "log": log }));
                }
                out::text(&log)
            }
        }
    }
}
