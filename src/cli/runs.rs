//! `g2 runs`.

use anyhow::anyhow;
use clap::Subcommand;
use serde::Serialize;

use super::{Context, Failure, Outcome, out, show};
use crate::{
    domain::{
        host::prune::History,
        rows::Run,
        runs::usage::{RefusalRow, Total},
    },
    ops::missing,
};

#[derive(Debug, Subcommand)]
pub(super) enum Runs {
    /// Runs, the newest last
    List {
        /// Show only the newest N
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
    },
    /// One run, with what it used of the model and the newest of what it was refused
    Show { id: i64 },
    /// What its container wrote
    Logs { id: i64 },
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
    pub(super) fn run(self, context: &Context) -> Outcome {
        let store = context.store()?;
        let one = |id: i64| -> Result<_, Failure> {
            let found = store.runs(None)?.into_iter().find(|run| run.id == id);
            Ok(found.ok_or_else(|| missing(&store, History::Runs, id))?)
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
