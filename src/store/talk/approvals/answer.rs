//! Answers that are typed in the card's chat. Every message is first checked for being one.

use ipc_handlers::Time;
use rusqlite::{Connection, OptionalExtension, params};

use super::{
    ASKED, Asking, OpenApproval,
    act::named,
    ask::speak,
    decide::{Decided, How, Pick, audited, decide, late},
    groups_of, note, open_one, open_row, rights,
};
use crate::domain::{
    heard::approvals::{
        Action, NAMING_MS, Rights,
        answer::{Card, InReplyTo, Said, Typed, names, read},
        name::is_cancel,
    },
    rows::Inbound,
};
use crate::store::{
    Result,
    talk::{
        outbox::{Say, said_as, say},
        same,
    },
};

/// What a message is to the questions of its chat.
pub(in crate::store) enum Reply {
    Choice {
        id: i64,
        choice: usize,
    },
    /// The question that it answers is closed.
    Late(i64),
    /// The name of a new group.
    Name {
        id: i64,
        text: String,
    },
    /// No name, after all.
    Cancel(i64),
}

impl Reply {
    /// Returns the open question that it would answer.
    pub(in crate::store) const fn question(&self) -> Option<i64> {
        match self {
            Self::Choice { id, .. } | Self::Name { id, .. } | Self::Cancel(id) => Some(*id),
            Self::Late(_) => None,
        }
    }
}

/// What came of it.
pub(in crate::store) struct Replied {
    /// A sentence for people.
    pub(in crate::store) note: String,
    pub(in crate::store) made: Option<ipc_handlers::Folder>,
}

/// Reads a message as an answer. `None`: it is a message like any other.
pub(in crate::store) fn read_reply(c: &Connection, inbound: &Inbound, now: Time) -> Result<Option<Reply>> {
    if inbound.from_me || inbound.bot || inbound.sender.is_empty() {
        return Ok(None);
    }
    let cards: Vec<OpenApproval> = c
        .prepare_cached(&format!(
            "{ASKED} WHERE card_chat = ?1 AND state = 'pending' AND expires_at > ?2 ORDER BY id"
        ))?
        .query_map(params![inbound.chat_jid, now.0], open_row)?
        .collect::<rusqlite::Result<_>>()?;
    let (named, replied) = (names(&inbound.text), replied_to(c, inbound)?);
    let meant = named.or(match replied {
        Some(InReplyTo::Card(id)) => Some(id),
        Some(InReplyTo::Other) | None => None,
    });
    if cards.is_empty() && meant.is_none() {
        return Ok(None);
    }
    let rights = rights(c, &inbound.sender)?;
    let mut open = Vec::new();
    for card in &cards {
        if may_answer(c, &rights, card)? {
            let said = match said_at(c, card)? {
                None => Said::NotYet,
                Some(at) if spoken_since(c, card)? || written_since(c, &card.card_chat, at)? => Said::Before,
                Some(_) => Said::Last,
            };
            open.push(Card { id: card.id, choices: card.choices.clone(), said });
        }
    }
    if let Some(id) = meant.filter(|id| cards.iter().all(|card| card.id != *id))
        && let Some(card) = open_one(c, id)?
    {
        open.push(Card { id, choices: card.choices, said: Said::Closed });
    }
    Ok(match read(&inbound.text, &open, replied) {
        Typed::Answer { id, choice } => {
            let card = cards.iter().find(|card| card.id == id);
            let action = card.and_then(|card| card.choices.get(choice)).map(|choice| &choice.action);
            match action {
                Some(action) if rights.allow(action, &groups_of(c, id)?) => {
                    Some(Reply::Choice { id, choice })
                }
                Some(_) | None => None,
            }
        }
        Typed::Named(id) => closed(c, inbound, &rights, id)?,
        Typed::Message => name(c, inbound, &rights, &cards, now)?,
    })
}

/// Tells the sender of a message something about its question.
fn tell(c: &Connection, inbound: &Inbound, text: &str, now: Time) -> Result<()> {
    let (chat_jid, thread) = (&inbound.chat_jid, &inbound.thread);
    say(c, &Say::notice(chat_jid, thread, text, "approvals"), now).map(drop)
}

/// Leaves a question as it is, and tells why a message does not answer it. The message is no talk either: a plain number after it
/// is an answer.
pub(in crate::store) fn pass_over(
    c: &Connection,
    question: i64,
    inbound: &Inbound,
    why: &str,
    seq: i64,
    now: Time,
) -> Result<()> {
    tell(c, inbound, why, now)?;
    note(c, question, &inbound.sender, "passed over", why, Some(seq), now)
}

/// Does what a message says that was read as an answer; `seq` is its number.
pub(in crate::store) fn answer(
    c: &Connection,
    asking: &Asking,
    reply: Reply,
    inbound: &Inbound,
    seq: i64,
    now: Time,
) -> Result<Replied> {
    let by = &inbound.sender;
    match reply {
        Reply::Choice { id, choice } => {
            let decided = decide(c, asking, id, &Pick::Choice(choice), by, Some(seq), now)?;
            audited(c, id, by, &decided, now)?;
            if decided.how != How::Done {
                tell(c, inbound, &decided.says, now)?;
            }
            Ok(replied(id, decided))
        }
        Reply::Late(id) => {
            let says = match open_one(c, id)? {
                Some(approval) => late(c, &approval)?,
                None => format!("there is no question {id}"),
            };
            tell(c, inbound, &says, now)?;
            Ok(Replied { note: format!("it came too late: {says}"), made: None })
        }
        Reply::Name { id, text } => {
            let Some(approval) = open_one(c, id)? else {
                return Ok(Replied { note: format!("there is no question {id}"), made: None });
            };
            let decided = named(c, asking, &approval, &text, by, seq, now)?;
            audited(c, id, by, &decided, now)?;
            Ok(replied(id, decided))
        }
        Reply::Cancel(id) => {
            c.prepare_cached("UPDATE approvals SET naming = NULL WHERE id = ?1")?.execute([id])?;
            note(c, id, by, "wanted no new agent", "", Some(seq), now)?;
            let says = format!("No agent is made. Question #{id} is still open.");
            let row = speak(c, id, &inbound.chat_jid, &says, &[], now)?;
            c.prepare_cached("UPDATE approvals SET card = ?2 WHERE id = ?1")?.execute(params![id, row])?;
            Ok(Replied { note: says, made: None })
        }
    }
}

fn replied(id: i64, decided: Decided) -> Replied {
    Replied { note: format!("it answers question {id}: {}", decided.says), made: decided.made }
}

/// Whether somebody with these rights may give one of its answers.
fn may_answer(c: &Connection, rights: &Rights, card: &OpenApproval) -> Result<bool> {
    let groups = groups_of(c, card.id)?;
    Ok(card.choices.iter().any(|choice| rights.allow(&choice.action, &groups)))
}

/// Whether anything but questions was said in the card's chat after it.
fn spoken_since(c: &Connection, card: &OpenApproval) -> Result<bool> {
    Ok(c.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM outbox INDEXED BY outbox_by_chat
           WHERE chat_jid = ?1 AND id > ?2 AND cause_kind NOT IN ('approval', 'notice', 'batch_failed'))",
    )?
    .query_row(params![card.card_chat, card.card], |r| r.get(0))?)
}

/// How many of a chat's newest messages are looked at. A person who answers many questions in a row writes nothing else.
const NEWEST: i64 = 64;

/// Whether anybody wrote something other than an answer in a chat after an instant.
fn written_since(c: &Connection, chat: &str, at: Time) -> Result<bool> {
    Ok(c.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM (SELECT seq, id, answers, received_at FROM messages INDEXED BY messages_by_chat WHERE chat_jid = ?1 ORDER BY seq DESC LIMIT ?3) m
           WHERE m.received_at > ?2 AND NOT (m.id = '' AND m.answers IS NOT NULL) AND NOT EXISTS (SELECT 1 FROM approval_events e WHERE e.seq = m.seq))",
    )?
    .query_row(params![chat, at.0, NEWEST], |r| r.get(0))?)
}

/// When what was said last about a question was said.
fn said_at(c: &Connection, card: &OpenApproval) -> Result<Option<Time>> {
    let said: Option<Option<i64>> = c
        .prepare_cached("SELECT sent_at FROM outbox WHERE id = ?1")?
        .query_row([card.card], |r| r.get(0))
        .optional()?;
    Ok(said.flatten().map(Time))
}

/// What a message is a reply to, by what the platform calls that.
fn replied_to(c: &Connection, inbound: &Inbound) -> Result<Option<InReplyTo>> {
    let Some(replied) = inbound.reply_to_id.as_deref() else { return Ok(None) };
    let Some(row) = said_as(c, &inbound.chat_jid, replied)? else { return Ok(Some(InReplyTo::Other)) };
    let id = c
        .prepare_cached("SELECT cause_id FROM outbox WHERE id = ?1 AND cause_kind = 'approval'")?
        .query_row([row], |r| r.get(0))
        .optional()?;
    Ok(Some(id.map_or(InReplyTo::Other, InReplyTo::Card)))
}

/// A question that is answered and not open in this chat: it was answered, or its card could not be said.
fn closed(c: &Connection, inbound: &Inbound, rights: &Rights, id: i64) -> Result<Option<Reply>> {
    let Some(card) = open_one(c, id)?.filter(|card| card.card_chat == inbound.chat_jid) else {
        return Ok(None);
    };
    if !may_answer(c, rights, &card)? {
        return Ok(None);
    }
    if card.is_open() {
        let open = [Card { id, choices: card.choices, said: Said::NotYet }];
        let meant = Some(InReplyTo::Card(id));
        if let Typed::Answer { id, choice } = read(&inbound.text, &open, meant) {
            return Ok(Some(Reply::Choice { id, choice }));
        }
        return Ok(None);
    }
    Ok(Some(Reply::Late(id)))
}

/// The name that its sender was asked for in this chat, while they may give one.
fn name(
    c: &Connection,
    inbound: &Inbound,
    rights: &Rights,
    cards: &[OpenApproval],
    now: Time,
) -> Result<Option<Reply>> {
    let mut asked = None;
    for card in cards.iter().rev() {
        if let Some(who) = &card.naming
            && same::is_one(c, who, &inbound.sender)?
        {
            asked = Some(card);
            break;
        }
    }
    let Some(card) = asked.filter(|_| rights.allow(&Action::New, &[])) else { return Ok(None) };
    let in_time = said_at(c, card)?.is_some_and(|at| now.ms_since(at) <= NAMING_MS);
    // If an agent said something since, the message answers that.
    let asked_last = in_time && !spoken_since(c, card)?;
    Ok(asked_last.then(|| match is_cancel(&inbound.text) {
        true => Reply::Cancel(card.id),
        false => Reply::Name { id: card.id, text: inbound.text.clone() },
    }))
}
