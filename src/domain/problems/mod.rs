//! Problems that a person has to fix: one list, shown by `status`, `doctor` and the log.
//!
//! To add a problem: a variant of [`Problem`], its words in `sentences.rs`, and in `loops/problems` a function that looks
//! for it. If it follows from another problem, or causes others, `causes.rs` says so.

use ipc_handlers::{Folder, Time};
use serde::{Deserialize, Serialize};

use checks::Check;
use images::ImageFault;
use mend::Mend;

use crate::{
    kept::{held_back::HeldCount, prune::DAY_MS, writing},
    machine::loops::LoopName,
    platforms::channels::{Connection, Lamp},
    rows::ChannelState,
    runs::{heartbeat::Fault, hindrance::Hindrance},
};

mod causes;
pub mod checks;
pub mod images;
pub mod mend;
pub mod notices;
mod sentences;

pub use causes::{Compared, compare, sort_out};
pub use sentences::OPEN;

/// This many failed runs in a row are a problem, fewer an accident.
pub const EACH_TIME: i64 = 3;

/// Failures that the store knows of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    pub failing: Vec<Failing>,
    pub resting: Vec<Resting>,
    pub tasks: Vec<TaskTrouble>,
    /// Messages that were given up within the last 24 hours, and the newest of them.
    pub given_up: i64,
    pub newest_given_up: Option<i64>,
    /// Texts that could not be sent within the last 24 hours.
    pub failed: Option<Unsaid>,
    /// Texts that may or may not have arrived.
    pub unknown: Option<Unsaid>,
}

/// A group, or a task of it, whose newest runs failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failing {
    pub group: Folder,
    /// `None`: all runs of the group.
    pub task: Option<String>,
    /// Failed runs in a row.
    pub times: i64,
    /// The last of them, its end, and its error.
    pub run: i64,
    pub at: Time,
    pub error: Option<String>,
}

/// A lane that rests after a failure while messages wait in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resting {
    pub group: Folder,
    pub chat: String,
    pub thread: String,
    pub until: Time,
}

/// A task that rests, or that the host has paused, after failures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskTrouble {
    pub group: Folder,
    pub task: String,
    pub then: Halted,
}

/// Why a task does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halted {
    /// Its runs were killed: it rests until then.
    Rests(Time),
    /// It is paused; why.
    Paused(String),
}

/// Rows of the outbox that did not arrive for certain, with number, chat and error of the newest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsaid {
    pub count: i64,
    pub newest: i64,
    pub chat: String,
    pub error: Option<String>,
}

/// Whether a text that was not confirmed can have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrived {
    No,
    Unknown,
}

ipc_handlers::words! {
    /// How bad a problem is.
    pub enum Severity: "severity" {
        /// Something does not work.
        Fail = "fail",
        /// It works, and is not as it should be.
        Warn = "warn",
    }
}

/// A problem in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// `doctor` calls it `check`.
    #[serde(deserialize_with = "known_or_other")]
    pub code: Check,
    /// The group, chat or file that has it; empty: everything.
    pub about: String,
    pub severity: Severity,
    pub text: String,
    /// How to fix it.
    pub fix: String,
    /// How `g2 doctor --fix` fixes it, if it can. Only `doctor` looks.
    #[serde(skip)]
    pub mend: Option<Mend>,
    /// Its owner knows of it and lets it stand.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub noted: bool,
}

/// Reads the name of a check. A newer daemon may have others.
fn known_or_other<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Check, D::Error> {
    let name = String::deserialize(from)?;
    Ok(Check::from_name(&name).unwrap_or(Check::Other))
}

/// A check, and what has the problem that it found.
pub struct Subject(Check, String);

impl From<Check> for Subject {
    fn from(check: Check) -> Self {
        Self(check, String::new())
    }
}

impl<T: ToString> From<(Check, T)> for Subject {
    fn from((check, about): (Check, T)) -> Self {
        Self(check, about.to_string())
    }
}

impl Finding {
    /// Returns a problem that `doctor` can't mend.
    pub fn new(
        severity: Severity,
        subject: impl Into<Subject>,
        text: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        let Subject(code, about) = subject.into();
        Self { code, about, severity, text: text.into(), fix: fix.into(), mend: None, noted: false }
    }

    /// Returns what it is called where a person names it: the check, and what has it.
    #[must_use]
    pub fn id(&self) -> String {
        match self.about.as_str() {
            "" => self.code.to_string(),
            about => format!("{}/{about}", self.code),
        }
    }

    /// Something does not work.
    pub fn fail(subject: impl Into<Subject>, text: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::new(Severity::Fail, subject, text, fix)
    }

    /// Something works, and is not as it should be.
    pub fn warn(subject: impl Into<Subject>, text: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::new(Severity::Warn, subject, text, fix)
    }
}

/// A check that found no problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    pub code: Check,
    /// The group, image or file that was checked; empty: everything.
    pub about: String,
    pub text: String,
}

/// Returns the checks that the list of problems tells of, were looked at, and found none of them.
#[must_use]
pub fn right(findings: &[Finding]) -> Vec<Passed> {
    let has = |check: Check| findings.iter().any(|finding| finding.code == check);
    let all = Check::CHOICES.iter().filter_map(|(_, code)| Some((*code, code.when_right()?)));
    all.filter(|(code, (_, needs))| !has(*code) && !needs.is_some_and(has))
        .map(|(code, (says, _))| Passed { code, about: String::new(), text: says.to_owned() })
        .collect()
}

/// A problem with its facts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The root can't be served as it stands.
    Root(RootFault),
    /// The store can't be opened.
    StoreClosed { why: String },
    /// Changes can't be stored, so all work waits.
    StoreWaits(writing::HeldUp),
    /// The settings can't be used, and there is no daemon that goes on with those of its start.
    NoSettings { why: String },
    /// Agents would run without any sandbox, which the settings do not allow. `what` would run so.
    Unsandboxed { what: String },
    /// The address of the model's host can't be used.
    Upstream { text: String, why: String },
    /// A value in the environment or `.env` can't be used; a sentence.
    Unusable { why: String },
    /// Other users can read a file of secrets.
    Secrets { path: String, mode: u32 },
    /// Other users can read these parts of the root, each with its mode.
    OpenRoot { open: Vec<(String, u32)> },
    /// A group goes without a folder of the host that it asks for.
    NoMount { group: Folder, path: String, why: String, list: String },
    /// Too few bytes are free under `path`. `stopped`: the groups whose runs were ended for it.
    Disk { path: String, free: u64, wanted: u64, stopped: Vec<Folder> },
    /// Too few inodes are free under `path`.
    Inodes { path: String, free: u64, all: u64 },
    /// More open files are needed than the hard limit, or the boxes of `unserved` groups can't be opened for it.
    OpenFiles { groups: usize, runs: u64, wanted: u64, limit: u64, unserved: usize },
    /// The container engine can't be used.
    Engine { why: String },
    /// The image of these groups does not exist.
    NoImage { image: String, groups: Vec<Folder> },
    /// The image of these groups is there, and is not as it should be.
    OddImage { image: String, fault: ImageFault, groups: Vec<Folder> },
    /// The gateway has no key for the agents of these groups.
    NoModelKey { why: String, remedy: &'static str, groups: Vec<Folder> },
    /// The model's host refuses the agents of these groups, since then. `why` says what, and names the host.
    Refused { what: Hindrance, why: String, since: Time, until: Option<Time>, groups: Vec<Folder> },
    /// The model of these groups is at a limit, and another one answers until then.
    OtherModel { model: String, why: String, until: Time, groups: Vec<Folder> },
    /// The agents of these groups need a key, and none can be read.
    NoKey { path: String, why: Option<String>, groups: Vec<Folder> },
    /// A group's own settings can't be used.
    GroupSettings { group: Folder, why: String },
    /// The script of a scripted agent can't be read, or can't be followed. `of`: the setting or group that names it.
    Script { path: String, of: String, groups: Vec<Folder>, why: String, is_read: bool },
    /// The mount allowlist is broken.
    MountList { why: String },
    /// The number of main groups is not 1.
    MainGroups { folders: Vec<Folder> },
    /// A group's folder had files, and is missing or empty.
    FolderLost { group: Folder, path: String },
    /// A file lies where a group's folder belongs.
    GroupFolder { group: Folder, path: String },
    /// The sender list can't be read, so only owners are heard.
    SenderList { why: String },
    /// A wiring's pattern can't be used, so it engages on everything.
    Pattern { group: Folder, chat: String, pattern: String, why: String },
    /// Tasks of a group's `HEARTBEAT.md` that can't be taken: the first fault, and how many there are.
    Heartbeat { group: Folder, fault: Fault, count: usize },
    /// These groups answer every message of one chat.
    AnswersTwice { chat: String, groups: Vec<Folder> },
    /// Messages that no rule could judge are held; number, chat, group and reason of the oldest.
    Held { count: usize, seq: i64, chat: String, group: String, reason: String },
    /// Nobody can be asked about strangers and new chats.
    NobodyIsAsked { why: String },
    /// The number of open questions is at its limit.
    ManyQuestions { full: String },
    /// Settings were changed since the start.
    Restart { settings: Vec<String> },
    /// The settings can't be used any more.
    Settings { why: String },
    /// The clock shows a time that schedules by cron can't reckon with.
    Clock { now: Time },
    /// A name is no time zone.
    Zone { name: String, meant: Option<&'static str>, used: String },
    /// A group has `bytes` in the store, of at most `most`; the disk has room for `left` more.
    Stored { group: Folder, bytes: u64, most: u64, left: u64, held_up: HeldUp },
    /// The daemon died again and again over commands or output of a group, and set the group aside.
    Aside { group: Folder, why: String, since: Time },
    /// A run that nobody owns may still be at work, so its group waits for a person.
    Unowned { group: Folder, run: i64, source: String, begun: Time },
    /// A loop of the daemon can't look at what is to be done, for so long.
    Loop { name: LoopName, secs: u64, why: String },
    /// A loop of the daemon has been looking for so long.
    LoopStuck { name: LoopName, secs: u64 },
    /// A loop fails over what it has to do for `key`, and for `more` others in the same way. `aside`: until a person releases it.
    LoopKey { name: LoopName, key: String, more: usize, failures: u32, aside: bool, why: String },
    /// A fault of our own keeps a group's commands from being settled.
    Unsettled { group: Folder, why: String },
    /// A fault of our own keeps messages from being judged.
    Unjudged { why: String },
    /// A fault of our own came over work on the store.
    StoreFault { why: String },
    /// Something is left of an earlier group.
    Remains { group: Folder, why: String },
    /// The kernel gives no file events, so boxes are polled.
    Unwatched { why: String },
    /// The index of archived sessions can't be used, so nobody can search them.
    Index { path: String, why: String },
    /// A platform is not connected: it turned us away, or has been out of reach for a while.
    Channel { channel: String, refused: bool, why: String, since: Time },
    /// The newest runs of a group, or of a task of it, failed.
    RunsFail(Failing),
    /// A lane rests after a failure, and messages wait in it.
    Rests(Resting),
    /// A task does not run after failures.
    TaskHalted(TaskTrouble),
    /// The last daily backup failed.
    Backup { why: String },
    /// An account tells of more chats that nobody uses than are kept.
    ManyChats { channel: String },
    /// Events of an account could not be taken in, the last one within the last 24 hours. `count`: since the account is there.
    PassedOver { channel: String, count: i64 },
    /// Nobody is an owner on the platform of an account.
    NoOwnerThere { channel: String },
    /// The operator's page can't be served at its address.
    NoPage { listen: String, why: String },
    /// Commands of agents could not be read within the last 24 hours, and were set aside.
    DeadCommands { count: i64 },
    /// The platform tells an account only messages of groups that are meant for it, and others are to wake this group's agent in a chat.
    TooLittleTold { channel: String, group: Folder, chat: String },
    /// The last daily backup has no copy of this folder of a group, for want of room.
    BackupLacks { folder: String },
    /// A restore held back texts and messages, and nobody has decided about them.
    HeldBack { held: HeldCount },
    /// Messages were given up within the last 24 hours.
    GivenUp { count: i64, newest: i64 },
    /// Messages to chats did not arrive for certain.
    NotSaid { arrived: Arrived, unsaid: Unsaid },
    /// A source that this list is made from can't be read.
    Unreadable { what: &'static str, why: String },
}

/// A fault of a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootFault {
    /// This user may not look into `path`.
    Closed { root: String, path: String },
    /// Parts of it are missing.
    Missing { root: String, parts: Vec<&'static str> },
    /// The store is missing, and `trace` shows that there was one.
    WithoutStore { root: String, trace: String },
    /// A restore was begun there and has not ended.
    Restoring { root: String },
    /// The store was replaced, and the log of the earlier one lies beside it.
    LogOfAnother { root: String },
    /// A file lies where a folder belongs.
    NoFolder { root: String, path: String },
    /// A folder that the daemon holds open was moved away, or replaced.
    Replaced { path: String },
    /// It can't be written; `path` is the first part that can't.
    Unwritable { root: String, path: String, why: String },
    /// The file system is read-only.
    ReadOnly { path: String, why: String },
}

/// The effect on a group that has much in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldUp {
    /// Its commands wait: it has more there than the disk has room for.
    Waits,
    /// Commands that would store more are refused.
    Full,
    /// It is stopped.
    Stopped,
}

use Problem::{Channel, GivenUp, NotSaid, Rests, RunsFail, TaskHalted};

/// How long a platform may be out of reach before a person is told, ms.
const OUT_OF_REACH_MS: i64 = 60_000;

/// Returns the platforms that a person has to look after.
#[must_use]
pub fn of_channels(states: Vec<ChannelState>, now: Time) -> Vec<Problem> {
    let lately = |at: Time| now.ms_since(at) < DAY_MS;
    let mut passed_over: Vec<Problem> = states
        .iter()
        .filter(|state| state.passed_over_at.is_some_and(lately))
        .map(|state| Problem::PassedOver { channel: state.channel.clone(), count: state.passed_over })
        .collect();
    let found = states.into_iter().filter_map(|state| {
        let ChannelState { channel, state, inbound, outbound, why, hint, since, .. } = state;
        let is = |lamp| inbound == lamp || outbound == lamp;
        let is_long = now.ms_since(since) >= OUT_OF_REACH_MS;
        let refused = match state {
            Connection::Refused => true,
            _ if is(Lamp::Refused) => true,
            Connection::Offline | Connection::Connecting if is_long => false,
            Connection::Connected if is(Lamp::Failing) && is_long => false,
            Connection::Connected | Connection::Offline | Connection::Connecting => return None,
        };
        let why = why.unwrap_or_else(|| "it did not say why".to_owned());
        let why = hint.filter(|hint| !hint.is_empty()).map_or(why.clone(), |hint| format!("{why}; {hint}"));
        Some(Channel { channel, refused, why, since })
    });
    passed_over.extend(found);
    passed_over
}

/// Returns the failures that a person has to know of. `runs list` shows the others.
#[must_use]
pub fn of_ledger(ledger: Ledger, now: Time) -> Vec<Problem> {
    let Ledger { failing, resting, tasks, given_up, newest_given_up, failed, unknown } = ledger;
    // A group may have been repaired and had no message since; a task runs again by itself.
    let lasts = |one: &Failing| one.task.is_some() || now.ms_since(one.at) < DAY_MS;
    let failing = failing.into_iter().filter(|one| one.times >= EACH_TIME && lasts(one));
    let mut found: Vec<Problem> = failing.map(RunsFail).collect();
    found.extend(resting.into_iter().map(Rests));
    found.extend(tasks.into_iter().map(TaskHalted));
    found.extend(newest_given_up.map(|newest| GivenUp { count: given_up, newest }));
    let not_said = |arrived| move |unsaid| NotSaid { arrived, unsaid };
    found.extend(failed.map(not_said(Arrived::No)));
    found.extend(unknown.map(not_said(Arrived::Unknown)));
    found
}

#[cfg(test)]
mod tests;
