//! Our own runner in a container: the loop of `agent-runner`, over the twin and in the simulation's time, with a simulated agent
//! beneath it. It waits on a stack of its own, and may be slow, or die, at any call for a file and at any record.

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
    CommandBox, Event, FileError, Host, Reply, Turn, Turns, live_in,
    provider::{Leave, Provider, ProviderError},
    world::{Folder, Hints, World},
};
use g2::system::world::Clock as _;
use ipc_handlers::wire::Launch;
use serde_json::json;

use crate::{
    Asked, Calendar, Dice, Mailbox, Wants,
    agent::{Next, Said, Step, Temper, tokens},
    piece::{self, Piece},
};

/// The mailbox and the working folder, as in each container.
const IPC: &str = "/workspace/ipc";
const GROUP: &str = "/workspace/group";

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

/// The agent. It answers with the tokens in what it is told, and takes messages in the middle of a turn.
struct Simulated {
    place: Place,
    group: String,
    chat: String,
    run: String,
    /// Its session, until it has named it.
    session: Option<String>,
    asked: u64,
}

impl Simulated {
    fn start(place: Place, launch: &Launch, host: &Host) -> Result<Self, ProviderError> {
        let session = launch.session_id.clone().unwrap_or_else(|| format!("session-of-{}", launch.run_id));
        let mut agent = Self {
            group: launch.group_folder.clone(),
            chat: launch.chat_jid.clone(),
            run: launch.run_id.clone(),
            session: Some(session),
            asked: 0,
            place,
        };
        agent.place.pause(agent.place.0.dice.below(50));
        // Some name it only once they are up.
        if agent.place.chance(500) {
            agent.names_its_session(host)?;
        }
        Ok(agent)
    }

    fn names_its_session(&mut self, host: &Host) -> Result<(), ProviderError> {
        match self.session.take() {
            Some(session) => Ok(host.report(Event::Session(session))?),
            None => Ok(()),
        }
    }

    /// `Some`: that was its last turn.
    fn turn(&mut self, first: Turn, turns: &Turns, host: &Host) -> Result<Option<Leave>, ProviderError> {
        let (place, temper) = (self.place.clone(), self.place.temper());
        let below = |bound| place.0.dice.below(bound);
        host.report(Event::Alive)?;
        let mut begun = vec![first];
        let thinks = below(if place.chance(temper.thinks) { 300_000 } else { 2_000 });
        place.pause(thinks / 2);
        while place.chance(300)
            && let Some(more) = turns.waiting()?
        {
            begun.push(more);
        }
        place.pause(thinks / 2);
        if place.chance(temper.dies) {
            place.die();
        }
        if place.chance(temper.hangs) {
            place.hang();
        }
        if place.chance(temper.asks) {
            self.uses_a_tool(host)?;
        }
        if place.chance(temper.fails) {
            host.report(Event::Failed("the model refused".to_owned()))?;
            return Ok(Some(Leave::Exit(1)));
        }
        let mut texts: Vec<String> = begun.iter().map(|turn| answer(&turn.prompt)).collect();
        if place.chance(500) {
            texts = vec![texts.join("\n")];
        }
        let say = texts.pop();
        for text in texts {
            host.report(Event::Say(text))?;
            place.pause(below(500));
        }
        let batches: Vec<String> = begun.into_iter().filter_map(|turn| turn.batch).collect();
        if place.chance(temper.dies_late) {
            host.report(Event::Say(say.unwrap_or_default()))?;
            place.die();
        } else if place.chance(temper.defers) {
            host.report(Event::TurnDeferred { say, batches })?;
            place.pause(below(20_000));
            if place.chance(500) {
                host.report(Event::TurnDone { say: None, batches: Vec::new() })?;
            }
        } else {
            host.report(Event::TurnDone { say, batches })?;
        }
        Ok(place.chance(temper.leaves).then_some(Leave::Closed))
    }

    /// Gives a command, and waits for its reply.
    fn uses_a_tool(&mut self, host: &Host) -> Result<(), ProviderError> {
        let (place, dice) = (&self.place, &self.place.0.dice);
        // The mailbox counts its files the same way.
        let request = format!("{}-{}-{:06}", self.group, self.run, self.asked);
        self.asked += 1;
        let (command, wants) = if place.chance(300) {
            let token = format!("tok{}x", request.replace('-', "n"));
            let in_ms = 1_000 + i64::try_from(dice.below(60_000)).unwrap_or(0);
            let at = place.0.calendar.now().plus_ms(in_ms).to_string();
            let command = json!({
                "type": "schedule_task", "requestId": request, "targetJid": self.chat, "prompt": format!("do {token}"),
                "schedule_type": "once", "schedule_value": at,
            });
            (command, Wants::Task(token))
        } else {
            let text = format!("said {request}");
            let command =
                json!({"type": "send_message", "requestId": request, "chatJid": self.chat, "text": text});
            (command, Wants::Text(text))
        };
        let timeout_ms = place.chance(500).then(|| dice.below(60_000));
        host.report(Event::ToolStarted { name: "mcp__g2__tool".to_owned(), timeout_ms })?;
        let (group, chat, at) = (self.group.clone(), self.chat.clone(), place.0.calendar.passed());
        place.so_far().asks =
            Some(Asked { group, chat, request: request.clone(), wants, at, replies: Vec::new() });
        let to = dice.one(&[CommandBox::Messages, CommandBox::Tasks]);
        let reply = host.mailbox().send(to, &command);
        let mut so_far = place.so_far();
        so_far.asks = None;
        if let Ok(Reply::Text(reply)) = reply {
            so_far.replies.push((request, reply));
        }
        drop(so_far);
        Ok(host.report(Event::ToolFinished)?)
    }
}

impl Provider for Simulated {
    fn run(&mut self, turns: &Turns, host: &Host) -> Result<Leave, ProviderError> {
        self.names_its_session(host)?;
        while let Some(turn) = turns.next()? {
            if let Some(leave) = self.turn(turn, turns, host)? {
                return Ok(leave);
            }
        }
        Ok(Leave::Closed)
    }
}

/// Answers messages with their tokens. A summary of earlier ones may stand before them.
fn answer(prompt: &str) -> String {
    let messages = prompt.rsplit_once("<messages>").map_or(prompt, |(_, messages)| messages);
    format!("re {}", tokens(messages).collect::<Vec<_>>().join(" "))
}
