//! What was decided, done: one file per family of rows. What an effect may touch is in its `WHERE`.

use ipc_handlers::{Caller, Effect, Folder, NotApplied, Outcome, Scope, Time};
use rusqlite::Connection;

use super::{super::Result, CommandFile, settle::Verdict};

mod say;
mod session;
mod task;

/// What one effect came to.
type Applied = Result<std::result::Result<Outcome, NotApplied>>;

/// Applies one effect.
pub(super) fn apply(
    c: &Connection,
    file: &CommandFile,
    caller: &Caller,
    effect: &Effect,
    verdict: &mut Verdict,
    now: Time,
) -> Applied {
    match effect {
        Effect::Say { chat_jid, text, sender, reply_to } => {
            let message =
                say::Message { chat_jid, text, sender: sender.as_deref(), reply_to: reply_to.as_deref() };
            say::apply(c, file, caller, &message, verdict, now)
        }
        Effect::CreateTask(new) => task::create(c, new, verdict, now),
        Effect::ListTasks { scope } => task::list(c, scope),
        Effect::CancelTask { id, scope } => task::cancel(c, id, scope, verdict),
        Effect::ClearSession { target, lanes, archive_as } => {
            session::clear(c, target, *lanes, archive_as.as_deref(), verdict, now)
        }
    }
}

fn scope(scope: &Scope) -> Option<&Folder> {
    match scope {
        Scope::Group(folder) => Some(folder),
        Scope::All => None,
    }
}
