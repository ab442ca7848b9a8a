//! What is to be said.

use ipc_handlers::{Caller, Outcome, Time};
use rusqlite::{Connection, OptionalExtension};

use super::{super::act::Cause, Applied};
use crate::store::{
    crossing::said::{Key, said},
    talk::outbox::{Say, say},
};

/// A message as a command asks for it.
pub(super) struct Message<'a> {
    pub chat_jid: &'a str,
    pub text: &'a str,
    pub unclosed: bool,
    pub sender: Option<&'a str>,
    pub reply_to: Option<&'a str>,
}

/// Puts a message into the outbox.
pub(super) fn apply(
    c: &Connection,
    cause: &Cause<'_>,
    caller: &Caller,
    message: &Message<'_>,
    now: Time,
) -> Applied {
    // The thread of the run that speaks, when it speaks to its own chat.
    let thread: Option<String> = match &caller.run {
        Some(seat) if seat.chat_jid == message.chat_jid => c
            .prepare_cached("SELECT thread FROM runs WHERE id = ?1")?
            .query_row([seat.run], |r| r.get(0))
            .optional()?,
        Some(_) | None => None,
    };
    let name = cause.name();
    let what = Say {
        chat_jid: message.chat_jid,
        thread: thread.as_deref().unwrap_or_default(),
        text: message.text,
        sender: message.sender,
        reply_to: message.reply_to,
        cause: &name,
        run: cause.run(),
        group: cause.is_file().then_some(caller.group.as_str()),
        ..Say::default()
    };
    let outbox_id = match cause {
        Cause::File(file) => said(c, &Key::Command(file.claim), &what, now)?,
        Cause::Person(_) => say(c, &what, now)?,
    };
    Ok(Ok(Outcome::Said { outbox_id, unclosed: message.unclosed }))
}
