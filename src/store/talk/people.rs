//! Users, what they may decide, whom groups know, and what was not heard.

use ipc_handlers::{Folder, Time};
use rusqlite::{Connection, OptionalExtension, params};

use crate::domain::{
    heard::{access::Standing, people::Role},
    rows::{Dropped, Member, User},
};
use crate::store::{
    Result, Store, StoreError, at_most,
    columns::Columns as _,
    oldest_first,
    talk::same::{self, MINE},
};

impl Store {
    /// Adds a user, or changes their name and where they are asked (`None`: as it is).
    pub async fn put_user(&self, id: &str, name: &str, dm_chat: Option<String>, now: Time) -> Result<()> {
        let (id, name) = (id.to_owned(), name.to_owned());
        self.write(move |c| {
            ensure_user(c, &id, &name, now)?;
            c.prepare_cached("UPDATE users SET name = ?2, dm_chat = coalesce(?3, dm_chat) WHERE id = ?1")?
                .execute(params![id, name, dm_chat])?;
            Ok(())
        })
        .await
    }

    /// Removes a user with their roles and memberships.
    pub async fn remove_user(&self, id: &str) -> Result<()> {
        let id = id.to_owned();
        self.write(move |c| {
            keep_an_owner(c, &id)?;
            match c.execute("DELETE FROM users WHERE id = ?1", [&id])? {
                0 => Err(StoreError::NotFound { what: "user", id: id.clone() }),
                _ => Ok(()),
            }
        })
        .await
    }

    /// Gives a user a role, everywhere or in one group.
    pub async fn grant_role(
        &self,
        id: &str,
        role: Role,
        group: Option<Folder>,
        by: &str,
        now: Time,
    ) -> Result<()> {
        let (id, by) = (id.to_owned(), by.to_owned());
        self.write(move |c| {
            if role == Role::Owner && group.is_some() {
                return Err(StoreError::refused("an owner is one everywhere", "leave the group out"));
            }
            if let Some(group) = &group {
                needs_group(c, group)?;
            }
            ensure_user(c, &id, handle(&id), now)?;
            give_role(c, &id, (role, group.as_ref()), &by, now)
        })
        .await
    }

    /// Takes a user's roles away: all of them, or that of one group.
    pub async fn revoke_roles(&self, id: &str, group: Option<Folder>) -> Result<()> {
        let id = id.to_owned();
        self.write(move |c| {
            if group.is_none() {
                keep_an_owner(c, &id)?;
            }
            match c.execute(
                "DELETE FROM roles WHERE user_id = ?1 AND (?2 IS NULL OR group_folder = ?2)",
                params![id, group.as_ref().map(Folder::as_str)],
            )? {
                0 => Err(StoreError::NotFound { what: "role of user", id: id.clone() }),
                _ => Ok(()),
            }
        })
        .await
    }

    /// Has a group know a user from now on.
    pub async fn add_member(&self, id: &str, group: Folder, by: &str, now: Time) -> Result<()> {
        let (id, by) = (id.to_owned(), by.to_owned());
        self.write(move |c| {
            needs_group(c, &group)?;
            add_member(c, &id, handle(&id), &group, &by, now)
        })
        .await
    }

    /// Has a group know a user no more. Owners and admins are known all the same.
    pub async fn remove_member(&self, id: &str, group: Folder) -> Result<()> {
        let id = id.to_owned();
        self.write(move |c| {
            match c.execute(
                "DELETE FROM members WHERE user_id = ?1 AND group_folder = ?2",
                params![id, group.as_str()],
            )? {
                0 => Err(StoreError::NotFound { what: "member", id: format!("{id} of {group}") }),
                _ => Ok(()),
            }
        })
        .await
    }

    /// Returns every user, in the order in which they were added, with their roles and memberships.
    pub async fn users(&self) -> Result<Vec<User>> {
        self.newest_users(None).await
    }

    /// Returns users in the order in which they were added; with `limit`, the newest ones.
    pub async fn newest_users(&self, limit: Option<usize>) -> Result<Vec<User>> {
        self.users_that(None, limit).await
    }

    /// Returns admins of a group in the order in which they were added: the newest ones, `limit` at most.
    pub async fn newest_admins(&self, group: &Folder, limit: usize) -> Result<Vec<User>> {
        self.users_that(Some(group.clone()), Some(limit)).await
    }

    async fn users_that(&self, admin_of: Option<Folder>, limit: Option<usize>) -> Result<Vec<User>> {
        self.ask(move |c| {
            let mut roles = c.prepare_cached(
                "SELECT role || CASE WHEN group_folder IS NULL THEN '' ELSE ':' || group_folder END FROM roles WHERE user_id = ?1 ORDER BY role DESC, group_folder",
            )?;
            let mut members =
                c.prepare_cached("SELECT group_folder FROM members WHERE user_id = ?1 ORDER BY group_folder")?;
            let mut all = c.prepare_cached("SELECT id, name, dm_chat, created_at FROM users
                 WHERE ?2 IS NULL OR EXISTS (SELECT 1 FROM roles WHERE user_id = users.id AND role = 'admin' AND group_folder = ?2)
                 ORDER BY created_at DESC, rowid DESC LIMIT ?1")?;
            let newest = all
                .query_map(params![at_most(limit), admin_of.as_ref().map(Folder::as_str)], |r| {
                    Ok(User {
                        id: r.get("id")?,
                        name: r.get("name")?,
                        dm_chat: r.get("dm_chat")?,
                        created_at: r.time("created_at")?,
                        also: Vec::new(),
                        roles: Vec::new(),
                        member_of: Vec::new(),
                    })
                })?;
            let mut users = oldest_first(newest)?;
            for user in &mut users {
                user.roles = roles.query_map([&user.id], |r| r.get(0))?.collect::<rusqlite::Result<_>>()?;
                user.also = same::others(c, &user.id)?;
                user.member_of = members.query_map([&user.id], |r| r.get(0))?.collect::<rusqlite::Result<_>>()?;
            }
            Ok(users)
        }).await
    }

    /// Returns whom groups know by a row of their own, one group's or all, in the order in which they were added.
    pub async fn members(&self, group: Option<&Folder>) -> Result<Vec<Member>> {
        self.newest_members(group, None).await
    }

    /// Returns the same; with `limit`, the newest ones.
    pub async fn newest_members(&self, group: Option<&Folder>, limit: Option<usize>) -> Result<Vec<Member>> {
        let group = group.cloned();
        self.ask(move |c| {
            let mut all = c.prepare_cached(
                "SELECT m.group_folder, m.user_id, u.name, m.added_by, m.added_at FROM members m JOIN users u ON u.id = m.user_id
                 WHERE ?1 IS NULL OR m.group_folder = ?1 ORDER BY m.added_at DESC, m.group_folder DESC, m.user_id DESC LIMIT ?2",
            )?;
            oldest_first(all.query_map(params![group.as_ref().map(Folder::as_str), at_most(limit)], |r| {
                Ok(Member {
                    group: r.folder("group_folder")?,
                    user: r.get("user_id")?,
                    name: r.get("name")?,
                    added_by: r.get("added_by")?,
                    added_at: r.time("added_at")?,
                })
            })?)
        }).await
    }

    /// Returns what a sender is to a group.
    pub async fn standing(&self, sender: &str, group: &Folder) -> Result<Standing> {
        let sender = sender.to_owned();
        let group = group.clone();
        self.ask(move |c| Ok(standing(c, &sender, &group)?)).await
    }

    /// Forgets what was not heard; returns how many rows that were.
    pub async fn clear_dropped(&self) -> Result<usize> {
        self.write(|c| Ok(c.execute("DELETE FROM dropped", [])?)).await
    }

    /// Returns what was not heard, what was counted last at the end; with `limit`, the newest rows.
    pub async fn dropped(&self, limit: Option<usize>) -> Result<Vec<Dropped>> {
        self.ask(move |c| {
            let mut all = c.prepare_cached(
                "SELECT chat_jid, NULLIF(group_folder, '') AS group_folder, sender, sender_name, rule, reason, count, first_at, last_at, last_seq
                 FROM dropped ORDER BY last_at DESC, last_seq DESC LIMIT ?1",
            )?;
            oldest_first(all
                .query_map([at_most(limit)], |r| {
                    Ok(Dropped {
                        chat_jid: r.get("chat_jid")?,
                        group: r.get("group_folder")?,
                        sender: r.get("sender")?,
                        sender_name: r.get("sender_name")?,
                        rule: r.get("rule")?,
                        reason: r.get("reason")?,
                        count: r.get("count")?,
                        first_at: r.time("first_at")?,
                        last_at: r.time("last_at")?,
                        last_seq: r.get("last_seq")?,
                    })
                })?)
        }).await
    }
}

/// Takes in that somebody wrote in a chat: of a user whom nobody gave one, their first direct chat is where they are
/// asked.
pub(in crate::store) fn learn_dm(c: &Connection, user: &str, chat: &str) -> Result<()> {
    c.prepare_cached(
        "UPDATE users SET dm_chat = ?2 WHERE id IN (SELECT ?1 UNION ALL SELECT other FROM same_person WHERE id = ?1 AND since < 0)
           AND dm_chat IS NULL AND EXISTS (SELECT 1 FROM chats WHERE jid = ?2 AND kind = 'direct')",
    )?
    .execute([user, chat])?;
    Ok(())
}

/// The chat in which a user is asked, if one is known.
pub(in crate::store) fn dm_of(c: &Connection, user: &str) -> Result<Option<String>> {
    let found: Option<Option<String>> = c
        .prepare_cached("SELECT dm_chat FROM users WHERE id = ?1")?
        .query_row([user], |r| r.get("dm_chat"))
        .optional()?;
    Ok(found.flatten())
}

/// What a sender is to a group; a group's own admins are not others'.
pub(in crate::store) fn standing(c: &Connection, sender: &str, group: &Folder) -> rusqlite::Result<Standing> {
    let found: Option<Standing> = c
        .prepare_cached(&format!(
            "{MINE} SELECT role FROM (
               SELECT role, CASE role WHEN 'owner' THEN 0 ELSE 1 END AS rank FROM mine CROSS JOIN roles ON user_id = id AND granted_at > since
                WHERE group_folder IS NULL OR group_folder = ?2
               UNION ALL SELECT 'member', 2 FROM mine CROSS JOIN members ON user_id = id AND added_at > since WHERE group_folder = ?2) ORDER BY rank LIMIT 1"
        ))?
        .query_row([sender, group.as_str()], |r| r.word("roles", 0))
        .optional()?;
    Ok(found.unwrap_or(Standing::Unknown))
}

/// Counts a message of an inbox row that would have engaged and was not heard.
pub(in crate::store) fn count_dropped(c: &Connection, n: i64, now: Time) -> Result<()> {
    c.prepare_cached(
        "INSERT INTO dropped (chat_jid, group_folder, sender, rule, sender_name, reason, first_at, last_at, last_seq)
         SELECT m.chat_jid, l.group_folder, m.sender, i.rule, m.sender_name, i.reason, ?2, ?2, m.seq
         FROM inbox i JOIN lanes l ON l.id = i.lane_id JOIN messages m ON m.seq = i.seq WHERE i.n = ?1
         ON CONFLICT DO UPDATE SET count = count + 1, last_at = excluded.last_at, last_seq = excluded.last_seq,
           reason = excluded.reason, sender_name = excluded.sender_name",
    )?
    .execute([n, now.0])?;
    Ok(())
}

/// Counts a message that no group was wired to hear.
pub(in crate::store) fn count_unwired(c: &Connection, seq: i64, why: &str, now: Time) -> Result<()> {
    c.prepare_cached(
        "INSERT INTO dropped (chat_jid, group_folder, sender, rule, sender_name, reason, first_at, last_at, last_seq)
         SELECT chat_jid, '', sender, 'unknown_chat', sender_name, ?2, ?3, ?3, seq FROM messages WHERE seq = ?1
         ON CONFLICT DO UPDATE SET count = count + 1, last_at = excluded.last_at, last_seq = max(last_seq, excluded.last_seq),
           reason = excluded.reason, sender_name = excluded.sender_name",
    )?
    .execute(params![seq, why, now.0])?;
    Ok(())
}

/// Makes a user's row when there is none.
pub(in crate::store) fn ensure_user(c: &Connection, id: &str, name: &str, now: Time) -> Result<()> {
    c.prepare_cached("INSERT INTO users (id, name, created_at) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING")?
        .execute(params![id, name, now.0])?;
    Ok(())
}

/// Gives a user a role, everywhere or in one group.
pub(in crate::store) fn give_role(
    c: &Connection,
    id: &str,
    (role, group): (Role, Option<&Folder>),
    by: &str,
    now: Time,
) -> Result<()> {
    c.prepare_cached(
        "INSERT INTO roles (user_id, role, group_folder, granted_by, granted_at) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING",
    )?
    .execute(params![id, role.as_str(), group.map(Folder::as_str), by, now.0])?;
    Ok(())
}

/// Has a user asked in this chat from now on.
pub(in crate::store) fn ask_in(c: &Connection, user: &str, chat: &str) -> Result<()> {
    c.prepare_cached("UPDATE users SET dm_chat = ?2 WHERE id = ?1")?.execute([user, chat])?;
    Ok(())
}

/// Has a group know a user, whose row is made when there is none.
pub(in crate::store) fn add_member(
    c: &Connection,
    id: &str,
    name: &str,
    group: &Folder,
    by: &str,
    now: Time,
) -> Result<()> {
    ensure_user(c, id, name, now)?;
    c.prepare_cached(
        "INSERT INTO members (user_id, group_folder, added_by, added_at) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
    )?
    .execute(params![id, group.as_str(), by, now.0])?;
    Ok(())
}

/// The part of an id that people know.
pub(in crate::store) fn handle(id: &str) -> &str {
    id.split_once(':').map_or(id, |(_, handle)| handle)
}

/// A group must be there.
pub(in crate::store) fn needs_group(c: &Connection, group: &Folder) -> Result<()> {
    let known: bool =
        c.query_row("SELECT EXISTS (SELECT 1 FROM groups WHERE folder = ?1)", [group.as_str()], |r| {
            r.get(0)
        })?;
    if known { Ok(()) } else { Err(StoreError::NotFound { what: "group", id: group.to_string() }) }
}

/// Somebody must be left to ask.
fn keep_an_owner(c: &Connection, id: &str) -> Result<()> {
    let last: bool = c.query_row(
        "SELECT EXISTS (SELECT 1 FROM roles WHERE role = 'owner' AND user_id = ?1)
            AND NOT EXISTS (SELECT 1 FROM roles WHERE role = 'owner' AND user_id <> ?1)",
        [id],
        |r| r.get(0),
    )?;
    if last {
        return Err(StoreError::refused(
            format!("{id} is the only owner"),
            "make another one first with `g2 users role USER owner`",
        ));
    }
    Ok(())
}
