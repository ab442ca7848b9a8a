//! Our own runner in a container: the loop of `agent-runner`, over the twin and in the simulation's time, with a simulated agent
//! beneath it. It waits on a stack of its own, and may be slow, or die, at any call for a file and at any record.

mod beneath;

use std::{
    cell::RefCell,
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    future::{pending, poll_fn},
    io,
    path::Path,
    pin::{Pin, pin},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use agent_runner::{
    FileError, live_in,
    world::{Folder, Hints, World},
};
use g2::system::world::Clock as _;

use self::beneath::Simulated;
use crate::{
    Asked, Calendar, Dice, Mailbox,
    agent::{Agent, Next, Said, Step, Temper},
    piece::{self, Piece},
};

/// The mailbox and the working folder, as in each container.
const IPC: &str = "/workspace/ipc";
const GROUP: &str = "/workspace/group";

/// What runs in a container.
pub(crate) enum Inside {
    Agent(Box<Agent>),
    Runner(Runner),
}

impl Inside {
    pub(crate) fn step(&mut self, now: u64, asked: &mut Vec<Asked>) -> Step {
        match self {
            Self::Agent(agent) => agent.step(now, asked),
            Self::Runner(runner) => runner.step(now, asked),
        }
    }

    pub(crate) fn calm(&mut self) {
        match self {
            Self::Agent(agent) => agent.calm(),
            Self::Runner(runner) => runner.calm(),
        }
    }
}

type Life = Pin<Box<dyn Future<Output = ()>>>;

thread_local! {
    /// The lives of the runners, which can't leave their thread.
    static LIVES: RefCell<BTreeMap<u64, Life>> = const { RefCell::new(BTreeMap::new()) };
}

/// A runner at work. Dropped, it is killed.
pub(crate) struct Runner {
    number: u64,
    place: Place,
}

impl Runner {
    /// Begins with the document on its stdin.
    pub(crate) fn new(
        calendar: Calendar,
        dice: Dice,
        temper: Temper,
        mailbox: Box<dyn Mailbox>,
        stdin: Vec<u8>,
    ) -> Self {
        let so_far = SoFar { temper, ..SoFar::default() };
        let place = Place(Arc::new(Inner {
            calendar,
            dice,
            mailbox: Mutex::new(mailbox),
            so_far: Mutex::new(so_far),
        }));
        let of_work = place.clone();
        let life: Life = Box::pin(Piece::new(Box::new(move || of_work.lives(&stdin))).done());
        let number = LIVES.with_borrow_mut(|lives| {
            let number = lives.last_key_value().map_or(0, |(last, _)| last + 1);
            lives.insert(number, life);
            number
        });
        Self { number, place }
    }

    /// The faults are over: its agent behaves from now on.
    pub(crate) fn calm(&self) {
        self.place.so_far().temper = Temper::GOOD;
    }

    /// Goes on until it waits for a while.
    pub(crate) fn step(&self, now: u64, asked: &mut Vec<Asked>) -> Step {
        self.place.so_far().due = None;
        let life = LIVES.with_borrow_mut(|lives| lives.remove(&self.number));
        if let Some(mut life) = life {
            let _ = life.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            LIVES.with_borrow_mut(|lives| lives.insert(self.number, life));
        }
        let mut so_far = self.place.so_far();
        asked.append(&mut so_far.asked);
        for (request, reply) in so_far.replies.drain(..) {
            if let Some(waits) = asked.iter_mut().find(|asked| asked.request == request) {
                waits.replies.push(reply);
            }
        }
        let next = match (so_far.left, so_far.due) {
            (Some(code), _) => Next::Left(code),
            (None, Some(due)) => Next::In(due.saturating_sub(now)),
            (None, None) => Next::Never,
        };
        Step { said: std::mem::take(&mut so_far.said), next }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        drop(LIVES.with_borrow_mut(|lives| lives.remove(&self.number)));
    }
}

/// A runner's place in the world. Clones are the same.
#[derive(Clone)]
struct Place(Arc<Inner>);

struct Inner {
    calendar: Calendar,
    dice: Dice,
    mailbox: Mutex<Box<dyn Mailbox>>,
    so_far: Mutex<SoFar>,
}

/// What came of a runner so far.
struct SoFar {
    temper: Temper,
    /// When it goes on; `None`: never.
    due: Option<u64>,
    said: Said,
    /// The command that it is about to write.
    asks: Option<Asked>,
    asked: Vec<Asked>,
    /// The replies that it found, each with its request.
    replies: Vec<(String, String)>,
    left: Option<i64>,
}

impl Default for SoFar {
    fn default() -> Self {
        Self {
            temper: Temper::GOOD,
            due: None,
            said: Vec::new(),
            asks: None,
            asked: Vec::new(),
            replies: Vec::new(),
            left: None,
        }
    }
}

impl Place {
    fn so_far(&self) -> MutexGuard<'_, SoFar> {
        self.0.so_far.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn temper(&self) -> Temper {
        self.so_far().temper
    }

    fn chance(&self, per_mille: u64) -> bool {
        self.0.dice.per_mille(per_mille)
    }

    /// The whole of its life.
    fn lives(&self, stdin: &[u8]) {
        let world: Arc<dyn World> = Arc::new(self.clone());
        let code =
            live_in(&world, (IPC.into(), GROUP.into()), stdin, Box::new(self.clone()), |launch, host| {
                Ok(Box::new(Simulated::start(self.clone(), launch, host)?))
            });
        self.so_far().left = Some(code.into());
    }

    /// Lets time pass, ms.
    fn pause(&self, ms: u64) {
        let until = self.0.calendar.passed() + ms.max(1);
        self.so_far().due = Some(until);
        let passed = || self.0.calendar.passed() >= until;
        piece::wait(pin!(poll_fn(|_| if passed() { Poll::Ready(()) } else { Poll::Pending })));
    }

    /// Does nothing any more.
    fn hang(&self) {
        self.so_far().due = None;
        piece::wait(pin!(pending()));
    }

    fn die(&self) {
        self.so_far().left = Some(137);
        self.hang();
    }

    /// Whether it dies here, in the middle of things.
    fn dies_here(&self) -> bool {
        self.chance(self.temper().dies_late / 4)
    }

    /// It may have been interrupted for a moment.
    fn is_slow(&self) {
        if self.chance(10) {
            self.pause(self.0.dice.below(40));
        }
    }
}

impl World for Place {
    fn folder(&self, path: &Path) -> Result<Box<dyn Folder>, FileError> {
        let place = path.strip_prefix(IPC).ok().and_then(Path::to_str).unwrap_or("nowhere").to_owned();
        let mailbox = self.0.mailbox.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = mailbox.folder(&place, path)?;
        let takes_commands = ["messages", "tasks"].contains(&place.as_str());
        Ok(Box::new(Slow { folder, takes_commands, place: self.clone() }))
    }

    fn made_folder(&self, path: &Path) -> Result<Box<dyn Folder>, FileError> {
        self.folder(path)
    }

    fn hints(&self, _: &Path) -> Box<dyn Hints> {
        Box::new(self.clone())
    }

    fn wall_ms(&self) -> i64 {
        self.0.calendar.now().0
    }

    fn passed(&self) -> Duration {
        Duration::from_millis(self.0.calendar.passed())
    }
}

impl Hints for Place {
    fn wait(&mut self, at_most: Duration) {
        let most = u64::try_from(at_most.as_millis()).unwrap_or(u64::MAX);
        self.pause(if self.chance(900) { most } else { self.0.dice.below(most.max(1)) });
    }

    fn found(&mut self) {}
}

/// Its stdout.
impl io::Write for Place {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.is_slow();
        let dies = self.dies_here();
        let most = bytes.len() as u64;
        let n = if dies { usize::try_from(self.0.dice.below(most + 1)).unwrap_or(0) } else { bytes.len() };
        self.so_far().said.extend_from_slice(&bytes[..n]);
        if dies {
            self.die();
        }
        self.is_slow();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A folder whose calls take time, and may be the last.
struct Slow {
    folder: Box<dyn Folder>,
    /// What is published here is a command.
    takes_commands: bool,
    place: Place,
}

impl Slow {
    /// Before a call that changes something, and after it.
    fn changes<T>(&self, call: impl FnOnce() -> T) -> T {
        let part = || {
            self.place.is_slow();
            if self.place.dies_here() {
                self.place.die();
            }
        };
        part();
        let done = call();
        part();
        done
    }
}

impl Folder for Slow {
    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn names(&self) -> Result<Vec<OsString>, FileError> {
        self.place.is_slow();
        self.folder.names()
    }

    fn has(&self, name: &OsStr) -> bool {
        self.folder.has(name)
    }

    fn read(&self, name: &OsStr, limit: u64) -> Result<Option<Vec<u8>>, FileError> {
        self.place.is_slow();
        self.folder.read(name, limit)
    }

    fn rename(&self, from: &OsStr, to: &OsStr) -> Result<bool, FileError> {
        self.changes(|| self.folder.rename(from, to))
    }

    fn remove(&self, name: &OsStr) -> Result<(), FileError> {
        self.changes(|| self.folder.remove(name))
    }

    fn publish(&self, name: &str, bytes: &[u8]) -> Result<(), FileError> {
        self.changes(|| {
            self.folder.publish(name, bytes)?;
            let mut so_far = self.place.so_far();
            if let Some(asked) = so_far.asks.take_if(|_| self.takes_commands) {
                so_far.asked.push(asked);
            }
            Ok(())
        })
    }

    fn touch(&self, name: &str) -> Result<(), FileError> {
        self.changes(|| self.folder.touch(name))
    }
}
