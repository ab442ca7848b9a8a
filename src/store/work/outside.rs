//! Rules about hosts outside, and the places that groups were refused.

use ipc_handlers::{Folder, Time};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::domain::runs::outside::{
    EgressRow, EgressState, KEPT_PLACES, MOST_RULES, Pattern, Rules, Verdict,
};
use crate::store::{Result, Store, StoreError, columns::Columns as _};

impl Store {
    /// Makes or changes a group's rule about a host, or removes it; returns the rule as it is, or as it was. What the group was
    /// refused and a rule is about is forgotten.
    pub async fn set_rule_outside(
        &self,
        group: Folder,
        host: Pattern,
        verdict: Option<Verdict>,
        now: Time,
    ) -> Result<EgressRow> {
        self.write(move |c| {
            let (folder, name) = (group.as_str(), host.to_string());
            let before = c
                .prepare_cached("SELECT verdict, at FROM egress_rules WHERE group_folder = ?1 AND host = ?2")?
                .query_row([folder, &name], |r| {
                    Ok((r.word::<Verdict>("egress_rules", "verdict")?, r.time("at")?))
                })
                .optional()?;
            let (verdict, at) = match (verdict, before) {
                (None, None) => {
                    return Err(StoreError::NotFound { what: "rule about", id: format!("{name} of group {folder}") });
                }
                (None, Some(before)) => {
                    c.prepare_cached("DELETE FROM egress_rules WHERE group_folder = ?1 AND host = ?2")?
                        .execute([folder, &name])?;
                    before
                }
                (Some(verdict), before) => {
                    let rules: usize = c
                        .prepare_cached("SELECT count(*) FROM egress_rules WHERE group_folder = ?1")?
                        .query_row([folder], |r| r.get(0))?;
                    if before.is_none() && rules >= MOST_RULES {
                        return Err(StoreError::refused(format!("group {folder} has {MOST_RULES} rules about hosts"), "remove one first, or allow all names below a host by *.HOST"));
                    }
                    c.prepare_cached(
                        "INSERT INTO egress_rules (group_folder, host, verdict, at) VALUES (?1, ?2, ?3, ?4)
                         ON CONFLICT (group_folder, host) DO UPDATE SET verdict = excluded.verdict, at = excluded.at",
                    )?
                    .execute(params![folder, name, verdict.as_str(), now.0])?;
                    forget(c, folder, &host)?;
                    (verdict, now)
                }
            };
            Ok(rule(Some(group), name, verdict.into(), Some(at)))
        })
        .await
    }

    /// Returns what a group may reach outside: its own rules, and those of `all`.
    pub fn rules_outside(&self, group: &Folder, all: &[Pattern]) -> Result<Rules> {
        let own = self.read(|c| {
            let mut rows =
                c.prepare_cached("SELECT host, verdict FROM egress_rules WHERE group_folder = ?1")?;
            let rows = rows.query_map([group.as_str()], |r| {
                Ok((r.get::<_, String>("host")?, r.word::<Verdict>("egress_rules", "verdict")?))
            })?;
            Ok(rows.collect::<rusqlite::Result<Vec<_>>>()?)
        })?;
        // Each was read once before it was stored.
        let own = own.into_iter().filter_map(|(host, verdict)| Some((host.parse().ok()?, verdict))).collect();
        Ok(Rules { all: all.to_vec(), own })
    }

    /// Returns the rules of one group or all, then what they were refused, the newest last.
    pub fn egress(&self, group: Option<&Folder>, all: &[Pattern]) -> Result<Vec<EgressRow>> {
        let folder = group.map(Folder::as_str);
        let mut rows: Vec<_> =
            all.iter().map(|host| rule(None, host.to_string(), EgressState::Allowed, None)).collect();
        rows.extend(self.read(|c| {
            let mut rules = c.prepare_cached(
                "SELECT group_folder, host, verdict, at FROM egress_rules WHERE ?1 IS NULL OR group_folder = ?1 ORDER BY at, host",
            )?;
            let mut rows = rules
                .query_map([folder], |r| {
                    let state = r.word::<Verdict>("egress_rules", "verdict")?.into();
                    Ok(rule(Some(r.folder("group_folder")?), r.get("host")?, state, r.time_or_null("at")?))
                })?
                .collect::<rusqlite::Result<Vec<_>>>()?;
            let mut refused = c.prepare_cached(
                "SELECT group_folder, place, why, times, run_id, at FROM egress_refusals
                 WHERE ?1 IS NULL OR group_folder = ?1 ORDER BY at, place",
            )?;
            let refused = refused.query_map([folder], refusal)?;
            rows.extend(refused.collect::<rusqlite::Result<Vec<_>>>()?);
            Ok(rows)
        })?);
        Ok(rows)
    }
}

fn rule(group: Option<Folder>, host: String, state: EgressState, at: Option<Time>) -> EgressRow {
    EgressRow { group, host, state, why: None, times: None, run: None, at }
}

fn refusal(r: &Row<'_>) -> rusqlite::Result<EgressRow> {
    Ok(EgressRow {
        group: Some(r.folder("group_folder")?),
        host: r.get("place")?,
        state: EgressState::Refused,
        why: Some(r.get("why")?),
        times: Some(r.get("times")?),
        run: Some(r.get("run_id")?),
        at: Some(r.time("at")?),
    })
}

/// Forgets what a group was refused and its new rule is about.
fn forget(c: &Connection, folder: &str, host: &Pattern) -> Result<()> {
    let places = c
        .prepare_cached("SELECT place FROM egress_refusals WHERE group_folder = ?1")?
        .query_map([folder], |r| r.get::<_, String>(0))?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    for place in places.iter().filter(|place| host.is_about(place)) {
        c.prepare_cached("DELETE FROM egress_refusals WHERE group_folder = ?1 AND place = ?2")?
            .execute([folder, place])?;
    }
    Ok(())
}

/// Adds what a run was refused; of each group the newest stay.
pub(super) fn add_refused(
    c: &Connection,
    run: i64,
    places: impl IntoIterator<Item = (String, (String, u64))>,
    now: Time,
) -> Result<()> {
    let mut any = false;
    for (place, (why, times)) in places {
        any = true;
        c.prepare_cached(
            "INSERT INTO egress_refusals (group_folder, place, why, times, run_id, at)
             SELECT group_folder, ?2, ?3, ?4, id, ?5 FROM runs WHERE id = ?1
             ON CONFLICT (group_folder, place) DO UPDATE SET
               why = excluded.why, times = times + excluded.times, run_id = excluded.run_id, at = excluded.at",
        )?
        .execute(params![run, place, why, times, now.0])?;
    }
    if any {
        c.prepare_cached(
            "DELETE FROM egress_refusals WHERE group_folder = (SELECT group_folder FROM runs WHERE id = ?1) AND place NOT IN
             (SELECT place FROM egress_refusals WHERE group_folder = (SELECT group_folder FROM runs WHERE id = ?1)
              ORDER BY at DESC, place LIMIT ?2)",
        )?
        .execute(params![run, KEPT_PLACES])?;
    }
    Ok(())
}
