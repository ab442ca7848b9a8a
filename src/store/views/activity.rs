//! What happened for a group or for all, on one time line: asked, said, runs with their use of the model, tools, commands,
//! places that were refused, errors.

use ipc_handlers::{Folder, Time, words};
use rusqlite::params;
use serde::Serialize;

use crate::domain::rows::rfc3339;
use crate::store::{Result, Store, at_most, columns::Columns as _, oldest_first, which::from};

words! {
    /// What happened.
    pub enum Happened: "kind of activity" {
        /// A message woke an agent.
        Asked = "asked",
        /// A text for a chat.
        Said = "said",
        /// A run began.
        Began = "began",
        /// A run ended; its text has its use of the model, and its error.
        Ended = "ended",
        /// An agent began to use a tool.
        Tool = "tool",
        /// A command of an agent was settled.
        Command = "command",
        /// An agent asked for a place outside in vain, the last time.
        Refused = "refused",
    }
}

/// One thing that happened.
#[derive(Clone, Debug, Serialize)]
pub struct Activity {
    #[serde(serialize_with = "rfc3339")]
    pub at: Time,
    pub what: Happened,
    pub group: Option<String>,
    pub chat_jid: Option<String>,
    pub run: Option<i64>,
    pub text: String,
}

/// How much of a text is shown, characters.
const SHOWN: usize = 500;

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
                   SELECT m.received_at AS at, 'asked' AS what, l.group_folder AS of_group, m.chat_jid, NULL AS run, m.sender_name || ': ' || substr(m.text, 1, ?4) AS text, m.seq AS n
                     FROM messages m JOIN inbox i ON i.seq = m.seq AND i.verdict = 'wake' JOIN lanes l ON l.id = i.lane_id WHERE m.received_at >= ?1 AND m.seq > {since_message}
                   UNION ALL
                   SELECT o.created_at, 'said', coalesce(o.group_folder, (SELECT r.group_folder FROM runs r WHERE r.id = o.run_id)), o.chat_jid, o.run_id,
                     iif(o.status = 'sent', '', '(' || o.status || ') ') || substr(o.text, 1, ?4), o.id FROM outbox o WHERE o.created_at >= ?1 AND o.id > {since_text}
                   UNION ALL
                   SELECT r.started_at, 'began', r.group_folder, r.chat_jid, r.id, r.kind || iif(r.kind = 'message', '', ' ' || r.source), r.id FROM runs r
                     WHERE r.started_at >= ?1 AND r.id IN (SELECT id FROM runs INDEXED BY runs_by_end WHERE ended_at >= ?1
                       UNION ALL SELECT id FROM runs INDEXED BY runs_one_per_group WHERE status IN ('queued', 'running'))
                   UNION ALL
                   SELECT r.ended_at, 'ended', r.group_folder, r.chat_jid, r.id, r.status
                       || coalesce((SELECT '; ' || sum(u.requests) || ' requests, ' || sum(u.input_tokens + u.cache_read_tokens + u.cache_creation_tokens) || ' tokens in, ' || sum(u.output_tokens) || ' out' FROM usage u WHERE u.run_id = r.id HAVING sum(u.requests) > 0), '')
                       || coalesce('; ' || substr(r.error, 1, ?4), ''), r.id FROM runs r INDEXED BY runs_by_end WHERE r.ended_at >= ?1
                   UNION ALL
                   SELECT t.at, 'tool', t.group_folder, r.chat_jid, t.run_id, t.name, t.n FROM tools t JOIN runs r ON r.id = t.run_id WHERE t.at >= ?1
                   UNION ALL
                   SELECT x.at, 'command', x.group_folder, NULL, x.run_id, coalesce(x.type, '-') || ' ' || x.outcome || coalesce(': ' || substr(x.reason, 1, ?4), ''), x.claim_id FROM receipts x WHERE x.at >= ?1 AND x.claim_id > {since_command}
                   UNION ALL
                   SELECT e.at, 'refused', e.group_folder, r.chat_jid, e.run_id, e.place || ': ' || e.why || iif(e.times = 1, '', ' (' || e.times || ' times so far)'), e.run_id
                     FROM egress_refusals e LEFT JOIN runs r ON r.id = e.run_id WHERE e.at >= ?1
                 ) WHERE (?2 IS NULL OR of_group = ?2) AND at < ?5 ORDER BY at DESC, what DESC, n DESC LIMIT ?3",
            ))?;
            let rows = newest.query_map(
                params![since.0, group.map(Folder::as_str), at_most(limit), SHOWN, until.0],
                |r| {
                    Ok(Activity {
                        at: r.time("at")?,
                        what: r.word("activity", "what")?,
                        group: r.get("of_group")?,
                        chat_jid: r.get("chat_jid")?,
                        run: r.get("run")?,
                        text: r.get("text")?,
                    })
                },
            )?;
            oldest_first(rows)
        })
    }
}
