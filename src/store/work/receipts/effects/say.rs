//! What is to be said.

use std::borrow::Cow;

use ipc_handlers::{Caller, NotApplied, Outcome, Refusal, Time};
use rusqlite::{Connection, OptionalExtension};

use super::{super::act::Cause, Applied};
use crate::domain::{
    heard::questions::OPEN,
    platforms::attachments::{BLOCK, MediaLimits},
    runs::heartbeat,
};
use crate::store::{
    Result,
    crossing::said::{Key, said},
    talk::{
        attachments::media_use,
        outbox::{Say, say},
        questions,
    },
};

/// Asks the people of a chat.
pub(super) fn ask(
    c: &Connection,
    cause: &Cause<'_>,
    caller: &Caller,
    (chat_jid, question, options): (&str, &str, &[String]),
    expires_at: Time,
    now: Time,
) -> Applied {
    let (group, run) = (&caller.group, cause.run());
    let thread = thread_of(c, caller, chat_jid)?.unwrap_or_default();
    let asks = questions::Asks { group, chat_jid, thread: &thread, run, question, options, expires_at };
    let Some((question_id, card, buttons)) = questions::make(c, &asks, now)? else {
        return Ok(Err(NotApplied::TooManyQuestions { most: OPEN }));
    };
    let what = Say {
        chat_jid,
        thread: &thread,
        text: &card,
        buttons: &buttons,
        cause: cause.of_text(),
        run,
        group: Some(group.as_str()),
        ..Say::default()
    };
    let row = put(c, cause, &what, now)?;
    questions::is_said_by(c, question_id, row)?;
    Ok(Ok(Outcome::Asked { question_id, expires_at }))
}

/// Returns the thread of the run that speaks, when it speaks to its own chat.
fn thread_of(c: &Connection, caller: &Caller, chat_jid: &str) -> Result<Option<String>> {
    match &caller.run {
        Some(seat) if seat.chat_jid == chat_jid => Ok(c
            .prepare_cached("SELECT thread FROM runs WHERE id = ?1")?
            .query_row([seat.run], |r| r.get(0))
            .optional()?),
        Some(_) | None => Ok(None),
    }
}

/// Whether a task's run says this, and may mean by it that there is nothing to tell.
fn of_task(c: &Connection, caller: &Caller, text: &str) -> Result<bool> {
    let Some(seat) = caller.run.as_ref().filter(|_| heartbeat::may_be_ok(text)) else { return Ok(false) };
    let of_task = c
        .prepare_cached("SELECT kind <> 'message' AS of_task FROM runs WHERE id = ?1")?
        .query_row([seat.run], |r| r.get("of_task"))
        .optional()?;
    Ok(of_task.unwrap_or(false))
}

/// Puts a text into the outbox, that of a command once.
fn put(c: &Connection, cause: &Cause<'_>, what: &Say<'_>, now: Time) -> Result<i64> {
    match cause {
        Cause::File(file) => said(c, &Key::Command(file.claim), what, now),
        Cause::Person(_) => say(c, what, now),
    }
}

/// A message as a command asks for it.
pub(super) struct Message<'a> {
    pub chat_jid: &'a str,
    pub text: &'a str,
    pub unclosed: bool,
    pub sender: Option<&'a str>,
    pub reply_to: Option<&'a str>,
    /// How many files go with it.
    pub files: usize,
}

/// Puts a message into the outbox.
pub(super) fn apply(
    c: &Connection,
    cause: &Cause<'_>,
    caller: &Caller,
    message: &Message<'_>,
    limits: &MediaLimits,
    now: Time,
) -> Applied {
    let files = match cause.files() {
        Ok(files) if files.len() == message.files => files,
        // Nobody has read them: they were named where there is no file of a command.
        Ok(_) => return Ok(Err(NotApplied::NoFile(Refusal::internal()))),
        Err(refusal) => return Ok(Err(NotApplied::NoFile(refusal.clone()))),
    };
    if !files.is_empty() {
        let adds = files.iter().map(|file| file.size.max(BLOCK)).sum();
        if let Some(fault) = limits.fault(media_use(c, message.chat_jid, now)?, adds) {
            return Ok(Err(NotApplied::NoFile(fault.into())));
        }
    }
    let text = match of_task(c, caller, message.text)? {
        true => heartbeat::to_say(message.text).unwrap_or_default(),
        false => Cow::Borrowed(message.text),
    };
    if text.is_empty() && files.is_empty() {
        return Ok(Err(NotApplied::NothingToSay));
    }
    let thread = thread_of(c, caller, message.chat_jid)?;
    let what = Say {
        chat_jid: message.chat_jid,
        thread: thread.as_deref().unwrap_or_default(),
        text: &text,
        sender: message.sender,
        reply_to: message.reply_to,
        cause: cause.of_text(),
        run: cause.run(),
        group: cause.is_file().then_some(caller.group.as_str()),
        files,
        ..Say::default()
    };
    let outbox_id = put(c, cause, &what, now)?;
    Ok(Ok(Outcome::Said { outbox_id, unclosed: message.unclosed }))
}
