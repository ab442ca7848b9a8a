//! What runs used of a model, and what they were refused.

use std::collections::BTreeMap;

use ipc_handlers::{Folder, Time};
use jiff::tz::TimeZone;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::outside::add_refused;
use crate::domain::{
    kept::prune::DAY_MS,
    runs::{
        budget::Prices,
        usage::{By, KEPT_REFUSALS, Page, RefusalRow, Sum, Total, UsageRow, Whose, day, quarter},
    },
};
use crate::store::{Result, Store, columns::Columns as _, totals};

/// The figures of a row, as [`total`] reads them.
const TOTAL: &str = "coalesce(sum(requests), 0) AS requests, coalesce(sum(errors), 0) AS errors, coalesce(sum(refused), 0) AS refused, \
                     coalesce(sum(input_tokens), 0) AS input_tokens, coalesce(sum(cache_creation_tokens), 0) AS cache_creation_tokens, \
                     coalesce(sum(cache_read_tokens), 0) AS cache_read_tokens, coalesce(sum(output_tokens), 0) AS output_tokens";

impl Store {
    /// Adds what runs used and were refused since the last time; all of it or, on an error, nothing. Of a run that is
    /// not in the ledger nothing is kept.
    pub async fn add_usage(&self, pages: BTreeMap<i64, Page>, now: Time) -> Result<()> {
        self.write(move |c| {
            for (run, page) in pages {
                for (model, sum) in page.models {
                    add(c, run, &model, sum, 0, now)?;
                }
                if page.refused > 0 {
                    add(c, run, "", Sum::default(), page.refused, now)?;
                }
                for refusal in page.refusals {
                    c.prepare_cached(
                        "INSERT INTO refusals (run_id, asked, why, at) VALUES (?1, ?2, ?3, ?4)",
                    )?
                    .execute(params![run, refusal.asked, refusal.why, now.0])?;
                }
                add_refused(c, run, page.kept_in, now)?;
                c.prepare_cached(
                    "DELETE FROM refusals WHERE run_id = ?1 AND id NOT IN
                     (SELECT id FROM refusals WHERE run_id = ?1 ORDER BY id DESC LIMIT ?2)",
                )?
                .execute(params![run, KEPT_REFUSALS])?;
            }
            Ok(())
        })
        .await
    }

    /// Returns what was used from `since` on, which is taken for the start of its quarter of an hour, in the quarters that
    /// begin before `until`. Days are those of `zone`.
    pub fn usage(
        &self,
        by: By,
        group: Option<&Folder>,
        (since, until): (Time, Time),
        (zone, prices): (&TimeZone, &Prices),
    ) -> Result<Vec<UsageRow>> {
        let range = (quarter(since).0, until.0);
        self.read(|c| {
            let used = match (by, group) {
                (By::Group, None) => of_groups(c, range)?,
                (By::Day, None) => summed(c, ("quarter, model", OF_QUARTERS), range, None, |r| {
                    Ok(Whose::Day { day: day(r.time("quarter")?, zone) })
                })?,
                (By::Model, None) => summed(c, ("model", OF_QUARTERS), range, None, model)?,
                (By::Group, _) => summed(c, ("group_folder, model", OF_RUNS), range, group, whole_group)?,
                (By::Model, _) => summed(c, ("model", OF_RUNS), range, group, model)?,
                (By::Day, _) => summed(c, ("quarter, model", OF_RUNS), range, group, |r| {
                    Ok(Whose::Day { day: day(r.time("quarter")?, zone) })
                })?,
                (By::Run, _) => summed(c, ("run_id, group_folder, model", OF_RUNS), range, group, |r| {
                    Ok(Whose::Run { run: r.get("run_id")?, group: r.folder("group_folder")? })
                })?,
            };
            let mut rows: Vec<UsageRow> = Vec::new();
            for (whose, model, total) in used {
                let total = total.priced(&model, prices);
                // Rows that are added up come one after the other.
                match rows.last_mut().filter(|row| row.whose == whose) {
                    Some(row) => row.total.add(total),
                    None => rows.push(UsageRow { whose, total }),
                }
            }
            Ok(rows)
        })
    }

    /// Returns what one run used, and the newest of what it was refused.
    pub fn usage_of_run(&self, run: i64, prices: &Prices) -> Result<(Total, Vec<RefusalRow>)> {
        self.read(|c| {
            let mut used = Total::default();
            let mut models = c.prepare_cached(&format!(
                "SELECT model, {TOTAL} FROM usage WHERE run_id = ?1 GROUP BY model ORDER BY model"
            ))?;
            let mut rows = models.query([run])?;
            while let Some(r) = rows.next()? {
                used.add(total(r)?.priced(&r.get::<_, String>("model")?, prices));
            }
            let refusals = c
                .prepare_cached("SELECT at, asked, why FROM refusals WHERE run_id = ?1 ORDER BY id")?
                .query_map([run], |r| {
                    Ok(RefusalRow { at: r.time("at")?, asked: r.get("asked")?, why: r.get("why")? })
                })?
                .collect::<rusqlite::Result<_>>()?;
            Ok((used, refusals))
        })
    }
}

/// What was used of a model, and whose it is.
type Used = (Whose, String, Total);

fn model(r: &Row<'_>) -> rusqlite::Result<Whose> {
    Ok(Whose::Model { model: Some(r.get("model")?).filter(|name: &String| !name.is_empty()) })
}

fn whole_group(r: &Row<'_>) -> rusqlite::Result<Whose> {
    Ok(Whose::Group { group: r.folder("group_folder")? })
}

/// The rows to add up: those of runs, or the sums of all runs.
const OF_RUNS: &str = "FROM usage WHERE quarter >= ?1 AND quarter < ?2";
const OF_QUARTERS: &str = "FROM usage_quarters WHERE quarter >= ?1 AND quarter < ?2";

/// Adds up what a table has from `since` on and before `until`, by `key`.
fn summed(
    c: &Connection,
    (key, from): (&str, &str),
    (since, until): (i64, i64),
    group: Option<&Folder>,
    whose: impl Fn(&Row<'_>) -> rusqlite::Result<Whose>,
) -> Result<Vec<Used>> {
    let of_group = if group.is_some() { "AND group_folder = ?3" } else { "AND ?3 IS NULL" };
    let mut rows =
        c.prepare_cached(&format!("SELECT {key}, {TOTAL} {from} {of_group} GROUP BY {key} ORDER BY {key}"))?;
    let rows = rows.query_map(params![since, until, group.map(Folder::as_str)], |r| {
        Ok((whose(r)?, r.get("model")?, total(r)?))
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// The next group and model behind a group and a model: a step along the key, however many days they have.
const NEXT: &str = "SELECT group_folder, model FROM usage_days WHERE (group_folder, model) > (?1, ?2) ORDER BY group_folder, model LIMIT 1";
/// A group's use of a model in whole days, along the key. No row without use.
const OF_DAYS: &str =
    "FROM usage_days WHERE group_folder = ?1 AND model = ?2 AND day >= ?3 AND day < ?4 HAVING count(*) > 0";

/// Adds up what each group used: whole days from their sums, what is before and behind them from its quarters.
fn of_groups(c: &Connection, (since, until): (i64, i64)) -> Result<Vec<Used>> {
    let (first, last) =
        (since.div_euclid(DAY_MS) + i64::from(since.rem_euclid(DAY_MS) != 0), until.div_euclid(DAY_MS));
    let (first, last) = (first.saturating_mul(DAY_MS).min(until), last.saturating_mul(DAY_MS));
    let key = ("group_folder, model", OF_RUNS);
    let mut all: BTreeMap<(Whose, String), Total> = BTreeMap::new();
    let mut add = |used: Vec<Used>| {
        for (whose, model, total) in used {
            all.entry((whose, model)).or_default().add(total);
        }
    };
    add(summed(c, key, (since, first), None, whole_group)?);
    if first < last {
        let (mut next, mut sum) =
            (c.prepare_cached(NEXT)?, c.prepare_cached(&format!("SELECT {TOTAL} {OF_DAYS}"))?);
        let mut at: Option<(Folder, String)> = None;
        loop {
            let behind = at.as_ref().map_or(("", ""), |(group, model)| (group.as_str(), model.as_str()));
            let found = next
                .query_row(behind, |r| Ok((r.folder("group_folder")?, r.get::<_, String>("model")?)))
                .optional()?;
            let Some((group, model)) = found else { break };
            let used = sum.query_row(params![group.as_str(), model, first, last], total).optional()?;
            add(used
                .map(|total| (Whose::Group { group: group.clone() }, model.clone(), total))
                .into_iter()
                .collect());
            at = Some((group, model));
        }
    }
    add(summed(c, key, (last.max(first), until), None, whole_group)?);
    Ok(all.into_iter().map(|((whose, model), total)| (whose, model, total)).collect())
}

fn add(c: &Connection, run: i64, model: &str, sum: Sum, refused: u64, now: Time) -> Result<()> {
    c.prepare_cached(
        "INSERT INTO usage (run_id, group_folder, model, quarter, requests, errors, refused,
                            input_tokens, cache_creation_tokens, cache_read_tokens, output_tokens)
         SELECT id, group_folder, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10 FROM runs WHERE id = ?1
         ON CONFLICT (run_id, model, quarter) DO UPDATE SET
           requests = requests + excluded.requests, errors = errors + excluded.errors,
           refused = refused + excluded.refused, input_tokens = input_tokens + excluded.input_tokens,
           cache_creation_tokens = cache_creation_tokens + excluded.cache_creation_tokens,
           cache_read_tokens = cache_read_tokens + excluded.cache_read_tokens,
           output_tokens = output_tokens + excluded.output_tokens",
    )?
    .execute(params![
        run,
        model,
        quarter(now).0,
        sum.requests,
        sum.errors,
        refused,
        sum.tokens.input,
        sum.tokens.cache_creation,
        sum.tokens.cache_read,
        sum.tokens.output,
    ])?;
    totals::used(c, model, &sum, refused)
}

/// Reads the figures of [`TOTAL`].
fn total(r: &Row<'_>) -> rusqlite::Result<Total> {
    Ok(Total {
        requests: r.get("requests")?,
        errors: r.get("errors")?,
        refused: r.get("refused")?,
        input_tokens: r.get("input_tokens")?,
        cache_creation_tokens: r.get("cache_creation_tokens")?,
        cache_read_tokens: r.get("cache_read_tokens")?,
        output_tokens: r.get("output_tokens")?,
        money: None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A change of the rows below the sums: `(run, model, quarter)` is used or, with `None`, pruned.
    type Change = ((i64, u8, i64), Option<u8>);

    fn changes() -> impl Strategy<Value = Vec<Change>> {
        // Three days of few quarters, so that rows meet; some at the very edges of days.
        let quarter = prop_oneof![0..12_i64, 90..102_i64, 186..198_i64];
        let change = ((1..5_i64, 0..3_u8, quarter), proptest::option::weighted(0.8, 1..9_u8));
        proptest::collection::vec(change, 0..60)
    }

    /// Requests, tokens and refusals.
    type Sums = (u64, u64, u64);

    fn sums(rows: &[UsageRow]) -> BTreeMap<Whose, Sums> {
        rows.iter()
            .map(|row| (row.whose.clone(), (row.total.requests, row.total.input_tokens, row.total.refused)))
            .collect()
    }

    /// The sums of triggers are those of the rows of runs, in each range and after each change.
    #[test]
    fn sums_are_those_of_the_rows() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("g2.sqlite")).unwrap();
        let c = Connection::open(dir.path().join("g2.sqlite")).unwrap();
        c.execute_batch("PRAGMA synchronous = OFF").unwrap();
        let strategy = (changes(), (0..200_i64, 0..200_i64), -11..12_i8);
        let mut runner = proptest::test_runner::TestRunner::default();
        let tried = runner.run(&strategy, |(changes, (since, length), hours)| {
            apply(&c, changes);
            let zone = TimeZone::fixed(jiff::tz::Offset::constant(hours));
            let from = Time(quarters(since));
            for range in [(from, Time(quarters(since + length))), (from, Time::MAX), (Time(0), Time::MAX)] {
                for by in [By::Day, By::Group, By::Model] {
                    let used = |group: Option<&Folder>| {
                        sums(&store.usage(by, group, range, (&zone, &Prices::default())).unwrap())
                    };
                    // With a group the rows themselves are read.
                    let mut whole: BTreeMap<Whose, Sums> = BTreeMap::new();
                    for group in ["g0", "g1"].map(|name| Folder::parse(name).unwrap()) {
                        for (whose, (requests, tokens, refused)) in used(Some(&group)) {
                            let sum = whole.entry(whose).or_default();
                            *sum = (sum.0 + requests, sum.1 + tokens, sum.2 + refused);
                        }
                    }
                    prop_assert_eq!(used(None), whole);
                }
            }
            Ok(())
        });
        tried.unwrap();
        c.execute("DELETE FROM usage", []).unwrap();
        let left = "SELECT (SELECT count(*) FROM usage_days) + (SELECT count(*) FROM usage_quarters) AS rows";
        assert_eq!(c.query_row(left, [], |r| r.get::<_, i64>("rows")).unwrap(), 0);
    }

    fn quarters(n: i64) -> i64 {
        n * 900_000
    }

    /// Has a store in which nothing was used go through these changes.
    fn apply(c: &Connection, changes: Vec<Change>) {
        c.execute_batch("BEGIN; DELETE FROM usage").unwrap();
        for ((run, model, quarter), used) in changes {
            let (model, quarter) = (format!("m{model}"), quarters(quarter));
            match used {
                Some(used) => c.execute(
                    "INSERT INTO usage VALUES (?1, 'g' || (?1 % 2), ?2, ?3, ?4, 0, 1, ?4 * 10, 0, 0, 0)
                     ON CONFLICT DO UPDATE SET requests = requests + excluded.requests, refused = refused + 1, input_tokens = input_tokens + excluded.input_tokens",
                    params![run, model, quarter, used],
                ),
                None => c.execute(
                    "DELETE FROM usage WHERE run_id = ?1 AND model = ?2 AND quarter = ?3",
                    params![run, model, quarter],
                ),
            }
            .unwrap();
        }
        c.execute_batch("COMMIT").unwrap();
    }

    /// No list that is read from the sums sorts or walks through all that was ever used.
    #[test]
    fn lists_are_read_from_sums_along_their_keys() {
        let dir = tempfile::tempdir().unwrap();
        Store::open(&dir.path().join("g2.sqlite")).unwrap();
        let c = Connection::open(dir.path().join("g2.sqlite")).unwrap();
        let plan = |sql: &str| -> Vec<String> {
            let mut rows = c.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            rows.raw_query().mapped(|r| r.get("detail")).map(|step| step.unwrap()).collect()
        };
        let days = plan(
            "SELECT quarter, model FROM usage_quarters WHERE quarter >= ?1 AND quarter < ?2 GROUP BY quarter, model",
        );
        assert_eq!(days, ["SEARCH usage_quarters USING PRIMARY KEY (quarter>? AND quarter<?)"]);
        assert_eq!(plan(NEXT), ["SEARCH usage_days USING PRIMARY KEY ((group_folder,model)>(?,?))"]);
        let of_days = plan(&format!("SELECT {TOTAL} {OF_DAYS}"));
        assert_eq!(
            of_days,
            ["SEARCH usage_days USING PRIMARY KEY (group_folder=? AND model=? AND day>? AND day<?)"]
        );
    }
}
