//! Tries an adapter: whether it keeps to the rules of the channel protocol, and whether its platform lets it in.
#![expect(clippy::disallowed_types, reason = "an adapter on trial is a process")]

use std::{io, process::Stdio, time::Duration};

use channel_protocol::{
    Can, Done, Down, Hello, Light, LineError, Lines, LookFor, MOST_OPEN, Send, Start, Up, VERSION, line,
};
use serde_json::{Map, Value};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    process::{ChildStdin, ChildStdout, Command},
    time::timeout,
};

mod verdicts;

pub use verdicts::Verdict;
use verdicts::Verdicts;

use super::remote::Ready;
use crate::{
    domain::{platforms::addresses::Platform, shown::screen},
    system::{
        confine::{Confined, Reach, WALLS},
        group::Group,
    },
};

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(10);
/// How long an adapter may take to leave.
const LEAVE: Duration = Duration::from_secs(5);
/// How long events are waited for.
const EVENTS: Duration = Duration::from_millis(500);
/// A secret that must not come back.
const SECRET: &str = "g2-trial-secret-4711";
/// How many lines of its log are told where a rule is broken.
const LAST_WORDS: usize = 5;
/// The longest log that is looked through, bytes.
const LONGEST_LOG: u64 = 1 << 20;

/// An adapter on trial. When it is dropped, all that the adapter started is killed.
struct Trial {
    group: Group,
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    lines: Lines,
    folder: tempfile::TempDir,
    /// Lines that are none of the protocol.
    wrong: Vec<String>,
    /// Events that were told, and those that `took` was said for.
    told: Vec<u64>,
    /// Chats of events that are not its own, and events without a key.
    strange: Vec<String>,
    state: Option<channel_protocol::State>,
}

/// How it was not heard any more.
enum Silence {
    Late,
    Ended,
}

impl Trial {
    /// `settings`: those of an account, whose adapter is shut in as the daemon does it; `None`: it has this user's rights.
    fn begin(command: &[String], settings: Option<&Ready>) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        for part in ["spool/in", "spool/out", "state"] {
            std::fs::DirBuilder::new().recursive(true).create(folder.path().join(part))?;
        }
        let log = std::fs::OpenOptions::new().create(true).append(true).open(folder.path().join("log"))?;
        let (program, arguments) =
            command.split_first().ok_or_else(|| io::Error::other("there is no program"))?;
        let below = |part: &str| folder.path().join(part);
        let mut group = match settings {
            Some(Ready { account, variables, .. }) => Confined {
                by: &std::env::current_exe()?,
                notes: &below("notes"),
                command,
                home: &below("state"),
                spool: Some(&below("spool")),
                reads: &account.reads,
                writes: &account.writes,
                reach: Reach::Network,
                variables,
                is_passing: true,
            }
            .start(Stdio::piped(), log.into())?,
            None => {
                let mut command = Command::new(program);
                command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
                Group::start(&mut command, below("notes"))?
            }
        };
        let (stdin, stdout) = (group.child.stdin.take(), group.child.stdout.take());
        let stdout = stdout.ok_or_else(|| io::Error::other("it has no output"))?;
        Ok(Self {
            group,
            stdin,
            stdout,
            lines: Lines::default(),
            folder,
            wrong: Vec::new(),
            told: Vec::new(),
            strange: Vec::new(),
            state: None,
        })
    }

    fn start(&self, v: u32, name: &str, config: &Map<String, Value>, upstream: Option<&str>) -> Start {
        let below = |part: &str| self.folder.path().join(part).display().to_string();
        Start {
            v,
            instance: name.into(),
            prefix: Platform::of_account(name).prefix().into(),
            config: config.clone(),
            spool: below("spool"),
            state_dir: below("state"),
            upstream: upstream.map(str::to_owned),
            ..Start::default()
        }
    }

    async fn write(&mut self, bytes: &[u8]) {
        if let Some(stdin) = &mut self.stdin {
            // An adapter that reads nothing does not answer, which is a verdict.
            let _ = timeout(ANSWER, stdin.write_all(bytes)).await;
        }
    }

    async fn say(&mut self, down: &Down) {
        let line = line(down).unwrap_or_default();
        self.write(&line).await;
    }

    /// Returns the next line within a time.
    async fn hear(&mut self, within: Duration) -> Result<Up, Silence> {
        let hearing = async {
            let mut buffer = vec![0; 64 << 10];
            loop {
                match self.lines.next_line::<Up>() {
                    Some(Ok(up)) => return Ok(up),
                    Some(Err(LineError::TooLong)) => {
                        self.wrong.push(LineError::TooLong.to_string());
                        return Err(Silence::Ended);
                    }
                    Some(Err(LineError::Unreadable { why, .. })) => self.wrong.push(why),
                    None => match self.stdout.read(&mut buffer).await {
                        Ok(0) | Err(_) => return Err(Silence::Ended),
                        Ok(read) => self.lines.push(&buffer[..read]),
                    },
                }
            }
        };
        timeout(within, hearing).await.unwrap_or(Err(Silence::Late))
    }

    /// Hears until `wanted` has something. Events are noted, and answered by `took` if `takes`.
    async fn until<T>(&mut self, takes: bool, mut wanted: impl FnMut(&Up) -> Option<T>) -> Option<T> {
        let end = tokio::time::Instant::now() + ANSWER;
        loop {
            let left = end.saturating_duration_since(tokio::time::Instant::now());
            let Ok(up) = self.hear(left).await else { return None };
            self.note(&up, takes).await;
            if let Some(found) = wanted(&up) {
                return Some(found);
            }
        }
    }

    async fn note(&mut self, up: &Up, takes: bool) {
        let n = match up {
            Up::Event(event) => {
                let own = event.chat.starts_with("trial:") && !event.key.is_empty();
                if !own && event.kind != channel_protocol::EventKind::Nothing {
                    self.strange.push(format!("chat {:?}, key {:?}", event.chat, event.key));
                }
                event.n
            }
            Up::ChatMoved { n, .. } | Up::PersonIs { n, .. } => *n,
            Up::State(state) => {
                self.state = Some(state.clone());
                return;
            }
            _ => return,
        };
        self.told.push(n);
        if takes {
            self.say(&Down::Took { n }).await;
        }
    }

    async fn hello(&mut self) -> Option<Hello> {
        self.until(false, |up| if let Up::Hello(hello) = up { Some((**hello).clone()) } else { None }).await
    }

    /// Says that no `hello` came, and what the adapter says of its platform instead.
    fn no_hello(&self, secrets: &[String]) -> String {
        let told = self.state.as_ref().map(|state| [&*state.why, &*state.hint]).into_iter().flatten();
        let told: Vec<&str> =
            ["no hello came"].into_iter().chain(told.filter(|said| !said.is_empty())).collect();
        verdicts::last_lines(&told.join("; "), 1, secrets).concat()
    }

    async fn ping(&mut self, r: u64) -> bool {
        self.say(&Down::Ping { r }).await;
        self.until(true, |up| (*up == Up::Pong { r }).then_some(())).await.is_some()
    }

    async fn send(&mut self, r: u64, chat: &str) -> Option<Done> {
        let send = Send {
            r,
            key: format!("trial.{r}.1"),
            chat: chat.into(),
            text: "a trial".into(),
            ..Send::default()
        };
        self.say(&Down::Send(Box::new(send))).await;
        self.until(true, |up| match up {
            Up::Done(done) if done.r == r => Some(done.clone()),
            _ => None,
        })
        .await
    }

    /// What the walls around it have said last.
    fn walls(&self) -> Option<String> {
        self.log().lines().filter_map(|line| line.strip_prefix(WALLS)).next_back().map(str::to_owned)
    }

    /// The last line that it has said beside the protocol.
    fn last_line(&self, secrets: &[String]) -> Option<String> {
        self.last_lines(1, secrets).pop()
    }

    /// The last lines that it has said beside the protocol, each as it can be shown.
    fn last_lines(&self, most: usize, secrets: &[String]) -> Vec<String> {
        verdicts::last_lines(&self.log(), most, secrets)
    }

    /// The end of what it has said beside the protocol.
    fn log(&self) -> String {
        use io::{Read as _, Seek as _};
        let mut text = Vec::new();
        let log = std::fs::OpenOptions::new().read(true).open(self.folder.path().join("log"));
        // As much as can be read.
        let _ = log.and_then(|mut log| {
            let length = log.metadata()?.len();
            log.seek(io::SeekFrom::Start(length.saturating_sub(LONGEST_LOG)))?;
            log.take(LONGEST_LOG).read_to_end(&mut text)
        });
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Waits for its end; returns its exit code.
    async fn end(&mut self, within: Duration) -> Option<i32> {
        let status = timeout(within, self.group.ended()).await.ok()?.ok()?;
        status.code()
    }
}

/// Starts an account's adapter until its platform has let it in.
///
/// # Errors
/// Why it did not, in a sentence for people.
pub async fn greet(ready: &Ready, within: Duration) -> Result<Hello, NotLetIn> {
    let no = |why: String| NotLetIn::Refused(screen::without(&why, &ready.secrets));
    let mut trial = Trial::begin(&ready.account.command, Some(ready)).map_err(|error| {
        no(format!("the adapter {} can't be started: {error}", ready.account.command.join(" ")))
    })?;
    let start = trial.start(VERSION, &ready.account.name, &ready.config, ready.account.upstream.as_deref());
    trial.say(&Down::Start(Box::new(start))).await;
    let end = tokio::time::Instant::now() + within;
    loop {
        match trial.hear(end.saturating_duration_since(tokio::time::Instant::now())).await {
            Ok(Up::Hello(hello)) => {
                trial.say(&Down::Stop {}).await;
                // It is killed afterwards.
                let _ = trial.end(LEAVE).await;
                return Ok(*hello);
            }
            Ok(Up::State(state)) if state.transport == Light::Refused => {
                // There is nothing to start anew yet.
                let hint = state.hint.replace("g2 channels restart", "g2 channels add");
                let told: Vec<&str> =
                    [&*state.why, &*hint].into_iter().filter(|words| !words.is_empty()).collect();
                return Err(no(told.join("; ")));
            }
            Ok(Up::State(state)) => trial.state = Some(state),
            Ok(_) => {}
            Err(silence) => {
                let why = trial.state.take().map(|state| state.why).filter(|why| !why.is_empty());
                let is_late = matches!(silence, Silence::Late);
                let (how, said) = match silence {
                    Silence::Late => {
                        (format!("the platform did not let it in within {} s", within.as_secs()), None)
                    }
                    Silence::Ended => ("its adapter ended".to_owned(), trial.last_line(&ready.secrets)),
                };
                let why = why.or(said);
                let how = trial.walls().map_or(how.clone(), |walls| format!("{how}; {walls}"));
                let why = why.map_or(how.clone(), |why| format!("{how}: {why}"));
                return Err(match is_late {
                    true => NotLetIn::Late(screen::without(&why, &ready.secrets)),
                    false => no(why),
                });
            }
        }
    }
}

/// Why an account is not let in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotLetIn {
    /// The platform, or its adapter, does not take it.
    #[error("{0}")]
    Refused(String),
    /// The platform said nothing in time: it may be out of reach.
    #[error("{0}")]
    Late(String),
}

/// Tries an adapter against every rule.
///
/// # Errors
/// It can't be started.
pub async fn run(
    command: &[String],
    config: Map<String, Value>,
    upstream: Option<String>,
) -> io::Result<Vec<Verdict>> {
    let mut config = config;
    config.entry("token").or_insert_with(|| SECRET.into());
    let secret = config["token"].as_str().unwrap_or(SECRET).to_owned();
    let secrets = verdicts::secrets(&config);
    let mut verdicts = Verdicts::default();
    let upstream = upstream.as_deref();

    let mut trial = Trial::begin(command, None)?;
    let start = trial.start(VERSION, "trial", &config, upstream);
    let mut text = serde_json::to_value(Down::Start(Box::new(start)))?;
    text["a_field_of_later"] = Value::from(1);
    trial.write(format!("{text}\n").as_bytes()).await;
    let hello = trial.hello().await;
    verdicts.rule(
        "hello: says who it is within 10 s of `start`, whatever more `start` has",
        hello.is_some(),
        &trial.no_hello(&secrets),
    );
    let Some(hello) = hello else {
        // It may be about to say why it ends.
        let _ = trial.end(EVENTS).await;
        return Ok(verdicts.of_a_life(&trial.last_lines(LAST_WORDS, &secrets)).all());
    };
    verdicts.rule("hello: speaks version 1", hello.v == VERSION, &format!("it says {}", hello.v));
    verdicts.rule(
        "hello: has a name and a longest text",
        !hello.adapter.is_empty() && hello.text.max > 0,
        "adapter or text.max is empty",
    );
    // Nothing is taken for a while: it may tell 64 events.
    let waited = async {
        loop {
            match trial.hear(EVENTS).await {
                Ok(up) => trial.note(&up, false).await,
                Err(_) => return,
            }
        }
    };
    // What came in that time is judged.
    let _ = timeout(ANSWER, waited).await;
    let open = u64::try_from(trial.told.len()).unwrap_or(u64::MAX);
    verdicts.rule("events: at most 64 wait for `took`", open <= MOST_OPEN, &format!("{open} came"));
    let up =
        trial.told.windows(2).all(|pair| pair[0] < pair[1]) && trial.told.first().is_none_or(|n| *n >= 1);
    verdicts.rule("events: their numbers count up from 1", up, &format!("{:?}", trial.told));
    for n in trial.told.clone() {
        trial.say(&Down::Took { n }).await;
    }
    verdicts.rule("ping: answers with the same number", trial.ping(9001).await, "no pong came");
    trial.write(b"{\"op\":\"levitate\",\"r\":1}\n").await;
    verdicts.rule(
        "lines: passes over an `op` that it does not know",
        trial.ping(9002).await,
        "it no longer answers",
    );
    trial.write(b"this is no JSON\n\n  \n[1]\n").await;
    verdicts.rule(
        "lines: passes over what is no line of the protocol",
        trial.ping(9003).await,
        "it no longer answers",
    );
    trial.write(b"{\"op\":\"ping\",\"r\":90").await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    trial.write(b"04,\"more\":{}}\n").await;
    let whole = trial.until(true, |up| (*up == Up::Pong { r: 9004 }).then_some(())).await.is_some();
    verdicts.rule("lines: reads a line that comes in two pieces", whole, "no pong came");
    trial.say(&Down::Took { n: 1 << 40 }).await;
    verdicts.rule(
        "took: passes over an event that it did not tell",
        trial.ping(9005).await,
        "it no longer answers",
    );
    let one = |done: &Done| {
        [done.ids.is_some(), done.not.is_some(), done.unknown.is_some()].iter().filter(|is| **is).count() == 1
    };
    let (first, second) = (trial.send(501, "trial:nobody").await, trial.send(502, "trial:nobody-else").await);
    verdicts.rule(
        "send: is answered by `done` with its number",
        first.is_some() && second.is_some(),
        "no done came",
    );
    let said = [&first, &second].into_iter().flatten().all(one);
    verdicts.rule(
        "send: `done` has one of `ids`, `not` and `unknown`",
        said,
        &format!("{first:?} {second:?}"),
    );
    let foreign = trial.send(503, "elsewhere:1").await;
    let refused = foreign.as_ref().is_some_and(|done| done.not.is_some());
    verdicts.rule(
        "send: certainly sends nothing to a chat of another account",
        refused,
        &format!("{foreign:?}"),
    );
    let look = LookFor {
        r: 504,
        key: "trial.501.1".into(),
        chat: "trial:nobody".into(),
        since: "2026-01-01T00:00:00Z".into(),
        ..LookFor::default()
    };
    trial.say(&Down::LookFor(look)).await;
    let found = trial
        .until(true, |up| match up {
            Up::Found(found) if found.r == 504 => Some(found.clone()),
            _ => None,
        })
        .await;
    let told = found.as_ref().is_some_and(|found| {
        usize::from(found.ids.is_some())
            + usize::from(found.not_sent)
            + usize::from(found.cannot_tell.is_some())
            == 1
    });
    verdicts.rule("look_for: is answered by `found` with one answer", told, &format!("{found:?}"));
    let amend = channel_protocol::Amend {
        r: 505,
        key: "trial.a".into(),
        chat: "trial:nobody".into(),
        id: "1".into(),
        text: Some("x".into()),
        ..Default::default()
    };
    trial.say(&Down::Amend(amend)).await;
    let amended = trial.until(true, |up| matches!(up, Up::Done(done) if done.r == 505).then_some(())).await;
    verdicts.rule("amend: is answered by `done`", amended.is_some(), "no done came");
    if hello.can.contains(&Can::ListChats) {
        trial.say(&Down::ListChats { r: 506 }).await;
        let listed = trial.until(true, |up| matches!(up, Up::Chats { r: 506, .. }).then_some(())).await;
        verdicts.rule("list_chats: is answered by `chats`", listed.is_some(), "no chats came");
    }
    trial
        .say(&Down::Show(channel_protocol::Hint {
            chat: "trial:nobody".into(),
            typing: true,
            ..Default::default()
        }))
        .await;
    verdicts.rule("show: is never a reason to stop", trial.ping(9006).await, "it no longer answers");
    verdicts.rule(
        "events: have a key, and a chat of this account",
        trial.strange.is_empty(),
        &trial.strange.join("; "),
    );
    trial.say(&Down::Stop {}).await;
    let code = trial.end(LEAVE).await;
    verdicts.rule(
        "stop: exits with 0 within 5 s",
        code == Some(0),
        &code.map_or("it did not exit".into(), |code| format!("it exited with {code}")),
    );
    // What it wrote until its end.
    while trial.hear(EVENTS).await.is_ok() {}
    verdicts.rule(
        "lines: writes lines of the protocol only, each at most 1 MiB",
        trial.wrong.is_empty(),
        &trial.wrong.join("; "),
    );
    verdicts.rule("log: never has the secret", !trial.log().contains(&secret), "it stands there");

    verdicts = verdicts.of_a_life(&trial.last_lines(LAST_WORDS, &secrets));

    let mut trial = Trial::begin(command, None)?;
    let start = trial.start(VERSION, "trial", &config, upstream);
    trial.say(&Down::Start(Box::new(start))).await;
    let again = trial.hello().await.is_some();
    verdicts.rule("hello: comes in a second life, too", again, "no hello came");
    trial.stdin = None;
    let left = trial.end(LEAVE).await;
    verdicts.rule("input: leaves within 5 s of its end", left.is_some(), "it did not exit");

    verdicts = verdicts.of_a_life(&trial.last_lines(LAST_WORDS, &secrets));

    let mut trial = Trial::begin(command, None)?;
    let start = trial.start(VERSION + 1, "trial", &config, upstream);
    trial.say(&Down::Start(Box::new(start))).await;
    let heard = timeout(LEAVE, async {
        loop {
            match trial.hear(LEAVE).await {
                Ok(Up::Hello(hello)) => return hello.v != VERSION + 1,
                Ok(Up::State(state)) if state.transport == Light::Refused => return true,
                Ok(_) => {}
                Err(Silence::Ended) => return true,
                Err(Silence::Late) => return false,
            }
        }
    })
    .await;
    verdicts.rule("start: does not speak a version that it does not know", heard == Ok(true), "it went on");
    Ok(verdicts.of_a_life(&trial.last_lines(LAST_WORDS, &secrets)).all())
}
