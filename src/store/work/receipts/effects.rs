//! What was decided, done: one file per family of rows. What an effect may touch is in its `WHERE`.

use ipc_handlers::{Caller, Effect, Folder, NotApplied, Outcome, Scope, Time};
use rusqlite::Connection;

use super::{Rules, act::Cause};
use crate::domain::time::zone::Zone;
use crate::store::{Result, work::slots};

mod group;
mod say;
mod session;
mod task;

pub(in crate::store) use task::{change as change_task, create as create_task};

/// What one effect came to.
type Applied = Result<std::result::Result<Outcome, NotApplied>>;

/// Whether an effect that is refused has written nothing.
pub(super) fn refuses_first(effect: &Effect) -> bool {
    match effect {
        Effect::Say { .. }
        | Effect::Ask { .. }
        | Effect::ListTasks { .. }
        | Effect::ListGroups
        | Effect::SearchSessions { .. }
        | Effect::ClearSession { .. }
        | Effect::ResumeSession { .. }
        | Effect::ArchiveSession { .. } => true,
        Effect::CreateTask(_)
        | Effect::ChangeTask { .. }
        | Effect::CancelTask { .. }
        | Effect::RegisterGroup(_) => false,
    }
}

/// Applies one effect.
pub(super) fn apply(
    c: &Connection,
    cause: &Cause<'_>,
    caller: &Caller,
    effect: &Effect,
    rules: &Rules,
    clock: &Zone,
    now: Time,
) -> Applied {
    let (said, bounds) = (cause.transcripts(), &rules.bounds);
    match effect {
        Effect::Say { chat_jid, text, unclosed, sender, reply_to, attachments } => {
            let (sender, reply_to, files) = (sender.as_deref(), reply_to.as_deref(), attachments.len());
            let message = say::Message { chat_jid, text, unclosed: *unclosed, sender, reply_to, files };
            say::apply(c, cause, caller, &message, &bounds.media, now)
        }
        Effect::Ask { chat_jid, question, options, expires_at } => {
            say::ask(c, cause, caller, (chat_jid, question, options), *expires_at, now)
        }
        Effect::CreateTask(new) => task::create(c, new, &bounds.tasks, clock, now),
        Effect::ListTasks { scope, after, limit } => task::list(c, scope, *after, *limit, &rules.zones),
        Effect::ChangeTask { id, group, change } => {
            if change.next_run.is_some() {
                slots::note_paused(c, group, id, &clock.zone, now)?;
            }
            task::change(c, group, id, change, &bounds.tasks, clock, now)
        }
        Effect::CancelTask { id, group } => task::cancel(c, group, id),
        Effect::RegisterGroup(made) => group::register(c, made, cause.claim(), &rules.channels, now),
        Effect::ListGroups => group::list(c),
        Effect::ClearSession { target, lanes, archive_as } => {
            session::clear(c, target, *lanes, archive_as.as_deref(), said, now)
        }
        Effect::ResumeSession { target, lanes, archive, save_as } => {
            let resume =
                session::Resume { target, lanes: *lanes, archive: *archive, save_as: save_as.as_deref() };
            session::resume(c, &resume, said, now)
        }
        // Beside the writer, by who answers.
        Effect::SearchSessions { .. } => Ok(Ok(Outcome::ToSearch)),
        Effect::ArchiveSession { target, session_id, name, content } => {
            let archive = session::Archive { target, session_id, name, content: content.as_deref() };
            session::archive(c, &archive, said, now)
        }
    }
}

/// Returns the one group that a scope is limited to.
pub(super) fn within(scope: &Scope) -> Option<&Folder> {
    match scope {
        Scope::Group(folder) => Some(folder),
        Scope::All => None,
    }
}
