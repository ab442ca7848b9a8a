//! The judgement of a run that has ended, and of its batches.
//!
//! This is for a container that is certainly dead: its output is read to the end, its boxes are applied, its input
//! folder is claimed back. Nothing here is stored or sent.
//!
//! A batch that is not done goes one of three ways. If the agent cannot have read it, it is handed out again and costs
//! no try, twice at most. If the agent had it and nothing was said since, it is handed out again and costs a try, unless
//! the daemon's own death took it away, or the group's budget was used up: that costs no try, twice at most. If something was said, handing
//! it out again could say it twice: it has failed, and its chat is told so, once.

use crate::{
    runs::{
        health::{self, Readiness, Runner},
        hindrance::{Hindrance, Refused},
        retry::{self, Retry},
        stop::StopThen,
        tasks::HeldUp,
    },
    states::{RunStatus, SlotReason},
};

/// How often a batch is handed out again at no cost: one that nobody read, or that its agent had in hand when the daemon
/// died or the budget was used up. A batch that kills the daemon each time is bounded by this and by its tries.
pub const MAX_FREE_RETURNS: u32 = 2;

/// The facts about a run that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub end: End,
    pub runner: Runner,
    /// What we did to it, or saw wrong with it, before it ended.
    pub cause: Cause,
    /// The error of its last record, when that was an error record.
    pub error_record: Option<String>,
}

/// How a run's container ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// We went away before there was a container.
    NeverCreated,
    NoImage {
        image: String,
    },
    /// The engine could not create or start it, for a reason that may be the group's own.
    Engine {
        doing: String,
        why: String,
    },
    Exited {
        code: i64,
        oom: bool,
    },
    /// The engine does not answer, the disk is in the way, or the host lacks something else: nobody's try.
    NotNow {
        why: String,
    },
    /// The engine, which answers, knows no such container.
    Gone,
}

/// What we did to a run, or saw wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Nothing: it ended by itself.
    Itself,
    /// We asked it to leave, and stopped it if it did not: it was idle, or its place was wanted.
    Closed,
    /// A person ended it on purpose.
    Cancelled { by: String, then: StopThen },
    /// Its health was bad: what was wrong.
    Unwell { reason: String },
    /// We stopped it, as its group fills the disk; the reason is a sentence of its own.
    NoSpace { reason: String },
    /// The gateway refused a request of it, as its group's budget of the day is used up.
    OutOfBudget,
    /// The model's host refused what it asked, or there was no key to ask with.
    Refused(Refused),
    /// It was not ready within the start-up limit, ms; what was seen of it.
    NeverReady { limit_ms: i64, seen: String },
    /// It wrote more than this, bytes.
    Flooded { limit_bytes: u64 },
    /// A record of its output is missing.
    Gap { expected: u64, got: u64 },
    /// The daemon that ran it is gone and it was not adopted.
    OwnerGone,
}

impl Cause {
    /// Returns the verdict by which we killed it, in a word; `None`: we did not.
    #[must_use]
    pub fn verdict(&self) -> Option<&'static str> {
        match self {
            Self::Unwell { .. } => Some("unwell"),
            Self::NeverReady { .. } => Some("never_ready"),
            Self::NoSpace { .. } => Some("no_space"),
            Self::Flooded { .. } => Some("flooded"),
            Self::Gap { .. } => Some("gap"),
            Self::Itself
            | Self::Closed
            | Self::Cancelled { .. }
            | Self::OutOfBudget
            | Self::Refused(_)
            | Self::OwnerGone => None,
        }
    }
}

/// A batch that the run was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    pub reached: Reached,
    pub said: Said,
    /// Failed tries before this run.
    pub tries: u32,
    /// Returns at no cost before this run.
    pub free_returns: u32,
    /// How often it is tried again at most.
    pub retries: u32,
}

/// How far a batch came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// It was in the document on stdin.
    OnStdin,
    /// Its input file was claimed back as it was published: the runner never had it.
    FileUnread,
    /// The runner had taken its input file.
    FileTaken,
    /// Its input file is not there, neither as it was published nor as it is taken: it was never placed, or a runner that
    /// had finished with it removed it and its record was lost.
    FileAbsent,
    /// A record named it as handled.
    Done,
}

/// Whether there is an outbox row, or an applied command, of the run since the batch was handed to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    Nothing,
    Something,
}

/// What becomes of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    Done,
    /// It is handed out again after a rest, ms.
    Returned {
        tries: u32,
        free_returns: u32,
        rest_ms: i64,
    },
    /// It is not tried again, and its chat is told so in these words.
    Failed {
        notice: String,
    },
}

/// A run's last word in the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Final {
    pub went: Went,
    /// What was wrong, for people; `None` exactly when it succeeded.
    pub error: Option<String>,
}

/// How a run went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Went {
    Well,
    Wrong,
    /// Somebody ended it on purpose.
    Cancelled,
}

impl From<Went> for RunStatus {
    fn from(went: Went) -> Self {
        match went {
            Went::Well => Self::Succeeded,
            Went::Wrong => Self::Failed,
            Went::Cancelled => Self::Cancelled,
        }
    }
}

/// Judges the run and each of its batches, in the order given. `base_ms` is the first rest; where the host kept the run from its
/// work ([`hindrance`]), it is the rest.
#[must_use]
pub fn judge(ended: &Ended, batches: &[Batch], base_ms: i64) -> (Final, Vec<Judgement>) {
    let in_hand = |batch: &&Batch| matches!(reading(ended, batch.reached, batch.said), Reading::InHand);
    let judgements = batches.iter().map(|batch| judge_batch(ended, batch, base_ms)).collect();
    (judge_run(ended, batches.iter().filter(in_hand).count()), judgements)
}

/// Judges a run that had taken these batches and not finished them. A task's run has none.
#[must_use]
pub fn judge_run(ended: &Ended, in_hand: usize) -> Final {
    let failed = |error: String| Final { went: Went::Wrong, error: Some(error) };
    if let Cause::Cancelled { by, .. } = &ended.cause {
        return Final { went: Went::Cancelled, error: Some(format!("stopped by {by}")) };
    }
    if let Some(trouble) = trouble(ended) {
        return failed(trouble.for_people());
    }
    match in_hand {
        0 => Final { went: Went::Well, error: None },
        1 => failed("ended with a message in hand".to_owned()),
        more => failed(format!("ended with {more} batches of messages in hand")),
    }
}

/// What a chat is told of a run that a person stopped while it had a message in hand.
const STOPPED: &str = "I was told to stop, so I do not go on with your last message. Send it again if you still want an answer.";
/// The same where the message is handed out again.
pub const STOPPED_AND_ASKED_AGAIN: &str = "I was told to stop, and begin again with your last message.";

fn judge_batch(ended: &Ended, batch: &Batch, base_ms: i64) -> Judgement {
    let Batch { reached, said, tries, free_returns, retries } = *batch;
    if let Cause::Cancelled { then, .. } = ended.cause {
        return match (reached, then) {
            (Reached::Done, _) => Judgement::Done,
            // A person's stop costs nothing. What the agent had not taken is none of what it was stopped at.
            (Reached::FileUnread, _) | (_, StopThen::AskAgain) => {
                Judgement::Returned { tries, free_returns, rest_ms: 0 }
            }
            (_, StopThen::GiveUp) => Judgement::Failed { notice: STOPPED.to_owned() },
        };
    }
    match reading(ended, reached, said) {
        Reading::Done => Judgement::Done,
        // Our own going away is not the batch's fault at all, and can't be repeated by a container. A host that can't now may not
        // be able to at once either.
        Reading::NotOffered => {
            let rest_ms = if matches!(ended.end, End::NotNow { .. }) { base_ms } else { 0 };
            Judgement::Returned { tries, free_returns, rest_ms }
        }
        Reading::Unread | Reading::InHand if hindrance(ended).is_some() && said == Said::Nothing => {
            Judgement::Returned { tries, free_returns, rest_ms: base_ms }
        }
        Reading::Unread if free_returns < MAX_FREE_RETURNS => {
            // Nothing is mended by waiting where the container is not to blame.
            let rest_ms = match (trouble(ended), retry::after_failure(free_returns, retries, base_ms)) {
                (None | Some(Trouble::OwnerGone), _) | (_, Retry::GiveUp) => 0,
                (Some(_), Retry::RestFor(ms)) => ms,
            };
            Judgement::Returned { tries, free_returns: free_returns + 1, rest_ms }
        }
        Reading::Unread => after_try(ended, batch, base_ms),
        Reading::InHand if said == Said::Something => Judgement::Failed {
            notice: format!(
                "I was interrupted ({}) after I had begun to act on your last message, so I will not start it over. \
                 Please tell me what is still to be done.",
                in_short(ended)
            ),
        },
        Reading::InHand if ended.cause == Cause::OwnerGone && free_returns < MAX_FREE_RETURNS => {
            Judgement::Returned { tries, free_returns: free_returns + 1, rest_ms: 0 }
        }
        // The group waits for another day, or for a higher budget. What needs more than a day's is given up one day.
        Reading::InHand if ended.cause == Cause::OutOfBudget && free_returns < MAX_FREE_RETURNS => {
            Judgement::Returned { tries, free_returns: free_returns + 1, rest_ms: base_ms }
        }
        Reading::InHand => after_try(ended, batch, base_ms),
    }
}

fn after_try(ended: &Ended, batch: &Batch, base_ms: i64) -> Judgement {
    match retry::after_failure(batch.tries, batch.retries, base_ms) {
        Retry::RestFor(rest_ms) => {
            Judgement::Returned { tries: batch.tries + 1, free_returns: batch.free_returns, rest_ms }
        }
        Retry::GiveUp => Judgement::Failed {
            notice: format!(
                "I could not answer your last message: {} attempts failed, the last one because {}. Please send it \
                 again later.",
                batch.tries.saturating_add(1),
                in_short(ended)
            ),
        },
    }
}

/// Returns what an owner is told of a message that is tried again: `tries` attempts have failed. `whose` is the group, where the
/// owner is told in another one's chat.
#[must_use]
pub fn retry_notice(ended: &Ended, whose: Option<&str>, chat: &str, tries: u32, rest_ms: i64) -> String {
    let who = whose.map_or_else(|| "I".to_owned(), |group| format!("The agent of {group}"));
    format!(
        "{who} could not answer the last message in {chat} yet: attempt {tries} of {} failed because {}. The next one comes in {}. \
         `g2 lanes list` shows how it goes on.",
        retry::MAX_RETRIES + 1,
        in_short(ended),
        health::human(rest_ms)
    )
}

/// Returns what was wrong with a run that we end, for people; `None`: nothing was wrong with it.
#[must_use]
pub fn seen_wrong(cause: &Cause) -> Option<String> {
    let ended = Ended { end: End::Gone, runner: Runner::One, cause: cause.clone(), error_record: None };
    match cause {
        Cause::Itself | Cause::Closed | Cause::OutOfBudget | Cause::Refused(_) | Cause::Cancelled { .. } => {
            None
        }
        Cause::Unwell { reason } => Some(reason.clone()),
        Cause::NoSpace { .. }
        | Cause::NeverReady { .. }
        | Cause::Flooded { .. }
        | Cause::Gap { .. }
        | Cause::OwnerGone => trouble(&ended).map(|trouble| trouble.for_people()),
    }
}

/// Whose fault a bad end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The agent's, or that of what it was given.
    Agents,
    /// The host's: it could not begin the run, or lost its container.
    Hosts,
    /// Nobody's: the run died with its daemon, or was ended on purpose.
    Nobodys,
}

/// Returns whose fault a bad end is.
#[must_use]
pub fn fault(ended: &Ended) -> Fault {
    match (&ended.cause, &ended.end) {
        (Cause::OwnerGone | Cause::OutOfBudget | Cause::Cancelled { .. }, _) | (_, End::NeverCreated) => {
            Fault::Nobodys
        }
        (Cause::Refused(_), _)
        | (Cause::Itself, End::NotNow { .. } | End::NoImage { .. } | End::Engine { .. } | End::Gone) => {
            Fault::Hosts
        }
        (_, _) => Fault::Agents,
    }
}

/// Whether the host could not begin a run, or kept it from its work.
#[must_use]
pub fn could_not_begin(ended: &Ended) -> bool {
    fault(ended) == Fault::Hosts && (!matches!(ended.end, End::Gone) || hindrance(ended).is_some())
}

/// Returns what of the host kept a run from its work, if something did.
#[must_use]
pub fn hindrance(ended: &Ended) -> Option<Hindrance> {
    match (&ended.cause, &ended.end) {
        (Cause::Refused(refused), _) => Some(refused.what),
        (Cause::Itself, End::NoImage { .. }) => Some(Hindrance::NoImage),
        (Cause::Itself, End::NotNow { .. }) => Some(Hindrance::Engine),
        (_, _) => None,
    }
}

/// Returns what a chat is told of a task whose occurrence is given up after `tries` failed tries and this one. Its
/// prompt is an agent's words: `<internal>` blocks do not leave by it either.
#[must_use]
pub fn task_notice(ended: &Ended, task: &str, prompt: &str, tries: u32, said: Said) -> String {
    let what = match said {
        Said::Something => {
            format!("was interrupted ({}) after it had begun, so it is not started over.", in_short(ended))
        }
        Said::Nothing => {
            let attempts = tries.saturating_add(1);
            format!("failed: I tried {attempts} times, and the last time {}.", in_short(ended))
        }
    };
    format!("{} {what}", task_named(task, prompt))
}

/// Returns what a chat is told of a task that is paused, as its occurrences failed each time.
#[must_use]
pub fn pause_notice(ended: &Ended, task: &str, prompt: &str, failures: u32) -> String {
    let (named, why) = (task_named(task, prompt), in_short(ended));
    format!(
        "{named} failed {failures} times in a row, the last time because {why}, so it is paused. `g2 tasks resume {task}` \
         has it run again."
    )
}

/// Returns what a chat is told of a task whose run a person stopped.
#[must_use]
pub fn stop_notice(task: &str, prompt: &str, then: StopThen) -> String {
    let named = task_named(task, prompt);
    match then {
        StopThen::GiveUp => format!("{named} was stopped. This occurrence of it is not tried again."),
        StopThen::AskAgain => format!("{named} was stopped, and begins again."),
    }
}

/// Returns what a chat is told of a task that the host could not have run, with the hour of the next try where that is known.
#[must_use]
pub fn held_up_notice(
    ended: &Ended,
    task: &str,
    prompt: &str,
    becomes: HeldUp,
    again: Option<&str>,
) -> String {
    let (named, why) = (task_named(task, prompt), in_short(ended));
    let at = again.map_or_else(String::new, |again| format!(" at {again}"));
    match becomes {
        HeldUp::Waits { .. } => format!("{named} can't run now because {why}. I try again by myself{at}."),
        HeldUp::Over => format!("{named} could not run because {why}. I do not try any more."),
    }
}

/// Returns what a chat is told of a task that rests until then, as its runs were killed.
#[must_use]
pub fn rest_notice(task: &str, prompt: &str) -> String {
    let named = task_named(task, prompt);
    format!(
        "{named} got stuck three times within an hour, so it rests for an hour. `g2 tasks resume {task}` has it run at \
         once."
    )
}

/// Returns what a chat is told of a task, after its name, that has missed its only time.
#[must_use]
pub fn missed_notice(reason: SlotReason) -> String {
    match reason {
        SlotReason::Budget => {
            "was missed: the day's budget for my work was used up when it was due.".to_owned()
        }
        SlotReason::PreviousRun
        | SlotReason::Rest
        | SlotReason::Paused
        | SlotReason::HostDown
        | SlotReason::OutsideWindow
        | SlotReason::TooMany => {
            format!("was missed: I was not running when it was due ({}).", reason.says())
        }
    }
}

/// Names a task by its id and the beginning of its prompt.
#[must_use]
pub fn task_named(task: &str, prompt: &str) -> String {
    const MOST_CHARS: usize = 60;
    let prompt = ipc_handlers::outbound::strip_internal(prompt);
    let mut shown: String = prompt.chars().take(MOST_CHARS).collect();
    if shown.len() < prompt.len() {
        shown.push('…');
    }
    format!("Scheduled task {task} (“{shown}”)")
}

/// How much of a batch the agent can have read.
enum Reading {
    Done,
    /// There was nobody to give it to, and that was our doing.
    NotOffered,
    Unread,
    InHand,
}

fn reading(ended: &Ended, reached: Reached, said: Said) -> Reading {
    // The folder is sure of this even when the run said something: it was about something else.
    match reached {
        Reached::Done => return Reading::Done,
        Reached::FileUnread => return Reading::Unread,
        Reached::OnStdin | Reached::FileTaken | Reached::FileAbsent => {}
    }
    match ended.end {
        End::NeverCreated | End::NotNow { .. } => return Reading::NotOffered,
        End::NoImage { .. } | End::Engine { .. } if said == Said::Nothing => return Reading::Unread,
        End::NoImage { .. } | End::Engine { .. } | End::Exited { .. } | End::Gone => {}
    }
    match ended.runner {
        Runner::One if trouble(ended).is_none() && matches!(ended.end, End::Exited { .. }) => Reading::Done,
        // A run that has said something has read its document, announced or not.
        Runner::Two(Readiness::NotYet) if reached == Reached::OnStdin && said == Said::Nothing => {
            Reading::Unread
        }
        // A runner of ours keeps what it has taken until it has finished with it.
        Runner::Two(_) if reached == Reached::FileAbsent && said == Said::Nothing => Reading::Unread,
        Runner::One | Runner::Two(Readiness::NotYet | Readiness::Ready) => Reading::InHand,
    }
}

/// What was wrong with a run: the first that applies tells most.
enum Trouble<'e> {
    OwnerGone,
    Unwell(&'e str),
    NoSpace(&'e str),
    NeverReady { limit_ms: i64, seen: &'e str },
    Flooded(u64),
    Gap { expected: u64, got: u64 },
    NoImage(&'e str),
    Engine { doing: &'e str, why: &'e str },
    OutOfMemory,
    OutOfBudget,
    Refused(&'e Refused),
    ErrorRecord(&'e str),
    LeftUnready,
    Gone,
    ExitCode(i64),
}

fn trouble(ended: &Ended) -> Option<Trouble<'_>> {
    let by_us = match &ended.cause {
        Cause::Unwell { reason } => return Some(Trouble::Unwell(reason)),
        Cause::NoSpace { reason } => return Some(Trouble::NoSpace(reason)),
        Cause::NeverReady { limit_ms, seen } => {
            return Some(Trouble::NeverReady { limit_ms: *limit_ms, seen });
        }
        Cause::Flooded { limit_bytes } => return Some(Trouble::Flooded(*limit_bytes)),
        Cause::Gap { expected, got } => return Some(Trouble::Gap { expected: *expected, got: *got }),
        Cause::OwnerGone => return Some(Trouble::OwnerGone),
        Cause::Closed | Cause::Cancelled { .. } | Cause::OutOfBudget | Cause::Refused(_) => true,
        Cause::Itself => false,
    };
    match &ended.end {
        End::NeverCreated => return Some(Trouble::OwnerGone),
        End::NotNow { why } => return Some(Trouble::Engine { doing: "launching a container", why }),
        End::NoImage { image } => return Some(Trouble::NoImage(image)),
        End::Engine { doing, why } => return Some(Trouble::Engine { doing, why }),
        End::Exited { oom: true, .. } => return Some(Trouble::OutOfMemory),
        End::Exited { .. } | End::Gone => {}
    }
    if ended.cause == Cause::OutOfBudget && ended.error_record.is_some() {
        return Some(Trouble::OutOfBudget);
    }
    // One that we asked to leave may have met a limit long ago.
    let left = |refused: &Refused| match ended.end {
        End::Exited { code: 143, .. } => refused.what.is_weather(),
        End::Exited { code, .. } => code == 0,
        End::NeverCreated | End::NoImage { .. } | End::Engine { .. } | End::NotNow { .. } | End::Gone => {
            false
        }
    };
    if let Cause::Refused(refused) = &ended.cause
        && (ended.error_record.is_some() || !left(refused) || ended.runner == Runner::Two(Readiness::NotYet))
    {
        return Some(Trouble::Refused(refused));
    }
    if let Some(error) = &ended.error_record {
        return Some(Trouble::ErrorRecord(error));
    }
    match &ended.end {
        End::Exited { code: 0, .. } if !by_us && ended.runner == Runner::Two(Readiness::NotYet) => {
            Some(Trouble::LeftUnready)
        }
        // The signals with which we stop and kill; a process that we end leaves with one of these.
        End::Exited { code: 0, .. } => None,
        End::Exited { code: 137 | 143, .. } | End::Gone if by_us => None,
        End::Exited { code, .. } => Some(Trouble::ExitCode(*code)),
        End::NeverCreated | End::NotNow { .. } | End::NoImage { .. } | End::Engine { .. } | End::Gone => {
            Some(Trouble::Gone)
        }
    }
}

impl Trouble<'_> {
    /// The error as the ledger keeps it.
    fn for_people(&self) -> String {
        match self {
            Self::OwnerGone => "recovered stale active run".to_owned(),
            Self::Unwell(reason) => format!("ended because it {}", clipped(reason)),
            Self::NoSpace(reason) => format!("stopped: {}", clipped(reason)),
            Self::NeverReady { limit_ms, seen: "" } => {
                format!("not ready within {}", health::human(*limit_ms))
            }
            Self::NeverReady { limit_ms, seen } => {
                format!("not ready within {} ({})", health::human(*limit_ms), clipped(seen))
            }
            Self::Flooded(bytes) => format!("wrote more than {bytes} bytes"),
            Self::Gap { expected, got } => format!("record {expected} is missing: {got} came instead"),
            Self::NoImage(image) => {
                format!("image {image} is not there; build it with `g2 image build {image}`")
            }
            Self::Engine { doing, why } => format!("{doing} failed: {}", clipped(why)),
            Self::OutOfMemory => "out of memory".to_owned(),
            Self::OutOfBudget => "the group's budget of the day is used up".to_owned(),
            Self::Refused(refused) => clipped(&refused.why),
            Self::ErrorRecord(error) => clipped(error),
            Self::LeftUnready => "left before it was ready".to_owned(),
            Self::Gone => "the container is gone".to_owned(),
            Self::ExitCode(code) => format!("exited with code {code}"),
        }
    }

    /// The same for a chat, which may be public: without paths, names and texts of ours or of the agent's.
    fn for_a_chat(&self) -> &'static str {
        match self {
            Self::OwnerGone => "I was restarted",
            Self::Unwell(_) => "I got stuck",
            Self::NoSpace(_) => "the disk was nearly full and I wrote too much to it",
            Self::NeverReady { .. } => "I did not start in time",
            Self::Flooded(_) => "I wrote too much output",
            Self::Gap { .. } => "part of my output was lost",
            Self::NoImage(_) => Hindrance::NoImage.for_a_chat(),
            Self::Engine { .. } => Hindrance::Engine.for_a_chat(),
            Self::OutOfMemory => "I ran out of memory",
            Self::OutOfBudget => "today's budget for my work is used up",
            Self::Refused(refused) => refused.what.for_a_chat(),
            Self::ErrorRecord(_) => "there was an error",
            Self::LeftUnready => "I stopped before I had started",
            Self::Gone => "my container disappeared",
            Self::ExitCode(_) => "I crashed",
        }
    }
}

fn in_short(ended: &Ended) -> &'static str {
    match (&ended.cause, trouble(ended)) {
        (Cause::Cancelled { .. }, _) => "I was told to stop",
        (Cause::OutOfBudget, _) => Trouble::OutOfBudget.for_a_chat(),
        (Cause::Refused(refused), _) => refused.what.for_a_chat(),
        (_, Some(trouble)) => trouble.for_a_chat(),
        (_, None) => "I stopped too early",
    }
}

/// Returns the first line of a text of the agent's or the engine's, cut to what a ledger row needs.
fn clipped(text: &str) -> String {
    const MOST_CHARS: usize = 500;
    let line = text.trim().lines().next().unwrap_or_default();
    match line.char_indices().nth(MOST_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests;
