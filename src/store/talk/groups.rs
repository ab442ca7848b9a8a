//! Groups, chats and wirings.

use std::collections::{BTreeMap, BTreeSet};

use ipc_handlers::{
    Folder, Time,
    effect::{EngageMode, IgnoredMessages, SenderScope},
    shown::GroupRow,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::domain::{
    heard::{
        approvals::name::check_seen,
        engage::{ChatKind, default_for},
    },
    rows::{Group, StickyThread, Wiring, WiringChanges},
    runs::group_config::{BadGroupConfig, GroupConfig, Key},
    time::zone::{Zone, Zones},
};
use crate::store::{
    Result, Store, StoreError, at_most,
    columns::Columns as _,
    oldest_first,
    talk::{approvals, chats::ensure_chat, messages::replay_held},
};

/// A group to add.
#[derive(Clone, Debug)]
pub struct NewGroup {
    pub folder: Folder,
    pub name: String,
    pub is_main: bool,
    pub trigger: String,
}

/// A wiring to add.
#[derive(Clone, Debug)]
pub struct NewWiring {
    pub group: Folder,
    pub chat_jid: String,
    pub engage_mode: EngageMode,
    pub engage_pattern: Option<String>,
    pub sender_scope: SenderScope,
    pub ignored_message_policy: IgnoredMessages,
}

impl Store {
    /// Adds a group and the chats' wirings in one go. Adding one that exists already is refused, and a name that can't be told
    /// by eye. Another group may have the name.
    pub async fn add_group(&self, group: NewGroup, wirings: Vec<NewWiring>, now: Time) -> Result<()> {
        let most = self.bounds_now().groups;
        self.write(move |c| {
            insert_group(c, &group, most, now)?;
            check_seen(&group.name).map_err(|e| StoreError::refused(e.to_string(), ""))?;
            wirings.into_iter().try_for_each(|wiring| insert_wiring(c, &wiring, now).map(drop))
        })
        .await
    }

    /// Returns every group, by folder, with its chats.
    pub async fn groups(&self) -> Result<Vec<Group>> {
        let mut groups = self.newest_groups(None).await?;
        groups.sort_by(|a, b| a.folder.cmp(&b.folder));
        Ok(groups)
    }

    /// Returns groups in the order in which they were made, with their chats; with `limit`, the newest ones.
    pub async fn newest_groups(&self, limit: Option<usize>) -> Result<Vec<Group>> {
        self.ask(move |c| {
            let newest = &format!("{GROUP} ORDER BY created_at DESC, rowid DESC LIMIT ?1");
            oldest_first(c.prepare_cached(newest)?.query_map([at_most(limit)], group_row)?)
        })
        .await
    }

    /// Returns the groups that were removed and whose mailbox may still be there. No group of such a name is made.
    pub async fn leaving(&self) -> Result<BTreeSet<Folder>> {
        self.ask(|c| {
            let mut leaving = c.prepare_cached("SELECT group_folder FROM leaving")?;
            Ok(leaving.query_map([], |r| r.folder(0))?.collect::<rusqlite::Result<_>>()?)
        })
        .await
    }

    /// Has no group of this name be made until [`Store::has_left`]; returns `false` where there is one.
    pub async fn leave(&self, group: Folder) -> Result<bool> {
        self.write(move |c| {
            let is_free = !is_known(c, &group)?;
            if is_free {
                leave(c, &group)?;
            }
            Ok(is_free)
        })
        .await
    }

    /// Takes in that nothing is left of a group that was removed: its name is free.
    pub async fn has_left(&self, group: Folder) -> Result<()> {
        self.write(move |c| {
            c.execute("DELETE FROM leaving WHERE group_folder = ?1", [group.as_str()])?;
            Ok(())
        })
        .await
    }

    /// Returns the chat that was wired to the privileged group first.
    pub async fn chat_of_main(&self) -> Result<Option<String>> {
        self.ask(move |c| {
            Ok(c.prepare_cached("SELECT chat_jid FROM wirings WHERE group_folder = (SELECT folder FROM groups WHERE is_main = 1) ORDER BY id LIMIT 1")?
                .query_row([], |r| r.get(0))
                .optional()?)
        }).await
    }

    /// Returns one group.
    pub async fn group(&self, group: &Folder) -> Result<Option<Group>> {
        let group = group.clone();
        self.ask(move |c| {
            Ok(c.prepare_cached(&format!("{GROUP} WHERE folder = ?1"))?
                .query_row([group.as_str()], group_row)
                .optional()?)
        })
        .await
    }

    /// Returns the zone of a group: its own, otherwise everybody's.
    pub async fn zone_of(&self, group: &Folder, zones: &Zones) -> Result<Zone> {
        let group = group.clone();
        let zones = zones.clone();
        self.ask(move |c| zone_of(c, &group, &zones)).await
    }

    /// Wires a chat to a group; the chat is made when it is new.
    pub async fn add_wiring(&self, wiring: NewWiring, now: Time) -> Result<i64> {
        self.write(move |c| insert_wiring(c, &wiring, now)).await
    }

    /// Changes a wiring, all of it or nothing. Messages that it holds are judged again.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub async fn set_wiring(&self, group: Folder, chat_jid: &str, changes: WiringChanges) -> Result<()> {
        let chat = chat_jid.to_owned();
        let WiringChanges { engage, pattern, sender_scope, ignored } = changes;
        self.write(move |c| {
            for (set, value) in [
                ("engage_mode = ?3, engage_pattern = CASE WHEN ?3 = 'pattern' THEN coalesce(engage_pattern, '.') END", engage.map(EngageMode::as_str)),
                ("engage_mode = 'pattern', engage_pattern = ?3", pattern.as_deref()),
                ("sender_scope = ?3", sender_scope.map(SenderScope::as_str)),
                ("ignored_message_policy = ?3", ignored.map(IgnoredMessages::as_str)),
            ] {
                let Some(value) = value else { continue };
                let sql = format!("UPDATE wirings SET {set} WHERE group_folder = ?1 AND chat_jid = ?2");
                if c.execute(&sql, params![group.as_str(), chat, value])? == 0 {
                    return Err(StoreError::NotFound { what: "wiring", id: format!("{group} {chat}") });
                }
            }
            wiring_changed(c, &group, &chat)
        })
        .await
    }

    /// Removes a wiring. What waits in its lanes is no longer judged or handed over.
    pub async fn remove_wiring(&self, group: Folder, chat_jid: &str) -> Result<()> {
        let chat = chat_jid.to_owned();
        self.write(move |c| {
            match c.execute(
                "DELETE FROM wirings WHERE group_folder = ?1 AND chat_jid = ?2",
                params![group.as_str(), chat],
            )? {
                0 => Err(StoreError::NotFound { what: "wiring", id: format!("{group} {chat}") }),
                _ => wiring_changed(c, &group, &chat),
            }
        })
        .await
    }

    /// Has a group's agent wait in a chat until it is addressed again: in one thread (empty: the chat itself), or
    /// everywhere. Returns how many marks that were.
    pub async fn unstick(&self, group: Folder, chat_jid: &str, thread: Option<String>) -> Result<usize> {
        let chat = chat_jid.to_owned();
        self.write(move |c| {
            Ok(c.execute(
                "UPDATE lanes SET sticky_at = NULL WHERE group_folder = ?1 AND chat_jid = ?2 AND (?3 IS NULL OR thread = ?3) AND sticky_at IS NOT NULL",
                params![group.as_str(), chat, thread],
            )?)
        })
        .await
    }

    /// Returns every wiring, in the order in which they were made.
    pub async fn wirings(&self) -> Result<Vec<Wiring>> {
        self.newest_wirings(None).await
    }

    /// Returns wirings in the order in which they were made; with `limit`, the newest ones.
    pub async fn newest_wirings(&self, limit: Option<usize>) -> Result<Vec<Wiring>> {
        self.wirings_that(None, limit).await
    }

    /// Returns wirings of one group in the order in which they were made: the newest ones, `limit` at most.
    pub async fn newest_wirings_of(&self, group: &Folder, limit: usize) -> Result<Vec<Wiring>> {
        self.wirings_that(Some(group.clone()), Some(limit)).await
    }

    async fn wirings_that(&self, group: Option<Folder>, limit: Option<usize>) -> Result<Vec<Wiring>> {
        self.ask(move |c| {
            let mut sticky = c.prepare_cached(
                "SELECT thread, sticky_at FROM lanes WHERE group_folder = ?1 AND chat_jid = ?2 AND sticky_at IS NOT NULL ORDER BY thread",
            )?;
            let mut all = c.prepare_cached("SELECT id, group_folder, chat_jid, engage_mode, engage_pattern, sender_scope, ignored_message_policy, trigger FROM wirings WHERE ?2 IS NULL OR group_folder = ?2 ORDER BY id DESC LIMIT ?1")?;
            let newest = all
                .query_map(params![at_most(limit), group.as_ref().map(Folder::as_str)], |r| {
                    Ok(Wiring {
                        id: r.get("id")?,
                        group: r.folder("group_folder")?,
                        chat_jid: r.get("chat_jid")?,
                        engage_mode: r.word("wirings", "engage_mode")?,
                        engage_pattern: r.get("engage_pattern")?,
                        sender_scope: r.word("wirings", "sender_scope")?,
                        ignored_message_policy: r.word("wirings", "ignored_message_policy")?,
                        trigger: r.get("trigger")?,
                        sticky: Vec::new(),
                    })
                })?;
            let mut wirings = oldest_first(newest)?;
            for wiring in wirings.iter_mut().filter(|w| w.engage_mode == EngageMode::MentionSticky) {
                wiring.sticky = sticky
                    .query_map([wiring.group.as_str(), &wiring.chat_jid], |r| {
                        Ok(StickyThread { thread: r.get("thread")?, since: r.time("sticky_at")? })
                    })?
                    .collect::<rusqlite::Result<_>>()?;
            }
            Ok(wirings)
        }).await
    }
}

/// Changes a group, all of it or nothing; see [`Store::set_group`].
pub(in crate::store) fn set(c: &Connection, group: &Folder, settings: &BTreeMap<Key, String>) -> Result<()> {
    let stored: Option<String> = c
        .query_row("SELECT config FROM groups WHERE folder = ?1", [group.as_str()], |r| r.get(0))
        .optional()?;
    let Some(stored) = stored else {
        return Err(StoreError::NotFound { what: "group", id: group.to_string() });
    };
    let refused = |e: BadGroupConfig| StoreError::refused(e.to_string(), e.hint());
    let mut config = None;
    for (key, value) in settings {
        if *key == Key::Name {
            check_seen(value).map_err(|e| StoreError::refused(e.to_string(), ""))?;
        }
        let sql = match key {
            Key::Name => "UPDATE groups SET name = ?2 WHERE folder = ?1",
            Key::Trigger => "UPDATE groups SET trigger = ?2 WHERE folder = ?1",
            Key::Provider => "UPDATE groups SET provider = NULLIF(?2, '') WHERE folder = ?1",
            Key::Script => "UPDATE groups SET script = NULLIF(?2, '') WHERE folder = ?1",
            Key::Image => "UPDATE groups SET image = NULLIF(?2, '') WHERE folder = ?1",
            key => {
                let before = config.take().map_or_else(|| GroupConfig::from_json(&stored), Ok);
                config = Some(before.and_then(|config| config.with(*key, value)).map_err(refused)?);
                continue;
            }
        };
        c.execute(sql, params![group.as_str(), value])?;
    }
    if let Some(config) = config {
        let json = serde_json::to_string(&config)
            .map_err(|e| StoreError::refused(format!("the settings can't be stored: {e}"), ""))?;
        c.execute("UPDATE groups SET config = ?2 WHERE folder = ?1", params![group.as_str(), json])?;
    }
    Ok(())
}

/// Removes a group with all that is only its own. Its name stays taken until its mailbox is gone.
pub(in crate::store) fn remove(c: &Connection, group: &Folder) -> Result<()> {
    match c.execute("DELETE FROM groups WHERE folder = ?1", [group.as_str()])? {
        0 => Err(StoreError::NotFound { what: "group", id: group.to_string() }),
        _ => leave(c, group),
    }
}

fn leave(c: &Connection, group: &Folder) -> Result<()> {
    c.execute("INSERT INTO leaving (group_folder) VALUES (?1) ON CONFLICT DO NOTHING", [group.as_str()])?;
    Ok(())
}

/// Whether a group was removed and its mailbox is still there.
pub(in crate::store) fn leaves(c: &Connection, group: &Folder) -> Result<bool> {
    Ok(c.prepare_cached("SELECT EXISTS (SELECT 1 FROM leaving WHERE group_folder = ?1)")?
        .query_row([group.as_str()], |r| r.get(0))?)
}

/// Returns whether a group is the privileged one; `None`: there is no such group.
pub(in crate::store) fn is_main(c: &Connection, group: &Folder) -> Result<Option<bool>> {
    Ok(c.prepare_cached("SELECT is_main FROM groups WHERE folder = ?1")?
        .query_row([group.as_str()], |r| r.get(0))
        .optional()?)
}

/// Returns the main group.
pub(in crate::store) fn main(c: &Connection) -> Result<Option<Folder>> {
    Ok(c.prepare_cached("SELECT folder FROM groups WHERE is_main = 1")?
        .query_row([], |r| r.folder(0))
        .optional()?)
}

/// Returns the main group, with the chat that was wired to it first.
pub(in crate::store) fn main_and_its_chat(c: &Connection) -> Result<Option<(Folder, Option<String>)>> {
    Ok(c.prepare_cached(
        "SELECT folder, (SELECT w.chat_jid FROM wirings w WHERE w.group_folder = folder ORDER BY w.id LIMIT 1) AS chat FROM groups WHERE is_main = 1",
    )?
    .query_row([], |r| Ok((r.folder("folder")?, r.get("chat")?)))
    .optional()?)
}

/// Whether there is such a group.
pub(in crate::store) fn is_known(c: &Connection, group: &Folder) -> Result<bool> {
    Ok(is_main(c, group)?.is_some())
}

/// Returns the chats that are wired to a group, the first one first.
pub(in crate::store) fn chats_of(c: &Connection, group: &Folder) -> Result<Vec<String>> {
    Ok(c.prepare_cached("SELECT chat_jid FROM wirings WHERE group_folder = ?1 ORDER BY id")?
        .query_map([group.as_str()], |r| r.get(0))?
        .collect::<rusqlite::Result<_>>()?)
}

/// Returns the groups that a chat is wired to, the first one first.
pub(in crate::store) fn groups_of(c: &Connection, jid: &str) -> Result<Vec<Folder>> {
    Ok(c.prepare_cached("SELECT group_folder FROM wirings WHERE chat_jid = ?1 ORDER BY id")?
        .query_map([jid], |r| r.folder(0))?
        .collect::<rusqlite::Result<_>>()?)
}

/// Reads a group's zone; everybody's for one that is gone.
pub(in crate::store) fn zone_of(c: &Connection, group: &Folder, zones: &Zones) -> Result<Zone> {
    let own: Option<String> = c
        .prepare_cached("SELECT config ->> '$.timezone' FROM groups WHERE folder = ?1")?
        .query_row([group.as_str()], |r| r.get(0))
        .optional()?
        .flatten();
    Ok(zones.of(own.as_deref()))
}

/// What a chat takes in a list beside its address and its name, bytes.
const CHAT_ROW: usize = 160;

/// The group chats, newest activity first, as many as fit into `room` bytes of JSON, and how many more there are.
pub(in crate::store) fn available(c: &Connection, room: u64) -> Result<(Vec<GroupRow>, usize)> {
    let mut left = usize::try_from(room).unwrap_or(usize::MAX);
    let (mut groups, mut more) = (Vec::new(), 0);
    let mut chats = c.prepare_cached(
        "SELECT jid, name, (SELECT max(m.received_at) FROM messages m WHERE m.seq = (SELECT max(seq) FROM messages x WHERE x.chat_jid = jid)) AS last,
                EXISTS (SELECT 1 FROM wirings w WHERE w.chat_jid = jid) AS is_registered
         FROM chats WHERE kind = 'group' ORDER BY last DESC, jid",
    )?;
    let mut rows = chats.query([])?;
    while let Some(row) = rows.next()? {
        let (jid, name): (String, String) = (row.get("jid")?, row.get("name")?);
        // As JSON each of their bytes is six at most.
        let bytes = CHAT_ROW + 6 * (jid.len() + name.len());
        if more > 0 || bytes > left {
            more += 1;
            continue;
        }
        left -= bytes;
        groups.push(GroupRow {
            jid,
            name,
            last_activity: row.time_or_null("last")?,
            is_registered: row.get("is_registered")?,
        });
    }
    Ok((groups, more))
}

/// A group with its chats, the first one first. One statement: a read of many groups takes the store's lock once.
const GROUP: &str = "SELECT folder, name, is_main, trigger, provider, script, image, config,
    (SELECT json_group_array(w.chat_jid ORDER BY w.id) FROM wirings w WHERE w.group_folder = folder) AS chats
  FROM groups";

fn group_row(r: &Row<'_>) -> rusqlite::Result<Group> {
    Ok(Group {
        folder: r.folder("folder")?,
        name: r.get("name")?,
        is_main: r.get("is_main")?,
        trigger: r.get("trigger")?,
        provider: r.get("provider")?,
        script: r.get("script")?,
        image: r.get("image")?,
        config: serde_json::from_str(&r.get::<_, String>("config")?).unwrap_or_default(),
        chats: r.json("wirings", "chats")?,
    })
}

/// What a change of a wiring brings along: a mark lasts as long as its wiring is `mention-sticky`, and what was held is
/// judged again.
pub(in crate::store) fn wiring_changed(c: &Connection, group: &Folder, chat: &str) -> Result<()> {
    c.prepare_cached(
        "UPDATE lanes SET sticky_at = NULL WHERE group_folder = ?1 AND chat_jid = ?2 AND sticky_at IS NOT NULL
           AND NOT EXISTS (SELECT 1 FROM wirings WHERE group_folder = ?1 AND chat_jid = ?2 AND engage_mode = 'mention-sticky')",
    )?
    .execute([group.as_str(), chat])?;
    replay_held(c, group, chat)
}

/// Returns what each group is called, by folder.
pub(in crate::store) fn names(c: &Connection) -> Result<Vec<(Folder, String)>> {
    c.prepare_cached("SELECT folder, name FROM groups ORDER BY folder")?
        .query_map([], |r| Ok((r.folder("folder")?, r.get("name")?)))?
        .collect::<rusqlite::Result<_>>()
        .map_err(StoreError::from)
}

/// There are as many groups as may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "There are {count} groups, and limits.groups allows {most}: remove one with `g2 groups remove`, or raise limits.groups"
)]
pub(in crate::store) struct TooManyGroups {
    count: usize,
    most: usize,
}

/// Returns how many groups there are.
pub(in crate::store) fn count(c: &Connection) -> Result<usize> {
    Ok(c.prepare_cached("SELECT count(*) FROM groups")?.query_row([], |r| r.get(0))?)
}

/// Whether one more group may be made.
pub(in crate::store) fn check_room(
    c: &Connection,
    most: usize,
) -> Result<std::result::Result<(), TooManyGroups>> {
    let count = count(c)?;
    Ok(if count < most { Ok(()) } else { Err(TooManyGroups { count, most }) })
}

/// Adds a group. Adding one that exists already is refused, and one more than `most`.
pub(in crate::store) fn insert_group(c: &Connection, group: &NewGroup, most: usize, now: Time) -> Result<()> {
    let known: bool = c.query_row(
        "SELECT EXISTS (SELECT 1 FROM groups WHERE folder = ?1)",
        [group.folder.as_str()],
        |r| r.get(0),
    )?;
    if known {
        return Err(StoreError::refused(
            format!("group {0} exists already", group.folder),
            format!("wire another chat to it with `g2 wirings add --group {0} --chat JID`", group.folder),
        ));
    }
    check_room(c, most)?.map_err(|full| StoreError::refused(full.to_string(), ""))?;
    if leaves(c, &group.folder)? {
        return Err(StoreError::refused(
            format!("an earlier group {} is being removed, which the daemon finishes", group.folder),
            "try again in a minute",
        ));
    }
    c.execute(
        "INSERT INTO groups (folder, name, is_main, trigger, created_at) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![group.folder.as_str(), group.name, group.is_main, group.trigger, now.0],
    )
    .map_err(|error| match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::ConstraintViolation) => {
            StoreError::refused("there is a main group already, and only one may be", "")
        }
        Some(_) | None => error.into(),
    })?;
    Ok(())
}

/// Wires a chat to a group as its kind asks for, unless it is wired to it; returns the kind.
pub(in crate::store) fn wire_by_default(
    c: &Connection,
    group: &Folder,
    jid: &str,
    now: Time,
) -> Result<ChatKind> {
    let kind = c
        .prepare_cached("SELECT kind, threaded FROM chats WHERE jid = ?1")?
        .query_row([jid], |r| Ok(ChatKind::of_columns(r.word("chats", "kind")?, r.get("threaded")?)))?;
    let (mode, ignored) = default_for(kind);
    let (engage_mode, engage_pattern) = mode.columns();
    c.prepare_cached(
        "INSERT INTO wirings (group_folder, chat_jid, engage_mode, engage_pattern, ignored_message_policy, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (group_folder, chat_jid) DO NOTHING",
    )?
    .execute(params![group.as_str(), jid, engage_mode.as_str(), engage_pattern, ignored.as_str(), now.0])?;
    Ok(kind)
}

fn insert_wiring(c: &Connection, wiring: &NewWiring, now: Time) -> Result<i64> {
    let group = &wiring.group;
    let known: bool =
        c.query_row("SELECT EXISTS (SELECT 1 FROM groups WHERE folder = ?1)", [group.as_str()], |r| {
            r.get(0)
        })?;
    if !known {
        return Err(StoreError::NotFound { what: "group", id: group.to_string() });
    }
    ensure_chat(c, &wiring.chat_jid, now)?;
    let inserted = c.execute(
        "INSERT INTO wirings (group_folder, chat_jid, engage_mode, engage_pattern, sender_scope, ignored_message_policy, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (group_folder, chat_jid) DO NOTHING",
        params![group.as_str(), wiring.chat_jid, wiring.engage_mode.as_str(), wiring.engage_pattern, wiring.sender_scope.as_str(), wiring.ignored_message_policy.as_str(), now.0],
    )?;
    if inserted == 0 {
        return Err(StoreError::refused(
            format!("chat {} is wired to group {group} already", wiring.chat_jid),
            "change it with `g2 wirings set`",
        ));
    }
    let id = c.last_insert_rowid();
    approvals::wired(c, &wiring.chat_jid, group, now)?;
    Ok(id)
}
