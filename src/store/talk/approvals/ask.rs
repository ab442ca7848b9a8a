//! Asking: a question, its card and what waits for it.

use ipc_handlers::{Folder, Time};
use rusqlite::{Connection, OptionalExtension, params};

use super::{
    ASKED, Asking, OpenApproval, US, candidates, groups_of, missed, note, open_one, open_row, place,
};
use crate::domain::heard::approvals::{
    ApprovalKind, LIFE_MS, OPEN, OPEN_IN_CHAT, State, WAITING,
    answer::press,
    approver::{Candidate, Missed, Way, next_to_ask, reachable, whom_to_ask},
    wording::{self, Spoken, Wording},
};
use crate::store::{
    Result,
    columns::Columns as _,
    talk::{
        addresses,
        outbox::{Button, Say, TextCause, say},
    },
};

/// What a question is about.
pub(super) struct About<'a> {
    pub(super) kind: ApprovalKind,
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

/// Whether a no was said so lately that it still counts.
pub(super) fn denied(
    c: &Connection,
    asking: &Asking,
    kind: ApprovalKind,
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
               AND (?2 = 'channel' OR (a.sender IN (SELECT ?4 UNION ALL SELECT other FROM same_person WHERE id = ?4) AND EXISTS (
                 SELECT 1 FROM approval_messages m WHERE m.approval_id = a.id AND m.group_folder = ?5)))
             ORDER BY a.id DESC LIMIT 1",
        )?
        .query_row(
            params![chat, kind.as_str(), now.plus_ms(-asking.deny_ttl_ms).0, sender, group],
            |r| Ok((r.get("id")?, r.get("decided_by")?)),
        )
        .optional()?;
    Ok(found.map(|(id, by)| {
        format!("{by} said no to question {id}, and that is still remembered (approvals.deny_ttl_minutes)")
    }))
}

/// Asks, unless it is asked already.
pub(super) fn ask(c: &Connection, asking: &Asking, about: &About<'_>, now: Time) -> Result<Asked> {
    super::end::expire(c, now)?;
    let newest: Option<OpenApproval> = c
        .prepare_cached(&format!(
            "{ASKED} WHERE chat_jid = ?1 AND kind = ?2 AND (kind = 'channel' OR sender IN (SELECT ?3 UNION ALL SELECT other FROM same_person WHERE id = ?3)) ORDER BY id DESC LIMIT 1"
        ))?
        .query_row(params![about.chat, about.kind.as_str(), about.sender], open_row)
        .optional()?;
    if let Some(open) = newest.as_ref().filter(|newest| newest.state == State::Pending) {
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
    if about.kind == ApprovalKind::Sender {
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
    // What reached nobody is asked again, with all that waits for it.
    let unsaid = newest.filter(|newest| newest.state == State::Undeliverable);
    let before = match &unsaid {
        Some(unsaid) => missed(c, unsaid.id)?,
        None => Vec::new(),
    };
    let asked = match whom_to_ask(
        candidates(c, about.groups)?,
        &addresses::channel_of(c, about.chat)?,
        &asking.channels.all(),
        &before,
    ) {
        Ok(asked) => asked,
        Err(nobody) => return Ok(Asked::Nobody(nobody.to_string())),
    };
    let (id, what) = match &unsaid {
        Some(unsaid) => (unsaid.id, "asked again"),
        None => {
            c.prepare_cached(
                "INSERT INTO approvals (kind, chat_jid, sender, sender_name, state, approver, card_chat, options, created_at, expires_at)
                 VALUES (?1, ?2, ?3, ?4, 'pending', ?5, '', '[]', ?6, ?7)",
            )?
            .execute(params![
                about.kind.as_str(), about.chat, about.sender, about.sender_name, asked.0.user, now.0,
                now.plus_ms(LIFE_MS).0
            ])?;
            (c.last_insert_rowid(), "asked")
        }
    };
    wait(c, id, about.waiting, now)?;
    turn_to(c, id, about, &asked, (what, about.waiting.last().map(|w| w.0)), now)?;
    Ok(Asked::Now(id))
}

/// Has a question wait for the answer of somebody, who is asked at once or once a chat with them is opened.
fn turn_to(
    c: &Connection,
    id: i64,
    about: &About<'_>,
    (asked, way): &(Candidate, Way),
    (what, seq): (&str, Option<i64>),
    now: Time,
) -> Result<()> {
    // Nobody is asked in a chat that is still to be opened.
    let chat = match way {
        Way::Card => asked.chat.as_str(),
        Way::Open => "",
    };
    c.prepare_cached(
        "UPDATE approvals SET state = 'pending', approver = ?2, card_chat = ?3, card = NULL, naming = NULL, decided_at = NULL,
           expires_at = iif(state = 'pending', expires_at, ?4) WHERE id = ?1",
    )?
    .execute(params![id, asked.user, chat, now.plus_ms(LIFE_MS).0])?;
    put_wording(c, id, chat, &wording_of(c, id, about)?, now)?;
    let detail = match way {
        Way::Card => format!("{} in {chat}", asked.user),
        Way::Open => format!("{}, with whom a chat is opened first", asked.user),
    };
    note(c, id, US, what, &detail, seq, now)
}

/// The person whom a question waits for was not reached: asks the next one, or nobody.
pub(super) fn miss(
    c: &Connection,
    asking: &Asking,
    id: i64,
    (how, why): (Missed, &str),
    now: Time,
) -> Result<()> {
    let Some(question) = open_one(c, id)? else { return Ok(()) };
    note(c, id, &question.approver, how.as_str(), why, None, now)?;
    let groups = groups_of(c, id)?;
    let candidates = reachable(candidates(c, &groups)?, &asking.channels.all());
    let channel = addresses::channel_of(c, &question.chat)?;
    let Some(next) = next_to_ask(&candidates, &channel, &missed(c, id)?) else {
        c.prepare_cached(
            "UPDATE approvals SET state = 'undeliverable', decided_at = ?2, naming = NULL WHERE id = ?1",
        )?
        .execute(params![id, now.0])?;
        return note(c, id, US, State::Undeliverable.as_str(), why, None, now);
    };
    let waiting = newest_waiting(c, id)?;
    let about = question.about(&groups, &waiting);
    turn_to(c, id, &about, &next, ("asked next", None), now)
}

impl OpenApproval {
    fn about<'a>(&'a self, groups: &'a [Folder], waiting: &'a [(i64, String)]) -> About<'a> {
        let Self { kind, chat, sender, sender_name, .. } = self;
        About { kind: *kind, chat, sender, sender_name, groups, waiting }
    }
}

/// The newest message that waits for an answer, which the card quotes.
fn newest_waiting(c: &Connection, id: i64) -> Result<Vec<(i64, String)>> {
    let newest: Option<i64> = c
        .prepare_cached("SELECT max(seq) FROM approval_messages WHERE approval_id = ?1")?
        .query_row([id], |r| r.get(0))?;
    Ok(newest.map(|seq| (seq, String::new())).into_iter().collect())
}

/// A chat with the person whom a question waits for is there: asks them.
pub(super) fn card_to(c: &Connection, id: i64, chat: &str, now: Time) -> Result<()> {
    let Some(question) = open_one(c, id)? else { return Ok(()) };
    let (groups, waiting) = (groups_of(c, id)?, newest_waiting(c, id)?);
    let about = question.about(&groups, &waiting);
    c.prepare_cached("UPDATE approvals SET card_chat = ?2 WHERE id = ?1")?.execute(params![id, chat])?;
    put_wording(c, id, chat, &wording_of(c, id, &about)?, now)
}

/// Says a card, with its buttons, unless its chat is still to be opened; and writes down what it can be answered with.
fn put_wording(c: &Connection, id: i64, chat: &str, card: &Wording, now: Time) -> Result<()> {
    let buttons: Vec<Button> = card
        .choices
        .iter()
        .enumerate()
        .map(|(n, choice)| Button { label: choice.label.clone(), press: press(id, n) })
        .collect();
    let row = speak(c, id, chat, &card.text, &buttons, now)?;
    let json =
        |e: serde_json::Error| crate::store::StoreError::refused(format!("a card can't be stored: {e}"), "");
    let options = serde_json::to_string(&card.choices).map_err(json)?;
    c.prepare_cached("UPDATE approvals SET card = ?2, options = ?3 WHERE id = ?1")?
        .execute(params![id, row, options])?;
    Ok(())
}

/// Says something about a question; nothing where its chat is still to be opened, as nobody there knows of it.
pub(super) fn speak(
    c: &Connection,
    id: i64,
    chat: &str,
    text: &str,
    buttons: &[Button],
    now: Time,
) -> Result<Option<i64>> {
    if chat.is_empty() {
        return Ok(None);
    }
    let words = Say { chat_jid: chat, text, cause: TextCause::Approval(id), buttons, ..Say::default() };
    say(c, &words, now).map(Some)
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

fn wording_of(c: &Connection, id: i64, about: &About<'_>) -> Result<Wording> {
    let (chat_name, kind) = place(c, about.chat)?;
    let text: String = match about.waiting.last() {
        Some((seq, _)) => {
            c.prepare_cached("SELECT shown FROM messages WHERE seq = ?1")?.query_row([seq], |r| r.get(0))?
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
    let mut named = c.prepare_cached("SELECT folder, name, is_main FROM groups ORDER BY folder")?;
    let groups: Vec<(Folder, String, bool)> = named
        .query_map([], |r| Ok((r.folder("folder")?, r.get("name")?, r.get("is_main")?)))?
        .collect::<rusqlite::Result<_>>()?;
    Ok(match about.kind {
        ApprovalKind::Sender => {
            let asked = groups.into_iter().filter(|(folder, ..)| about.groups.contains(folder)).collect();
            wording::about_sender(id, &spoken, &asked)
        }
        ApprovalKind::Channel => wording::about_chat(id, &spoken, &groups.into_iter().collect()),
    })
}
