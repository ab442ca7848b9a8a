//! What happened, one row a thing: of a group or of all on one time line (`g2 activity`), or of one run (`g2 runs attach`, its
//! page). Both read the same columns, each by its own indexes.

use std::borrow::Cow;

use ipc_handlers::{Folder, Time, words};
use rusqlite::{Row, params};
use serde::Serialize;

use crate::domain::{rows::rfc3339, runs::used::Used, states::ToolOutcome};
use crate::store::{Result, Store, at_most, columns::Columns as _, oldest_first, which::from};

words! {
    /// What happened.
    pub enum Happened: "kind of activity" {
        /// A message woke an agent, or was given to a run.
        Asked = "asked",
        /// A text for a chat.
        Said = "said",
        /// A run began.
        Began = "began",
        /// A run ended; its text has its use of the model, and its error.
        Ended = "ended",
        /// An agent used a tool, or uses it.
        Tool = "tool",
        /// A command of an agent was settled.
        Command = "command",
        /// An agent asked for a place outside in vain, the last time.
        Refused = "refused",
    }
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Activity {
    #[serde(serialize_with = "rfc3339")]
    pub at: Time,
    pub what: Happened,
    pub group: Option<String>,
    pub chat_jid: Option<String>,
    pub run: Option<i64>,
    /// The number of the message, of the text or of the command.
    #[serde(skip)]
    pub id: i64,
    /// What it is ordered by among those of its kind: `id`, or the batch that a run was given.
    #[serde(skip)]
    n: i64,
    /// Who wrote the message; the type of the command.
    #[serde(skip)]
    pub name: Option<String>,
    /// How it is with the text; what became of the command.
    #[serde(skip)]
    pub state: Option<String>,
    pub text: String,
    /// Of a tool: its first argument.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// Of a tool that has ended: what came of it, and how long it took, ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<ToolOutcome>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<i64>,
}

/// Up to where somebody has seen a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeenOfRun {
    batch: i64,
    record: i64,
    outbox: i64,
}

/// How much of a text is shown on the time line, characters.
const SHOWN: usize = 500;

const ASKED: &str = "'asked' AS what, l.group_folder AS of_group, m.chat_jid, m.seq AS id, m.sender_name AS name, NULL AS state, substr(m.shown, 1, ?4) AS text";
const SAID: &str = "o.created_at, 'said', coalesce(o.group_folder, (SELECT r.group_folder FROM runs r WHERE r.id = o.run_id)), o.chat_jid, o.id, NULL, o.status, substr(o.text, 1, ?4), o.run_id, o.id FROM outbox o";
const TOOL: &str = "t.at, 'tool', t.group_folder, r.chat_jid, t.n, t.about, t.outcome || ' ' || t.took_ms, t.name, t.run_id, t.n FROM tools t JOIN runs r ON r.id = t.run_id";
const COMMAND: &str = "x.at, 'command', x.group_folder, NULL, x.claim_id, x.type, x.outcome, coalesce(substr(x.reason, 1, ?4), ''), x.run_id, x.claim_id FROM receipts x";

impl Store {
    /// Returns what happened from `since` on and before `until`, in order; with `limit`, the newest.
    pub fn activity(
        &self,
        group: Option<&Folder>,
        (since, until): (Time, Time),
        limit: Option<usize>,
    ) -> Result<Vec<Activity>> {
        self.read(|c| {
            let since_message = from("FROM messages", "seq", "received_at", "?1");
            let since_text = from("FROM outbox", "id", "created_at", "?1");
            let since_command = from("FROM receipts", "claim_id", "at", "?1");
            // A run that began since then is under way, or ended since then.
            let mut newest = c.prepare_cached(&format!(
                "SELECT * FROM (
                   SELECT m.received_at AS at, {ASKED}, NULL AS run, m.seq AS n
                     FROM messages m JOIN inbox i ON i.seq = m.seq AND i.verdict = 'wake' JOIN lanes l ON l.id = i.lane_id WHERE m.received_at >= ?1 AND m.seq > {since_message}
                   UNION ALL
                   SELECT {SAID} WHERE o.created_at >= ?1 AND o.id > {since_text}
                   UNION ALL
                   SELECT r.started_at, 'began', r.group_folder, r.chat_jid, r.id, NULL, NULL, r.kind || iif(r.kind = 'message', '', ' ' || r.source), r.id, r.id FROM runs r
                     WHERE r.started_at >= ?1 AND r.id IN (SELECT id FROM runs INDEXED BY runs_by_end WHERE ended_at >= ?1
                       UNION ALL SELECT id FROM runs INDEXED BY runs_one_per_group WHERE status IN ('queued', 'running'))
                   UNION ALL
                   SELECT r.ended_at, 'ended', r.group_folder, r.chat_jid, r.id, NULL, NULL, r.status
                       || coalesce((SELECT '; ' || sum(u.requests) || ' requests, ' || sum(u.input_tokens + u.cache_read_tokens + u.cache_creation_tokens) || ' tokens in, ' || sum(u.output_tokens) || ' out' FROM usage u WHERE u.run_id = r.id HAVING sum(u.requests) > 0), '')
                       || coalesce('; ' || substr(r.error, 1, ?4), ''), r.id, r.id FROM runs r INDEXED BY runs_by_end WHERE r.ended_at >= ?1
                   UNION ALL
                   SELECT {TOOL} WHERE t.at >= ?1
                   UNION ALL
                   SELECT {COMMAND} WHERE x.at >= ?1 AND x.claim_id > {since_command}
                   UNION ALL
                   SELECT e.at, 'refused', e.group_folder, r.chat_jid, e.run_id, NULL, NULL, e.place || ': ' || e.why || iif(e.times = 1, '', ' (' || e.times || ' times so far)'), e.run_id, e.run_id
                     FROM egress_refusals e LEFT JOIN runs r ON r.id = e.run_id WHERE e.at >= ?1
                 ) WHERE (?2 IS NULL OR of_group = ?2) AND at < ?5 ORDER BY at DESC, what DESC, n DESC LIMIT ?3",
            ))?;
            let given = params![since.0, group.map(Folder::as_str), at_most(limit), SHOWN, until.0];
            let mut rows = oldest_first(newest.query_map(given, activity_row)?)?;
            for row in &mut rows {
                row.text = row.in_words();
            }
            Ok(rows)
        })
    }

    /// Returns what a run was given, the tools that it began and what it said since somebody looked, in order and at most some
    /// hundred, and up to where that is. A text that still grows is none yet, and nothing that was said after it.
    pub fn steps_of_run(&self, run: i64, seen: SeenOfRun) -> Result<(Vec<Activity>, SeenOfRun)> {
        const MOST: usize = 200;
        self.read(|c| {
            let mut steps = c.prepare_cached(&format!(
                "SELECT * FROM (SELECT * FROM (SELECT given.handed_at AS at, {ASKED}, given.run_id AS run, given.id AS n {GIVEN})
                 UNION ALL SELECT * FROM (SELECT {TOOL} WHERE t.run_id = ?1 AND t.n > ?5 ORDER BY t.n LIMIT ?3)
                 UNION ALL SELECT * FROM (SELECT {SAID} WHERE o.run_id = ?1 AND o.id > ?6
                   AND o.id < coalesce((SELECT min(g.id) FROM outbox g WHERE g.run_id = ?1 AND g.growth = 'growing'), o.id + 1) ORDER BY o.id LIMIT ?3))
                 ORDER BY at, what = 'said', what, n, id",
            ))?;
            let given = params![run, seen.batch, MOST, i64::MAX, seen.record, seen.outbox];
            let steps: Vec<Activity> = steps.query_map(given, activity_row)?.collect::<rusqlite::Result<_>>()?;
            let last = |what, before| {
                steps.iter().filter(|step| step.what == what).map(|step| step.n).max().unwrap_or(before)
            };
            let now = SeenOfRun {
                batch: last(Happened::Asked, seen.batch),
                record: last(Happened::Tool, seen.record),
                outbox: last(Happened::Said, seen.outbox),
            };
            Ok((steps, now))
        })
    }

    /// Returns what a run was given, said and asked for: the first of each, and of a text its beginning.
    pub fn run_story(&self, run: i64) -> Result<Vec<Activity>> {
        const MOST: usize = 50;
        const BEGINNING: usize = 240;
        self.read(|c| {
            let mut story = c.prepare_cached(&format!(
                "SELECT * FROM (SELECT m.received_at AS at, {ASKED}, given.run_id AS run, given.id AS n {GIVEN} ORDER BY given.id, i.n LIMIT ?3)
                 UNION ALL SELECT * FROM (SELECT {SAID} INDEXED BY outbox_by_run WHERE o.run_id = ?1 ORDER BY o.id LIMIT ?3)
                 UNION ALL SELECT * FROM (SELECT {COMMAND}
                   WHERE x.claim_id IN (SELECT claim_id FROM receipts INDEXED BY receipts_by_run WHERE run_id = ?1 ORDER BY claim_id LIMIT ?3))
                 ORDER BY what, n, id",
            ))?;
            let rows = story.query_map(params![run, 0, MOST, BEGINNING], activity_row)?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Returns since when somebody who comes now has seen a run: all that it did until then.
    pub fn seen_of_run(&self, run: i64, since: Time) -> Result<SeenOfRun> {
        self.read(|c| {
            Ok(c.prepare_cached(
                "SELECT (SELECT coalesce(max(id), 0) FROM batches WHERE run_id = ?1 AND handed_at < ?2) AS batch,
                        (SELECT coalesce(max(n), 0) FROM tools WHERE run_id = ?1 AND at < ?2) AS record,
                        (SELECT coalesce(max(id), 0) FROM outbox WHERE run_id = ?1 AND created_at < ?2) AS outbox",
            )?
            .query_row(params![run, since.0], |r| {
                Ok(SeenOfRun { batch: r.get("batch")?, record: r.get("record")?, outbox: r.get("outbox")? })
            })?)
        })
    }
}

/// The messages that a run was given in its first `?3` batches after `?2`.
const GIVEN: &str = "FROM (SELECT * FROM batches WHERE run_id = ?1 AND id > ?2 ORDER BY id LIMIT ?3) given CROSS JOIN lanes l ON l.id = given.lane_id
  CROSS JOIN inbox i INDEXED BY inbox_waking ON i.lane_id = given.lane_id AND i.n BETWEEN given.first AND given.last AND i.verdict = 'wake'
  CROSS JOIN messages m ON m.seq = i.seq";

fn activity_row(r: &Row<'_>) -> rusqlite::Result<Activity> {
    let what = r.word("activity", "what")?;
    let text: String = r.get("text")?;
    let (name, state): (Option<String>, Option<String>) = (r.get("name")?, r.get("state")?);
    // A tool has its argument in the place of a name, and its end in that of a state.
    let (name, about, state, end) = match what {
        Happened::Tool => (None, name, None, state),
        Happened::Asked
        | Happened::Said
        | Happened::Began
        | Happened::Ended
        | Happened::Command
        | Happened::Refused => (name, None, state, None),
    };
    let end = end.as_deref().and_then(|end| end.split_once(' '));
    Ok(Activity {
        about,
        outcome: end.and_then(|(outcome, _)| ToolOutcome::from_name(outcome)),
        took_ms: end.and_then(|(_, took)| took.parse().ok()),
        at: r.time("at")?,
        what,
        group: r.get("of_group")?,
        chat_jid: r.get("chat_jid")?,
        run: r.get("run")?,
        id: r.get("id")?,
        n: r.get("n")?,
        name,
        state,
        text,
    })
}

impl Activity {
    /// Returns a tool with its argument, its outcome and how long it took, in words; any other thing has its text.
    #[must_use]
    pub fn shown(&self) -> Cow<'_, str> {
        self.told(self.outcome.zip(self.took_ms))
    }

    /// Returns the same as it begins.
    #[must_use]
    pub fn begun(&self) -> Cow<'_, str> {
        self.told(None)
    }

    fn told(&self, end: Option<(ToolOutcome, i64)>) -> Cow<'_, str> {
        match self.what {
            Happened::Tool => {
                let used = Used { name: self.text.clone(), about: self.about.clone(), end };
                Cow::Owned(used.in_words())
            }
            Happened::Asked
            | Happened::Said
            | Happened::Began
            | Happened::Ended
            | Happened::Command
            | Happened::Refused => Cow::Borrowed(&self.text),
        }
    }

    /// Returns what happened on one line.
    fn in_words(&self) -> String {
        let Self { what, text, .. } = self;
        let of = |part: &Option<String>| part.clone().unwrap_or_else(|| "-".to_owned());
        match what {
            Happened::Asked => format!("{}: {text}", of(&self.name)),
            Happened::Said if self.state.as_deref() != Some("sent") => {
                format!("({}) {text}", of(&self.state))
            }
            Happened::Command if text.is_empty() => format!("{} {}", of(&self.name), of(&self.state)),
            Happened::Command => format!("{} {}: {text}", of(&self.name), of(&self.state)),
            Happened::Said | Happened::Began | Happened::Ended | Happened::Tool | Happened::Refused => {
                text.clone()
            }
        }
    }
}
