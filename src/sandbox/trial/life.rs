//! One life of a runner on trial: what it says, how it ends.

use std::{collections::BTreeSet, fmt, time::Duration};

use futures_util::{StreamExt as _, stream::BoxStream};
use ipc_handlers::wire::{Kind, Record, Status};
use tokio::time::{sleep, timeout};

use super::{Folders, Gone, Speaks, Subject, TrialError, folder, folders::BOXES, says, short};
use crate::sandbox::{
    Access, Chunk, Labels, Limits, Mount, SandboxError, Seat, Spec, Whose,
    output::{Parsed, Parser},
};

/// How long a runner may take to leave on SIGTERM.
const TERM: Duration = Duration::from_secs(30);
/// How often a folder is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// The part of stderr that is kept, bytes.
const LOG: usize = 2000;

/// Why nothing more is heard.
#[derive(Clone, Debug)]
pub(super) enum Stop {
    Ended {
        code: i64,
        log: String,
    },
    Flooded {
        bytes: u64,
    },
    Silent {
        seconds: u64,
    },
    /// The turn failed.
    Failed {
        error: String,
    },
    Lost {
        why: String,
    },
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended { code, log } if log.is_empty() => write!(f, "it ended with exit code {code}"),
            Self::Ended { code, log } => {
                write!(f, "it ended with exit code {code}; the end of its log: {log}")
            }
            Self::Flooded { bytes } => write!(f, "it wrote {bytes} bytes, more than a run may"),
            Self::Silent { seconds } => write!(f, "nothing came of it within {seconds} s"),
            Self::Failed { error } => write!(f, "it said that the turn failed: {error}"),
            Self::Lost { why } => write!(f, "it was lost: {why}"),
        }
    }
}

pub(super) struct Life<'a> {
    subject: &'a Subject<'a>,
    id: String,
    output: BoxStream<'static, Result<Chunk, SandboxError>>,
    parser: Parser,
    /// Parsed, not yet looked at.
    waiting: std::collections::VecDeque<Parsed>,
    records: u64,
    log: Vec<u8>,
    /// Batches that were given, and those that a record has named.
    given: BTreeSet<String>,
    named: BTreeSet<String>,
    misnamed: Option<String>,
    garbage: Option<String>,
    misnumbered: Option<String>,
}

impl<'a> Life<'a> {
    /// Creates and starts it, and gives it its document.
    pub(super) async fn begin(
        subject: &'a Subject<'a>,
        folders: &Folders,
        run: i64,
        document: &[u8],
    ) -> Result<Self, TrialError> {
        let spec = spec(subject, folders, run)?;
        let id = subject.sandbox.create(&spec).await?;
        let output = subject.sandbox.output(&id);
        let life = Self {
            subject,
            output,
            parser: Parser::new(),
            waiting: Default::default(),
            records: 0,
            log: Vec::new(),
            given: BTreeSet::from(["1".to_owned()]),
            named: BTreeSet::new(),
            misnamed: None,
            garbage: None,
            misnumbered: None,
            id,
        };
        // A runner that never reads its stdin must not hold us.
        let starting = subject.sandbox.start(&life.id, document.to_vec());
        match timeout(subject.patience, starting).await {
            Ok(started) => started?,
            Err(_) => subject.sandbox.kill(&life.id).await?,
        }
        Ok(life)
    }

    /// How many records there were.
    pub(super) fn count(&self) -> u64 {
        self.records
    }

    /// Returns the next record.
    pub(super) async fn record(&mut self) -> Result<Record, Stop> {
        match timeout(self.subject.patience, self.next()).await {
            Ok(next) => next,
            Err(_) => Err(self.silent()),
        }
    }

    /// Waits until a batch is handled; returns what was said for it.
    pub(super) async fn turn(&mut self, batch: &str, speaks: Speaks) -> Result<String, Stop> {
        self.given.insert(batch.to_owned());
        let waited = timeout(self.subject.patience, async {
            let mut said = String::new();
            loop {
                let record = self.next().await?;
                if record.status == Status::Error {
                    return Err(Stop::Failed { error: short(record.error.as_deref()) });
                }
                if let Some(text) = record.answer() {
                    said = text.to_owned();
                }
                match speaks {
                    Speaks::V2 if record.handled.iter().any(|id| id == batch) => return Ok(said),
                    Speaks::V1 if record.kind == Kind::Result => return Ok(says(&record)),
                    Speaks::V1 | Speaks::V2 => {}
                }
            }
        });
        match waited.await {
            Ok(said) => said,
            Err(_) => Err(self.silent()),
        }
    }

    /// Waits for the end.
    pub(super) async fn over(&mut self) -> Stop {
        let end = timeout(self.subject.patience, async {
            loop {
                if let Err(stop) = self.next().await {
                    return stop;
                }
            }
        });
        match end.await {
            Ok(stop) => stop,
            Err(_) => self.silent(),
        }
    }

    /// Waits until a file of the mailbox is gone.
    pub(super) async fn until_gone(&self, folders: &Folders, name: &str) -> Gone {
        let gone = timeout(self.subject.patience, async {
            while folders.has(name) {
                sleep(LOOK).await;
            }
        });
        if gone.await.is_ok() { Gone::Now } else { Gone::Still }
    }

    /// Waits until a file of the mailbox is there; returns whether it is.
    pub(super) async fn until_there(&self, folders: &Folders, name: &str) -> bool {
        let there = timeout(self.subject.patience, async {
            while !folders.has(name) {
                sleep(LOOK).await;
            }
        });
        there.await.is_ok()
    }

    /// Sends SIGTERM and returns the exit code, if it is known.
    pub(super) async fn terminate(&mut self) -> Result<Option<i64>, TrialError> {
        self.subject.sandbox.stop(&self.id, TERM).await?;
        let exit = timeout(self.subject.patience, self.subject.sandbox.wait(&self.id)).await;
        Ok(exit.ok().transpose()?.map(|exit| exit.code))
    }

    /// Ends it, whatever state it is in, and removes it.
    pub(super) async fn end(self) -> Result<(), TrialError> {
        self.subject.sandbox.kill(&self.id).await?;
        Ok(self.subject.sandbox.remove(&self.id).await?)
    }

    /// What was wrong with its records.
    pub(super) fn misused(&self, speaks: Speaks) -> Option<String> {
        let numbers = self.misnumbered.as_ref().filter(|_| speaks == Speaks::V2);
        self.garbage.as_ref().or(numbers).cloned()
    }

    /// What was wrong with the batches that it named.
    pub(super) fn misnamed(&self) -> Option<String> {
        self.misnamed.clone()
    }

    fn silent(&self) -> Stop {
        Stop::Silent { seconds: self.subject.patience.as_secs() }
    }

    async fn next(&mut self) -> Result<Record, Stop> {
        loop {
            match self.waiting.pop_front() {
                Some(Parsed::Record(record)) => {
                    self.note(&record);
                    return Ok(record);
                }
                Some(Parsed::Garbage { reason, sample }) => {
                    self.garbage.get_or_insert_with(|| format!("{reason}: {:?}", short(Some(&sample))));
                    continue;
                }
                None => {}
            }
            match self.output.next().await {
                Some(Ok(Chunk::Stdout(bytes))) => {
                    let mut parsed = Vec::new();
                    self.parser.push(&bytes, &mut parsed);
                    self.waiting.extend(parsed);
                }
                Some(Ok(Chunk::Stderr(bytes))) => {
                    self.log.extend(bytes);
                    let over = self.log.len().saturating_sub(LOG);
                    self.log.drain(..over);
                }
                Some(Err(SandboxError::Flooded { bytes })) => return Err(Stop::Flooded { bytes }),
                Some(Err(error)) => return Err(Stop::Lost { why: error.to_string() }),
                None => return Err(self.ended().await),
            }
        }
    }

    async fn ended(&self) -> Stop {
        match timeout(self.subject.patience, self.subject.sandbox.wait(&self.id)).await {
            Ok(Ok(exit)) => {
                let log = String::from_utf8_lossy(&self.log).trim().to_owned();
                let skip = log.chars().count().saturating_sub(300);
                Stop::Ended { code: exit.code, log: log.chars().skip(skip).collect() }
            }
            Ok(Err(error)) => Stop::Lost { why: error.to_string() },
            Err(_) => self.silent(),
        }
    }

    fn note(&mut self, record: &Record) {
        self.records += 1;
        let number = self.records;
        if record.seq != Some(number) {
            let found = record.seq.map_or("no `seq`".to_owned(), |seq| format!("`seq` {seq}"));
            self.misnumbered.get_or_insert_with(|| format!("record {number} has {found}"));
        }
        for id in &record.handled {
            let words = if !self.given.contains(id) {
                format!("it named batch {:?}, which it was not given", short(Some(id)))
            } else if !self.named.insert(id.clone()) {
                format!("it named batch {id} twice")
            } else {
                continue;
            };
            self.misnamed.get_or_insert(words);
        }
    }
}

fn spec(subject: &Subject<'_>, folders: &Folders, run: i64) -> Result<Spec, TrialError> {
    let group = folder().ok_or_else(|| std::io::Error::other("no such folder"))?;
    let own =
        |host, inside: &str, access| Mount { host, inside: inside.to_owned(), access, whose: Whose::Own };
    let mut mounts = vec![
        own(folders.group(), "/workspace/group", Access::ReadWrite),
        own(folders.ipc(), "/workspace/ipc", Access::ReadOnly),
        own(folders.home(), "/home/node/.claude", Access::ReadWrite),
    ];
    mounts.extend(
        BOXES.map(|name| own(folders.ipc().join(name), &format!("/workspace/ipc/{name}"), Access::ReadWrite)),
    );
    let home =
        if subject.image.is_empty() { folders.home().display().to_string() } else { "/home/node".to_owned() };
    Ok(Spec {
        name: format!("{}-{run}", subject.instance),
        run,
        group,
        instance: subject.instance.clone(),
        image: subject.image.clone(),
        command: subject.command.clone(),
        mounts,
        env: [("TZ", "UTC".to_owned()), ("TMPDIR", "/tmp".to_owned()), ("HOME", home)]
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
        user: subject.user,
        network: subject.network,
        labels: Labels::Keep,
        scratch: vec!["/home/node".to_owned()],
        limits: Limits { memory_bytes: Some(2 << 30), cpus: None, pids: Some(512), output_bytes: 16 << 20 },
        seat: Seat { group: folders.group(), ipc: folders.ipc() },
    })
}
