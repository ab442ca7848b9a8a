//! The run ledger: from the row's making to its end. Every ending goes through [`Store::end_run`].

use std::sync::Arc;

use ipc_handlers::{Folder, Time, wire};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::store::{
    Result, Store,
    columns::Columns as _,
    which::{Conditions, Which},
};
use crate::{
    domain::{
        rows::Run,
        runs::{
            lanes::{LaneId, Load, Work},
            life::{Life, Reached},
            stop::Stop,
        },
        states::{RunKind, RunStatus, SandboxName, Via},
        time::zone::Zones,
    },
    system::failpoint,
};

mod end;
mod record;
mod slot;
mod stop;
mod tool;

pub use end::{EndOfRun, LeftInput, RunEnded};
use record::Answer;
pub use record::{KeptResult, Recorded, result_of};

/// A run that has not ended, as a restart or a supervisor needs it.
#[derive(Clone, Debug)]
pub struct ActiveRun {
    pub id: i64,
    pub group: Folder,
    pub lane: Option<i64>,
    pub kind: RunKind,
    pub work: Work,
    pub generation: i64,
    pub status: RunStatus,
    pub owner: Option<String>,
    pub sandbox: SandboxName,
    pub container: Option<String>,
    pub life: Life,
    /// The turn of a task's run is over, and so is the work that it went on with in the background.
    pub handled: bool,
    pub protocol: Option<u32>,
    pub last_seq: u64,
    pub created: Time,
    /// A person wants it ended.
    pub stop: Option<Stop>,
    /// Batches it was handed and has not finished, with how they came to it.
    pub open: Vec<(i64, Via)>,
}

impl ActiveRun {
    /// Returns the task's id when it is a task's run.
    #[must_use]
    pub fn task(&self) -> Option<&str> {
        match &self.work {
            Work::Task(task) => Some(task),
            Work::Lane(_) => None,
        }
    }

    /// Whether it has follow-ups in hand, whose files a daemon that adopts it lays out again.
    #[must_use]
    pub fn has_follow_ups(&self) -> bool {
        self.open.iter().any(|(_, via)| *via == Via::Input)
    }

    /// Whether nobody can tell, without its container, that it is over: nobody is known who started it, so it blocks its source
    /// until a person stops it. A run without a container never began, and a child process ended with its daemon.
    #[must_use]
    pub fn is_unowned(&self) -> bool {
        self.owner.is_none()
            && self.container.is_some()
            && self.sandbox == SandboxName::Docker
            && self.stop.is_none()
    }
}

impl Store {
    /// The container is made: its id goes on the row before it is started.
    pub async fn run_created(&self, run: i64, container: &str) -> Result<()> {
        let container = container.to_owned();
        self.write(move |c| {
            c.prepare_cached(
                "UPDATE runs SET status = 'running', container = ?2 WHERE id = ?1 AND status = 'queued'",
            )?
            .execute(params![run, container])?;
            Ok(())
        })
        .await
    }

    /// The container was started.
    pub async fn run_started(&self, run: i64, now: Time) -> Result<()> {
        self.write(move |c| {
            c.prepare_cached(
                "UPDATE runs SET started_at = coalesce(started_at, ?2) WHERE id = ?1 AND ended_at IS NULL",
            )?
            .execute(params![run, now.0])?;
            Ok(())
        })
        .await
    }

    /// A runner that announces no protocol counts as ready once it was started.
    pub async fn run_ready_without_saying_so(&self, run: i64, now: Time) -> Result<()> {
        self.write(move |c| {
            c.prepare_cached("UPDATE runs SET ready_at = coalesce(ready_at, ?2), protocol = coalesce(protocol, 1) WHERE id = ?1 AND ended_at IS NULL")?
                .execute(params![run, now.0])?;
            c.prepare_cached("UPDATE batches SET state = 'claimed' WHERE run_id = ?1 AND via = 'stdin' AND state = 'handed'")?
                .execute([run])?;
            Ok(())
        })
        .await
    }

    /// The runner was asked to leave: nothing more is handed to it.
    pub async fn run_closing(&self, run: i64, now: Time) -> Result<()> {
        self.write(move |c| {
            c.prepare_cached(
                "UPDATE runs SET closing_at = coalesce(closing_at, ?2) WHERE id = ?1 AND ended_at IS NULL",
            )?
            .execute(params![run, now.0])?;
            Ok(())
        })
        .await
    }

    /// The runner has taken these input files.
    pub async fn batches_claimed(&self, run: i64, batches: Vec<i64>) -> Result<()> {
        self.write(move |c| {
            for batch in batches {
                c.prepare_cached(
                    "UPDATE batches SET state = 'claimed' WHERE id = ?1 AND run_id = ?2 AND state = 'handed'",
                )?
                .execute([batch, run])?;
            }
            Ok(())
        })
        .await
    }

    /// Applies record number `n` of a run in one transaction: its number, what it says, the batches it has finished
    /// and, where the generation holds, the session. An answer of more than 1 MiB is said in parts, so that nobody waits for
    /// all of it to be written: each part but the last is a transaction of its own, and is said once however often this is
    /// called.
    pub async fn record(
        &self,
        run: i64,
        n: u64,
        record: impl Into<Arc<wire::Record>>,
        now: Time,
    ) -> Result<Recorded> {
        let record = record.into();
        let answer = Answer::of(&record);
        for (at, part) in answer.all_but_last() {
            let part = part.to_owned();
            self.write(move |c| record::say_part(c, run, n, (at, &part), now)).await?;
            failpoint::reach("run.part");
        }
        self.write(move |c| record::apply(c, run, n, &record, &answer, now)).await
    }

    /// Returns what a run has said so far, if it is a task's.
    pub fn kept_result(&self, run: i64) -> Result<Option<KeptResult>> {
        self.read(|c| record::kept_result(c, run))
    }

    /// A follow-up could not be placed: it waits again, at no cost.
    pub async fn take_back(&self, run: i64, batch: i64) -> Result<()> {
        self.write(move |c| {
            c.prepare_cached(
                "UPDATE batches SET state = 'returned' WHERE id = ?1 AND run_id = ?2 AND state = 'handed'",
            )?
            .execute([batch, run])?;
            Ok(())
        })
        .await
    }

    /// Returns every run that has not ended, in order.
    pub fn active_runs(&self) -> Result<Vec<ActiveRun>> {
        self.read(|c| {
            let mut rows = c.prepare_cached(&format!(
                "{ACTIVE} INDEXED BY runs_one_per_group WHERE status IN ('queued', 'running') ORDER BY id"
            ))?;
            let runs = rows.query_map([], active_row)?.collect::<rusqlite::Result<Vec<_>>>()?;
            runs.into_iter().map(|run| with_batches(c, run)).collect()
        })
    }

    /// Returns one run if it has not ended.
    pub fn active_run(&self, run: i64) -> Result<Option<ActiveRun>> {
        self.read(|c| {
            let found = c
                .prepare_cached(&format!("{ACTIVE} WHERE id = ?1 AND status IN ('queued', 'running')"))?
                .query_row([run], active_row)
                .optional()?;
            found.map(|run| with_batches(c, run)).transpose()
        })
    }

    /// Ends a run and judges each batch that it has not finished, in one transaction.
    pub async fn end_run(&self, end: EndOfRun, zones: Zones, now: Time) -> Result<RunEnded> {
        self.write(move |c| end::finish(c, &end, &zones, now)).await
    }

    /// Returns runs, newest last; with `limit`, the newest ones.
    pub fn runs(&self, limit: Option<usize>) -> Result<Vec<Run>> {
        self.runs_of(&Which { limit, ..Which::default() })
    }

    /// Returns the runs that are wanted, newest last; of a time are those that were at work then.
    pub fn runs_of(&self, which: &Which) -> Result<Vec<Run>> {
        self.read(|c| {
            // An index has those few that failed, and those under way.
            let (index, state) = match which.state {
                Some("failed") => (" INDEXED BY runs_failed", Some("status = 'failed'".to_owned())),
                Some(state @ ("queued" | "running")) => (
                    " INDEXED BY runs_one_per_group",
                    Some(format!("status IN ('queued', 'running') AND status = '{state}'")),
                ),
                state => ("", state.map(|state| format!("status = '{state}'"))),
            };
            let conditions = Conditions::default()
                .with("group_folder = ?", which.group.as_ref().map(|group| group.to_string()))
                .with("chat_jid = ?", which.chat.clone())
                .with(
                    "id IN (SELECT id FROM runs INDEXED BY runs_by_end WHERE ended_at >= ?
                       UNION ALL SELECT id FROM runs INDEXED BY runs_one_per_group WHERE status IN ('queued', 'running'))",
                    which.since.map(|at| at.0),
                )
                .with("started_at < ?", which.until.map(|at| at.0));
            let conditions = state.iter().fold(conditions, |conditions, state| conditions.is(state));
            which.rows(c, (&format!("{RUN}{index}"), "id"), conditions, run_row, |run: &Run| {
                vec![run.group.as_str(), &run.lane, &run.source, run.error.as_deref().unwrap_or_default()]
            })
        })
    }

    /// Counts runs that a restart found without their container since `since`, and names the newest.
    pub fn stale_recoveries(&self, since: Time) -> Result<(i64, Option<i64>)> {
        self.read(|c| {
            Ok(c.prepare_cached(
                "SELECT count(*) AS count, max(id) AS newest FROM runs INDEXED BY runs_failed
                 WHERE status = 'failed' AND ended_at >= ?1 AND error LIKE 'recovered stale active run%'",
            )?
            .query_row([since.0], |r| Ok((r.get("count")?, r.get("newest")?)))?)
        })
    }

    /// Another daemon watches over the run from now on.
    pub async fn run_adopted(&self, run: i64, owner: &str) -> Result<()> {
        let owner = owner.to_owned();
        self.write(move |c| {
            c.prepare_cached("UPDATE runs SET owner = ?2 WHERE id = ?1 AND ended_at IS NULL")?
                .execute(params![run, owner])?;
            Ok(())
        })
        .await
    }

    /// Returns the id of the group's active run.
    pub fn active_run_of(&self, group: &Folder) -> Result<Option<i64>> {
        self.read(|c| {
            Ok(c.prepare_cached(
                "SELECT id FROM runs WHERE group_folder = ?1 AND status IN ('queued', 'running')",
            )?
            .query_row([group.as_str()], |r| r.get(0))
            .optional()?)
        })
    }
}

/// Whether a group has a run that has not ended.
pub(in crate::store) fn has_active(c: &Connection, group: &Folder) -> Result<bool> {
    Ok(c.query_row(
        "SELECT EXISTS (SELECT 1 FROM runs WHERE group_folder = ?1 AND status IN ('queued', 'running'))",
        [group.as_str()],
        |r| r.get(0),
    )?)
}

pub(in crate::store) const RUN: &str = "SELECT id, group_folder, chat_jid, thread, kind, source, status, owner, sandbox, container, started_at, ended_at, last_seq, error FROM runs";

pub(in crate::store) fn run_row(r: &Row<'_>) -> rusqlite::Result<Run> {
    let (chat, thread): (String, String) = (r.get("chat_jid")?, r.get("thread")?);
    Ok(Run {
        id: r.get("id")?,
        group: r.folder("group_folder")?,
        lane: if thread.is_empty() { chat } else { format!("{chat}#{thread}") },
        kind: r.word("runs", "kind")?,
        source: r.get("source")?,
        status: r.word("runs", "status")?,
        owner: r.get("owner")?,
        sandbox: r.word("runs", "sandbox")?,
        container: r.get("container")?,
        started_at: r.time_or_null("started_at")?,
        ended_at: r.time_or_null("ended_at")?,
        records: r.get("last_seq")?,
        error: r.get("error")?,
    })
}

const ACTIVE: &str = "SELECT id, group_folder, lane_id, kind, for_lane, for_task, generation, status, owner, sandbox, container, started_at IS NOT NULL AS started, ready_at IS NOT NULL AS ready, closing_at IS NOT NULL AS closing, deferred, handled_at IS NOT NULL AS handled, protocol, last_seq, created_at, stop_by, stop_when, stop_then,
  EXISTS (SELECT 1 FROM batches b WHERE b.run_id = runs.id AND b.state IN ('handed', 'claimed')) AS in_hand FROM runs";

fn active_row(r: &Row<'_>) -> rusqlite::Result<ActiveRun> {
    let kind = r.word("runs", "kind")?;
    let (handled, deferred): (bool, bool) = (r.get("handled")?, r.get("deferred")?);
    Ok(ActiveRun {
        id: r.get("id")?,
        group: r.folder("group_folder")?,
        lane: r.get("lane_id")?,
        kind,
        work: work(r)?,
        generation: r.get("generation")?,
        status: r.word("runs", "status")?,
        owner: r.get("owner")?,
        sandbox: r.word("runs", "sandbox")?,
        container: r.get("container")?,
        life: life(r, kind, handled)?,
        handled: handled && !deferred,
        protocol: r.get("protocol")?,
        last_seq: u64::try_from(r.get::<_, i64>("last_seq")?).unwrap_or(0),
        created: Time(r.get("created_at")?),
        stop: stop::stop_row(r)?,
        open: Vec::new(),
    })
}

/// What a run was made for.
pub(in crate::store) fn work(r: &Row<'_>) -> rusqlite::Result<Work> {
    Ok(match r.get("for_task")? {
        Some(task) => Work::Task(task),
        None => Work::Lane(LaneId(r.get("for_lane")?)),
    })
}

fn life(r: &Row<'_>, kind: RunKind, handled: bool) -> rusqlite::Result<Life> {
    let in_hand = match kind {
        RunKind::Message => r.get("in_hand")?,
        RunKind::Task | RunKind::Heartbeat => !handled,
    };
    let load = if in_hand || r.get("deferred")? { Load::Busy } else { Load::Idle };
    let reached = match (r.get("ready")?, r.get("started")?) {
        (true, _) => Reached::Ready(load),
        (false, true) => Reached::Started,
        (false, false) => Reached::Queued,
    };
    Ok(if r.get("closing")? { Life::Leaving(reached) } else { Life::Serving(reached) })
}

fn with_batches(c: &Connection, mut run: ActiveRun) -> Result<ActiveRun> {
    run.open = c
        .prepare_cached(
            "SELECT id, via FROM batches WHERE run_id = ?1 AND state IN ('handed', 'claimed') ORDER BY id",
        )?
        .query_map([run.id], |r| Ok((r.get("id")?, r.word("batches", "via")?)))?
        .collect::<rusqlite::Result<_>>()?;
    Ok(run)
}

/// The id under which a batch is handed over: it also names a file, and v1's runners take files in the order of names.
#[must_use]
pub fn batch_name(batch: i64) -> String {
    format!("{batch:012}")
}

/// The batch id under which a task's prompt is handed over: it is no batch of a lane.
#[must_use]
pub fn task_batch(run: i64) -> String {
    format!("task-{run}")
}
