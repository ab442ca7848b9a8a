//! An agent in a container, with its runner: reads its document, answers, asks for things by files, dies. It keeps to
//! `container/PROTOCOL.md`, and answers each message with the words in it that begin with `tok`.

use std::collections::{BTreeSet, VecDeque};

use ipc_handlers::wire::{
    CLOSE_FILE, Input, Kind, Launch, OUTPUT_END, OUTPUT_START, PROTOCOL, Record, Status,
};
use serde_json::json;

use g2::system::world::Clock as _;

use crate::{Asked, Calendar, Dice, Mailbox, Wants, template::FILES};

/// An agent's behaviour: of 1 000 turns, the number of those in which it does each.
#[derive(Clone, Copy, Debug)]
pub struct Temper {
    /// It dies before it answers.
    pub dies: u64,
    /// It dies after it answered, before it says which batch that was.
    pub dies_late: u64,
    /// It says that its turn failed.
    pub fails: u64,
    /// It says nothing any more.
    pub hangs: u64,
    /// It asks for something by a command.
    pub asks: u64,
    /// It thinks for up to five minutes.
    pub thinks: u64,
    /// It works on after its turn.
    pub defers: u64,
    /// It leaves by itself after its turn.
    pub leaves: u64,
    /// It says the beginning of its answer first.
    pub grows: u64,
}

impl Temper {
    /// One that does all that it should.
    pub const GOOD: Self = Self {
        dies: 0,
        dies_late: 0,
        fails: 0,
        hangs: 0,
        asks: 300,
        thinks: 0,
        defers: 0,
        leaves: 20,
        grows: 300,
    };
    /// One that often does not.
    pub const BAD: Self = Self {
        dies: 40,
        dies_late: 20,
        fails: 40,
        hangs: 15,
        asks: 400,
        thinks: 60,
        defers: 40,
        leaves: 60,
        grows: 300,
    };
}

/// What an agent writes to its output.
pub type Said = Vec<u8>;

/// How an agent ended.
pub type Left = i64;

/// An agent at work.
pub struct Agent {
    calendar: Calendar,
    dice: Dice,
    temper: Temper,
    mailbox: Box<dyn Mailbox>,
    group: String,
    chat: String,
    run: String,
    task: bool,
    session: String,
    token: ipc_handlers::token::RunToken,
    seq: u64,
    asked: u64,
    taken: BTreeSet<String>,
    /// What it does next, one after the other.
    next: VecDeque<Act>,
}

/// One act of an agent.
enum Act {
    Ready,
    /// Begins with a batch; a task's has none.
    Turn {
        batch: Option<String>,
        prompt: String,
    },
    Say {
        text: Option<String>,
        handled: Vec<String>,
        kind: Kind,
    },
    /// What there is of an answer so far.
    SayBeginning(String),
    Fail,
    /// Removes a file of `input/` that is finished with.
    Finished(String),
    Ask,
    /// Waits for the reply to this command until then.
    Reply {
        id: String,
        until: u64,
    },
    Die,
    Hang,
    Leave,
}

/// What came of a step: what was said, and when the next one is to be, ms from now.
pub struct Step {
    pub said: Said,
    pub next: Next,
}

/// What an agent does after a step.
pub enum Next {
    In(u64),
    Never,
    Left(Left),
}

impl Agent {
    /// Begins with the document on its stdin; `None`: it does not understand that.
    #[must_use]
    pub fn new(
        calendar: Calendar,
        dice: Dice,
        temper: Temper,
        mailbox: Box<dyn Mailbox>,
        stdin: &[u8],
    ) -> Option<Self> {
        let launch: Launch = serde_json::from_slice(stdin).ok()?;
        let batch = Some(launch.batch_id.clone()).filter(|id| !id.is_empty());
        let session = launch.session_id.unwrap_or_else(|| format!("session-of-{}", launch.run_id));
        // A `_close` from before is not meant for this life.
        mailbox.remove("input", CLOSE_FILE);
        Some(Self {
            calendar,
            dice,
            temper,
            mailbox,
            group: launch.group_folder,
            chat: launch.chat_jid,
            run: launch.run_id,
            task: launch.is_scheduled_task,
            session,
            token: launch.token,
            seq: 0,
            asked: 0,
            taken: batch.iter().cloned().collect(),
            next: [Act::Ready, Act::Turn { batch, prompt: launch.prompt }].into(),
        })
    }

    /// The faults are over: it behaves from now on.
    pub fn calm(&mut self) {
        self.temper = Temper::GOOD;
    }

    /// Does one thing at `now`, ms.
    pub fn step(&mut self, now: u64, asked: &mut Vec<Asked>) -> Step {
        let mut said = Vec::new();
        let next = self.act(now, &mut said, asked);
        Step { said, next }
    }

    fn act(&mut self, now: u64, said: &mut Said, asked: &mut Vec<Asked>) -> Next {
        let Some(act) = self.next.pop_front() else { return self.looks() };
        match act {
            Act::Ready => {
                let ready = Record { kind: Kind::Ready, protocol: Some(PROTOCOL), ..Record::default() };
                self.record(said, ready);
                Next::In(self.dice.below(50))
            }
            Act::Turn { batch, prompt } => self.turn(batch, &prompt),
            Act::Say { text, handled, kind } => {
                let session = Some(self.session.clone());
                let done = handled.clone();
                self.record(
                    said,
                    Record { result: text, handled, kind, new_session_id: session, ..Record::default() },
                );
                for batch in done.into_iter().rev() {
                    self.next.push_front(Act::Finished(batch));
                }
                self.alive();
                Next::In(self.dice.below(30))
            }
            Act::SayBeginning(text) => {
                self.record(said, Record { result: Some(text), kind: Kind::SoFar, ..Record::default() });
                self.alive();
                Next::In(self.dice.below(3_000))
            }
            Act::Fail => {
                let error = Some("the model refused".to_owned());
                self.record(said, Record { status: Status::Error, error, ..Record::default() });
                self.next.push_front(Act::Leave);
                Next::In(self.dice.below(30))
            }
            Act::Finished(batch) => {
                self.mailbox.remove("input", &format!("{batch}.claimed"));
                Next::In(0)
            }
            Act::Ask => self.ask(now, asked),
            Act::Reply { id, until } => {
                let name = format!("{id}.json");
                match self.mailbox.read("responses", &name) {
                    Some(reply) => {
                        self.mailbox.remove("responses", &name);
                        if let Some(waits) = asked.iter_mut().find(|asked| asked.request == id) {
                            waits.replies.push(String::from_utf8_lossy(&reply).into_owned());
                        }
                    }
                    None if now < until => self.next.push_front(Act::Reply { id, until }),
                    None => {}
                }
                Next::In(20)
            }
            Act::Die => Next::Left(137),
            Act::Hang => Next::Never,
            Act::Leave => Next::Left(0),
        }
    }

    /// Looks for more to do.
    fn looks(&mut self) -> Next {
        if self.task {
            return Next::Left(0);
        }
        let names = self.mailbox.names("input");
        if names.iter().any(|name| name == CLOSE_FILE) {
            self.mailbox.remove("input", CLOSE_FILE);
            return Next::Left(0);
        }
        let mut waiting: Vec<&str> = names
            .iter()
            .filter_map(|name| name.strip_suffix(".json"))
            .filter(|id| !id.starts_with('.'))
            .collect();
        waiting.sort_by_key(|id| id.parse::<u64>().unwrap_or(u64::MAX));
        for id in waiting {
            let (name, claimed) = (format!("{id}.json"), format!("{id}.claimed"));
            if self.taken.contains(id) {
                self.mailbox.remove("input", &name);
                continue;
            }
            if !self.mailbox.rename("input", &name, &claimed) {
                continue;
            }
            self.taken.insert(id.to_owned());
            let read = self.mailbox.read("input", &claimed);
            let input = read.and_then(|bytes| serde_json::from_slice::<Input>(&bytes).ok());
            let Some(input) = input else { continue };
            self.next.push_back(Act::Turn { batch: Some(id.to_owned()), prompt: input.text });
            return Next::In(0);
        }
        Next::In(if self.dice.per_mille(900) { 500 } else { 5 })
    }

    fn turn(&mut self, batch: Option<String>, prompt: &str) -> Next {
        self.alive();
        let temper = self.temper;
        let messages = messages_of(prompt);
        let words: Vec<&str> = tokens(&messages).collect();
        let text = format!("re {}", words.join(" "));
        let handled: Vec<String> = batch.into_iter().collect();
        let chance = |of: u64| self.dice.per_mille(of);
        if chance(temper.dies) {
            self.next.push_back(Act::Die);
        } else if chance(temper.hangs) {
            self.next.push_back(Act::Hang);
        } else {
            if chance(temper.asks) {
                self.next.push_back(Act::Ask);
            }
            if chance(temper.grows) {
                let words = text.split_inclusive(' ').collect::<Vec<_>>();
                for n in 1..words.len() {
                    self.next.push_back(Act::SayBeginning(words[..n].concat()));
                }
                if chance(temper.dies) {
                    self.next.push_back(Act::Die);
                }
            }
            if chance(temper.fails) {
                self.next.push_back(Act::Fail);
            } else if chance(temper.dies_late) {
                self.next.push_back(Act::Say { text: Some(text), handled: Vec::new(), kind: Kind::Result });
                self.next.push_back(Act::Die);
            } else if chance(temper.defers) {
                self.next.push_back(Act::Say { text: Some(text), handled: Vec::new(), kind: Kind::Result });
                self.next.push_back(Act::Say { text: None, handled, kind: Kind::Deferred });
            } else {
                self.next.push_back(Act::Say { text: Some(text), handled, kind: Kind::Result });
                if self.task {
                    self.next.push_back(Act::Say { text: None, handled: Vec::new(), kind: Kind::Result });
                }
            }
            if self.dice.per_mille(temper.leaves) {
                self.next.push_back(Act::Leave);
            }
        }
        let thinks = if self.dice.per_mille(temper.thinks) { 300_000 } else { 2_000 };
        Next::In(self.dice.below(thinks))
    }

    fn ask(&mut self, now: u64, asked: &mut Vec<Asked>) -> Next {
        self.asked += 1;
        let request = format!("{}-{}-{}", self.group, self.run, self.asked);
        let token = format!("tok{}x", request.replace('-', "n"));
        let text = format!("said {request}");
        let (mut command, wants) = match self.dice.below(10) {
            0..2 => {
                let at =
                    self.calendar.now().plus_ms(1_000 + i64::try_from(self.dice.below(60_000)).unwrap_or(0));
                let command = json!({
                    "type": "schedule_task", "targetJid": self.chat, "prompt": format!("do {token}"),
                    "schedule_type": "once", "schedule_value": at.to_string(), "output": self.output(),
                });
                (command, Wants::Task(token))
            }
            4 => {
                let (kind, value) = self.dice.one(&[
                    ("cron", "* * * * *"),
                    ("cron", "*/2 * * * *"),
                    ("cron", "* 2 * * *"),
                    ("interval", "20s"),
                    ("interval", "45s"),
                ]);
                let command = json!({
                    "type": "schedule_task", "targetJid": self.chat, "prompt": format!("do {token}"), "taskId": request,
                    "schedule_type": kind, "schedule_value": value, "output": self.output(),
                    "catchUp": self.dice.one(&["latest", "all", "skip"]),
                });
                (command, Wants::Tasks(token))
            }
            5 => {
                let command = question(&self.chat, &token, 1 + self.dice.below(10));
                (command, Wants::Answer(token))
            }
            2..4 => {
                let n = self.dice.below(FILES);
                let command = json!({
                    "type": "send_message", "chatJid": self.chat, "text": text,
                    "attachments": [{"filePath": format!("/workspace/group/file{n}.bin")}],
                });
                (command, Wants::File { text, n })
            }
            _ => {
                let command = json!({"type": "send_message", "chatJid": self.chat, "text": text});
                (command, Wants::Text(text))
            }
        };
        command["requestId"] = request.clone().into();
        if let Some(seal) = self.token.seal(&command) {
            command["token"] = seal.into();
        }
        let place = if self.dice.per_mille(500) { "messages" } else { "tasks" };
        let name = format!("{now:013}-{request}.json");
        if self.mailbox.publish(place, &name, command.to_string().as_bytes()).is_ok() {
            let (group, chat) = (self.group.clone(), self.chat.clone());
            asked.push(Asked { group, chat, request: request.clone(), wants, at: now, replies: Vec::new() });
            self.next.push_front(Act::Reply { id: request, until: now + 10_000 });
        }
        Next::In(5)
    }

    /// Where goes what it says in a task.
    fn output(&self) -> &'static str {
        self.dice.one(&["history", "chat"])
    }

    fn alive(&self) {
        let _ = self.mailbox.publish("state", "heartbeat", b"");
    }

    fn record(&mut self, said: &mut Said, record: Record) {
        self.seq += 1;
        let line = serde_json::to_string(&Record { seq: Some(self.seq), ..record }).unwrap_or_default();
        said.extend_from_slice(format!("{OUTPUT_START}\n{line}\n{OUTPUT_END}\n").as_bytes());
    }
}

/// Returns the command that asks the people of a chat something; `minutes`: how long they may answer.
pub(crate) fn question(chat: &str, token: &str, minutes: u64) -> serde_json::Value {
    json!({
        "type": "ask_user", "chatJid": chat, "question": format!("Which one for {token}?"),
        "options": ["red", "blue"], "timeout": format!("{minutes}m"),
    })
}

/// Returns the messages of a prompt, without the words that edits replaced. A summary of earlier ones may stand before them.
pub(crate) fn messages_of(prompt: &str) -> String {
    let messages = prompt.rsplit_once("<messages>").map_or(prompt, |(_, messages)| messages);
    let pieces = messages.split("<edited_message>");
    pieces.map(|piece| piece.split_once("</edited_message>").map_or(piece, |(_, rest)| rest)).collect()
}

/// Returns the words of a text that begin with `tok`.
pub fn tokens(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| word.starts_with("tok"))
}

/// Whether an agent says this about something with this token: what the host says of it is no answer.
#[must_use]
pub fn is_answer(text: &str, token: &str) -> bool {
    text.starts_with("re ") && tokens(text).any(|word| word == token)
}
