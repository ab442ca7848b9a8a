//! A group registered by a command.

use ipc_handlers::{Folder, NotApplied, Time, effect::Registration};
use rusqlite::{Connection, OptionalExtension, params};

use crate::domain::{
    heard::approvals::name::check_seen,
    runs::group_config::{BadGroupConfig, GroupConfig},
};
use crate::store::{
    Result,
    talk::{approvals, chats, groups},
};

/// What a registration changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Registered {
    /// The group is new.
    Made,
    /// A group that was there has one more chat.
    Wired,
    /// The settings of one that was there: its live run has those of before.
    Changed,
}

/// Makes the group, or changes it, and wires it to the chat.
pub(in crate::store) fn register(
    c: &Connection,
    made: &Registration,
    now: Time,
) -> Result<std::result::Result<Registered, NotApplied>> {
    let folder = &made.folder;
    let config = match &made.config {
        None => None,
        Some(asked) => match config_with(c, folder, &serde_json::Value::from(asked.clone()).to_string())? {
            Ok(config) => Some(config),
            Err(bad) => return Ok(Err(NotApplied::BadContainerConfig { why: bad.to_string() })),
        },
    };
    let wired: bool = c
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM wirings WHERE group_folder = ?1 AND chat_jid = ?2)")?
        .query_row([folder.as_str(), &made.chat_jid], |r| r.get(0))?;
    // Its name is that of its own chat; a second one does not change it. A group that was called so before may stay, and
    // another one may be called so.
    let is_called: Option<String> = c
        .prepare_cached("SELECT name FROM groups WHERE folder = ?1")?
        .query_row([folder.as_str()], |r| r.get(0))
        .optional()?;
    let known = is_called.is_some();
    if (wired || !known)
        && is_called.as_ref() != Some(&made.name)
        && let Err(bad) = check_seen(&made.name)
    {
        return Ok(Err(NotApplied::BadName { why: bad.to_string() }));
    }
    if !known {
        if groups::leaves(c, folder)? {
            return Ok(Err(NotApplied::NameLeaves { group: folder.clone() }));
        }
        c.prepare_cached(
            "INSERT INTO groups (folder, name, is_main, trigger, config, created_at) VALUES (?1, ?2, 0, ?3, coalesce(?4, '{}'), ?5)",
        )?
        .execute(params![folder.as_str(), made.name, made.trigger, config, now.0])?;
    } else {
        c.prepare_cached(
            "UPDATE groups SET name = CASE WHEN ?4 THEN ?2 ELSE name END, config = coalesce(?3, config) WHERE folder = ?1 AND is_main = 0",
        )?
        .execute(params![folder.as_str(), made.name, config, wired])?;
    }
    open_chat(c, made, now)?;
    c.prepare_cached(
        "INSERT INTO wirings (group_folder, chat_jid, engage_mode, engage_pattern, sender_scope, ignored_message_policy, trigger, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
         ON CONFLICT (group_folder, chat_jid) DO UPDATE SET engage_mode = excluded.engage_mode, engage_pattern = excluded.engage_pattern,
           sender_scope = excluded.sender_scope, ignored_message_policy = excluded.ignored_message_policy, trigger = excluded.trigger",
    )?
    .execute(params![
        folder.as_str(), made.chat_jid, made.engage_mode.as_str(), made.engage_pattern, made.sender_scope.as_str(),
        made.ignored.as_str(), made.trigger, now.0
    ])?;
    if !wired {
        approvals::wired(c, &made.chat_jid, folder, now)?;
    }
    groups::wiring_changed(c, folder, &made.chat_jid)?;
    Ok(Ok(match known {
        false => Registered::Made,
        true if wired || made.config.is_some() => Registered::Changed,
        true => Registered::Wired,
    }))
}

/// A group's settings with those that an agent asks for, as they are stored.
fn config_with(
    c: &Connection,
    folder: &Folder,
    asked: &str,
) -> Result<std::result::Result<String, BadGroupConfig>> {
    let stored: Option<String> = c
        .prepare_cached("SELECT config FROM groups WHERE folder = ?1")?
        .query_row([folder.as_str()], |r| r.get(0))
        .optional()?;
    let config = stored
        .map_or_else(|| Ok(GroupConfig::default()), |stored| GroupConfig::from_json(&stored))
        .and_then(|config| config.with_container_config(asked))
        .and_then(|config| serde_json::to_string(&config).map_err(|e| BadGroupConfig::Json(e.to_string())));
    Ok(config)
}

/// Makes the chat's row when it is new. Each sender in a chat that nobody listened to before is heard, as in v1; the
/// policy of one that somebody listens to already stays.
fn open_chat(c: &Connection, made: &Registration, now: Time) -> Result<()> {
    chats::ensure_chat(c, &made.chat_jid, now)?;
    let listened_to: Option<i64> = c
        .prepare_cached("SELECT id FROM wirings WHERE chat_jid = ?1 LIMIT 1")?
        .query_row([&made.chat_jid], |r| r.get(0))
        .optional()?;
    c.prepare_cached(
        "UPDATE chats SET name = CASE WHEN name = jid THEN ?2 ELSE name END, unknown_sender_policy = CASE WHEN ?3 THEN 'public' ELSE unknown_sender_policy END WHERE jid = ?1",
    )?
    .execute(params![made.chat_jid, made.name, listened_to.is_none()])?;
    Ok(())
}
