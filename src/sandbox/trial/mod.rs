//! Tries a runner: whether it keeps to the rules of `container/PROTOCOL.md`.
//!
//! It lives up to three lives, in an image or as a program, each with folders of its own that are removed with it. Every wait
//! ends: with what it was for, with the runner's own end, or when patience does. What the runner writes is bounded as in a run,
//! and no file that it can write is opened. Rules are tried in the order of [`Rule::CHOICES`]; one that is broken in the middle
//! of a life ends it, and the rules that wanted more of it are not tried.

mod folders;
mod life;
pub mod server;

use std::{io, time::Duration};

use ipc_handlers::{
    Folder,
    wire::{Launch, PROTOCOL, Record, Secrets, Status},
    words,
};

use self::{
    folders::{Folders, Gone},
    life::{Life, Stop},
};
use super::{Network, Sandbox, SandboxError};
use crate::domain::problems::checks::Check;

words! {
    /// What a runner promises.
    pub enum Rule: "rule" {
        /// Starts, reads its document, says something.
        Starts = "starts",
        /// Says `ready` first.
        Ready = "ready",
        /// Removes a `_close` of before, and stays.
        StaleClose = "stale_close",
        /// Ends a turn with a result.
        Answers = "answers",
        /// Gives a sign of life in a turn.
        Heartbeat = "heartbeat",
        /// Takes a follow-up, and removes its file.
        FollowUps = "follow_ups",
        /// Removes a file with an id of before.
        Repeats = "repeats",
        /// Sets aside what is no input.
        BadInput = "bad_input",
        /// Leaves with code 0 when it is asked to.
        Close = "close",
        /// Names each batch once, and no other.
        Handled = "handled",
        /// Numbers its records, and nothing else stands between markers.
        Records = "records",
        /// Begins anew where a session is not known.
        UnknownSession = "unknown_session",
        /// Leaves on SIGTERM.
        Term = "term",
        /// Says what is wrong with a document.
        BadDocument = "bad_document",
    }
}

impl Rule {
    /// Returns the check that tells of it.
    #[must_use]
    pub const fn check(self) -> Check {
        match self {
            Self::Starts => Check::RunnerStarts,
            Self::Ready => Check::RunnerReady,
            Self::StaleClose => Check::RunnerStaleClose,
            Self::Answers => Check::RunnerAnswers,
            Self::Heartbeat => Check::RunnerHeartbeat,
            Self::FollowUps => Check::RunnerFollowUps,
            Self::Repeats => Check::RunnerRepeats,
            Self::BadInput => Check::RunnerBadInput,
            Self::Close => Check::RunnerClose,
            Self::Handled => Check::RunnerHandled,
            Self::Records => Check::RunnerRecords,
            Self::UnknownSession => Check::RunnerUnknownSession,
            Self::Term => Check::RunnerTerm,
            Self::BadDocument => Check::RunnerBadDocument,
        }
    }

    /// Returns how a broken rule is mended.
    #[must_use]
    pub fn fix(self) -> &'static str {
        match self {
            Self::Starts => {
                "let the image's entry point (or the command) be the runner, which reads stdin to its end and runs as uid 1000 on a read-only root"
            }
            Self::Ready => {
                "write a record {\"type\":\"ready\",\"protocol\":2,\"seq\":1,…} before all others. A runner of version 1 needs its model: set network = \"open\" and credentials = \"stdin\" under [sandbox], and it is tried with both"
            }
            Self::StaleClose => "remove input/_close at the start, before `ready`",
            Self::Answers => {
                "end each turn with a record of status success that names its batch in `handled`"
            }
            Self::Heartbeat => "touch /workspace/ipc/state/heartbeat whenever the agent does something",
            Self::FollowUps => {
                "look into input/ while idle: rename ID.json to ID.claimed, answer with `handled`: [ID], remove ID.claimed"
            }
            Self::Repeats => "remember the ids that were taken, and remove a file whose id is one of them",
            Self::BadInput => "rename a file that is no input document to ID.json.bad, and go on",
            Self::Close => "leave with exit code 0 when input/_close appears and the turn is over",
            Self::Handled => "name each batch once, when the agent has finished with it",
            Self::Records => {
                "write each record with one write, with `seq` 1, 2, 3 …, as one line of JSON between the markers"
            }
            Self::UnknownSession => "begin a new session where the agent does not know `sessionId`",
            Self::Term => "do not ignore SIGTERM",
            Self::BadDocument => {
                "write a record of status error, and exit with a code that is not 0, where stdin is no launch document"
            }
        }
    }

    /// Whether runners of version 1 are held to it.
    fn is_of_v1(self) -> bool {
        !matches!(self, Self::Ready | Self::Heartbeat | Self::Repeats | Self::Handled)
    }
}

/// What came of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Kept(String),
    Broken(String),
    /// A rule before it was broken.
    NotTried,
    /// The runner speaks version 1, which has no such rule.
    NotOfV1,
}

/// How a runner is made to live.
pub struct Subject<'a> {
    pub sandbox: &'a dyn Sandbox,
    /// Empty for a program.
    pub image: String,
    /// Empty for an image's own entry point.
    pub command: Vec<String>,
    /// Who its containers belong to, for the clean-up.
    pub instance: String,
    pub user: (u32, u32),
    pub network: Network,
    /// What its document gives away.
    pub secrets: Secrets,
    /// How long one step may take.
    pub patience: Duration,
}

/// Why nothing could be tried.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    #[error("making the folders for a trial failed")]
    Folders(#[from] io::Error),
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
}

/// The group that a runner on trial works for.
const GROUP: &str = "trial";
/// A session that no agent knows.
const UNKNOWN: &str = "00000000-0000-4000-8000-000000000000";

/// Which protocol a runner turned out to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Speaks {
    V1,
    V2,
}

/// The rules with their outcomes.
#[derive(Default)]
struct Book(Vec<(Rule, Outcome)>);

impl Book {
    fn kept(&mut self, rule: Rule, words: impl Into<String>) {
        self.put(rule, Outcome::Kept(words.into()));
    }

    fn broken(&mut self, rule: Rule, words: impl Into<String>) {
        self.put(rule, Outcome::Broken(words.into()));
    }

    /// The first break of a rule counts; until then a later outcome takes the place of an earlier one.
    fn put(&mut self, rule: Rule, outcome: Outcome) {
        match self.0.iter_mut().find(|(of, _)| *of == rule) {
            Some((_, Outcome::Broken(_))) => {}
            Some((_, slot)) => *slot = outcome,
            None => self.0.push((rule, outcome)),
        }
    }

    /// All rules in their order.
    fn closed(self, speaks: Speaks) -> Vec<(Rule, Outcome)> {
        let of = |rule: Rule| {
            let found = self.0.iter().find(|(of, _)| *of == rule).map(|(_, outcome)| outcome.clone());
            match (found, speaks) {
                (Some(outcome), _) => outcome,
                (None, Speaks::V1) if !rule.is_of_v1() => Outcome::NotOfV1,
                (None, _) => Outcome::NotTried,
            }
        };
        Rule::CHOICES.iter().map(|(_, rule)| (*rule, of(*rule))).collect()
    }
}

/// Tries every rule; returns them in their order.
///
/// # Errors
/// [`TrialError`] where the sandbox itself can't be used. Containers may be left then: [`clear`] them.
pub async fn run(subject: &Subject<'_>) -> Result<Vec<(Rule, Outcome)>, TrialError> {
    let mut book = Book::default();
    let speaks = match first_life(subject, &mut book).await {
        Err(TrialError::Sandbox(error @ SandboxError::NoProgram { .. })) => {
            book.broken(Rule::Starts, error.to_string());
            Speaks::V2
        }
        other => other?,
    };
    let stands = |rule| book.0.iter().any(|(of, outcome)| *of == rule && matches!(outcome, Outcome::Kept(_)));
    if stands(Rule::Answers) {
        second_life(subject, &mut book, speaks).await?;
    }
    if !book.0.iter().any(|(rule, outcome)| *rule == Rule::Starts && matches!(outcome, Outcome::Broken(_))) {
        third_life(subject, &mut book).await?;
    }
    Ok(book.closed(speaks))
}

/// Removes every container of a trial.
///
/// # Errors
/// [`SandboxError`]
pub async fn clear(sandbox: &dyn Sandbox, instance: &str) -> Result<(), SandboxError> {
    for found in sandbox.list(instance).await? {
        sandbox.remove(&found.id).await?;
    }
    Ok(())
}

/// A conversation of four batches, and a friendly end.
async fn first_life(subject: &Subject<'_>, book: &mut Book) -> Result<Speaks, TrialError> {
    let folders = Folders::new(subject)?;
    folders.put("_close", b"")?;
    let mut life = Life::begin(subject, &folders, 1, &document(subject, None)).await?;
    let mut speaks = Speaks::V2;
    let talk = converse(&mut life, &folders, book, &mut speaks).await?;
    if talk.is_some() {
        book.kept(Rule::Handled, "each batch was named once");
        if speaks == Speaks::V1 {
            book.0.retain(|(rule, _)| *rule != Rule::Handled);
        }
        book.kept(Rule::Records, format!("{} records, nothing else between markers", life.count()));
    }
    judge_records(&life, speaks, book);
    life.end().await?;
    Ok(speaks)
}

/// `None`: a rule was broken, and the life can't go on.
async fn converse(
    life: &mut Life<'_>,
    folders: &Folders,
    book: &mut Book,
    speaks: &mut Speaks,
) -> Result<Option<()>, TrialError> {
    let first = match life.record().await {
        Ok(first) => first,
        Err(stop @ Stop::Silent { .. }) => {
            book.kept(Rule::Starts, "it runs");
            book.broken(Rule::Ready, stop.to_string());
            return Ok(None);
        }
        Err(stop) => {
            book.broken(Rule::Starts, format!("before any record {stop}"));
            return Ok(None);
        }
    };
    book.kept(Rule::Starts, "it started and read its document");
    if first.status == Status::Error {
        book.broken(Rule::Ready, format!("the first record is an error: {}", short(first.error.as_deref())));
        return Ok(None);
    }
    let mut answer = None;
    match (first.kind, first.protocol) {
        (ipc_handlers::wire::Kind::Ready, Some(PROTOCOL)) => book.kept(Rule::Ready, "it speaks protocol 2"),
        (ipc_handlers::wire::Kind::Ready, other) => {
            let named = other.map_or("none".to_owned(), |n| n.to_string());
            book.broken(Rule::Ready, format!("its `ready` names protocol {named}, not {PROTOCOL}"));
            return Ok(None);
        }
        // Only ours have a number.
        (_, _) if first.seq.is_some() || !first.handled.is_empty() => {
            book.broken(Rule::Ready, "the first record is not `ready`");
            return Ok(None);
        }
        (_, _) => {
            *speaks = Speaks::V1;
            answer = first.answer().map(str::to_owned).or(Some(String::new()));
        }
    }
    let said = match answer {
        Some(said) => Ok(said),
        None => life.turn("1", *speaks).await,
    };
    match said {
        Ok(said) => book.kept(Rule::Answers, format!("it said {:?}", short(Some(&said)))),
        Err(Stop::Ended { code: 0, .. }) => {
            book.broken(Rule::StaleClose, "it left on an input/_close that was there before it");
            return Ok(None);
        }
        Err(stop) => {
            book.broken(Rule::Answers, stop.to_string());
            return Ok(None);
        }
    }
    if *speaks == Speaks::V2 {
        if life.until_there(folders, "state/heartbeat").await {
            book.kept(Rule::Heartbeat, "state/heartbeat was touched in the turn");
        } else {
            book.broken(Rule::Heartbeat, "a turn was over and state/heartbeat was never touched");
        }
    }
    follow_up(life, folders, book, *speaks).await
}

async fn follow_up(
    life: &mut Life<'_>,
    folders: &Folders,
    book: &mut Book,
    speaks: Speaks,
) -> Result<Option<()>, TrialError> {
    folders.put("2.json", &input("2"))?;
    match life.turn("2", speaks).await {
        Ok(_) => {}
        Err(Stop::Ended { code: 0, .. }) => {
            book.broken(Rule::StaleClose, "it left on an input/_close that was there before it");
            return Ok(None);
        }
        Err(stop) => {
            book.broken(Rule::FollowUps, stop.to_string());
            return Ok(None);
        }
    }
    for name in ["input/2.json", "input/2.claimed"] {
        if let Gone::Still = life.until_gone(folders, name).await {
            book.broken(Rule::FollowUps, format!("the batch was answered, and {name} is still there"));
            return Ok(None);
        }
    }
    book.kept(Rule::FollowUps, "a follow-up was taken, answered and removed");
    if folders.has("input/_close") {
        book.broken(Rule::StaleClose, "an input/_close that was there before it is still there");
        return Ok(None);
    }
    book.kept(Rule::StaleClose, "an input/_close of before was removed");
    if speaks == Speaks::V2 {
        folders.put("2.json", &input("2"))?;
        match life.until_gone(folders, "input/2.json").await {
            Gone::Now if !folders.has("input/2.claimed") => {
                book.kept(Rule::Repeats, "a file with an id of before was removed");
            }
            Gone::Now => book.broken(Rule::Repeats, "a batch that it had answered was taken again"),
            Gone::Still => book.broken(Rule::Repeats, "a file with an id of before stays in input/"),
        }
    }
    folders.put("3.json", b"{")?;
    folders.put("4.json", &input("4"))?;
    if let Err(stop) = life.turn("4", speaks).await {
        book.broken(Rule::BadInput, format!("after a file that is no JSON: {stop}"));
        return Ok(None);
    }
    match life.until_gone(folders, "input/3.json").await {
        Gone::Now => book.kept(Rule::BadInput, "a file that is no JSON was set aside, the next one answered"),
        Gone::Still => book.broken(Rule::BadInput, "a file that is no JSON stays in the way as input/3.json"),
    }
    folders.put("_close", b"")?;
    match life.over().await {
        Stop::Ended { code: 0, .. } => book.kept(Rule::Close, "it left with exit code 0"),
        stop => {
            book.broken(Rule::Close, format!("after input/_close {stop}"));
            return Ok(None);
        }
    }
    Ok(Some(()))
}

/// A session that is not known, and a rude end.
async fn second_life(subject: &Subject<'_>, book: &mut Book, speaks: Speaks) -> Result<(), TrialError> {
    let folders = Folders::new(subject)?;
    let mut life = Life::begin(subject, &folders, 2, &document(subject, Some(UNKNOWN))).await?;
    match life.turn("1", speaks).await {
        Ok(_) => {
            book.kept(Rule::UnknownSession, "it answered in a new session");
            match life.terminate().await? {
                Some(code) if code != 137 => {
                    book.kept(Rule::Term, format!("it left on SIGTERM (exit code {code})"))
                }
                _ => book.broken(Rule::Term, "it did not leave on SIGTERM and was killed"),
            }
        }
        Err(stop) => book.broken(Rule::UnknownSession, stop.to_string()),
    }
    judge_records(&life, speaks, book);
    life.end().await
}

/// A document that is cut off.
async fn third_life(subject: &Subject<'_>, book: &mut Book) -> Result<(), TrialError> {
    let folders = Folders::new(subject)?;
    let mut life = Life::begin(subject, &folders, 3, b"{\"prompt\": ").await?;
    let mut told = false;
    let end = loop {
        match life.record().await {
            Ok(record) => told |= record.status == Status::Error,
            Err(stop) => break stop,
        }
    };
    match end {
        Stop::Ended { code, .. } if code != 0 && told => {
            book.kept(Rule::BadDocument, format!("it said an error and left with exit code {code}"));
        }
        Stop::Ended { code, .. } if code != 0 => {
            book.broken(Rule::BadDocument, format!("it left with exit code {code} and no error record"));
        }
        stop => book.broken(Rule::BadDocument, format!("with a document that is cut off {stop}")),
    }
    life.end().await
}

fn judge_records(life: &Life<'_>, speaks: Speaks, book: &mut Book) {
    if let Some(words) = life.misused(speaks) {
        book.broken(Rule::Records, words);
    }
    if let (Speaks::V2, Some(words)) = (speaks, life.misnamed()) {
        book.broken(Rule::Handled, words);
    }
}

fn document(subject: &Subject<'_>, session: Option<&str>) -> Vec<u8> {
    let batch = "1";
    let document = serde_json::json!({
        "prompt": prompt(batch), "sessionId": session, "groupFolder": GROUP, "chatJid": "local:trial", "isMain": false,
        "assistantName": "G2", "protocol": PROTOCOL, "runId": "1", "lane": "trial local:trial", "batchId": batch,
        "provider": {"name": "scripted"},
    });
    // Read by the host's own type first: a document of ours is one that a daemon could have written.
    match serde_json::from_value::<Launch>(document) {
        Ok(launch) => {
            let launch = Launch { secrets: subject.secrets.clone(), ..launch };
            serde_json::to_vec(&launch).unwrap_or_default()
        }
        Err(_) => Vec::new(),
    }
}

fn input(batch: &str) -> Vec<u8> {
    let input =
        ipc_handlers::wire::Input { kind: "message".into(), id: Some(batch.into()), text: prompt(batch) };
    serde_json::to_vec(&input).unwrap_or_default()
}

/// A prompt as agents get it.
fn prompt(batch: &str) -> String {
    format!(
        "<context timezone=\"UTC\" />\n<messages>\n<message sender=\"G2\" time=\"Jan 1, 2026, 1:30 PM\">This is trial {batch}. Please say one word.</message>\n</messages>"
    )
}

/// The beginning of a runner's text, as much as fits a row.
fn short(text: Option<&str>) -> String {
    text.unwrap_or_default().chars().take(120).collect()
}

fn folder() -> Option<Folder> {
    Folder::parse(GROUP).ok()
}

/// What a record says for a batch.
fn says(record: &Record) -> String {
    record.result.clone().unwrap_or_default()
}
