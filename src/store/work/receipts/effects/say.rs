//! What is to be said.

use ipc_handlers::{Caller, NotApplied, Outcome, Refusal, Time};
use rusqlite::{Connection, OptionalExtension};

use super::{super::act::Cause, Applied};
use crate::domain::platforms::attachments::{BLOCK, MediaLimits};
use crate::store::{
    crossing::said::{Key, said},
    talk::{
        attachments::media_use,
        outbox::{Say, say},
    },
};

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
    // The thread of the run that speaks, when it speaks to its own chat.
    let thread: Option<String> = match &caller.run {
        Some(seat) if seat.chat_jid == message.chat_jid => c
            .prepare_cached("SELECT thread FROM runs WHERE id = ?1")?
            .query_row([seat.run], |r| r.get(0))
            .optional()?,
        Some(_) | None => None,
    };
    let what = Say {
        chat_jid: message.chat_jid,
        thread: thread.as_deref().unwrap_or_default(),
        text: message.text,
        sender: message.sender,
        reply_to: message.reply_to,
        cause: cause.of_text(),
        run: cause.run(),
        group: cause.is_file().then_some(caller.group.as_str()),
        files,
        ..Say::default()
    };
    let outbox_id = match cause {
        Cause::File(file) => said(c, &Key::Command(file.claim), &what, now)?,
        Cause::Person(_) => say(c, &what, now)?,
    };
    Ok(Ok(Outcome::Said { outbox_id, unclosed: message.unclosed }))
}
