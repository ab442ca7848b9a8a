//! Ids of one person, as their account tells them. What somebody may do, is, or was asked about, holds for all of their ids.
//!
//! [`MINE`] is the one place that says which ids these are.

use std::collections::BTreeMap;

use ipc_handlers::Time;
use rusqlite::{Connection, params};

use crate::{
    domain::heard::same::{Moved, Person, Regrouped, regroup},
    store::{Result, audit},
};

/// How many ids are kept of an account.
const MOST: i64 = if cfg!(test) { 20 } else { 20_000 };
/// How many make room at once.
const ROOM: i64 = if cfg!(test) { 2 } else { 200 };
/// A statement that says nothing new is noted as often, ms: it is known then that it still holds.
const NOTED_MS: i64 = 86_400_000;
/// How often the audit tells of one id, at most, ms.
const SAID_MS: i64 = 3_600_000;

/// The ids of the person who has the id `?1`, and since when a right that was given to each is theirs: the beginning of a statement.
pub(in crate::store) const MINE: &str =
    "WITH mine (id, since) AS (SELECT ?1, -1 UNION ALL SELECT other, since FROM same_person WHERE id = ?1)";

/// Returns the other ids of the person who has an id.
pub(in crate::store) fn others(c: &Connection, id: &str) -> rusqlite::Result<Vec<String>> {
    c.prepare_cached("SELECT other FROM same_person WHERE id = ?1 ORDER BY other")?
        .query_map([id], |r| r.get("other"))?
        .collect()
}

/// Returns those of them that never were another person's.
pub(in crate::store) fn always(c: &Connection, id: &str) -> rusqlite::Result<Vec<String>> {
    c.prepare_cached("SELECT other FROM same_person WHERE id = ?1 AND since < 0 ORDER BY other")?
        .query_map([id], |r| r.get("other"))?
        .collect()
}

/// Whether two ids are one person's.
pub(in crate::store) fn is_one(c: &Connection, one: &str, other: &str) -> Result<bool> {
    let mut found =
        c.prepare_cached("SELECT EXISTS (SELECT 1 FROM same_person WHERE id = ?1 AND other = ?2)")?;
    Ok(one == other || found.query_row([one, other], |r| r.get(0))?)
}

/// Takes in which ids are one person's. What it changes for somebody who is known here stands in the audit.
pub(in crate::store) fn learn(c: &Connection, channel: &str, told: &Person, now: Time) -> Result<()> {
    let known = known(c, told)?;
    let Regrouped { person, joins, leaves } = match regroup(told, &known) {
        nothing if nothing.is_nothing() => return still(c, told, now),
        regrouped => regrouped,
    };
    if joins.iter().any(|(id, _)| !known.contains_key(id)) && !has_room(c, channel)? {
        return Ok(());
    }
    let person = match person {
        Some(person) => person,
        None => c
            .prepare_cached(
                "SELECT coalesce(max(person), 0) + 1 AS next FROM person_ids WHERE person IS NOT NULL",
            )?
            .query_row([], |r| r.get("next"))?,
    };
    for id in &leaves {
        c.prepare_cached("UPDATE person_ids SET person = NULL, told_at = ?2, moved_at = ?2 WHERE id = ?1")?
            .execute(params![id, now.0])?;
    }
    for (id, moved) in &joins {
        let moved_at = (*moved == Moved::Yes).then_some(now.0);
        c.prepare_cached(
            "INSERT INTO person_ids (id, channel, person, told_at, moved_at) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (id) DO UPDATE SET person = excluded.person, told_at = excluded.told_at, moved_at = coalesce(excluded.moved_at, moved_at)",
        )?
        .execute(params![id, channel, person, now.0, moved_at])?;
    }
    let changed = told.ids().map(str::to_owned).chain(leaves).chain(known.into_keys());
    let mut changed: Vec<String> = changed.collect();
    changed.sort();
    changed.dedup();
    changed.iter().try_for_each(|id| tell(c, channel, id, now))
}

/// Returns the persons of the ids of a statement, and all other ids of these.
fn known(c: &Connection, told: &Person) -> Result<BTreeMap<String, i64>> {
    let stated = serde_json::json!(told.ids().collect::<Vec<_>>()).to_string();
    Ok(c.prepare_cached(
        "SELECT id, person FROM person_ids WHERE person IN
           (SELECT person FROM person_ids WHERE person IS NOT NULL AND id IN (SELECT value FROM json_each(?1)))",
    )?
    .query_map([stated], |r| Ok((r.get("id")?, r.get("person")?)))?
    .collect::<rusqlite::Result<_>>()?)
}

/// A statement holds still. That is written down once a day.
fn still(c: &Connection, told: &Person, now: Time) -> Result<()> {
    for id in told.ids() {
        c.prepare_cached("UPDATE person_ids SET told_at = ?2 WHERE id = ?1 AND told_at < ?3")?
            .execute(params![id, now.0, now.plus_ms(-NOTED_MS).0])?;
    }
    Ok(())
}

/// Whether more ids of an account are kept. If there are too many, those that were told longest ago go, as long as nobody is known by
/// them.
fn has_room(c: &Connection, channel: &str) -> Result<bool> {
    let count = || -> rusqlite::Result<i64> {
        c.prepare_cached("SELECT count(*) AS count FROM person_ids WHERE channel = ?1")?
            .query_row([channel], |r| r.get("count"))
    };
    if count()? < MOST {
        return Ok(true);
    }
    let gone = c
        .prepare_cached(
            "DELETE FROM person_ids WHERE id IN (SELECT p.id FROM person_ids p INDEXED BY person_ids_by_channel
               WHERE p.channel = ?1 AND NOT EXISTS (SELECT 1 FROM users u WHERE u.id = p.id)
                 AND NOT EXISTS (SELECT 1 FROM same_person s JOIN users u ON u.id = s.other WHERE s.id = p.id)
               ORDER BY p.told_at LIMIT ?2)",
        )?
        .execute(params![channel, ROOM])?;
    Ok(gone > 0 && count()? < MOST)
}

/// Notes in the audit by which ids somebody is known from now on who has a role here, or whom a group knows; of each id at most once
/// in an hour.
fn tell(c: &Connection, channel: &str, id: &str, now: Time) -> Result<()> {
    let is_new = c
        .prepare_cached(
            "UPDATE person_ids SET said_at = ?2 WHERE id = ?1 AND coalesce(said_at NOT BETWEEN ?3 AND ?2, 1)
               AND (EXISTS (SELECT 1 FROM roles WHERE user_id = ?1) OR EXISTS (SELECT 1 FROM members WHERE user_id = ?1))",
        )?
        .execute(params![id, now.0, now.plus_ms(-SAID_MS).0])?;
    if is_new == 0 {
        return Ok(());
    }
    let also = match others(c, id)? {
        none if none.is_empty() => "no other id".to_owned(),
        others => others.join(", "),
    };
    audit::append_in_chat(c, channel, format!("{id} has {also} beside it, as the account tells"), now)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap as Map;

    use ipc_handlers::Folder;

    use super::*;
    use crate::{
        domain::heard::{access::Standing, people::Role},
        store::{Arrival, NewGroup, Store},
    };

    struct World {
        store: Store,
        _dir: tempfile::TempDir,
    }

    impl World {
        async fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let store = Store::open(&dir.path().join("g2.sqlite")).unwrap();
            let group = NewGroup {
                folder: Folder::parse("main").unwrap(),
                name: "main".into(),
                trigger: "@G2".into(),
                is_main: true,
            };
            store.add_group(group, Vec::new(), Time(0)).await.unwrap();
            Self { store, _dir: dir }
        }

        async fn tell(&self, ids: &str, now: i64) {
            let ids: Vec<String> = ids.split(' ').map(str::to_owned).collect();
            let person = Person::told("wa", &ids[0], &ids[1..]).unwrap();
            let told = Arrival::By { person, then: Box::new(Arrival::Nothing) };
            self.store.arrive("wa", Map::new(), told, Time(now)).await.unwrap();
        }

        async fn is(&self, id: &str) -> Standing {
            self.store.standing(&format!("wa:{id}"), &Folder::parse("main").unwrap()).await.unwrap()
        }

        async fn also(&self, id: &'static str) -> Vec<String> {
            self.store.ask(move |c| Ok(others(c, id)?)).await.unwrap()
        }

        async fn audit(&self) -> Vec<String> {
            let rows = "SELECT who || ' ' || what FROM audit ORDER BY id";
            self.store
                .ask(|c| {
                    Ok(c.prepare(rows)?.query_map([], |r| r.get(0))?.collect::<rusqlite::Result<_>>()?)
                })
                .await
                .unwrap()
        }
    }

    #[tokio::test]
    async fn somebody_is_known_by_any_of_their_ids_and_nobody_by_those_of_another_account() {
        let world = World::new().await;
        world.store.grant_role("wa:1", Role::Owner, None, "t", Time(10)).await.unwrap();
        assert_eq!(world.is("lid").await, Standing::Unknown);
        world.tell("lid 1", 20).await;
        assert_eq!((world.is("lid").await, world.is("1").await), (Standing::Owner, Standing::Owner));
        assert_eq!(world.audit().await, ["wa wa:1 has wa:lid beside it, as the account tells"]);
        // An adapter that names ids of another account names odd ones of its own.
        world.store.grant_role("tg:7", Role::Owner, None, "t", Time(10)).await.unwrap();
        world.tell("eve tg:7", 30).await;
        assert_eq!(world.is("eve").await, Standing::Unknown);
        let main = Folder::parse("main").unwrap();
        world.store.add_member("wa:bob2", main, "t", Time(40)).await.unwrap();
        world.tell("bob1 bob2 bob3", 50).await;
        assert_eq!((world.is("bob1").await, world.is("bob3").await), (Standing::Member, Standing::Member));
        assert_eq!(world.also("wa:bob1").await, ["wa:bob2", "wa:bob3"]);
    }

    #[tokio::test]
    async fn a_number_that_goes_to_somebody_else_takes_no_rights_along_but_those_of_its_own() {
        let world = World::new().await;
        world.store.grant_role("wa:1", Role::Owner, None, "t", Time(10)).await.unwrap();
        world.tell("ada 1", 20).await;
        world.tell("eve 1", 30).await;
        let all = [world.is("ada").await, world.is("eve").await, world.is("1").await];
        assert_eq!(all, [Standing::Unknown, Standing::Unknown, Standing::Owner]);
        // Who gives a right now knows whose it is.
        world.store.grant_role("wa:ada", Role::Owner, None, "t", Time(35)).await.unwrap();
        world.store.revoke_roles("wa:1", None).await.unwrap();
        world.store.grant_role("wa:1", Role::Admin, None, "t", Time(40)).await.unwrap();
        assert_eq!((world.is("eve").await, world.is("ada").await), (Standing::Admin, Standing::Owner));
        // It comes back, and again it takes nothing along.
        world.tell("ada 1", 50).await;
        assert_eq!((world.is("ada").await, world.is("eve").await), (Standing::Owner, Standing::Unknown));
        // Within an hour the audit tells of an id once.
        assert_eq!(world.audit().await.len(), 2);
        world.tell("ada 2", 21 + SAID_MS).await;
        assert_eq!(world.audit().await.len(), 3);
    }

    #[tokio::test]
    async fn an_account_has_so_many_ids_and_those_of_strangers_make_room() {
        let world = World::new().await;
        world.store.grant_role("wa:0", Role::Owner, None, "t", Time(0)).await.unwrap();
        for n in 0..MOST {
            world.tell(&format!("{n} a{n}"), n).await;
        }
        let count = "SELECT count(*) FROM person_ids";
        let count =
            world.store.ask(move |c| Ok(c.query_row(count, [], |r| r.get::<_, i64>(0))?)).await.unwrap();
        assert!(count <= MOST, "{count}");
        assert_eq!(world.is("a0").await, Standing::Owner);
        assert_eq!(world.also("wa:1").await, [""; 0]);
        assert_eq!(world.also("wa:19").await, ["wa:a19"]);
    }
}
