//! What a run does while somebody looks on: what it was given, the tools that it began, what it said. In order, and once each.

use ipc_handlers::Time;
use rusqlite::params;

use crate::store::{Result, Store};

/// Up to where somebody has seen a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeenOfRun {
    batch: i64,
    record: i64,
    outbox: i64,
}

/// Something that a run did, or was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It was handed a message.
    Given { seq: i64, name: String, text: String },
    /// It began to use a tool.
    Tool(String),
    /// It said something.
    Said(String),
}

/// How much is read at a time.
const STEPS: usize = 200;
/// How much of a message is read, characters.
const GIVEN: usize = 2_000;

impl Store {
    /// Returns what a run did since somebody looked, at most some hundred steps, and up to where that is. A text that still grows
    /// is none yet, and nothing that was said after it.
    pub fn steps_of_run(&self, run: i64, seen: SeenOfRun) -> Result<(Vec<Step>, SeenOfRun)> {
        self.read(|c| {
            let mut rows = c.prepare_cached(
                "SELECT * FROM (SELECT b.handed_at AS at, 0 AS kind, b.id AS n, m.seq, m.sender_name AS name, substr(m.text, 1, ?6) AS text
                   FROM (SELECT * FROM batches WHERE run_id = ?1 AND id > ?2 ORDER BY id LIMIT ?5) b
                   JOIN inbox i ON i.lane_id = b.lane_id AND i.n BETWEEN b.first AND b.last AND i.verdict = 'wake' JOIN messages m ON m.seq = i.seq)
                 UNION ALL
                 SELECT * FROM (SELECT at, 1, n, 0, '', name FROM tools WHERE run_id = ?1 AND n > ?3 ORDER BY n LIMIT ?5)
                 UNION ALL
                 SELECT * FROM (SELECT created_at, 2, id, 0, '', text FROM outbox WHERE run_id = ?1 AND id > ?4
                   AND id < coalesce((SELECT min(g.id) FROM outbox g WHERE g.run_id = ?1 AND g.growth = 'growing'), outbox.id + 1)
                   ORDER BY id LIMIT ?5)
                 ORDER BY at, kind, n",
            )?;
            let mut now = seen;
            let mut steps = Vec::new();
            let mut rows = rows.query(params![run, seen.batch, seen.record, seen.outbox, STEPS, GIVEN])?;
            while let Some(r) = rows.next()? {
                let (kind, n, text): (i64, i64, String) = (r.get("kind")?, r.get("n")?, r.get("text")?);
                steps.push(match kind {
                    0 => {
                        now.batch = now.batch.max(n);
                        Step::Given { seq: r.get("seq")?, name: r.get("name")?, text }
                    }
                    1 => {
                        now.record = now.record.max(n);
                        Step::Tool(text)
                    }
                    _ => {
                        now.outbox = now.outbox.max(n);
                        Step::Said(text)
                    }
                });
            }
            Ok((steps, now))
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
