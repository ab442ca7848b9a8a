//! The loops of the daemon. Each waits for news of the store's feed or a time, reads the world, decides with `domain`, and
//! acts: one path for the normal case, the retry and the restart. What one loop commits, the others read in the feed.
//!
//! | loop | waits for | does |
//! |---|---|---|
//! | `control` | the socket | takes messages of local chats in, answers the command line |
//! | `dispatch` | messages, tasks, runs | judges the inbox, owns the lanes, starts, pipes and closes runs |
//! | `run` | one container | launches or adopts it, applies its records, judges its health, ends it |
//! | `ipc` | command files | claims, reads, settles and answers them |
//! | `schedule` | the next due instant, or a minute | has `dispatch` look for due tasks; finds anew when tasks run if clocks changed |
//! | `heartbeat` | `HEARTBEAT.md` of each group | makes its tasks those that the file says |
//! | `accounts` | accounts that come and go, a person's wish for a new start | runs the channels, each account by itself |
//! | `chats` | a day, or somebody who wants it | asks accounts for their chats |
//! | `deliver` | the outbox | sends texts to chats, in order within a chat |
//! | `amends` | questions that are closed, agents at work | changes cards; puts a reaction to what an agent has in hand, and takes it away |
//! | `typing` | agents at work | shows in chats that an agent works for them |
//! | `snapshots` | changes that agents are shown | writes the files in which agents read the state |
//! | `search` | archived sessions | keeps their index |
//! | `searches`, in `ipc` | searches that agents ask for | answers them |
//! | `removals`, in `keeper` | a removal that is not finished | finishes it |
//! | `hindrances` | the end of a run; then each 2 s while something rests | sees a refused key replaced, a missing image there |
//! | `usage` | the gateway's books | stores what runs have used |
//! | `budgets` | use, runs, the next day | holds groups that have used their budget of the day up, and says so |
//! | `approvers` | questions for people with whom no chat is known | opens the chats |
//! | `backups` | the time of the daily backup, if `backup.to` is set | makes it |
//! | `prune` | a day | removes old history, if `keep_days` is set, and files that nothing needs any more |
//! | `housekeeping` | an hour | weighs what each group takes on the disk; removes files for `prune` |
//! | `files` | messages with files that are heard | fetches the files, has hooks read them |
//! | `media` | the start, an hour | removes files that no message has any more |
//! | `problems` | a minute, or the end of some work | looks for problems that a person has to fix, logs them, and has an owner told |
//! | `notify` | texts for an owner that go by no account | hands them to a program or an address on the web |
//! | `metrics`, no loop | somebody who asks | gathers figures for Prometheus |
//! | `starts`, no loop | the start | notes what it takes in, so that the third that dies over a group sets it aside |
//! | `lost`, no loop | the start, launches | holds groups that have lost their folder |
//! | `recovery` | the start, the engine | adopts or ends what an earlier daemon left |
//! | `ground`, `disk` | the engine, the disk | holds launches back, stops who fills the disk |

use ipc_handlers::Folder;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

pub use backups::Backups;
pub use budgets::Budgets;
pub use dispatch::Dispatch;
pub use heartbeat::Heartbeats;
pub use ipc::Mailboxes;
pub use keeper::{Keeping, Removals, Reread, finish_removals};
pub use problems::Problems;
pub use run::Runs;
pub use shared::{
    Adoption, Allowances, Blind, Boxes, EndsHow, ForLanes, Held, Machine, Obstacle, Sight, Sights, ToLanes,
    Trouble, Troubles,
};
pub use snapshots::Snapshots;

pub mod accounts;
pub mod amends;
pub mod approvers;
pub mod backups;
pub mod budgets;
pub mod chats;
pub mod control;
pub mod deliver;
mod disk;
pub mod dispatch;
pub mod files;
pub mod ground;
pub mod heartbeat;
pub mod hindrances;
pub mod housekeeping;
pub mod ipc;
mod keeper;
pub mod lost;
pub mod media;
pub mod metrics;
pub mod notify;
pub mod problems;
pub mod prune;
pub mod recovery;
mod run;
pub mod schedule;
pub mod search;
mod shared;
pub mod snapshots;
pub mod starts;
pub mod typing;
pub mod usage;

/// The outcome of a drain. No answer: it was cut short, by a fault of our own or the daemon's stop, and is to be asked for anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Drained {
    /// What lay there is settled, as far as it can be.
    Done,
    /// The boxes can't be opened, so nothing was looked at; why.
    Unopened(String),
}

/// What others may ask of the loop `ipc`.
pub enum Ask {
    /// Settle everything that lies in a group's boxes; its container is dead.
    Drain(Folder, oneshot::Sender<Drained>),
    /// Groups were added or removed, or something was held or released: open and watch the boxes of new groups, let go of those of
    /// groups that are gone, claim nothing that is held, and look at boxes that were released. Answered when that is done.
    Groups(oneshot::Sender<()>),
    /// A group was removed: claim nothing of it any more, and let go of its boxes. Answered with what is cancelled once its worker
    /// has ended.
    PutAway(Folder, oneshot::Sender<CancellationToken>),
    /// Settle a claimed file as it is, its writer done or not: a person has decided on it. Answered when that is done.
    Settle(crate::ipc::Claimed, oneshot::Sender<()>),
}
