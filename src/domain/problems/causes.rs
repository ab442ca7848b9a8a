//! Which problem follows from which, and what is new in a look at all of them.

use ipc_handlers::Folder;

use super::{Failing, Finding, Problem, Resting};
use crate::{
    kept::writing::{HeldUp, Obstacle},
    runs::hindrance::Hindrance,
};

use Problem::{
    AnswersTwice, Aside, Backup, BackupLacks, Channel, Clock, DeadCommands, Disk, Engine, FolderLost,
    GivenUp, GroupFolder, GroupSettings, Heartbeat, Held, HeldBack, Index, Inodes, Loop, LoopKey, LoopStuck,
    MainGroups, ManyChats, ManyQuestions, MountList, NoImage, NoKey, NoModelKey, NoMount, NoOwnerThere,
    NoPage, NoSettings, NobodyIsAsked, NotSaid, OddImage, OpenFiles, OpenRoot, OtherModel, PassedOver,
    Pattern, Refused, Remains, Restart, Rests, Root, RunsFail, Script, Secrets, SenderList, Settings,
    StoreClosed, StoreFault, StoreWaits, Stored, TaskHalted, TooLittleTold, Unjudged, Unowned, Unreadable,
    Unsandboxed, Unsettled, Unusable, Unwatched, Upstream, Zone,
};

/// A rest from here on is no pause between two attempts, ms.
const LONG_REST_MS: i64 = 600_000;

impl Problem {
    /// Whether `other` only follows from this one, and needs no fix of its own.
    fn explains(&self, other: &Self) -> bool {
        match (self, other) {
            (Engine { .. }, NoImage { .. } | OddImage { .. })
            | (StoreWaits(_), Loop { .. } | LoopKey { aside: false, .. })
            | (MountList { .. }, NoMount { .. })
            | (Disk { .. }, StoreWaits(HeldUp { by: Obstacle::NoRoom, .. }))
            | (NoModelKey { .. } | NoKey { .. }, Refused { what: Hindrance::NoKey, .. }) => true,
            (
                RunsFail(Failing { task: None, group, .. }),
                RunsFail(Failing { group: of, task: Some(_), .. }),
            ) => group == of,
            // A long rest follows runs that were killed: until when it lasts is news.
            (RunsFail(Failing { task: None, group, at, .. }), Rests(Resting { group: of, until, .. })) => {
                group == of && until.ms_since(*at) < LONG_REST_MS
            }
            (_, RunsFail(Failing { group, .. }) | Rests(Resting { group, .. })) => self.stops(group),
            _ => false,
        }
    }

    /// Whether no run of this group can go well while this problem lasts.
    fn stops(&self, group: &Folder) -> bool {
        match self {
            // While the disk is low nothing is launched, so only stopped runs fail for it.
            Disk { stopped, .. } => stopped.contains(group),
            Engine { .. } => true,
            OddImage { fault, groups, .. } => fault.stops() && groups.contains(group),
            NoImage { groups, .. }
            | NoModelKey { groups, .. }
            | Refused { groups, .. }
            | NoKey { groups, .. }
            | Script { groups, .. } => groups.contains(group),
            GroupSettings { group: of, .. }
            | GroupFolder { group: of, .. }
            | FolderLost { group: of, .. }
            | Aside { group: of, .. }
            | Unowned { group: of, .. } => of == group,
            Stored { group: of, held_up, .. } => of == group && *held_up == super::HeldUp::Stopped,
            Root(_)
            | StoreClosed { .. }
            | StoreWaits(_)
            | NoSettings { .. }
            | Unsandboxed { .. }
            | Upstream { .. }
            | OtherModel { .. }
            | Unusable { .. }
            | Secrets { .. }
            | OpenRoot { .. }
            | NoMount { .. }
            | Inodes { .. }
            | OpenFiles { .. }
            | MountList { .. }
            | MainGroups { .. }
            | SenderList { .. }
            | Pattern { .. }
            | Heartbeat { .. }
            | AnswersTwice { .. }
            | Held { .. }
            | HeldBack { .. }
            | Backup { .. }
            | BackupLacks { .. }
            | ManyChats { .. }
            | PassedOver { .. }
            | NoOwnerThere { .. }
            | NoPage { .. }
            | DeadCommands { .. }
            | TooLittleTold { .. }
            | NobodyIsAsked { .. }
            | ManyQuestions { .. }
            | Zone { .. }
            | Clock { .. }
            | RunsFail(_)
            | Rests(_)
            | TaskHalted(_)
            | GivenUp { .. }
            | NotSaid { .. }
            | Restart { .. }
            | Settings { .. }
            | Unwatched { .. }
            | Remains { .. }
            | Loop { .. }
            | LoopStuck { .. }
            | LoopKey { .. }
            | Unsettled { .. }
            | Unjudged { .. }
            | StoreFault { .. }
            | Index { .. }
            | Channel { .. }
            | Unreadable { .. } => false,
        }
    }

    /// Whether this problem keeps a daemon from starting.
    #[must_use]
    pub fn keeps_from_starting(&self) -> bool {
        matches!(
            self,
            Root(_) | StoreClosed { .. } | NoSettings { .. } | Unsandboxed { .. } | Upstream { .. }
        )
    }

    /// Whether `other` can't be looked at while this problem lasts.
    fn blinds_to(&self, other: &Self) -> bool {
        match (self, other) {
            (Engine { .. }, NoImage { .. } | OddImage { .. })
            | (Disk { .. }, Inodes { .. } | Index { .. })
            | (Settings { .. }, Restart { .. }) => true,
            // The store can't be read, so no problem that is read from it counts as gone.
            (
                Unreadable { .. },
                Disk { .. }
                | Inodes { .. }
                | StoreWaits(_)
                | Engine { .. }
                | Root(_)
                | Upstream { .. }
                | Unusable { .. }
                | Secrets { .. }
                | OpenRoot { .. }
                | MountList { .. }
                | SenderList { .. }
                | Restart { .. }
                | Settings { .. }
                | Zone { .. }
                | Clock { .. }
                | Unwatched { .. }
                | Remains { .. }
                | Loop { .. }
                | LoopStuck { .. }
                | LoopKey { .. }
                | Unsettled { .. }
                | Unjudged { .. }
                | StoreFault { .. }
                | Index { .. }
                | Unreadable { .. },
            ) => false,
            (Unreadable { .. }, _) => true,
            _ => false,
        }
    }

    /// Whether both are one problem, seen at different times. Numbers in its words may have changed.
    fn is_same(&self, other: &Self) -> bool {
        self.finding().is_same(&other.finding())
    }
}

/// Orders problems, worst first, and leaves out those that another problem explains: each cause stands there once.
#[must_use]
pub fn sort_out(found: Vec<Problem>) -> Vec<Finding> {
    in_order(&told(found, &[]))
}

/// Leaves out problems that another one explains, unless they were known before it.
fn told(mut found: Vec<Problem>, known: &[Problem]) -> Vec<Problem> {
    let explained = |one: &Problem| found.iter().any(|other| other != one && other.explains(one));
    let was_told = |one: &Problem| known.iter().any(|other| other.is_same(one));
    let kept: Vec<bool> = found.iter().map(|one| !explained(one) || was_told(one)).collect();
    let mut kept = kept.into_iter();
    found.retain(|_| kept.next().unwrap_or(true));
    found
}

pub(super) fn in_order(problems: &[Problem]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    for finding in problems.iter().map(Problem::finding) {
        if !findings.iter().any(|known| known.is_same(&finding) && known.text == finding.text) {
            findings.push(finding);
        }
    }
    findings.sort_by_key(|finding| finding.severity);
    findings
}

impl Finding {
    /// Whether both are one problem, seen at different times.
    fn is_same(&self, other: &Self) -> bool {
        self.code == other.code && self.about == other.about
    }
}

/// A look, compared with the one before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Known problems, worst first.
    pub now: Vec<Finding>,
    pub new: Vec<Finding>,
    pub gone: Vec<Finding>,
    /// The problems that the next look is compared with.
    pub known: Vec<Problem>,
}

/// Compares a look with the problems `known` before it. A problem that another one hides, or keeps from being looked at, is
/// not gone.
#[must_use]
pub fn compare(known: &[Problem], found: Vec<Problem>) -> Compared {
    let is_in = |these: &[Problem], one: &Problem| these.iter().any(|other| other.is_same(one));
    let missed = known.iter().filter(|one| !is_in(&found, one));
    let (unseen, gone): (Vec<&Problem>, Vec<&Problem>) =
        missed.partition(|one| found.iter().any(|other| other.blinds_to(one)));
    let (unseen, gone): (Vec<_>, Vec<_>) =
        (unseen.into_iter().cloned().collect(), gone.into_iter().cloned().collect());
    let mut now = told(found, known);
    now.extend(unseen);
    let new: Vec<_> = now.iter().filter(|one| !is_in(known, one)).cloned().collect();
    Compared { now: in_order(&now), new: in_order(&new), gone: in_order(&gone), known: now }
}
