//! Who gives the daemon work, and remembers what it was told.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::Duration,
};

use g2_forgetful::Rights;
use serde_json::{Value, json};

use super::{
    super::{client::Client, random::Random},
    machine::Machine,
};
use crate::support::{Root, wait_for};

/// How soon a level is looked at again.
const SOON: Duration = Duration::from_millis(5);

/// Says when to stop, and counts what was answered.
pub(super) struct Load {
    pub(super) stop: AtomicBool,
    pub(super) done: AtomicU64,
}

impl Load {
    pub(super) fn new() -> Self {
        Self { stop: AtomicBool::new(true), done: AtomicU64::new(0) }
    }

    fn stops(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn count(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }
}

/// An agent that writes commands, some at a time, asks again for what it got no reply to, and for what the host could not do.
pub(super) struct Writer {
    pub(super) group: &'static str,
    folder: PathBuf,
    random: Random,
    next: u64,
    /// Published and not answered, by request.
    open: BTreeMap<String, Value>,
    /// Answered: these are on the disk.
    pub(super) answered: BTreeSet<String>,
    /// Answered, and not done, as a call of the disk failed.
    pub(super) refused: BTreeSet<String>,
    refusals: usize,
    /// What is said once it is over.
    pub(super) texts: BTreeSet<String>,
    pub(super) tasks: BTreeSet<String>,
    pub(super) files: usize,
}

impl Writer {
    pub(super) fn new(root: &Path, group: &'static str, random: Random) -> Self {
        Self {
            group,
            folder: root.join("groups").join(group),
            random,
            next: 0,
            open: BTreeMap::new(),
            answered: BTreeSet::new(),
            refused: BTreeSet::new(),
            refusals: 0,
            texts: BTreeSet::new(),
            tasks: BTreeSet::new(),
            files: 0,
        }
    }

    /// Thinks of some commands. One that cancels a task comes when the task was answered.
    fn think(&mut self) {
        let group = self.group;
        let chat = format!("local:{group}");
        for _ in 0..=self.random.below(6) {
            let n = self.next;
            self.next += 1;
            let mut json = match n % 8 {
                3 => {
                    let task = format!("{group}-task-{n}");
                    self.tasks.insert(task.clone());
                    json!({"type": "schedule_task", "taskId": task, "prompt": "p", "schedule_type": "cron", "schedule_value": "0 9 1 1 *", "targetJid": chat})
                }
                1 | 5 => {
                    let name = format!("file-{n}.txt");
                    fs::write(self.folder.join(&name), format!("{group} file {n} ").repeat(500)).unwrap();
                    self.files += 1;
                    json!({"type": "media", "chatJid": chat, "filePath": name, "mediaType": "document"})
                }
                7 if let Some(task) = self.old_task() => {
                    self.tasks.remove(&task);
                    json!({"type": "cancel_task", "taskId": task})
                }
                _ => {
                    let text = format!("{group} says {n}");
                    self.texts.insert(text.clone());
                    json!({"type": "send_message", "chatJid": chat, "text": text})
                }
            };
            json["requestId"] = format!("r{n}").into();
            self.open.insert(format!("r{n}"), json);
        }
    }

    fn old_task(&self) -> Option<String> {
        let is_open = |task: &str| self.open.values().any(|json| json["taskId"] == task);
        self.tasks.iter().find(|task| !is_open(task)).cloned()
    }

    /// Puts what is open into the boxes, as an agent does that syncs nothing.
    ///
    /// # Errors
    /// Its own calls may fail, too.
    fn publish(&mut self, root: &Root) -> io::Result<()> {
        for (request, json) in &self.open {
            let (in_box, name) = place(&mut self.random, request);
            let dir = root.data("ipc").join(self.group).join(in_box);
            let temporary = dir.join(format!(".{name}.tmp"));
            fs::File::create(&temporary)?.write_all(json.to_string().as_bytes())?;
            fs::rename(temporary, dir.join(name))?;
        }
        Ok(())
    }

    /// Puts some of what is open into the boxes so that the kernel tells nobody, then the others.
    fn publish_some_unseen(&mut self, machine: &Machine) -> io::Result<()> {
        for (request, json) in &self.open {
            if self.random.below(4) > 0 {
                continue;
            }
            let (in_box, name) = place(&mut self.random, request);
            let path = format!("ipc/{}/{in_box}/unseen-{}-{name}", self.group, self.random.below(u64::MAX));
            let rights = Rights { mode: 0o644, uid: 0, gid: 0 };
            machine.disk.put_unseen(Path::new(&path), json.to_string().as_bytes(), rights).unwrap();
        }
        self.publish(&machine.root)
    }

    /// Takes note of replies; returns how many said that something is done. What the host could not do stays open, under its name:
    /// the same command may lie in a box twice.
    fn read_replies(&mut self, root: &Root) -> usize {
        let before = self.open.len();
        let group = self.group;
        let (answered, refused, refusals) = (&mut self.answered, &mut self.refused, &mut self.refusals);
        self.open.retain(|request, _| {
            let path = root.data("ipc").join(group).join("responses").join(format!("{request}.json"));
            let reply: Option<Value> =
                fs::read(&path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
            let Some(reply) = reply else { return true };
            if reply["ok"] == true {
                answered.insert(request.clone());
                return false;
            }
            assert_eq!(reply["error"]["code"], "internal", "{group} {request}: {reply}");
            refused.insert(request.clone());
            *refusals += 1;
            let _ = fs::remove_file(path);
            true
        });
        before - self.open.len()
    }

    pub(super) fn work(&mut self, machine: &Machine, load: &Load) {
        let root = &machine.root;
        while !load.stops() {
            if self.open.is_empty() {
                self.think();
            }
            if self.publish_some_unseen(machine).is_err() {
                thread::sleep(SOON);
                continue;
            }
            let refusals = self.refusals;
            while !load.stops() && !self.open.is_empty() && self.refusals == refusals {
                for _ in 0..self.read_replies(root) {
                    load.count();
                }
                thread::sleep(SOON);
            }
        }
        self.read_replies(root);
    }

    /// Asks for what is open until all is answered.
    pub(super) fn finish(&mut self, root: &Root) {
        while !self.open.is_empty() {
            self.publish(root).unwrap();
            let refusals = self.refusals;
            wait_for(&format!("replies to {} of {:?}", self.group, self.open.keys()), || {
                self.read_replies(root);
                (self.open.is_empty() || self.refusals > refusals).then_some(())
            });
        }
    }
}

/// Where a command is put: a box, and a name that is now and then another than before.
fn place(random: &mut Random, request: &str) -> (&'static str, String) {
    let in_box = ["messages", "tasks"][usize::try_from(random.below(2)).unwrap()];
    (in_box, format!("{request}-{}.json", random.below(2)))
}

/// A platform that tells messages, and repeats one until it was accepted.
pub(super) struct Talker {
    pub(super) group: &'static str,
    random: Random,
    /// Accepted: these are on the disk.
    pub(super) accepted: Vec<(i64, String)>,
}

impl Talker {
    pub(super) fn new(group: &'static str, random: Random) -> Self {
        Self { group, random, accepted: Vec::new() }
    }

    fn tell(&mut self, root: &Root) -> bool {
        let (chat, text) =
            (format!("local:{}", self.group), format!("{} asks {}", self.group, self.accepted.len()));
        match Client::connect(root).and_then(|mut client| client.send(&chat, &text, &text)) {
            Ok(seq) => {
                assert!(self.accepted.last().is_none_or(|(last, _)| seq > *last), "{text}: {seq}");
                self.accepted.push((seq, text));
                true
            }
            Err(_) => false,
        }
    }

    pub(super) fn work(&mut self, root: &Root, load: &Load) {
        while !load.stops() {
            if self.tell(root) {
                load.count();
            }
            thread::sleep(Duration::from_millis(5 + self.random.below(60)));
        }
    }

    /// What was told last may be stored and not accepted.
    pub(super) fn finish(&mut self, root: &Root) {
        wait_for("the last message to be accepted", || self.tell(root).then_some(()));
    }
}

/// Strangers who say something, and an owner who lets each of them in.
#[derive(Default)]
pub(super) struct Asker {
    /// Accepted: these are on the disk.
    pub(super) accepted: Vec<(i64, String)>,
    /// Answered questions: these are, too.
    pub(super) approved: BTreeSet<i64>,
}

impl Asker {
    fn ask(&mut self, root: &Root) -> bool {
        let n = self.accepted.len();
        let text = format!("stranger {n}");
        let told = Client::connect(root).and_then(|mut client| {
            client.call(&json!({"op": "send", "chat": "local:family", "sender": format!("s{n}"), "text": text, "key": text}))
        });
        match told.ok().and_then(|answer| answer["seq"].as_i64()) {
            Some(seq) => {
                self.accepted.push((seq, text));
                true
            }
            None => false,
        }
    }

    /// Answers the next question, if it is asked.
    fn approve(&mut self, root: &Root) {
        let next = self.approved.last().map_or(1, |last| last + 1);
        let approve = json!({"op": "op", "do": {"name": "approvals.approve", "args": {"id": next}}});
        let told = Client::connect(root).and_then(|mut client| client.call(&approve));
        let Ok(answer) = told else { return };
        let was_done_before = answer["error"]["code"] == "refused";
        if answer["is"] == "op_done" || was_done_before {
            self.approved.insert(next);
        }
    }

    pub(super) fn work(&mut self, root: &Root, load: &Load) {
        let mut asked = false;
        while !load.stops() {
            asked = asked || self.ask(root);
            self.approve(root);
            thread::sleep(SOON);
        }
    }

    /// Lets the last of them in.
    pub(super) fn finish(&mut self, root: &Root) {
        wait_for("the last stranger to be heard", || self.ask(root).then_some(()));
        let strangers = self.accepted.len();
        wait_for("every question to be answered", || {
            self.approve(root);
            (root.rows(&["approvals", "list", "--state", "approved"]).len() == strangers).then_some(())
        });
    }
}
