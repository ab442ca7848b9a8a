//! What runs used of a model, and what they were refused.

use std::collections::BTreeMap;

use ipc_handlers::{Folder, Time};
use jiff::tz::TimeZone;
use rusqlite::{Connection, Row, params};

use super::outside::add_refused;
use crate::domain::runs::{
    budget::Prices,
    usage::{By, KEPT_REFUSALS, Page, RefusalRow, Sum, Total, UsageRow, Whose, day, quarter},
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
        let key = match by {
            By::Run => "run_id, group_folder, model",
            By::Group => "group_folder, model",
            By::Model => "model",
            By::Day => "quarter, model",
        };
        self.read(|c| {
            let mut rows = c.prepare_cached(&format!(
                "SELECT {key}, {TOTAL} FROM usage WHERE quarter >= ?1 AND quarter < ?3 AND (?2 IS NULL OR group_folder = ?2) GROUP BY {key} ORDER BY {key}"
            ))?;
            let mut rows = rows.query(params![quarter(since).0, group.map(Folder::as_str), until.0])?;
            let mut used: Vec<UsageRow> = Vec::new();
            while let Some(r) = rows.next()? {
                let model: String = r.get("model")?;
                let total = total(r)?.priced(&model, prices);
                let whose = match by {
                    By::Run => Whose::Run { run: r.get("run_id")?, group: r.folder("group_folder")? },
                    By::Group => Whose::Group { group: r.folder("group_folder")? },
                    By::Model => Whose::Model { model: Some(model).filter(|name| !name.is_empty()) },
                    By::Day => Whose::Day { day: day(r.time("quarter")?, zone) },
                };
                // What is added up comes one after the other.
                match used.last_mut().filter(|row| row.whose == whose) {
                    Some(row) => row.total.add(total),
                    None => used.push(UsageRow { whose, total }),
                }
            }
            Ok(used)
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
