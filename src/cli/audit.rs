//! `g2 audit`: who changed what, when and from where, and whether the chain of these rows is whole.

use std::path::Path;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use ipc_handlers::Time;
use serde_json::{Value, json};

use super::{CliResult, Context, Failure, filter::Span, out, show, word::word};
use crate::{
    domain::{
        kept::prune::DAY_MS,
        shown::audit::{AUDIT_DAYS, AuditFault, AuditRow, Chain, Checked, Hash, Origin, read_mark},
    },
    ops::OpError,
    root,
    store::{Changes, Store},
};

/// Rows that are read at a time.
const AT_A_TIME: usize = 1_000;

const LIST: &str = "\
Outcomes:
  done         the change was made
  failed       nothing was changed; WHY says why
  unfinished   the daemon died over it, or is at it: look whether it was made

Examples:
  g2 audit list --limit 20
  g2 audit list --from chat --since 2026-01-01
  g2 audit list --grep groups.remove";

const VERIFY: &str = "\
Each row holds the hash of the row before it. So a row that was changed, moved or removed later is
found and named. The lines of data/changes.log are compared too.

Who may write to the store can write the whole chain anew. Note the newest row and its hash
elsewhere, as the output names them (ROW:HASH), and compare later with --known ROW:HASH.

Exit codes: 0 whole, 1 not whole.

Examples:
  g2 audit verify";

const EXPORT: &str = "\
Oldest first: the row, the hash of the row before it (prev) and its own
(hash). A hash is the SHA-256 of prev, a line end, and the JSON array
[id, at_ms, origin, who, what, step, asked, why, agent] without spaces.

Examples:
  g2 audit export > audit.jsonl";

#[derive(Debug, Subcommand)]
pub(super) enum Audit {
    /// List changes with their authors, oldest first
    #[command(after_help = LIST)]
    List(List),
    /// Check that no row was changed, moved or removed
    #[command(after_help = VERIFY)]
    Verify {
        /// A row that was noted before, with its hash: it must still stand there
        #[arg(long, value_name = "ROW:HASH", value_parser = known)]
        known: Option<(i64, Hash)>,
    },
    /// Print all rows with their hashes, a JSON document a line
    #[command(after_help = EXPORT)]
    Export,
}

#[derive(Debug, Args)]
pub(super) struct List {
    #[command(flatten)]
    span: Span,
    /// Only changes from there
    #[arg(long, value_name = "ORIGIN", value_parser = word::<Origin>())]
    from: Option<Origin>,
    /// Only changes whose author or whose change has this text in it
    #[arg(long, value_name = "TEXT")]
    grep: Option<String>,
    /// Show only the newest N
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

/// Reads a row with its hash.
fn known(text: &str) -> Result<(i64, Hash), OpError> {
    let read = || {
        let (row, hash) = text.split_once(':')?;
        Some((row.parse().ok()?, Hash::parse(hash)?))
    };
    read().ok_or_else(|| OpError::invalid("it is the number of a row, a colon, and 64 hexadecimal digits"))
}

impl Audit {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        match self {
            Self::List(list) => list.run(context),
            Self::Verify { known } => verify(context, known),
            Self::Export => export(context),
        }
    }
}

impl List {
    fn run(self, context: &Context) -> CliResult {
        let (since, until) = self.span.read(context)?;
        let (origin, grep, limit) = (self.from, self.grep, self.limit);
        let changes = Changes { since, until, origin, grep, limit, before: None };
        let rows = context.store()?.changes(&changes)?;
        show::rows(context, &rows, &["id", "at", "-origin", "who", "outcome", "~what", "~why"])
    }
}

fn verify(context: &Context, known: Option<(i64, Hash)>) -> CliResult {
    let mut checked = check(&context.store()?, &context.root, known, context.world.now())?;
    checked.faults.sort_by_key(first);
    let whole = checked.faults.is_empty();
    if context.json {
        let mut document = json!(checked);
        document["whole"] = whole.into();
        out::json(document)?;
    } else {
        for fault in &checked.faults {
            out::line(fault)?;
        }
        if checked.unnamed > 0 {
            out::line(format!("and {} more", checked.unnamed))?;
        }
        let state = if whole { "every row is as it was written" } else { "the audit is not whole" };
        out::line(format!(
            "{state}: {} rows; the newest is {}:{}",
            checked.rows, checked.newest, checked.hash
        ))?;
    }
    if whole { Ok(()) } else { Err(Failure::Quiet(1)) }
}

/// The first row that a fault is about.
fn first(fault: &AuditFault) -> i64 {
    match fault {
        AuditFault::Changed { row } | AuditFault::Moved { row, .. } | AuditFault::Replaced { row } => *row,
        AuditFault::Removed { from, .. } => *from,
    }
}

/// Follows the chain from its beginning to its end, beside others who append to it.
///
/// # Errors
/// The store's; those of `data/changes.log`.
fn check(store: &Store, root: &Path, known: Option<(i64, Hash)>, now: Time) -> Result<Checked, Failure> {
    // The notes are read first: rows that they name are in the store already.
    let noted = root::noted_changes(&root.join("data")).context("reading data/changes.log")?;
    let mut marks: Vec<(i64, String)> =
        noted.iter().filter_map(|line| read_mark(line)).map(|(row, hash)| (row, hash.to_owned())).collect();
    marks.extend(known.map(|(row, hash)| (row, hash.to_string())));
    marks.sort();
    let ends = store.audit_ends()?;
    let mut chain = Chain::behind(ends.before, ends.hash);
    let mut marks = marks.into_iter().filter(|(row, _)| *row > ends.before).peekable();
    let mut replaced = Vec::new();
    each(store, ends.before, ends.newest, |row| {
        // One of a row that is missing is told as that.
        while let Some((noted, hash)) = marks.next_if(|(noted, _)| *noted <= row.id) {
            if noted == row.id && !row.hash.to_string().starts_with(&hash) {
                replaced.push(row.id);
            }
        }
        chain.follow(row);
        Ok(())
    })?;
    // The log knows rows that the store does not.
    let newest = marks.map(|(row, _)| row).next_back().unwrap_or(0).max(ends.newest);
    let mut checked = chain.end(newest);
    // Only very old rows are pruned. A row that the log knows as younger was removed by hand.
    let is_young =
        |line: &&String| written_at(line).is_some_and(|at| now.ms_since(at) < i64::from(AUDIT_DAYS) * DAY_MS);
    let rows = noted.iter().filter(is_young).filter_map(|line| read_mark(line)).map(|(row, _)| row);
    if let Some(from) = rows.filter(|row| *row <= ends.before).min() {
        checked.faults.push(AuditFault::Removed { from, to: ends.before });
    }
    for row in replaced {
        let is_named = checked.faults.iter().any(|fault| first(fault) == row);
        if !is_named {
            checked.faults.push(AuditFault::Replaced { row });
        }
    }
    Ok(checked)
}

/// When a line of `data/changes.log` was written.
fn written_at(line: &str) -> Option<Time> {
    Some(Time::from_jiff(line.split(' ').next()?.parse().ok()?))
}

/// Visits the rows behind `after` up to `newest`.
fn each(
    store: &Store,
    mut after: i64,
    newest: i64,
    mut visit: impl FnMut(AuditRow) -> CliResult,
) -> CliResult {
    loop {
        let rows = store.audit_rows(after, AT_A_TIME)?;
        let Some(last) = rows.last().map(|row| row.id) else { return Ok(()) };
        for row in rows.into_iter().filter(|row| row.id <= newest) {
            visit(row)?;
        }
        after = last;
        if after >= newest {
            return Ok(());
        }
    }
}

fn export(context: &Context) -> CliResult {
    let store = context.store()?;
    let ends = store.audit_ends()?;
    each(&store, ends.before, ends.newest, |row| out::script(&format!("{}\n", exported(&row))))
}

fn exported(row: &AuditRow) -> Value {
    let entry = &row.entry;
    json!({
        "id": row.id, "at": entry.at.to_string(), "at_ms": entry.at.0, "origin": entry.origin, "who": entry.who, "what": entry.what,
        "step": entry.step, "asked": entry.asked, "why": entry.why, "agent": entry.agent, "prev": row.prev, "hash": row.hash,
    })
}
