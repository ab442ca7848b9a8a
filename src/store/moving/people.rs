//! People, their rights, and answered questions that move in.

use rusqlite::params;

use super::{Came, Door};
use crate::{
    domain::{
        heard::people::check_user,
        moved::rows::{Approval, Member, Role, User},
    },
    store::Result,
};

/// The words of answers.
const DECISIONS: [&str; 5] = ["allow", "deny", "connect", "new", "ignore"];

impl Door<'_> {
    pub(super) fn user(&mut self, user: &User) -> Result<Came> {
        if let Err(error) = check_user(&user.id) {
            return Came::left(error.to_string());
        }
        self.c
            .prepare_cached(
                "INSERT INTO users (id, name, dm_chat, created_at) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (id) DO UPDATE SET name = excluded.name, dm_chat = excluded.dm_chat, created_at = excluded.created_at
                   WHERE id = 'local:me' AND name = 'me' AND created_at > excluded.created_at",
            )?
            .execute(params![user.id, user.name, user.dm_chat, user.created_at.0])?;
        Ok(Came::New(user.id.clone()))
    }

    fn has_user(&self, user: &str) -> Result<bool> {
        Ok(self
            .c
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM users WHERE id = ?1)")?
            .query_row([user], |r| r.get(0))?)
    }

    pub(super) fn role(&mut self, row: &Role) -> Result<Came> {
        let Role { user, role, group, granted_by, granted_at } = row;
        if !self.has_user(user)? {
            return Came::left(format!("there is no user {user}"));
        }
        if let Some(group) = group
            && !self.came(group)?
        {
            return Came::left(format!("no group {group} came along"));
        }
        self.c
            .prepare_cached(
                "INSERT INTO roles (user_id, role, group_folder, granted_by, granted_at) VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT (user_id, role, coalesce(group_folder, '')) DO UPDATE SET granted_by = excluded.granted_by, granted_at = excluded.granted_at
                   WHERE granted_at > excluded.granted_at",
            )?
            .execute(params![
                user,
                role.as_str(),
                group.as_ref().map(ipc_handlers::Folder::as_str),
                granted_by,
                granted_at.0
            ])?;
        Ok(Came::New(user.clone()))
    }

    pub(super) fn member(&mut self, member: &Member) -> Result<Came> {
        let Member { user, group, added_by, added_at } = member;
        if !self.has_user(user)? {
            return Came::left(format!("there is no user {user}"));
        }
        if !self.came(group)? {
            return Came::left(format!("no group {group} came along"));
        }
        self.c
            .prepare_cached(
                "INSERT INTO members (user_id, group_folder, added_by, added_at) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
            )?
            .execute(params![user, group.as_str(), added_by, added_at.0])?;
        Ok(Came::New(format!("{group} {user}")))
    }

    pub(super) fn approval(&mut self, row: &Approval) -> Result<Came> {
        if !DECISIONS.contains(&row.decision.as_str()) {
            return Came::left("its answer is none that is known here");
        }
        self.ensure_chat(&row.chat, row.created_at)?;
        self.c
            .prepare_cached(
                "INSERT INTO approvals (kind, chat_jid, sender, sender_name, state, approver, card_chat, options, created_at, expires_at, decided_at, decided_by, decision, decided_group)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, '[]', ?8, ?9, ?10, ?11, ?12, ?13)",
            )?
            .execute(params![
                row.about.as_str(),
                row.chat,
                row.sender,
                row.sender_name,
                if row.yes { "approved" } else { "denied" },
                row.approver,
                row.card_chat,
                row.created_at.0,
                row.expires_at.0,
                row.decided_at.0,
                row.decided_by,
                row.decision,
                row.group
            ])?;
        Ok(Came::New(self.c.last_insert_rowid().to_string()))
    }
}
