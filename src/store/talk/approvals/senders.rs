//! Asking about senders: of messages that groups would have heard, had they known who wrote them.

use ipc_handlers::{Folder, Time};
use rusqlite::{Connection, OptionalExtension, params};

use super::{
    Asking, OpenApproval,
    ask::{About, Asked, ask, denied},
};
use crate::domain::heard::{access::Standing, approvals::ApprovalKind, people::check_user};
use crate::store::{Result, columns::Columns as _, talk::people};

/// A message that one group would have heard, had it known the sender.
pub(in crate::store) struct Unheard {
    /// Its inbox row.
    n: i64,
    seq: i64,
    chat: String,
    sender: String,
    sender_name: String,
    group: Folder,
}

/// Reads what an inbox row that was not heard is about. `None` when its sender is known by now, as they were admitted
/// while it was being judged, and when the row is gone with its group.
pub(in crate::store) fn unheard(c: &Connection, n: i64) -> Result<Option<Unheard>> {
    let found = c
        .prepare_cached(
            "SELECT i.seq, m.chat_jid, m.sender, m.sender_name, l.group_folder FROM inbox i JOIN lanes l ON l.id = i.lane_id
             JOIN messages m ON m.seq = i.seq WHERE i.n = ?1",
        )?
        .query_row([n], |r| {
            Ok(Unheard {
                n,
                seq: r.get("seq")?,
                chat: r.get("chat_jid")?,
                sender: r.get("sender")?,
                sender_name: r.get("sender_name")?,
                group: r.folder("group_folder")?,
            })
        })
        .optional()?;
    let Some(found) = found else { return Ok(None) };
    let known = people::standing(c, &found.sender, &found.group)? != Standing::Unknown;
    Ok((!known).then_some(found))
}

/// Asks about the senders of these messages: one question for each sender and chat, whatever groups are in it. What
/// nobody is asked about is counted. Returns whether there is something to say.
pub(in crate::store) fn ask_about_senders(
    c: &Connection,
    asking: &Asking,
    mut unheard: Vec<Unheard>,
    now: Time,
) -> Result<bool> {
    let mut said = false;
    while let Some(first) = unheard.first() {
        let (chat, sender) = (first.chat.clone(), first.sender.clone());
        let (these, others) =
            unheard.into_iter().partition(|row: &Unheard| row.chat == chat && row.sender == sender);
        unheard = others;
        said |= ask_about_sender(c, asking, these, now)?;
    }
    Ok(said)
}

fn ask_about_sender(c: &Connection, asking: &Asking, mut rows: Vec<Unheard>, now: Time) -> Result<bool> {
    rows.sort_by_key(|row| row.seq);
    let mut waiting: Vec<Unheard> = Vec::new();
    for row in rows {
        match denied(c, asking, ApprovalKind::Sender, &row.chat, &row.sender, row.group.as_str(), now)? {
            Some(why) => not_asked(c, &[row], &why, now)?,
            None => waiting.push(row),
        }
    }
    let Some(last) = waiting.last() else { return Ok(false) };
    if check_user(&last.sender).is_err() {
        not_asked(c, &waiting, "what the channel calls its sender is no user's id", now)?;
        return Ok(false);
    }
    let mut groups: Vec<Folder> = waiting.iter().map(|row| row.group.clone()).collect();
    groups.sort();
    groups.dedup();
    let messages: Vec<(i64, String)> = waiting.iter().map(|row| (row.seq, row.group.to_string())).collect();
    let about = About {
        kind: ApprovalKind::Sender,
        chat: &last.chat,
        sender: &last.sender,
        sender_name: &last.sender_name,
        groups: &groups,
        waiting: &messages,
    };
    match ask(c, asking, &about, now)? {
        Asked::Now(_) => Ok(true),
        Asked::Already(_) => Ok(false),
        Asked::Nobody(why) => {
            not_asked(c, &waiting, &why, now)?;
            Ok(false)
        }
    }
}

/// Asks about messages that another question leaves open: the person who answered it may not decide for these groups.
pub(super) fn ask_again(
    c: &Connection,
    asking: &Asking,
    approval: &OpenApproval,
    left: &[(i64, Folder)],
    now: Time,
) -> Result<bool> {
    let mut rows = Vec::new();
    for (seq, group) in left {
        let n = c
            .prepare_cached(
                "SELECT i.n FROM inbox i JOIN lanes l ON l.id = i.lane_id WHERE i.seq = ?1 AND l.group_folder = ?2",
            )?
            .query_row(params![seq, group.as_str()], |r| r.get(0))
            .optional()?;
        rows.extend(n.map(|n| Unheard {
            n,
            seq: *seq,
            chat: approval.chat.clone(),
            sender: approval.sender.clone(),
            sender_name: approval.sender_name.clone(),
            group: group.clone(),
        }));
    }
    ask_about_sender(c, asking, rows, now)
}

/// Says in the inbox why nobody was asked, and counts it.
fn not_asked(c: &Connection, rows: &[Unheard], why: &str, now: Time) -> Result<()> {
    for row in rows {
        c.prepare_cached(
            "UPDATE inbox SET reason = 'the group does not know this sender; ' || ?2 WHERE n = ?1",
        )?
        .execute(params![row.n, why])?;
        people::count_dropped(c, row.n, now)?;
    }
    Ok(())
}
