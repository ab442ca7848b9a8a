//! Ending a run: in order or at once. Its chat is told. The work that it has in hand is given up, unless it is asked again.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{By, Done, OpError, Operation, Site, missing};
use crate::{
    domain::{
        kept::prune::History,
        rows::Run,
        runs::{
            health::human,
            stop::{Stop, StopThen, StopWhen},
        },
    },
    store::StoreError,
};

/// End a run: it may finish first, and is stopped if it takes too long.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Number of the run, as `g2 ps` shows it.
    pub id: i64,
    /// Kill it at once.
    #[serde(default)]
    #[arg(long)]
    pub now: bool,
    /// Have the messages that it has in hand answered again; otherwise they are given up.
    #[serde(default)]
    #[arg(long)]
    pub retry: bool,
}

impl Operation for Args {
    type Row = Run;

    async fn run(self, site: &Site<'_>, by: &By) -> Result<Done<Run>, OpError> {
        let Self { id, now, retry } = self;
        let stop = Stop {
            by: by.short(),
            when: if now { StopWhen::Now } else { StopWhen::InOrder },
            then: if retry { StopThen::AskAgain } else { StopThen::GiveUp },
        };
        let run = site.store.stop_run(id, stop).await.map_err(|error| match error {
            StoreError::NotFound { .. } => missing(site.store, History::Runs, id),
            other => other.into(),
        })?;
        site.keeper.stop_run(&run.group, id);
        let says = match (site.keeper.is_serving(), now) {
            (false, _) => format!("no daemon runs: its next start ends run {id}"),
            (true, true) => format!("run {id} is killed"),
            (true, false) => match site.settings {
                Ok(config) => format!(
                    "run {id} is asked to leave, and stopped if it has not left within {}; `--now` kills it at once",
                    human(i64::try_from(config.health.close_grace_ms).unwrap_or(i64::MAX))
                ),
                Err(_) => format!("run {id} is asked to leave, and stopped if it does not"),
            },
        };
        Ok(Done::new(run, says))
    }
}
