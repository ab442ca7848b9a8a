//! Answers, and whether they count.

use std::collections::BTreeMap;

use ipc_handlers::{Folder, Time};
use rusqlite::Connection;

use super::{
    ApprovalKind, Asking, OpenApproval, act::Answer, ask::speak, end::expire, groups_of, note, open_one,
    rights,
};
use crate::domain::heard::{
    approvals::{Action, answer::pressed},
    questions,
};
use crate::store::{Result, Store, StoreError, audit, talk};

/// What somebody picked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pick {
    /// A choice of the card, from 0.
    Choice(usize),
    Yes,
    No,
    Connect(Folder),
    /// A new group of this name.
    New(String),
}

/// What became of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    pub how: How,
    /// A sentence for the person who answered.
    pub says: String,
    /// The group that was made: it has no folder and no boxes yet.
    pub made: Option<Folder>,
}

/// Whether an answer counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// It is done, and told in the card's chat.
    Done,
    /// It was answered before, or what it was about is gone.
    Late,
    /// The person has no right to answer; only the audit tells of it.
    NotAllowed,
    /// It can't be done; the question stays open.
    Not,
}

impl Decided {
    pub(super) fn of(how: How, says: impl Into<String>) -> Self {
        Self { how, says: says.into(), made: None }
    }
}

impl Store {
    /// Answers a question for `by`, who has to have the right to.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when there is no such question.
    pub async fn decide(&self, id: i64, pick: Pick, by: &str, now: Time) -> Result<Decided> {
        let (by, asking) = (by.to_owned(), self.asking_now());
        self.write(move |c| decide(c, &asking, id, &pick, &by, None, now)).await
    }

    /// Says no to every open question for `by`, or to those about one chat; `why` goes into the audit of each. Each
    /// chat with cards of them is told once. Returns how many were closed, and how many `by` may not close.
    pub async fn deny_many(
        &self,
        chat: Option<&str>,
        by: &str,
        why: &str,
        now: Time,
    ) -> Result<(usize, usize)> {
        let (chat, by, why) = (chat.map(str::to_owned), by.to_owned(), why.to_owned());
        let asking = self.asking_now();
        self.write(move |c| deny_many(c, &asking, chat.as_deref(), &by, &why, now)).await
    }

    /// A button was pressed by a user; `press` is what came with it. Returns what to tell them. Whether they may is
    /// looked at before anything else: a press of somebody who may not changes nothing.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when there is no such question.
    pub async fn click(&self, press: &str, by: &str, now: Time) -> Result<Decided> {
        let (press, by, asking) = (press.to_owned(), by.to_owned(), self.asking_now());
        self.write(move |c| click(c, &asking, &press, &by, None, now)).await
    }
}

/// See [`Store::click`].
pub(in crate::store) fn click(
    c: &Connection,
    asking: &Asking,
    press: &str,
    by: &str,
    at: Option<(&str, &str)>,
    now: Time,
) -> Result<Decided> {
    if let Some(pressed) = questions::pressed(press) {
        return match talk::questions::click(c, pressed, by, at, now)? {
            Some(says) => Ok(Decided::of(How::Done, says)),
            None => Err(StoreError::NotFound { what: "question", id: press.to_owned() }),
        };
    }
    let Some((id, choice)) = pressed(press) else {
        return Err(StoreError::refused(format!("{press:?} is no button of a card"), ""));
    };
    let decided = decide(c, asking, id, &Pick::Choice(choice), by, None, now)?;
    audited(c, id, by, &decided, now)?;
    Ok(decided)
}

/// Writes down an answer in a chat that counts.
pub(super) fn audited(c: &Connection, id: i64, by: &str, decided: &Decided, now: Time) -> Result<()> {
    if decided.how != How::Done {
        return Ok(());
    }
    audit::append_in_chat(c, by, format!("approvals: question {id}: {}", decided.says), now)
}

fn deny_many(
    c: &Connection,
    asking: &Asking,
    chat: Option<&str>,
    by: &str,
    why: &str,
    now: Time,
) -> Result<(usize, usize)> {
    expire(c, now)?;
    let open: Vec<(i64, String)> = c
        .prepare_cached(
            "SELECT id, card_chat FROM approvals INDEXED BY approvals_open_by_end
             WHERE state IN ('pending', 'undeliverable') AND (?1 IS NULL OR chat_jid = ?1) ORDER BY id",
        )?
        .query_map([chat], |r| Ok((r.get("id")?, r.get("card_chat")?)))?
        .collect::<rusqlite::Result<_>>()?;
    let mut closed: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for (id, card_chat) in &open {
        if settle(c, asking, *id, &Pick::No, by, None, now)?.how == How::Done {
            note(c, *id, by, "denied with others", why, None, now)?;
            closed.entry(card_chat.clone()).or_default().push(*id);
        }
    }
    for (card_chat, ids) in &closed {
        let says = format!("{by} said no to {} questions at once: {why}.", ids.len());
        if let Some(id) = ids.last() {
            speak(c, *id, card_chat, &says, &[], now)?;
        }
    }
    let done = closed.values().map(Vec::len).sum();
    Ok((done, open.len() - done))
}

/// Answers a question, and tells the chat of its card.
pub(super) fn decide(
    c: &Connection,
    asking: &Asking,
    id: i64,
    pick: &Pick,
    by: &str,
    seq: Option<i64>,
    now: Time,
) -> Result<Decided> {
    let decided = settle(c, asking, id, pick, by, seq, now)?;
    // One that is open still has asked for a name, and said so.
    if decided.how == How::Done
        && let Some(approval) = open_one(c, id)?.filter(|approval| !approval.is_open())
    {
        speak(c, id, &approval.card_chat, &decided.says, &[], now)?;
    }
    Ok(decided)
}

/// Answers a question; nobody is told.
fn settle(
    c: &Connection,
    asking: &Asking,
    id: i64,
    pick: &Pick,
    by: &str,
    seq: Option<i64>,
    now: Time,
) -> Result<Decided> {
    expire(c, now)?;
    let not_found = || StoreError::NotFound { what: "question", id: id.to_string() };
    let approval = open_one(c, id)?.ok_or_else(not_found)?;
    let action = match (pick, approval.kind) {
        (Pick::Choice(n), _) => match approval.choices.get(*n) {
            Some(choice) => choice.action.clone(),
            None => {
                return Ok(Decided::of(How::Not, format!("question #{id} has no answer number {}", n + 1)));
            }
        },
        (Pick::Yes, ApprovalKind::Sender) => Action::Allow,
        (Pick::No, ApprovalKind::Sender) => Action::Deny,
        (Pick::No, ApprovalKind::Channel) => Action::Ignore,
        (Pick::Connect(group), ApprovalKind::Channel) => Action::Connect(group.clone()),
        (Pick::New(_), ApprovalKind::Channel) => Action::New,
        (Pick::Yes, ApprovalKind::Channel) => {
            return Ok(Decided::of(How::Not, "say which group: --group FOLDER, or --new NAME for a new one"));
        }
        (Pick::Connect(_) | Pick::New(_), ApprovalKind::Sender) => {
            return Ok(Decided::of(
                How::Not,
                "this question is about a sender; it is answered with yes or no",
            ));
        }
    };
    let rights = rights(c, by)?;
    let groups = groups_of(c, id)?;
    if !rights.allow(&action, &groups) {
        note(c, id, by, "not allowed", &action.name(), seq, now)?;
        return Ok(Decided::of(How::NotAllowed, format!("{by} may not answer question #{id} so")));
    }
    if !approval.is_open() {
        return Ok(Decided::of(How::Late, late(c, &approval)?));
    }
    let answer = Answer { c, asking, approval: &approval, by, seq, now };
    match &action {
        Action::Allow => answer.allow(&rights, &groups),
        Action::Deny | Action::Ignore => answer.deny(&action, &rights, &groups),
        Action::Connect(group) => answer.connect(group),
        Action::New => match pick {
            Pick::New(name) => answer.make(name),
            Pick::Choice(_) | Pick::Yes | Pick::No | Pick::Connect(_) => answer.ask_for_name(),
        },
    }
}

/// The text for a person who answers a closed question.
pub(super) fn late(c: &Connection, approval: &OpenApproval) -> Result<String> {
    let row = c
        .prepare_cached(&format!("{} WHERE id = ?1", super::APPROVAL))?
        .query_row([approval.id], super::approval_row)?;
    Ok(row.outcome())
}
