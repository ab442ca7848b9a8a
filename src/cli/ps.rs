//! `g2 ps`: what runs now.

use clap::Args;
use ipc_handlers::{Folder, Time};
use serde::Serialize;

use super::{
    CliResult, Context, Failure,
    client::{Client, NoDaemon},
    out, show,
};
use crate::{
    domain::{
        rows::rfc3339_option,
        runs::tool_servers::tool_as_shown,
        runs::{
            lanes::Load,
            life::{Life, Reached},
        },
        states::RunKind,
    },
    loops::{EndsHow, Sight},
    store::{ActiveRun, Store, StoreError},
};

pub(super) const EXPLAINED: &str = "\
Fields: state: starting, busy, idle, or leaving; last_sign: the last sign of life of its agent; doing:
the tool that it runs; requests: its requests to the model that have no whole answer; last_work: the
last use of processor or disk, or such a request; ends_at: when it is closed, stopped or killed (ends_how) if it gives no sign
of life until then; budget: how much of its group's budget of the day is used, from 80 % on.

`g2 runs stop ID` ends a run, `g2 runs logs ID -f` shows its output.

Examples:
  g2 ps
  g2 ps --json";

/// Show the runs that are under way
#[derive(Debug, Args)]
pub(super) struct Ps {}

/// A run under way.
#[derive(Serialize)]
pub(super) struct Row {
    id: i64,
    group: Folder,
    lane: String,
    kind: RunKind,
    state: &'static str,
    #[serde(serialize_with = "rfc3339_option")]
    since: Option<Time>,
    #[serde(serialize_with = "rfc3339_option")]
    last_sign: Option<Time>,
    #[serde(serialize_with = "rfc3339_option")]
    in_hand_since: Option<Time>,
    doing: Option<String>,
    #[serde(serialize_with = "rfc3339_option")]
    doing_since: Option<Time>,
    requests: Option<usize>,
    #[serde(serialize_with = "rfc3339_option")]
    last_work: Option<Time>,
    #[serde(serialize_with = "rfc3339_option")]
    ends_at: Option<Time>,
    ends_how: Option<EndsHow>,
    ends_why: Option<String>,
    /// Who wants it stopped.
    stopped_by: Option<String>,
    /// What of its group's budget of the day is used up, or nearly.
    budget: Option<String>,
}

impl Ps {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        let store = context.store()?;
        let (sights, is_up) = match Client::connect(&context.root).await {
            Ok(mut client) => (client.runs().await?, true),
            Err(NoDaemon::Down) => (Vec::new(), false),
            Err(NoDaemon::Mute(why)) => return Err(Failure::Mute { root: context.root.clone(), why }),
        };
        let mut rows = rows(&store, &sights, context.world.now())?;
        if !context.json {
            for doing in rows.iter_mut().filter_map(|row| row.doing.as_mut()) {
                *doing = tool_as_shown(doing);
            }
        }
        if !context.json && !is_up {
            out::tell(format!("no daemon runs at {}; `g2 start` starts it", context.root.display()));
        }
        if !context.json && rows.is_empty() {
            return out::line("nothing runs now; `g2 runs list` shows what ran");
        }
        let columns = [
            "id",
            "group",
            "lane",
            "-kind",
            "state",
            "since",
            "-last_sign",
            "~doing",
            "ends_at",
            "-ends_how",
            "~budget",
        ];
        show::rows(context, &rows, &columns)
    }
}

/// Returns the runs that are under way; what they are doing is known of those that are in sight.
pub(super) fn rows(store: &Store, sights: &[Sight], now: Time) -> Result<Vec<Row>, StoreError> {
    let budgets = store.budget_rows()?;
    let mut rows = Vec::new();
    for active in store.active_runs()? {
        let sight = sights.iter().find(|sight| sight.run == active.id).cloned();
        let Some(run) = store.run(active.id)? else { continue };
        let budget = budgets.iter().find(|row| row.group == active.group && !row.day.is_over(now));
        let budget = budget.and_then(|row| row.what.as_ref()).map(|(_, what)| what.clone());
        rows.push(Row { budget, ..row(&active, run.lane, run.started_at, sight) });
    }
    Ok(rows)
}

fn row(active: &ActiveRun, lane: String, since: Option<Time>, sight: Option<Sight>) -> Row {
    let state = match active.life {
        Life::Leaving(_) => "leaving",
        Life::Serving(Reached::Queued | Reached::Started) => "starting",
        Life::Serving(Reached::Ready(Load::Busy)) => "busy",
        Life::Serving(Reached::Ready(Load::Idle)) => "idle",
    };
    let sight = sight.as_ref();
    Row {
        id: active.id,
        group: active.group.clone(),
        lane,
        kind: active.kind,
        state,
        since,
        last_sign: sight.map(|sight| sight.last_sign),
        in_hand_since: sight.and_then(|sight| sight.in_hand_since),
        doing: sight.and_then(|sight| sight.tool.clone()),
        doing_since: sight.and_then(|sight| sight.tool_since),
        requests: sight.and_then(|sight| sight.requests),
        last_work: sight.and_then(|sight| sight.last_work),
        ends_at: sight.and_then(|sight| sight.ends_at),
        ends_how: sight.and_then(|sight| sight.ends_how),
        ends_why: sight.and_then(|sight| sight.ends_why.clone()),
        stopped_by: active.stop.as_ref().map(|stop| stop.by.clone()),
        budget: None,
    }
}
