//! What groups have used of a day, and how their budgets stand.

use ipc_handlers::{Folder, Time};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::domain::{
    runs::{
        budget::{Day, Part, Prices, Used},
        usage::Tokens,
    },
    states::BudgetState,
};
use crate::store::{Result, Store, columns::Columns as _, talk::groups};

/// How a group's budget stands, as it was noted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetRow {
    pub group: Folder,
    pub day: Day,
    pub state: BudgetState,
    /// The part that decides, and how much of it is used, in words; `None` exactly where there is enough.
    pub what: Option<(Part, String)>,
}

impl BudgetRow {
    fn of(r: &Row<'_>) -> rusqlite::Result<Self> {
        let part: Option<Part> = r.word_or_null("budgets", "part")?;
        Ok(Self {
            group: r.folder("group_folder")?,
            day: Day { start: r.time("day")?, end: r.time("ends")? },
            state: r.word("budgets", "stand")?,
            what: part.zip(r.get("what")?),
        })
    }
}

const BUDGET: &str = "SELECT group_folder, day, ends, stand, part, what FROM budgets";

impl Store {
    /// Returns what a group has used of a day until `now`, as far as it is stored.
    pub fn used_of_day(&self, group: &Folder, day: Day, prices: &Prices, now: Time) -> Result<Used> {
        self.read(|c| {
            let mut used = Used::default();
            let mut models = c.prepare_cached(
                "SELECT model, sum(requests) AS requests, sum(input_tokens) AS input, sum(cache_creation_tokens) AS cache_creation,
                        sum(cache_read_tokens) AS cache_read, sum(output_tokens) AS output
                 FROM usage INDEXED BY usage_by_group WHERE group_folder = ?1 AND quarter >= ?2 AND quarter < ?3 GROUP BY model",
            )?;
            let mut rows = models.query(params![group.as_str(), day.start.0, day.end.0])?;
            while let Some(r) = rows.next()? {
                let tokens = Tokens {
                    input: r.get("input")?,
                    cache_creation: r.get("cache_creation")?,
                    cache_read: r.get("cache_read")?,
                    output: r.get("output")?,
                };
                let costs = prices.cost(&r.get::<_, String>("model")?, &tokens);
                used.add(r.get("requests")?, &tokens, costs);
            }
            // A clock that was set back makes no time that is less than none.
            let ran: i64 = c
                .prepare_cached(
                    "SELECT coalesce(sum(max(0, min(ended_at, ?3) - max(started_at, ?2))), 0) FROM (
                       SELECT started_at, ended_at FROM runs INDEXED BY runs_by_group_end WHERE group_folder = ?1 AND ended_at > ?2 AND started_at IS NOT NULL
                       UNION ALL SELECT started_at, ?3 FROM runs INDEXED BY runs_one_per_group
                         WHERE group_folder = ?1 AND status IN ('queued', 'running') AND started_at IS NOT NULL)",
                )?
                .query_row(params![group.as_str(), day.start.0, now.0], |r| r.get(0))?;
            Ok(Used { ran_ms: u64::try_from(ran).unwrap_or(0), ..used })
        })
    }

    /// Returns how the budgets of groups stood when they were looked at last.
    pub fn budget_rows(&self) -> Result<Vec<BudgetRow>> {
        self.read(|c| {
            let mut rows = c.prepare_cached(&format!("{BUDGET} ORDER BY group_folder"))?;
            Ok(rows.query_map([], BudgetRow::of)?.collect::<rusqlite::Result<_>>()?)
        })
    }
}

/// Notes how a group's budget stands, if there is such a group.
pub(in crate::store) fn note(c: &Connection, row: &BudgetRow, now: Time) -> Result<()> {
    if !groups::is_known(c, &row.group)? {
        return Ok(());
    }
    let (part, what) = row.what.as_ref().map(|(part, what)| (part.as_str(), what)).unzip();
    c.prepare_cached(
        "INSERT INTO budgets (group_folder, day, ends, stand, part, what) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT (group_folder) DO UPDATE SET day = excluded.day, ends = excluded.ends, stand = excluded.stand, part = excluded.part,
           what = excluded.what, left_since = iif(stand = 'out' AND excluded.stand <> 'out', ?7, left_since)",
    )?
    .execute(params![
        row.group.as_str(),
        row.day.start.0,
        row.day.end.0,
        row.state.as_str(),
        part,
        what,
        now.0
    ])?;
    Ok(())
}

/// Returns since when a group has had something left of its budget, where it was used up before.
pub(in crate::store) fn left_since(c: &Connection, group: &Folder) -> Result<Option<Time>> {
    Ok(c.prepare_cached("SELECT left_since FROM budgets WHERE group_folder = ?1 AND left_since IS NOT NULL")?
        .query_row([group.as_str()], |r| r.time("left_since"))
        .optional()?)
}

/// Returns what waits for the end of the day, in words; `None`: the group has something left, or no budget.
pub(in crate::store) fn out_in_words(
    c: &Connection,
    group: &str,
    now: Time,
) -> rusqlite::Result<Option<String>> {
    c.prepare_cached(
        "SELECT part, what, ends FROM budgets WHERE group_folder = ?1 AND stand = 'out' AND day <= ?2 AND ends > ?2",
    )?
    .query_row(params![group, now.0], |r| {
        let (part, what): (Part, String) = (r.word("budgets", "part")?, r.get("what")?);
        let ends = r.time("ends")?;
        Ok(format!(
            "the group's budget of the day, which is used up ({what}): until {ends}, or until there is more, by `g2 groups set {group} budget.{part}=N`"
        ))
    })
    .optional()
}
