//! Removing what is only history, a bounded transaction at a time.
//!
//! A row stays as long as one that refers to it does, so that a removal is right whatever comes while it is under way. A look
//! alone (`--dry-run`) goes by the same conditions. Instead of removing rows it notes in temporary tables which ones a removal
//! would leave ([`Left`]). Where nothing comes meanwhile both find the same.
//!
//! What goes is looked for beside the writer, and looked at again where it is removed. The work is in proportion to the
//! rows that there are, however many of them one run has.
//!
//! No id is given twice: SQLite remembers those that it gave (`AUTOINCREMENT`), and the newest receipt always stays.

use std::path::Path;

use ipc_handlers::Time;
use rusqlite::{Connection, OptionalExtension, ToSql, params};

use super::{Result, Store, StoreError};
use crate::domain::kept::prune::{History, Keep};

#[cfg(test)]
mod tests;

/// How large the store is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// The file, bytes; what waits in its log to be written there is not counted.
    pub bytes: u64,
    /// What of it is free for new rows, bytes.
    pub free: u64,
}

impl Store {
    /// Returns the ids of all that a removal would remove, each list in order. Changes nothing; reads beside the writer.
    pub fn history(&self, keep: &Keep) -> Result<Vec<(History, Vec<i64>)>> {
        // On a connection that is closed afterwards, and its temporary tables with it.
        let mut connection = self.readers.place().connect()?;
        super::prepare(&mut connection)?;
        let snapshot = connection.transaction()?;
        let values = Values::of(keep);
        let mut all = Vec::new();
        for what in History::ALL {
            let with = values.and(&[&0_i64, &i64::MAX]);
            let ids = found(&snapshot, &search(what, Left::Noted), &with)?;
            if let Some((make, fill)) = notes(what) {
                snapshot.execute_batch(&make)?;
                snapshot.execute(&fill, [serde_json::json!(ids).to_string()])?;
            }
            all.push((what, ids));
        }
        Ok(all)
    }

    /// Returns what can be removed now that what goes before it was, above `after` and at most `most`, in order of its
    /// ids. Reads beside the writer.
    pub fn next_history(&self, what: History, keep: &Keep, after: i64, most: usize) -> Result<Vec<i64>> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let values = Values::of(keep);
        self.read(|c| found(c, &search(what, Left::InTables), &values.and(&[&after, &most])))
    }

    /// Removes those of `ids` that can go still, with what hangs on them; returns how many.
    pub async fn remove_history(&self, what: History, keep: Keep, ids: Vec<i64>) -> Result<usize> {
        self.write(move |c| {
            let values = Values::of(&keep);
            let ids = serde_json::json!(ids).to_string();
            let mut removed = 0;
            for statement in removals(what) {
                removed = c.prepare_cached(&statement)?.execute(values.and(&[&ids]).as_slice())?;
            }
            crate::system::failpoint::reach("prune.removed");
            Ok(removed)
        })
        .await
    }

    /// Returns when the newest thing happened that is known: of messages, runs, commands and what was said, the last ones.
    pub fn newest(&self) -> Result<Option<Time>> {
        self.read(|c| {
            let newest: Option<i64> = c
                .prepare_cached(
                    "SELECT max(at) FROM (
                       SELECT * FROM (SELECT received_at AS at FROM messages ORDER BY seq DESC LIMIT 1) UNION ALL
                       SELECT * FROM (SELECT coalesce(ended_at, created_at) FROM runs ORDER BY id DESC LIMIT 1) UNION ALL
                       SELECT * FROM (SELECT at FROM receipts ORDER BY claim_id DESC LIMIT 1) UNION ALL
                       SELECT * FROM (SELECT created_at FROM outbox ORDER BY id DESC LIMIT 1))",
                )?
                .query_row([], |r| r.get(0))?;
            Ok(newest.map(Time))
        })
    }

    /// Counts the rows about what was not heard that nothing was added to since.
    pub fn dropped_until(&self, before: Time) -> Result<usize> {
        self.read(|c| {
            Ok(c.query_row("SELECT count(*) FROM dropped WHERE last_at <= ?1", [before.0], |r| r.get(0))?)
        })
    }

    /// Removes a bounded number of those rows; returns how many.
    pub async fn remove_dropped(&self, before: Time, most: usize) -> Result<usize> {
        self.write(move |c| {
            Ok(c.prepare_cached(
                "DELETE FROM dropped WHERE (chat_jid, group_folder, sender, rule) IN
                   (SELECT chat_jid, group_folder, sender, rule FROM dropped WHERE last_at <= ?1 LIMIT ?2)",
            )?
            .execute(params![before.0, most])?)
        })
        .await
    }

    /// Counts what was done to messages afterwards, until an instant.
    pub fn marks_until(&self, before: Time) -> Result<usize> {
        self.read(|c| {
            Ok(c.query_row("SELECT count(*) FROM message_marks WHERE at <= ?1", [before.0], |r| r.get(0))?)
        })
    }

    /// Removes a bounded number of those rows; returns how many.
    pub async fn remove_marks(&self, before: Time, most: usize) -> Result<usize> {
        self.write(move |c| {
            Ok(c.prepare_cached(
                "DELETE FROM message_marks WHERE id IN (SELECT id FROM message_marks INDEXED BY message_marks_by_time WHERE at <= ?1 LIMIT ?2)",
            )?
            .execute(params![before.0, most])?)
        })
        .await
    }

    /// Counts the rows about slots that did not run, until an instant.
    pub fn slots_until(&self, before: Time) -> Result<usize> {
        self.read(|c| Ok(c.query_row("SELECT count(*) FROM slots WHERE at <= ?1", [before.0], |r| r.get(0))?))
    }

    /// Removes a bounded number of those rows; returns how many.
    pub async fn remove_slots(&self, before: Time, most: usize) -> Result<usize> {
        self.write(move |c| {
            Ok(c.prepare_cached(
                "DELETE FROM slots WHERE id IN (SELECT id FROM slots INDEXED BY slots_by_time WHERE at <= ?1 LIMIT ?2)",
            )?
            .execute(params![before.0, most])?)
        })
        .await
    }

    /// Returns which of these runs were once in the ledger and are not any more.
    pub fn runs_gone(&self, runs: &[i64]) -> Result<Vec<i64>> {
        self.read(|c| {
            Ok(c.prepare_cached(
                "SELECT value FROM json_each(?1) WHERE value <= coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'runs'), 0)
                   AND NOT EXISTS (SELECT 1 FROM runs WHERE id = value)",
            )?
            .query_map([serde_json::json!(runs).to_string()], |r| r.get(0))?
            .collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Whether an id that is not there was given: then what had it was removed. A claim's may also have come to nothing.
    pub fn was_given(&self, what: History, id: i64) -> Result<bool> {
        if matches!(what, History::Receipts | History::ByHand) {
            return Ok((1..=self.last_claim()?).contains(&id));
        }
        self.read(|c| {
            let newest: Option<i64> = c
                .prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = ?1")?
                .query_row([what.name()], |r| r.get(0))
                .optional()?;
            Ok((1..=newest.unwrap_or(0)).contains(&id))
        })
    }

    /// Returns how large the store is.
    pub fn size(&self) -> Result<Size> {
        self.read(|c| {
            let number = |pragma: &str| -> rusqlite::Result<u64> {
                c.query_row(&format!("PRAGMA {pragma}"), [], |r| r.get(0))
            };
            let page = number("page_size")?;
            Ok(Size { bytes: page * number("page_count")?, free: page * number("freelist_count")? })
        })
    }
}

/// Writes the store at `path` anew, without what is free in it. Nobody else may write to it meanwhile.
///
/// # Errors
/// When SQLite can't, for want of room above all; then it is as it was.
pub fn shrink(path: &Path) -> Result<()> {
    let failed = |error: rusqlite::Error| StoreError::Open { path: path.to_owned(), source: error.into() };
    let mut connection = Connection::open(path).map_err(failed)?;
    super::prepare(&mut connection).map_err(failed)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.execute_batch("VACUUM")?;
    // Else the file keeps its length until the log is used anew. A reader that is in the way is no fault.
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(())
}

/// Returns the ids that a statement finds.
fn found(c: &Connection, sql: &str, values: &[&dyn ToSql]) -> Result<Vec<i64>> {
    Ok(c.prepare_cached(sql)?.query_map(values, |r| r.get(0))?.collect::<rusqlite::Result<_>>()?)
}

/// The table, and the column of its ids.
fn table(what: History) -> (&'static str, &'static str) {
    let id = match what {
        History::Messages => "seq",
        History::Receipts | History::ByHand => "claim_id",
        History::Approvals | History::Outbox | History::Batches | History::Runs => "id",
    };
    (what.name(), id)
}

/// Values for what [`is_history`] asks for.
struct Values {
    before: i64,
    receipts: i64,
    denied: i64,
    claimed: String,
    groups: String,
    origins: String,
    working: String,
}

impl Values {
    fn of(keep: &Keep) -> Self {
        let groups: serde_json::Map<String, serde_json::Value> =
            keep.groups.iter().map(|(group, from)| (group.clone(), from.0.into())).collect();
        let hex = |origin: &Vec<u8>| origin.iter().map(|byte| format!("{byte:02X}")).collect::<String>();
        let origins: Vec<String> = keep.origins.iter().map(hex).collect();
        Self {
            before: keep.horizon.before.0,
            receipts: keep.horizon.receipts.0,
            denied: keep.horizon.denied.0,
            claimed: serde_json::json!(keep.claimed).to_string(),
            groups: serde_json::Value::Object(groups).to_string(),
            origins: serde_json::json!(origins).to_string(),
            working: serde_json::json!(keep.working).to_string(),
        }
    }

    fn and<'a>(&'a self, more: &[&'a dyn ToSql]) -> Vec<&'a dyn ToSql> {
        let mut all: Vec<&dyn ToSql> = vec![
            &self.before,
            &self.receipts,
            &self.denied,
            &self.claimed,
            &self.groups,
            &self.origins,
            &self.working,
        ];
        all.extend(more);
        all
    }
}

/// Where the rows are that are left of the tables which were dealt with before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// In their tables: what was history is removed.
    InTables,
    /// Noted in temporary tables of a look that removes nothing.
    Noted,
}

impl Left {
    /// Returns the table that holds the rows of `what` that are left.
    fn of(self, what: History) -> String {
        match self {
            Self::InTables => table(what).0.to_owned(),
            Self::Noted => format!("temp.left_{}", table(what).0),
        }
    }

    /// The condition under which no row that is left keeps `run`, a column.
    fn no_row_of(self, what: History, run: &str) -> String {
        let left = self.of(what);
        let names = |named_by: &str, given: &str| {
            format!("NOT EXISTS (SELECT 1 FROM {left} k WHERE {named_by} = {run} AND {given} IS NOT NULL)")
        };
        let of_run = names("k.run_id", "k.run_id");
        match what {
            // Tried again, a command needs the run that its token names.
            History::Receipts => {
                format!("{of_run} AND {}", names("CAST(k.token_id AS INTEGER)", "k.token_id"))
            }
            _ => of_run,
        }
    }
}

/// The statements that make the table in which a look notes the rows of `what` that are left, and the one that fills it.
/// It holds the columns by which rows keep other rows. Nothing is kept by a row of what is missing here. ?1 is a JSON array
/// of the ids that would go.
fn notes(what: History) -> Option<(String, String)> {
    let (table, id) = table(what);
    let (more, indexes): (&[(&str, &str)], &[&str]) = match what {
        History::Approvals | History::Messages => (&[], &[]),
        History::Batches | History::Outbox => (&[("run_id", "INTEGER")], &["run_id"]),
        History::Receipts => {
            (&[("run_id", "INTEGER"), ("token_id", "TEXT")], &["run_id", "CAST(token_id AS INTEGER)"])
        }
        History::ByHand | History::Runs => return None,
    };
    let columns: String = more.iter().map(|(column, _)| format!(", {column}")).collect();
    // Without its type, the index of a column is not looked into for a value of another type.
    let typed: String = more.iter().map(|(column, kind)| format!(", {column} {kind}")).collect();
    let mut make = format!("CREATE TEMP TABLE left_{table} ({id} INTEGER PRIMARY KEY{typed});");
    for (n, of) in indexes.iter().enumerate() {
        make.push_str(&format!("CREATE INDEX temp.left_{table}_{n} ON left_{table} ({of});"));
    }
    let fill = format!(
        "INSERT INTO temp.left_{table} SELECT {id}{columns} FROM {table} WHERE {id} NOT IN (SELECT value FROM json_each(?1))"
    );
    Some((make, fill))
}

/// The statement that looks for history. ?8 is the id above which it looks, ?9 how many it finds at most.
fn search(what: History, left: Left) -> String {
    let (table, id) = table(what);
    format!(
        "SELECT x.{id} FROM {table} x WHERE x.{id} > ?8 AND {} ORDER BY x.{id} LIMIT ?9",
        is_history(left, what, "x")
    )
}

/// The condition under which row `x` is history. ?1 … ?7 are [`Values`].
fn is_history(left: Left, what: History, x: &str) -> String {
    match what {
        History::Approvals => format!(
            "({x}.state IN ('approved', 'expired') AND {x}.decided_at <= ?1 OR {x}.state = 'denied' AND {x}.decided_at <= ?3)"
        ),
        // Nobody waits for it, an agent was given it or never will be, and it is not the last word in its chat: what was
        // written last is shown, and that a person has ever written there is asked for.
        History::Messages => format!(
            "({x}.received_at <= ?1 AND {x}.seq < (SELECT max(l.seq) FROM messages l WHERE l.chat_jid = {x}.chat_jid)
              AND ({x}.from_me OR {x}.bot OR EXISTS (
                SELECT 1 FROM messages l WHERE l.chat_jid = {x}.chat_jid AND l.seq > {x}.seq AND NOT l.from_me AND NOT l.bot))
              AND NOT EXISTS (SELECT 1 FROM approval_messages w JOIN {} a ON a.id = w.approval_id
                WHERE w.seq = {x}.seq)
              AND NOT EXISTS (SELECT 1 FROM inbox i JOIN lanes l ON l.id = i.lane_id WHERE i.seq = {x}.seq AND {IS_THROUGH} IS NOT TRUE))",
            left.of(History::Approvals)
        ),
        // What was said after an open question in its chat tells whom an answer is meant for, and an answer may be a reply
        // to anything that was said about it.
        History::Outbox => format!(
            "({x}.status = 'sent' AND {x}.sent_at <= ?1 AND {x}.created_at <= ?1 AND {}
              AND NOT EXISTS (SELECT 1 FROM approvals q WHERE q.card_chat = {x}.chat_jid AND q.state = 'pending'
                AND (q.card <= {x}.id OR {x}.cause_kind = 'approval' AND {x}.cause_id = q.id))
              AND NOT EXISTS (SELECT 1 FROM questions q INDEXED BY questions_open_by_card WHERE q.card = {x}.id AND q.state = 'open'))",
            its_run_is_through(left, x)
        ),
        // What became of a message that is kept is told by its batch.
        History::Batches => format!(
            "({x}.state IN ('done', 'failed') AND {x}.ended_at <= ?1 AND NOT EXISTS (
                SELECT 1 FROM inbox n INDEXED BY inbox_by_lane JOIN {} m ON m.seq = n.seq
                WHERE n.lane_id = {x}.lane_id AND n.n BETWEEN {x}.first AND {x}.last AND n.verdict IN ('wake', 'context')))",
            left.of(History::Messages)
        ),
        // The token of a command that waits in a box, or that is tried again, names its run.
        History::Runs => format!(
            "({x}.ended_at <= ?1 AND {x}.ended_at <= ?2
              AND {x}.group_folder NOT IN (SELECT value FROM json_each(?7))
              AND NOT EXISTS (SELECT 1 FROM json_each(?5) g WHERE g.key = {x}.group_folder AND g.value <= {x}.ended_at)
              AND {} AND {} AND {})",
            left.no_row_of(History::Batches, &format!("{x}.id")),
            left.no_row_of(History::Outbox, &format!("{x}.id")),
            left.no_row_of(History::Receipts, &format!("{x}.id"))
        ),
        // Its file is gone from `claimed/` and from its box, it is not being tried again, and the newest one's id is where
        // the next ones begin.
        History::Receipts => format!(
            "({x}.at <= ?2 AND {x}.claim_id < (SELECT max(claim_id) FROM receipts)
              AND {x}.claim_id NOT IN (SELECT value FROM json_each(?4))
              AND hex({x}.origin) NOT IN (SELECT value FROM json_each(?6))
              AND NOT EXISTS (SELECT 1 FROM json_each(?5) g WHERE g.key = {x}.group_folder AND g.value <= {x}.at)
              AND NOT EXISTS (SELECT 1 FROM by_hand b WHERE b.retry_of = {x}.claim_id
                AND (b.at > ?2 OR b.claim_id IN (SELECT value FROM json_each(?4))))
              AND {})",
            its_run_is_through(left, x)
        ),
        // A command is tried again once: as long as it is there, so is the note that it was.
        History::ByHand => format!(
            "({x}.at <= ?2 AND {x}.claim_id < (SELECT max(claim_id) FROM receipts)
              AND {x}.claim_id NOT IN (SELECT value FROM json_each(?4))
              AND NOT EXISTS (SELECT 1 FROM {} t WHERE t.claim_id IN ({x}.claim_id, {x}.retry_of)))",
            left.of(History::Receipts)
        ),
    }
}

/// Whether lane `l` is through with its inbox row `i`. A row behind its cursor was handed over, or left out for good.
const IS_THROUGH: &str = "(i.verdict = 'ignore' OR i.verdict IN ('wake', 'context') AND i.n <= l.cursor AND NOT EXISTS (
    SELECT 1 FROM batches o INDEXED BY batches_open
    WHERE o.lane_id = l.id AND (o.state = 'handed' OR o.state = 'claimed' OR o.state = 'returned') AND i.n BETWEEN o.first AND o.last))";

/// The condition under which the run of row `x`, if it is of one, has ended, and no message is kept that it was given.
fn its_run_is_through(left: Left, x: &str) -> String {
    format!(
        "({x}.run_id IS NULL OR NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = {x}.run_id AND r.ended_at IS NULL) AND {})",
        left.no_row_of(History::Batches, &format!("{x}.run_id"))
    )
}

/// The statements that remove rows with what hangs on them, the rows themselves last. ?8 is a JSON array of their ids.
fn removals(what: History) -> Vec<String> {
    let (table, id) = table(what);
    let these = |x: &str| {
        format!("{x}.{id} IN (SELECT value FROM json_each(?8)) AND {}", is_history(Left::InTables, what, x))
    };
    let hanging = match what {
        History::Messages => Some(("inbox", "seq")),
        History::Runs => Some(("refusals", "run_id")),
        // Cascades.
        History::Approvals => None,
        History::Outbox | History::Batches | History::Receipts | History::ByHand => None,
    };
    let hanging = hanging.map(|(on, by)| {
        format!("DELETE FROM {on} WHERE {by} IN (SELECT x.{id} FROM {table} x WHERE {})", these("x"))
    });
    hanging.into_iter().chain([format!("DELETE FROM {table} AS x WHERE {}", these("x"))]).collect()
}
