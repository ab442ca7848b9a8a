//! The first word in a chat that no group is wired to.

use ipc_handlers::{Folder, Time};
use rusqlite::{Connection, OptionalExtension};

use super::{
    Asking,
    ask::{About, Asked, ask, denied},
    rights,
};
use crate::domain::{
    heard::{
        access::UnknownSenders,
        approvals::{
            ApprovalKind,
            chat::{self, Unwired},
        },
        engage::{Author, ChatKind, Mentioned},
    },
    platforms::chats,
    rows::Inbound,
};
use crate::store::{
    Result,
    columns::Columns as _,
    talk::{groups::wire_by_default, messages::tell_once, people, same::MINE},
};

/// What became of a message in a chat that no group is wired to.
pub(in crate::store) enum Contact {
    /// Nothing: it was meant for nobody.
    Nothing,
    /// The chat is wired to this group now.
    Wired(Folder),
    /// It waits for the answer to this question.
    Waits { id: i64, asked_now: bool },
    /// It was counted, for this reason. `told`: its sender is told so.
    Dropped { why: String, told: bool },
}

/// An owner is told at most once in that time that no group hears their commands, ms.
const TELL_MS: i64 = 600_000;

/// Deals with a message that no group was wired to hear.
pub(in crate::store) fn first_contact(
    c: &Connection,
    asking: &Asking,
    inbound: &Inbound,
    seq: i64,
    now: Time,
) -> Result<Contact> {
    let jid = &inbound.chat_jid;
    let (kind, threaded, policy, wired_before): (chats::ChatKind, bool, UnknownSenders, bool) = c
        .prepare_cached(
            "SELECT kind, threaded, unknown_sender_policy, wired_before FROM chats WHERE jid = ?1",
        )?
        .query_row([jid], |r| {
            Ok((
                r.word("chats", "kind")?,
                r.get("threaded")?,
                r.word("chats", "unknown_sender_policy")?,
                r.get("wired_before")?,
            ))
        })?;
    let trigger: String = c
        .prepare_cached("SELECT trigger FROM groups WHERE is_main = 1")?
        .query_row([], |r| r.get(0))
        .optional()?
        .unwrap_or_else(|| asking.trigger.clone());
    let mentioned = if inbound.mentioned { Mentioned::Yes } else { Mentioned::No };
    let own = inbound.own_words(kind);
    let addressed = chat::addressed(ChatKind::of_columns(kind, threaded), mentioned, &own, &trigger);
    let author = match (inbound.from_me, inbound.bot) {
        (true, _) => Author::Me,
        (false, true) => Author::Bot,
        (false, false) => Author::Person,
    };
    // Most are so: a channel with many chats costs little.
    if chat::is_nothing(author, addressed) {
        return Ok(Contact::Nothing);
    }
    // Whether there is one, and only one.
    let groups: Vec<Folder> = c
        .prepare_cached("SELECT folder FROM groups LIMIT 2")?
        .query_map([], |r| r.folder(0))?
        .collect::<rusqlite::Result<_>>()?;
    let known: bool = c
        .prepare_cached(&format!(
            "{MINE} SELECT EXISTS (SELECT 1 FROM mine CROSS JOIN roles ON user_id = id AND granted_at > since)
               OR EXISTS (SELECT 1 FROM mine CROSS JOIN members ON user_id = id AND added_at > since)"
        ))?
        .query_row([&inbound.sender], |r| r.get(0))?;
    let message = Unwired {
        author,
        addressed,
        rights: rights(c, &inbound.sender)?,
        known,
        policy,
        groups: &groups,
        wired_before,
        is_command: [&inbound.text, &own].into_iter().any(|text| asking.words.of(text).is_some()),
        is_direct: kind == chats::ChatKind::Direct,
        is_written_now: inbound.origin.no_command().is_none() && !inbound.late,
    };
    let mut told = false;
    let why = match chat::decide(&message) {
        chat::Unheard::Nothing => return Ok(Contact::Nothing),
        chat::Unheard::Wire(group) => {
            wire_by_default(c, &group, jid, now)?;
            return Ok(Contact::Wired(group));
        }
        chat::Unheard::Drop(why) => why.to_owned(),
        chat::Unheard::Tell(why) => {
            let says = chat::nobody_listens(jid);
            told = tell_once(c, jid, &inbound.thread, &says, "a command that no group hears", TELL_MS, now)?;
            why.to_owned()
        }
        chat::Unheard::Ask => match denied(c, asking, ApprovalKind::Channel, jid, "", "", now)? {
            Some(why) => why,
            None => {
                let about = About {
                    kind: ApprovalKind::Channel,
                    chat: jid,
                    sender: &inbound.sender,
                    sender_name: &inbound.sender_name,
                    groups: &[],
                    waiting: &[(seq, String::new())],
                };
                match ask(c, asking, &about, now)? {
                    Asked::Now(id) => return Ok(Contact::Waits { id, asked_now: true }),
                    Asked::Already(id) => return Ok(Contact::Waits { id, asked_now: false }),
                    Asked::Nobody(why) => why,
                }
            }
        },
    };
    people::count_unwired(c, seq, &why, now)?;
    Ok(Contact::Dropped { why, told })
}
