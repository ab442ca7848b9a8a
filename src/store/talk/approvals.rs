//! Questions to people, their cards and their answers; [`crate::domain::heard::approvals`] decides.
//!
//! A question, its card and the messages that wait for it are made in the transaction of what raised it; an answer, what
//! it brings about and the replay of those messages in the transaction of whatever gave it. So nothing is asked or
//! answered twice, wherever the daemon dies.

use std::sync::{Arc, PoisonError, RwLock};

use ipc_handlers::{Folder, Time};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::domain::heard::{
    approvals::{
        Action, Approval, ApprovalEvent, ApprovalKind, Choice, Decision, Rights, State,
        approver::{Candidate, Class, Missed, Nobody, whom_to_ask},
    },
    chat_commands::Words,
    engage::ChatKind,
    people::Role,
};
use crate::store::{
    Result, Store,
    columns::Columns as _,
    folder,
    talk::{addresses, same::MINE},
    which::{Conditions, Which},
};

mod act;
mod answer;
mod ask;
mod contact;
mod decide;
mod end;
mod openings;
mod senders;

pub(in crate::store) use answer::{Reply, answer, pass_over, read_reply};
pub(in crate::store) use contact::{Contact, first_contact};
pub(in crate::store) use decide::click;
pub use decide::{Decided, How, Pick};
pub(in crate::store) use end::{wired, wording_failed};
pub(in crate::store) use senders::{ask_about_senders, unheard};

/// The names of the channels that there are now. Clones are the same list.
#[derive(Clone, Debug, Default)]
pub struct Names(Arc<RwLock<Vec<String>>>);

impl From<Vec<String>> for Names {
    fn from(names: Vec<String>) -> Self {
        Self(Arc::new(RwLock::new(names)))
    }
}

impl Names {
    /// Returns them.
    #[must_use]
    pub fn all(&self) -> Vec<String> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on there are these.
    pub fn set(&self, names: Vec<String>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = names;
    }
}

/// What the store needs to know of its daemon to ask people.
#[derive(Clone, Debug)]
pub struct Asking {
    /// The channels over which somebody can be asked.
    pub channels: Names,
    /// How long a no is remembered, ms; 0: it is not.
    pub deny_ttl_ms: i64,
    /// The trigger of groups that are made on the way.
    pub trigger: String,
    /// A group is made while there are fewer.
    pub groups: usize,
    /// The words that are commands in a chat, and no first word in one.
    pub words: Words,
}

impl Default for Asking {
    fn default() -> Self {
        Self {
            channels: vec!["local".into()].into(),
            deny_ttl_ms: 0,
            trigger: "@G2".into(),
            groups: usize::MAX,
            words: Words::default(),
        }
    }
}

/// The name in the audit of a change that nobody asked for.
const US: &str = "g2";

/// The newest question that message `i.seq` waited for and that a person answered so that group `l.group_folder` hears it.
pub(in crate::store) const YES_TO: &str =
    "(SELECT max(a.id) FROM approval_messages p JOIN approvals a ON a.id = p.approval_id
    WHERE p.seq = i.seq AND a.state = 'approved' AND a.decided_by <> 'g2'
      AND (p.group_folder = l.group_folder OR a.decided_group = l.group_folder))";

/// A question, as its row has it.
#[derive(Clone, Debug)]
struct OpenApproval {
    id: i64,
    kind: ApprovalKind,
    chat: String,
    sender: String,
    sender_name: String,
    state: State,
    approver: String,
    card_chat: String,
    card: Option<i64>,
    choices: Vec<Choice>,
    naming: Option<String>,
}

impl OpenApproval {
    /// Whether it can be answered. What could not be said can be, by its number.
    fn is_open(&self) -> bool {
        matches!(self.state, State::Pending | State::Undeliverable)
    }
}

const ASKED: &str = "SELECT id, kind, chat_jid, sender, sender_name, state, approver, card_chat, card, options, naming FROM approvals";

fn open_row(r: &Row<'_>) -> rusqlite::Result<OpenApproval> {
    Ok(OpenApproval {
        id: r.get("id")?,
        kind: r.word("approvals", "kind")?,
        chat: r.get("chat_jid")?,
        sender: r.get("sender")?,
        sender_name: r.get("sender_name")?,
        state: r.word("approvals", "state")?,
        approver: r.get("approver")?,
        card_chat: r.get("card_chat")?,
        card: r.get("card")?,
        choices: r.json("approvals", "options")?,
        naming: r.get("naming")?,
    })
}

fn open_one(c: &Connection, id: i64) -> Result<Option<OpenApproval>> {
    let mut one = c.prepare_cached(&format!("{ASKED} WHERE id = ?1"))?;
    Ok(one.query_row([id], open_row).optional()?)
}

/// Writes the audit.
fn note(
    c: &Connection,
    id: i64,
    who: &str,
    what: &str,
    detail: &str,
    seq: Option<i64>,
    now: Time,
) -> Result<()> {
    c.prepare_cached(
        "INSERT INTO approval_events (approval_id, at, who, what, detail, seq) VALUES (?1, ?2, ?3, ?4, NULLIF(?5, ''), ?6)",
    )?
    .execute(params![id, now.0, who, what, detail, seq])?;
    Ok(())
}

/// What a user may decide.
fn rights(c: &Connection, user: &str) -> Result<Rights> {
    let mut roles = c.prepare_cached(&format!(
        "{MINE} SELECT group_folder FROM mine CROSS JOIN roles ON user_id = id AND granted_at > since"
    ))?;
    let groups: Vec<Option<String>> =
        roles.query_map([user], |r| r.get(0))?.collect::<rusqlite::Result<_>>()?;
    if groups.iter().any(Option::is_none) {
        return Ok(Rights::Everything);
    }
    let groups = groups.into_iter().flatten().map(folder).collect::<rusqlite::Result<_>>()?;
    Ok(Rights::Groups(groups))
}

/// The groups that a question is about; those that are gone are left out.
fn groups_of(c: &Connection, id: i64) -> Result<Vec<Folder>> {
    let mut groups = c.prepare_cached(
        "SELECT DISTINCT m.group_folder FROM approval_messages m JOIN groups g ON g.folder = m.group_folder
         WHERE m.approval_id = ?1 ORDER BY m.group_folder",
    )?;
    Ok(groups.query_map([id], |r| r.folder(0))?.collect::<rusqlite::Result<_>>()?)
}

/// Who may answer a question about `groups`, all of it.
fn candidates(c: &Connection, groups: &[Folder]) -> Result<Vec<Candidate>> {
    let mut all = c.prepare_cached(
        "SELECT r.user_id, r.role, r.group_folder, r.granted_at, u.dm_chat FROM roles r JOIN users u ON u.id = r.user_id
         ORDER BY r.granted_at, r.user_id",
    )?;
    type Standing = (String, Role, Option<String>, i64, Option<String>);
    let rows: Vec<Standing> = all
        .query_map([], |r| {
            Ok((
                r.get("user_id")?,
                r.word("roles", "role")?,
                r.get("group_folder")?,
                r.get("granted_at")?,
                r.get("dm_chat")?,
            ))
        })?
        .collect::<rusqlite::Result<_>>()?;
    let is_admin_of = |user: &str, group: &Folder| {
        rows.iter().any(|(id, _, of, ..)| id == user && of.as_deref() == Some(group.as_str()))
    };
    let (accounts, mut candidates) = (addresses::known(c)?, Vec::new());
    for (user, role, of, granted_at, dm_chat) in &rows {
        let class = match (role, of) {
            (Role::Owner, _) => Class::Owner,
            (Role::Admin, None) => Class::Admin,
            (Role::Admin, Some(of)) => {
                let in_question = groups.iter().any(|group| group.as_str() == of);
                if !in_question || !groups.iter().all(|group| is_admin_of(user, group)) {
                    continue;
                }
                Class::OfTheGroup
            }
        };
        let (chat, known) = match dm_chat {
            Some(chat) => (chat.clone(), true),
            None => {
                let chat = accounts.direct_chat(user);
                (chat.to_owned(), has_written(c, user, chat)?)
            }
        };
        let channel = addresses::channel_of(c, &chat)?;
        candidates.push(Candidate {
            user: user.clone(),
            chat,
            channel,
            known,
            class,
            granted_at: Time(*granted_at),
        });
    }
    Ok(candidates)
}

/// How many events of a question are read to find who was missed.
const MISSES_READ: i64 = 64;

/// The people who were to be asked a question and were not, the one first who was missed first. Of each the last time counts.
fn missed(c: &Connection, id: i64) -> Result<Vec<(String, Missed)>> {
    let mut newest = c.prepare_cached(
        "SELECT who, what FROM approval_events WHERE approval_id = ?1 AND (what = ?2 OR what = ?3) ORDER BY id DESC LIMIT ?4",
    )?;
    let words = (Missed::NotReached.as_str(), Missed::NoWay.as_str());
    let newest = newest.query_map(params![id, words.0, words.1, MISSES_READ], |r| {
        Ok((r.get("who")?, r.word("approval_events", "what")?))
    })?;
    let mut all: Vec<(String, Missed)> = Vec::new();
    for one in newest {
        let (user, how): (String, Missed) = one?;
        if all.iter().all(|(known, _)| *known != user) {
            all.push((user, how));
        }
    }
    all.reverse();
    Ok(all)
}

/// Whether a user has written in a chat.
fn has_written(c: &Connection, user: &str, chat: &str) -> Result<bool> {
    let mut found = c.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM messages WHERE chat_jid = ?1 AND sender IN (SELECT ?2 UNION ALL SELECT other FROM same_person WHERE id = ?2)
           AND NOT from_me AND NOT bot)",
    )?;
    Ok(found.query_row([chat, user], |r| r.get(0))?)
}

/// A chat's name and kind.
fn place(c: &Connection, jid: &str) -> Result<(String, ChatKind)> {
    Ok(c.prepare_cached("SELECT name, kind, threaded FROM chats WHERE jid = ?1")?.query_row([jid], |r| {
        Ok((r.get("name")?, ChatKind::of_columns(r.word("chats", "kind")?, r.get("threaded")?)))
    })?)
}

impl Store {
    /// Returns questions in order: the open ones and those that could not be said, or all.
    pub async fn approvals(&self, all: bool) -> Result<Vec<Approval>> {
        self.approvals_of(all, Which::default()).await
    }

    /// Returns those of them that are wanted.
    pub async fn approvals_of(&self, all: bool, which: Which) -> Result<Vec<Approval>> {
        self.ask(move |c| {
            let select = format!("{APPROVAL}{}", if all { "" } else { " INDEXED BY approvals_open_by_end" });
            let open = || Conditions::default().is("state IN ('pending', 'undeliverable')");
            let conditions = if all { Conditions::default() } else { open() }
                .with("chat_jid = ?", which.chat.clone())
                .with("state = ?", which.state.map(str::to_owned))
                .with("created_at >= ?", which.since.map(|at| at.0))
                .with("created_at < ?", which.until.map(|at| at.0));
            let found = which.rows(c, (&select, "id"), conditions, approval_row, |row: &Approval| {
                vec![&row.chat_jid, &row.sender, &row.sender_name]
            })?;
            found.into_iter().map(|row| with_messages(c, row)).collect()
        })
        .await
    }

    /// Returns one question, and what was done about it.
    pub async fn approval(&self, id: i64) -> Result<Option<(Approval, Vec<ApprovalEvent>)>> {
        self.ask(move |c| {
            let mut one = c.prepare_cached(&format!("{APPROVAL} WHERE id = ?1"))?;
            let Some(found) = one.query_row([id], approval_row).optional()? else { return Ok(None) };
            let mut events = c.prepare_cached(
                "SELECT at, who, what, detail, seq FROM approval_events WHERE approval_id = ?1 ORDER BY id",
            )?;
            let events = events
                .query_map([id], |r| {
                    Ok(ApprovalEvent {
                        at: r.time("at")?,
                        who: r.get("who")?,
                        what: r.get("what")?,
                        detail: r.get("detail")?,
                        message: r.get("seq")?,
                    })
                })?
                .collect::<rusqlite::Result<_>>()?;
            Ok(Some((with_messages(c, found)?, events)))
        })
        .await
    }

    /// Returns what is asked about a chat by a message of nobody's in particular: who would be, and why nobody is.
    ///
    /// # Errors
    /// The store's; inside, why nobody can be asked.
    pub async fn who_is_asked(&self) -> Result<std::result::Result<String, Nobody>> {
        let asking = self.asking_now();
        self.ask(move |c| {
            let asked = whom_to_ask(candidates(c, &[])?, "", &asking.channels.all(), &[]);
            Ok(asked.map(|(asked, _)| asked.user))
        })
        .await
    }
}

pub(in crate::store) const APPROVAL: &str = "SELECT id, kind, chat_jid, sender, sender_name, state, approver, card_chat, options, created_at, expires_at, decided_at, decided_by, decision, decided_group FROM approvals";

pub(in crate::store) fn approval_row(r: &Row<'_>) -> rusqlite::Result<Approval> {
    let choices: Vec<Choice> = serde_json::from_str(&r.get::<_, String>("options")?).unwrap_or_default();
    let decision: Option<Decision> = r.word_or_null("approvals", "decision")?;
    let group = r.get::<_, Option<String>>("decided_group")?.map(folder).transpose()?;
    Ok(Approval {
        id: r.get("id")?,
        kind: r.word("approvals", "kind")?,
        chat_jid: r.get("chat_jid")?,
        sender: r.get("sender")?,
        sender_name: r.get("sender_name")?,
        groups: Vec::new(),
        state: r.word("approvals", "state")?,
        approver: r.get("approver")?,
        card_chat: r.get("card_chat")?,
        options: choices.into_iter().map(|choice| choice.label).collect(),
        created_at: r.time("created_at")?,
        expires_at: r.time("expires_at")?,
        decided_at: r.time_or_null("decided_at")?,
        decided_by: r.get("decided_by")?,
        decision: decision.and_then(|decision| Action::of(decision, group)),
        messages: Vec::new(),
    })
}

/// Reads what waits for its answer, and for which groups.
pub(in crate::store) fn with_messages(c: &Connection, mut row: Approval) -> Result<Approval> {
    let mut messages =
        c.prepare_cached("SELECT DISTINCT seq FROM approval_messages WHERE approval_id = ?1 ORDER BY seq")?;
    row.messages = messages.query_map([row.id], |r| r.get(0))?.collect::<rusqlite::Result<_>>()?;
    let mut groups = c.prepare_cached(
        "SELECT DISTINCT group_folder FROM approval_messages WHERE approval_id = ?1 AND group_folder <> '' ORDER BY group_folder",
    )?;
    row.groups = groups.query_map([row.id], |r| r.get(0))?.collect::<rusqlite::Result<_>>()?;
    Ok(row)
}
