//! Groups, chats and wirings that move in.

use ipc_handlers::Folder;
use rusqlite::{OptionalExtension as _, params};

use super::{Came, Door};
use crate::{
    domain::{
        heard::approvals::name::check_seen,
        moved::rows::{Chat, Group, Wiring},
        runs::group_config::GroupConfig,
    },
    store::Result,
};

impl Door<'_> {
    pub(super) fn group(&mut self, group: &Group) -> Result<Came> {
        let Group {
            folder,
            name,
            is_main,
            trigger,
            provider,
            script,
            image,
            config,
            held: _,
            hosts: _,
            created_at,
        } = group;
        let config = serde_json::Value::Object(config.clone()).to_string();
        if let Err(error) = GroupConfig::from_json(&config) {
            return Came::left(error.to_string());
        }
        if let Err(error) = check_seen(name) {
            return Came::left(error.to_string());
        }
        let values = params![folder.as_str(), name, trigger, provider, script, image, config, created_at.0];
        if self.has_group(folder)? {
            let is_main_here = self.is_main(folder)?;
            if self.is_untouched(folder)? {
                self.c
                    .prepare_cached(
                        "UPDATE groups SET name = ?2, trigger = ?3, provider = ?4, script = ?5, image = ?6, config = ?7, created_at = ?8 WHERE folder = ?1",
                    )?
                    .execute(values)?;
                // Its rights are those that it had there.
                if is_main_here != *is_main && (!*is_main || self.makes_room_for_main()?) {
                    self.c
                        .prepare_cached("UPDATE groups SET is_main = ?2 WHERE folder = ?1")?
                        .execute(params![folder.as_str(), is_main])?;
                }
                self.put_rules(group)?;
            } else if is_main_here && !*is_main {
                return Came::left(
                    "the main group here has its folder, and is at work: what is of a plain group does not go to it",
                );
            } else {
                self.changes.push(
                    "a group of this folder is at work here: its name and its settings stay".to_owned(),
                );
            }
            return Ok(Came::New(folder.to_string()));
        }
        let is_leaving: bool = self
            .c
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM leaving WHERE group_folder = ?1)")?
            .query_row([folder.as_str()], |r| r.get(0))?;
        if is_leaving {
            return Came::left(
                "an earlier group of this folder is still being removed; start the daemon once",
            );
        }
        self.c
            .prepare_cached(
                "INSERT INTO groups (folder, name, trigger, provider, script, image, config, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?
            .execute(values)?;
        if *is_main && self.makes_room_for_main()? {
            self.c.execute("UPDATE groups SET is_main = 1 WHERE folder = ?1", [folder.as_str()])?;
        }
        self.put_rules(group)?;
        Ok(Came::New(folder.to_string()))
    }

    /// Puts what belongs to a group that comes as it was there: rules about hosts, and that a person held it.
    fn put_rules(&self, group: &Group) -> Result<()> {
        if let Some(held) = &group.held {
            self.c
                .prepare_cached(
                    "INSERT INTO holds (group_folder, box, name, reason, at, aside) VALUES (?1, '', x'', ?2, ?3, 0)
                     ON CONFLICT DO NOTHING",
                )?
                .execute(params![group.folder.as_str(), held.reason, held.since.0])?;
        }
        for host in &group.hosts {
            self.c
                .prepare_cached(
                    "INSERT INTO egress_rules (group_folder, host, verdict, at) VALUES (?1, ?2, ?3, ?4)
                     ON CONFLICT (group_folder, host) DO NOTHING",
                )?
                .execute(params![
                    group.folder.as_str(),
                    host.host,
                    if host.allowed { "allow" } else { "deny" },
                    host.at.0
                ])?;
        }
        Ok(())
    }

    /// Whether a group is as a new root has it: nobody wrote to it, and nothing ran.
    fn is_untouched(&self, folder: &Folder) -> Result<bool> {
        Ok(self
            .c
            .prepare_cached(
                "SELECT NOT EXISTS (SELECT 1 FROM imported WHERE kind = 'group' AND own = ?1) AS untouched",
            )?
            .query_row([folder.as_str()], |r| r.get::<_, bool>("untouched"))?
            && self.is_unheard(folder)?)
    }

    fn is_main(&self, folder: &Folder) -> Result<bool> {
        Ok(self
            .c
            .prepare_cached("SELECT is_main FROM groups WHERE folder = ?1")?
            .query_row([folder.as_str()], |r| r.get("is_main"))?)
    }

    /// Whether nothing was ever said in a group, or ran.
    fn is_unheard(&self, folder: &Folder) -> Result<bool> {
        Ok(self
            .c
            .prepare_cached(
                "SELECT NOT EXISTS (SELECT 1 FROM lanes WHERE group_folder = ?1) AND NOT EXISTS (SELECT 1 FROM runs WHERE group_folder = ?1) AS unheard",
            )?
            .query_row([folder.as_str()], |r| r.get("unheard"))?)
    }

    /// Whether another group may be the main one: there is none, or one as a new root has it, which is a plain group then.
    fn makes_room_for_main(&mut self) -> Result<bool> {
        let main: Option<(String, bool)> = self
            .c
            .prepare_cached(
                "SELECT folder, EXISTS (SELECT 1 FROM wirings w WHERE w.group_folder = folder AND w.chat_jid NOT LIKE 'local:%') AS is_wired
                 FROM groups WHERE is_main = 1",
            )?
            .query_row([], |r| Ok((r.get("folder")?, r.get("is_wired")?)))
            .optional()?;
        let Some((main, is_wired)) = main else { return Ok(true) };
        let is_new = match Folder::parse(&main) {
            Ok(folder) => !is_wired && self.is_untouched(&folder)?,
            Err(_) => false,
        };
        if !is_new {
            self.changes.push(format!("{main} is the main group here, so this one is a plain group"));
            return Ok(false);
        }
        self.c.execute("UPDATE groups SET is_main = 0 WHERE folder = ?1", [&main])?;
        self.changes.push(format!("it is the main group now; {main}, which never ran, is a plain group"));
        Ok(true)
    }

    pub(super) fn chat(&mut self, chat: &Chat) -> Result<Came> {
        let Chat {
            jid,
            channel,
            name,
            kind,
            unknown_senders,
            threaded,
            members,
            alias_of,
            wired_before,
            created_at,
        } = chat;
        // One in which somebody wrote here has its settings from here; it may still be called by its address. What is closed here is
        // opened by no import.
        self.c
            .prepare_cached(
                "INSERT INTO chats (jid, channel, name, kind, unknown_sender_policy, created_at, threaded, wired_before, members, alias_of)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
                 ON CONFLICT (jid) DO UPDATE SET name = excluded.name, kind = excluded.kind, unknown_sender_policy = CASE WHEN 'strict' IN (unknown_sender_policy, excluded.unknown_sender_policy) THEN 'strict'
                     WHEN 'request_approval' IN (unknown_sender_policy, excluded.unknown_sender_policy) THEN 'request_approval' ELSE 'public' END,
                   created_at = excluded.created_at, threaded = excluded.threaded, wired_before = max(wired_before, excluded.wired_before),
                   members = excluded.members, alias_of = excluded.alias_of
                 WHERE name = jid OR NOT EXISTS (SELECT 1 FROM messages m WHERE m.chat_jid = chats.jid)",
            )?
            .execute(params![
                jid, channel, name, kind.as_str(), unknown_senders.as_str(), created_at.0, threaded, wired_before, members, alias_of
            ])?;
        self.chats.insert(jid.clone());
        Ok(Came::New(jid.clone()))
    }

    pub(super) fn wiring(&mut self, wiring: &Wiring) -> Result<Came> {
        let Wiring {
            group,
            chat,
            engage_mode,
            engage_pattern,
            sender_scope,
            ignored_messages,
            trigger,
            created_at,
        } = wiring;
        if !self.came(group)? {
            return Came::left(format!("no group {group} came along"));
        }
        self.ensure_chat(chat, *created_at)?;
        let is_untouched = self.is_unheard(group)?;
        let inserted = self
            .c
            .prepare_cached(
                "INSERT INTO wirings (group_folder, chat_jid, engage_mode, engage_pattern, sender_scope, ignored_message_policy, created_at, trigger)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
                 ON CONFLICT (group_folder, chat_jid) DO UPDATE SET engage_mode = excluded.engage_mode, engage_pattern = excluded.engage_pattern,
                   sender_scope = CASE WHEN sender_scope = 'known' THEN 'known' ELSE excluded.sender_scope END, ignored_message_policy = excluded.ignored_message_policy, created_at = excluded.created_at,
                   trigger = excluded.trigger WHERE ?9",
            )?
            .execute(params![
                group.as_str(), chat, engage_mode.as_str(), engage_pattern, sender_scope.as_str(), ignored_messages.as_str(),
                created_at.0, trigger, is_untouched
            ])?;
        if inserted == 0 {
            self.changes.push(format!("{group} listens in {chat} already: its rules stay"));
        }
        Ok(Came::New(format!("{group} {chat}")))
    }
}
