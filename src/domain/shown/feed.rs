//! The feed of changes: what changed, in the order in which it was committed, and how long it is kept.

use ipc_handlers::{Folder, Time, words};
use serde::Serialize;

use crate::kept::prune::DAY_MS;
use crate::rows::rfc3339;

words! {
    /// What an event is about; the subject is the id of the row that changed.
    pub enum EventKind: "event kind" {
        /// A message came in. Subject: its number.
        Message = "message",
        /// A message is to be judged for a group, for the first time or again. Subject: the message's number.
        Inbox = "inbox",
        /// A message was judged for a group. Subject: the message's number.
        Judged = "judged",
        /// A batch of messages was given to an agent. Subject: the batch.
        Handed = "handed",
        /// A batch is done, failed or returned. Subject: the batch.
        Finished = "finished",
        /// A lane has another session. Subject: the lane.
        Cleared = "cleared",
        /// A run is queued, has a container, is ready, is asked to leave, or has ended. Subject: the run.
        Run = "run",
        /// Something is to be said to a chat. Subject: the outbox row.
        Say = "say",
        /// It was said. Subject: the outbox row.
        Said = "said",
        /// It could not be said, or nobody knows whether it was. Subject: the outbox row.
        Unsaid = "unsaid",
        /// A command was settled: applied, refused or dead. Subject: its claim.
        Command = "command",
        /// A task was made, changed or removed. Subject: the task.
        Task = "task",
        /// An archived session was made, changed or removed. Subject: its number.
        Session = "session",
        /// A group was made, changed or removed. Subject: its folder.
        Group = "group",
        /// A wiring was made, changed or removed. Subject: its number.
        Wiring = "wiring",
        /// Something is known of a chat. Subject: its JID.
        Chat = "chat",
        /// A person, a right of theirs, or whom a group knows. Subject: the user.
        Person = "person",
        /// A question was asked, answered or ended. Subject: its number.
        Question = "question",
        /// A group or a file is held, or let go. Subject: the hold.
        Hold = "hold",
    }
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FeedEvent {
    /// Counts up with each commit; none is given twice.
    pub seq: i64,
    #[serde(serialize_with = "rfc3339")]
    pub at: Time,
    pub kind: EventKind,
    /// Whom it is about, where it is one group.
    pub group: Option<Folder>,
    /// Where it is, where it is one chat.
    pub chat: Option<String>,
    /// What the kind says.
    pub subject: String,
}

/// At most this many events are kept. More are removed however young they are, and a reader that is so late starts anew.
pub const MOST_EVENTS: i64 = 200_000;
/// How many events are looked at, and removed, in one transaction at most.
pub const TRIMMED_AT_ONCE: i64 = 512;

/// Which events can go: of those up to `last`, the ones before `before`, and all up to `surplus`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trim {
    pub last: i64,
    pub read: i64,
    pub before: Time,
    pub surplus: i64,
}

/// Decides which of the oldest events can go. `slowest` is the last event that every reader in this process has read.
/// Events are kept for a day, and until every reader has read them, but at most [`MOST_EVENTS`] of them. The newest event
/// stays.
#[must_use]
pub fn trim(oldest: (i64, Time), newest: i64, slowest: i64, now: Time) -> Option<Trim> {
    let (first, at) = oldest;
    let trim = Trim {
        last: first.saturating_add(TRIMMED_AT_ONCE - 1).min(newest.saturating_sub(1)),
        read: slowest,
        before: now.plus_ms(-DAY_MS),
        surplus: newest.saturating_sub(MOST_EVENTS),
    };
    let goes = first <= trim.surplus || (at < trim.before && first <= slowest);
    (goes && first <= trim.last).then_some(trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_goes_when_it_is_a_day_old_and_read_or_when_there_are_too_many() {
        let now = Time(10 * DAY_MS);
        let (young, old) = (now.plus_ms(-DAY_MS), now.plus_ms(-DAY_MS - 1));
        let goes = |oldest, newest, slowest| trim(oldest, newest, slowest, now).is_some();
        assert!(!goes((1, young), 100, 100), "it is not older than a day");
        assert!(goes((1, old), 100, 100));
        assert!(!goes((5, old), 100, 4), "somebody has not read it");
        assert!(goes((5, old), 100, 5));
        assert!(!goes((1, young), MOST_EVENTS, 0));
        assert!(goes((1, young), MOST_EVENTS + 1, 0), "however young it is, read or not");
        let one = trim((7, old), 9000, 9000, now).unwrap();
        assert_eq!(one.last, 7 + TRIMMED_AT_ONCE - 1, "a few at a time");
        assert_eq!(trim((7, old), 9, 9, now).unwrap().last, 8);
        assert!(!goes((9, old), 9, 9), "the newest stays");
    }
}
