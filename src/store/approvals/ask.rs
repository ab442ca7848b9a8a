//! Asking: a question, its card and what waits for it.

use ipc_handlers::{Folder, Time};
use rusqlite::{Connection, OptionalExtension, params};

use super::{
    super::{
        Result, channel_of,
        outbox::{Button, Say, say},
        people,
    },
    Asking, QUESTION, Question, US, candidates, note, place, question_row,
};
use crate::domain::{
    access::Standing,
    approvals::{
        Kind, LIFE_MS, OPEN, OPEN_IN_CHAT, WAITING,
        answer::press,
        approver::whom_to_ask,
        card::{self, Card, Spoken},
    },
    people::check_user,
};

/// What a question is about.
pub(super) struct About<'a> {
    pub(super) kind: Kind,
    pub(super) chat: &'a str,
    pub(super) sender: &'a str,
    pub(super) sender_name: &'a str,
    pub(super) groups: &'a [Folder],
    /// The messages that wait, each with the group that would have heard it.
    pub(super) waiting: &'a [(i64, String)],
}

/// What came of asking.
pub(super) enum Asked {
    /// Somebody was asked just now.
    Now(i64),
    /// They had been asked already, and this waits too.
    Already(i64),
    /// Nobody is asked, for this reason.
    Nobody(String),
}

/// A message that one group would have heard, had it known the sender.
pub(in super::super) struct Unheard {
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
pub(in super::super) fn unheard(c: &Connection, n: i64) -> Result<Option<Unheard>> {
    let found = c
        .prepare_cached(
            "SELECT i.seq, m.chat_jid, m.sender, m.sender_name, l.group_folder FROM inbox i JOIN lanes l ON l.id = i.lane_id
             JOIN messages m ON m.seq = i.seq WHERE i.n = ?1",
        )?
        .query_row([n], |r| {
            Ok(Unheard {
                n,
                seq: r.get(0)?,
                chat: r.get(1)?,
                sender: r.get(2)?,
                sender_name: r.get(3)?,
                group: super::folder(r.get(4)?)?,
            })
        })
        .optional()?;
    let Some(found) = found else { return Ok(None) };
    let known = people::standing(c, &found.sender, &found.group)? != Standing::Unknown;
    Ok((!known).then_some(found))
}

/// Asks about the senders of these messages: one question for each sender and chat, whatever groups are in it. What
/// nobody is asked about is counted. Returns whether there is something to say.
pub(in super::super) fn ask_about_senders(
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
        match denied(c, asking, Kind::Sender, &row.chat, &row.sender, row.group.as_str(), now)? {
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
        kind: Kind::Sender,
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

/// Asks about messages that another question leaves open, as whoever answered it may not decide for these groups.
pub(super) fn ask_again(
    c: &Connection,
    asking: &Asking,
    question: &Question,
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
            chat: question.chat.clone(),
            sender: question.sender.clone(),
            sender_name: question.sender_name.clone(),
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

/// Whether somebody said no lately enough for it to hold.
pub(super) fn denied(
    c: &Connection,
    asking: &Asking,
    kind: Kind,
    chat: &str,
    sender: &str,
    group: &str,
    now: Time,
) -> Result<Option<String>> {
    if asking.deny_ttl_ms <= 0 {
        return Ok(None);
    }
    let found: Option<(i64, String)> = c
        .prepare_cached(
            "SELECT a.id, a.decided_by FROM approvals a WHERE a.chat_jid = ?1 AND a.kind = ?2 AND a.state = 'denied' AND a.decided_at > ?3
               AND (?2 = 'channel' OR (a.sender = ?4 AND EXISTS (
                 SELECT 1 FROM approval_messages m WHERE m.approval_id = a.id AND m.group_folder = ?5)))
             ORDER BY a.id DESC LIMIT 1",
        )?
        .query_row(
            params![chat, kind.as_str(), now.plus_ms(-asking.deny_ttl_ms).0, sender, group],
            |r| Ok((r.get(0)?, r.get(1)?)),
        )
        .optional()?;
    Ok(found.map(|(id, by)| {
        format!("{by} said no to question {id}, and that is still remembered (approvals.deny_ttl_minutes)")
    }))
}

/// Asks, unless it is asked already.
pub(super) fn ask(c: &Connection, asking: &Asking, about: &About<'_>, now: Time) -> Result<Asked> {
    super::end::expire(c, now)?;
    let newest: Option<Question> = c
        .prepare_cached(&format!(
            "{QUESTION} WHERE chat_jid = ?1 AND kind = ?2 AND (kind = 'channel' OR sender = ?3) ORDER BY id DESC LIMIT 1"
        ))?
        .query_row(params![about.chat, about.kind.as_str(), about.sender], question_row)
        .optional()?;
    if let Some(open) = newest.as_ref().filter(|newest| newest.state == "pending") {
        wait(c, open.id, about.waiting, now)?;
        return Ok(Asked::Already(open.id));
    }
    let open: i64 = c
        .prepare_cached("SELECT count(*) FROM approvals WHERE state = 'pending'")?
        .query_row([], |r| r.get(0))?;
    if open >= OPEN {
        return Ok(Asked::Nobody(format!(
            "{open} questions wait for an answer already, and no more are asked"
        )));
    }
    if about.kind == Kind::Sender {
        let open: i64 = c
            .prepare_cached(
                "SELECT count(*) FROM approvals WHERE state = 'pending' AND kind = 'sender' AND chat_jid = ?1",
            )?
            .query_row([about.chat], |r| r.get(0))?;
        if open >= OPEN_IN_CHAT {
            return Ok(Asked::Nobody(format!(
                "{open} questions about senders of this chat wait for an answer already, and no more are asked"
            )));
        }
    }
    // What could not be said is asked again, with all that waits for it.
    let unsaid = newest.filter(|newest| newest.state == "undeliverable");
    let unreached = unsaid.as_ref().map(|unsaid| unsaid.card_chat.as_str());
    let asked = match whom_to_ask(
        candidates(c, about.groups)?,
        channel_of(about.chat),
        &asking.channels,
        unreached,
    ) {
        Ok(asked) => asked,
        Err(nobody) => return Ok(Asked::Nobody(nobody.to_string())),
    };
    let id = match &unsaid {
        Some(unsaid) => {
            c.prepare_cached(
                "UPDATE approvals SET state = 'pending', approver = ?2, card_chat = ?3, expires_at = ?4, decided_at = NULL WHERE id = ?1",
            )?
            .execute(params![unsaid.id, asked.user, asked.chat, now.plus_ms(LIFE_MS).0])?;
            unsaid.id
        }
        None => {
            c.prepare_cached(
                "INSERT INTO approvals (kind, chat_jid, sender, sender_name, state, approver, card_chat, options, created_at, expires_at)
                 VALUES (?1, ?2, ?3, ?4, 'pending', ?5, ?6, '[]', ?7, ?8)",
            )?
            .execute(params![
                about.kind.as_str(), about.chat, about.sender, about.sender_name, asked.user, asked.chat, now.0,
                now.plus_ms(LIFE_MS).0
            ])?;
            c.last_insert_rowid()
        }
    };
    wait(c, id, about.waiting, now)?;
    let card = card_of(c, id, about)?;
    put_card(c, id, &asked.chat, &card, now)?;
    let what = if unsaid.is_some() { "asked again" } else { "asked" };
    note(
        c,
        id,
        US,
        what,
        &format!("{} in {}", asked.user, asked.chat),
        about.waiting.last().map(|w| w.0),
        now,
    )?;
    Ok(Asked::Now(id))
}

/// Says a card, with its buttons, and writes down what it can be answered with.
fn put_card(c: &Connection, id: i64, chat: &str, card: &Card, now: Time) -> Result<()> {
    let buttons: Vec<Button> = card
        .choices
        .iter()
        .enumerate()
        .map(|(n, choice)| Button { label: choice.label.clone(), press: press(id, n) })
        .collect();
    let row = speak(c, id, chat, &card.text, &buttons, now)?;
    let json =
        |e: serde_json::Error| super::super::StoreError::Refused(format!("a card can't be stored: {e}"));
    let options = serde_json::to_string(&card.choices).map_err(json)?;
    c.prepare_cached("UPDATE approvals SET card = ?2, options = ?3 WHERE id = ?1")?
        .execute(params![id, row, options])?;
    Ok(())
}

/// Says something about a question.
pub(super) fn speak(
    c: &Connection,
    id: i64,
    chat: &str,
    text: &str,
    buttons: &[Button],
    now: Time,
) -> Result<i64> {
    let cause = cause(id);
    let say_this = Say { chat_jid: chat, text, cause: &cause, buttons, ..Say::default() };
    say(c, &say_this, now)
}

/// What stands as the cause of whatever is said about a question.
pub(super) fn cause(id: i64) -> String {
    format!("approval {id}")
}

/// Has messages wait for the answer: the newest [`WAITING`] of them. The others are counted.
fn wait(c: &Connection, id: i64, messages: &[(i64, String)], now: Time) -> Result<()> {
    for (seq, group) in messages {
        c.prepare_cached(
            "INSERT INTO approval_messages (approval_id, seq, group_folder) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
        )?
        .execute(params![id, seq, group])?;
    }
    let too_old: Option<i64> = c
        .prepare_cached(
            "SELECT DISTINCT seq FROM approval_messages WHERE approval_id = ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2",
        )?
        .query_row(params![id, WAITING], |r| r.get(0))
        .optional()?;
    if let Some(too_old) = too_old {
        let why = format!("more than {WAITING} messages wait for the answer to question {id}");
        super::end::give_up(c, id, &why, Some(too_old), now)?;
        c.prepare_cached("DELETE FROM approval_messages WHERE approval_id = ?1 AND seq <= ?2")?
            .execute([id, too_old])?;
    }
    Ok(())
}

fn card_of(c: &Connection, id: i64, about: &About<'_>) -> Result<Card> {
    let (chat_name, kind) = place(c, about.chat)?;
    let text: String = match about.waiting.last() {
        Some((seq, _)) => {
            c.prepare_cached("SELECT text FROM messages WHERE seq = ?1")?.query_row([seq], |r| r.get(0))?
        }
        None => String::new(),
    };
    let spoken = Spoken {
        sender: about.sender,
        sender_name: about.sender_name,
        chat: about.chat,
        chat_name: &chat_name,
        kind,
        text: &text,
    };
    let mut named = c.prepare_cached("SELECT folder, name FROM groups ORDER BY is_main DESC, folder")?;
    let groups: Vec<(Folder, String)> = named
        .query_map([], |r| Ok((super::folder(r.get(0)?)?, r.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    Ok(match about.kind {
        Kind::Sender => {
            let names = groups.into_iter().filter(|(folder, _)| about.groups.contains(folder));
            let names: Vec<String> = names.map(|(_, name)| name).collect();
            card::about_sender(id, &spoken, &names)
        }
        Kind::Channel => card::about_chat(id, &spoken, &groups),
    })
}
