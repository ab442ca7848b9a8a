//! Settled commands as rows, and the whole story of one, for `g2 ipc`.

use ipc_handlers::{Folder, Time, facts::TaskFacts};
use rusqlite::{Connection, OptionalExtension, Row, params, types::Value};
use serde::Serialize;

use crate::domain::{
    rows::{IpcRow, rfc3339, rfc3339_option},
    states::{CommandOutcome, QueueState, RunBy, RunStatus},
};
use crate::store::{
    Result, Store,
    columns::Columns as _,
    which::from,
    work::{by_hand, tasks},
};

/// Which settled commands.
#[derive(Clone, Debug, Default)]
pub struct IpcFilter {
    pub group: Option<String>,
    pub outcome: Option<CommandOutcome>,
    /// Only this id and later ones.
    pub from: i64,
    /// Only those that were settled from this time on, and before that one.
    pub since: Option<Time>,
    pub until: Option<Time>,
    /// Only the newest N.
    pub limit: Option<usize>,
}

/// What the store knows of one settled command.
#[derive(Clone, Debug, Serialize)]
pub struct Story {
    #[serde(flatten)]
    pub row: IpcRow,
    pub hint: Option<String>,
    #[serde(serialize_with = "rfc3339_option")]
    pub written_at: Option<Time>,
    #[serde(serialize_with = "rfc3339_option")]
    pub claimed_at: Option<Time>,
    #[serde(serialize_with = "rfc3339")]
    pub decided_at: Time,
    /// The run that it came from, and how that is now.
    pub run: Option<i64>,
    pub run_status: Option<RunStatus>,
    pub run_by: Option<RunBy>,
    /// The id of the token that it carried.
    pub token_id: Option<String>,
    /// The command that was answered first under this request id.
    pub replay_of: Option<i64>,
    pub retry_of: Option<i64>,
    pub retried_as: Option<i64>,
    pub effects: Vec<Effected>,
    pub reply: Option<serde_json::Value>,
}

/// Something that a command brought about, and how it is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Effected {
    /// `outbox`, `task` or `archive`.
    pub kind: &'static str,
    pub id: String,
    /// `null`: it is not there any more.
    pub state: Option<String>,
    pub detail: Option<String>,
}

const ROW: &str = "SELECT claim_id, group_folder, box, name, type, request_id, outcome, at, code, reason";

/// The groups whose commands ever had a request id, one step of the index each; groups that were removed among them.
const GROUPS_THAT_ASKED: &str = "WITH RECURSIVE asked (g) AS (
  SELECT (SELECT min(group_folder) FROM receipts INDEXED BY receipts_by_request WHERE request_id IS NOT NULL)
  UNION ALL SELECT (SELECT min(r.group_folder) FROM receipts r INDEXED BY receipts_by_request WHERE r.request_id IS NOT NULL AND r.group_folder > g)
    FROM asked WHERE g IS NOT NULL)";

fn ipc_row(r: &Row<'_>, now: Time) -> rusqlite::Result<IpcRow> {
    Ok(IpcRow {
        id: r.get("claim_id")?,
        group: r.get("group_folder")?,
        box_name: r.get("box")?,
        name: r.get("name")?,
        kind: r.get("type")?,
        request_id: r.get("request_id")?,
        state: r.word::<CommandOutcome>("receipts", "outcome")?.into(),
        // It may be settled after `now` was read.
        age_ms: now.ms_since(r.time("at")?).max(0),
        code: r.word_or_null("receipts", "code")?,
        reason: r.get("reason")?,
    })
}

impl Store {
    /// Returns settled commands, newest last.
    pub fn ipc_rows(&self, filter: &IpcFilter, now: Time) -> Result<Vec<IpcRow>> {
        let mut values = vec![Value::from(filter.from)];
        let mut first = "?1".to_owned();
        if let Some(since) = filter.since {
            values.push(since.0.into());
            first = format!("max(?1, {})", from("FROM receipts", "claim_id", "at", "?2"));
        }
        let mut sql = format!("{ROW} FROM receipts WHERE claim_id >= {first}");
        if let Some(group) = &filter.group {
            values.push(group.clone().into());
            sql.push_str(&format!(" AND group_folder = ?{}", values.len()));
        }
        if let Some(outcome) = filter.outcome {
            values.push(outcome.as_str().to_owned().into());
            sql.push_str(&format!(" AND outcome = ?{}", values.len()));
        }
        for (at, is) in [(filter.since, ">="), (filter.until, "<")] {
            if let Some(at) = at {
                values.push(at.0.into());
                sql.push_str(&format!(" AND at {is} ?{}", values.len()));
            }
        }
        values.push(filter.limit.and_then(|n| i64::try_from(n).ok()).unwrap_or(-1).into());
        sql.push_str(&format!(" ORDER BY claim_id DESC LIMIT ?{}", values.len()));
        self.read(|c| {
            let mut rows = c
                .prepare_cached(&sql)?
                .query_map(rusqlite::params_from_iter(values), |r| ipc_row(r, now))?
                .collect::<rusqlite::Result<Vec<_>>>()?;
            rows.reverse();
            Ok(rows)
        })
    }

    /// Returns the newest settled commands (at most 20) that are called `what`: by request id, or where there is none, by
    /// file name. No index has the names: all commands are looked at.
    pub fn commands_called(&self, what: &str, now: Time) -> Result<Vec<IpcRow>> {
        self.read(|c| {
            let found = |wanted: &str| -> Result<Vec<IpcRow>> {
                let mut rows = c.prepare_cached(&format!("{wanted} ORDER BY claim_id DESC LIMIT 20"))?;
                let rows = rows.query_map([what], |r| ipc_row(r, now))?;
                Ok(rows.collect::<rusqlite::Result<_>>()?)
            };
            let mut rows = found(&format!("{GROUPS_THAT_ASKED} {ROW} FROM asked CROSS JOIN receipts INDEXED BY receipts_by_request ON group_folder = g AND request_id = ?1"))?;
            if rows.is_empty() {
                rows = found(&format!("{ROW} FROM receipts WHERE name = ?1"))?;
            }
            rows.reverse();
            Ok(rows)
        })
    }

    /// Returns the settled command that came from this file, when it was settled after the claim `after`.
    pub fn command_of_file(
        &self,
        group: &str,
        in_box: &str,
        name: &str,
        after: i64,
        now: Time,
    ) -> Result<Option<IpcRow>> {
        self.read(|c| {
            Ok(c.prepare_cached(&format!(
                "{ROW} FROM receipts WHERE claim_id > ?1 AND group_folder = ?2 AND box = ?3 AND name = ?4 ORDER BY claim_id LIMIT 1"
            ))?
            .query_row(params![after, group, in_box, name], |r| ipc_row(r, now))
            .optional()?)
        })
    }

    /// Tells everything that is known of a settled command.
    pub fn story(&self, claim: i64, now: Time) -> Result<Option<Story>> {
        self.read(|c| {
            let story = c
                .prepare_cached(&format!(
                    "{ROW}, hint, written_at, claimed_at, run_id, (SELECT status FROM runs WHERE id = run_id) AS run_status, token_id, replay_of, reply FROM receipts WHERE claim_id = ?1"
                ))?
                .query_row([claim], |r| {
                    let row = ipc_row(r, now)?;
                    let (run, token_id): (Option<i64>, Option<String>) = (r.get("run_id")?, r.get("token_id")?);
                    let reply: Option<Vec<u8>> = r.get("reply")?;
                    Ok(Story {
                        hint: r.get("hint")?,
                        written_at: r.time_or_null("written_at")?,
                        claimed_at: r.time_or_null("claimed_at")?,
                        decided_at: r.time("at")?,
                        run_by: run.map(|_| if token_id.is_some() { RunBy::Token } else { RunBy::Mount }),
                        run,
                        run_status: r.word_or_null("runs", "run_status")?,
                        token_id,
                        replay_of: r.get("replay_of")?,
                        retry_of: None,
                        retried_as: None,
                        effects: Vec::new(),
                        reply: reply.and_then(|bytes| serde_json::from_slice(&bytes).ok()),
                        row,
                    })
                })
                .optional()?;
            let Some(mut story) = story else { return Ok(None) };
            if let Some(by_hand::Note::RetryOf(of)) = by_hand::note(c, claim)? {
                story.retry_of = Some(of);
            }
            story.retried_as = by_hand::tried_as(c, claim)?;
            if story.row.state == QueueState::Applied && story.replay_of.is_none() {
                story.effects = effects(c, Folder::parse(&story.row.group).ok().as_ref(), story.reply.as_ref())?;
            }
            Ok(Some(story))
        })
    }
}

/// What the reply names, as it is now.
fn effects(
    c: &Connection,
    group: Option<&Folder>,
    reply: Option<&serde_json::Value>,
) -> Result<Vec<Effected>> {
    let Some(result) = reply.and_then(|reply| reply.get("result")) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    if let Some(id) = result.get("outboxId").and_then(serde_json::Value::as_i64) {
        let row: Option<(String, String, Option<String>)> = c
            .prepare_cached("SELECT status, chat_jid, error FROM outbox WHERE id = ?1")?
            .query_row([id], |r| Ok((r.get("status")?, r.get("chat_jid")?, r.get("error")?)))
            .optional()?;
        let detail = row.as_ref().map(|(_, chat, error)| {
            format!("to {chat}{}", error.as_deref().map(|e| format!(": {e}")).unwrap_or_default())
        });
        let state = row.map(|(status, _, _)| status);
        found.push(Effected { kind: "outbox", id: id.to_string(), state, detail });
    }
    if let Some(id) = result.get("taskId").and_then(serde_json::Value::as_str) {
        let task = match group {
            Some(group) => task_of(c, group, id)?,
            None => None,
        };
        let detail = task.as_ref().and_then(|t| t.next_run).map(|at| format!("next at {at}"));
        let state = task.map(|t| t.status.as_str().to_owned());
        found.push(Effected { kind: "task", id: id.to_owned(), state, detail });
    }
    if let Some(id) = result.get("archivedId").and_then(serde_json::Value::as_i64) {
        let name: Option<String> = c
            .prepare_cached("SELECT name FROM archives WHERE id = ?1")?
            .query_row([id], |r| r.get(0))
            .optional()?;
        let state = name.as_ref().map(|_| "archived".to_owned());
        found.push(Effected { kind: "archive", id: id.to_string(), state, detail: name });
    }
    Ok(found)
}

/// The task that a command of `group` acted on: its own of that id, otherwise, where it is main's, the only one.
fn task_of(c: &Connection, group: &Folder, id: &str) -> Result<Option<TaskFacts>> {
    let is_main: Option<bool> = c
        .prepare_cached("SELECT is_main FROM groups WHERE folder = ?1")?
        .query_row([group.as_str()], |r| r.get(0))
        .optional()?;
    let own = (is_main != Some(true)).then_some(group);
    let mut found = tasks::facts_of(c, id, own, group)?;
    found.truncate(if found.first().is_some_and(|task| task.group == *group) { 1 } else { found.len() });
    Ok(if found.len() == 1 { found.pop() } else { None })
}
