//! A command decided and applied, in the transaction that it is called in: from a file, or from the command line.

use ipc_handlers::{Caller, Command, Outcome, Refusal, Time};
use rusqlite::Connection;

use super::{
    CommandFile, Rules,
    effects::{apply, refuses_first},
    facts::facts,
    recall::Recall,
};
use crate::domain::{platforms::attachments::Attachment, time::zone::Zone};
use crate::store::{Result, talk::outbox, work::sessions::Transcripts, writer::execute};

/// Where a command comes from.
#[derive(Clone, Copy)]
pub(super) enum Cause<'a> {
    File(&'a CommandFile),
    /// A person at the command line, and what was said in the sessions that are archived.
    Person(&'a Transcripts),
}

impl Cause<'_> {
    /// The claim of the command; a person's has none.
    pub(super) fn claim(&self) -> Option<i64> {
        match self {
            Self::File(file) => Some(file.claim),
            Self::Person(_) => None,
        }
    }

    /// The run that asks, for what is said meanwhile.
    pub(super) fn run(&self) -> Option<i64> {
        match self {
            Self::File(file) => file.run,
            Self::Person(_) => None,
        }
    }

    /// When it was asked for. A file may have waited in its box, or been claimed before a restart.
    fn asked(&self, now: Time) -> Time {
        match self {
            Self::File(file) => file.written.or(file.taken).map_or(now, |written| written.min(now)),
            Self::Person(_) => now,
        }
    }

    /// Whether its group asked, and not a person.
    pub(super) fn is_file(&self) -> bool {
        matches!(self, Self::File(_))
    }

    /// Names the cause on the rows that come of it.
    pub(super) fn of_text(&self) -> outbox::TextCause<'static> {
        match self {
            Self::File(file) => outbox::TextCause::Command(file.claim),
            Self::Person(_) => outbox::TextCause::Person,
        }
    }

    /// The files that go with what is said: only commands of files have any.
    pub(super) fn files(&self) -> std::result::Result<&[Attachment], &Refusal> {
        match self {
            Self::File(file) => file.files.as_deref(),
            Self::Person(_) => Ok(&[]),
        }
    }

    pub(super) fn transcripts(&self) -> &Transcripts {
        match self {
            Self::File(file) => &file.transcripts,
            Self::Person(transcripts) => transcripts,
        }
    }
}

/// What came of a command.
#[derive(Clone, Debug)]
pub(super) struct Acted {
    pub(super) outcomes: Vec<Outcome>,
    /// The zone in which it was decided.
    pub(super) zone: jiff::tz::TimeZone,
}

/// Decides a command and applies its effects, all or none.
pub(super) fn act(
    c: &Connection,
    cause: &Cause<'_>,
    caller: &Caller,
    command: &Command,
    rules: &Rules,
    recall: &mut Recall,
    now: Time,
) -> Result<std::result::Result<Acted, Refusal>> {
    let facts = facts(c, caller, command, rules, recall, (cause.asked(now), now))?;
    let effects = match ipc_handlers::decide(caller, command, &facts) {
        Ok(effects) => effects,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let clock = Zone { name: facts.zone_name, zone: facts.zone };
    let may_be_undone = effects.len() > 1 || !effects.iter().all(refuses_first);
    if may_be_undone {
        execute(c, "SAVEPOINT effects")?;
    }
    let mut outcomes = Vec::new();
    for effect in &effects {
        match apply(c, cause, caller, effect, rules, &clock, now)? {
            Ok(outcome) => outcomes.push(outcome),
            Err(not_applied) => {
                if may_be_undone {
                    execute(c, "ROLLBACK TO effects")?;
                    execute(c, "RELEASE effects")?;
                }
                return Ok(Err(not_applied.into()));
            }
        }
        recall.after(effect);
    }
    if may_be_undone {
        execute(c, "RELEASE effects")?;
    }
    Ok(Ok(Acted { outcomes, zone: clock.zone }))
}
