//! Who gives the daemon work, and remembers what it was told.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use super::super::{client::Client, random::Random};
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

/// An agent that writes commands, some at a time, and asks again for what it got no reply to.
pub(super) struct Writer {
    pub(super) group: &'static str,
    folder: PathBuf,
    random: Random,
    next: u64,
    /// Published and not answered, by request.
    open: BTreeMap<String, Value>,
    /// Answered: these are on the disk.
    pub(super) answered: BTreeSet<String>,
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
                5 => {
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
        let is_answered = |task: &&String| {
            task.rsplit('-').next().is_some_and(|n| self.answered.contains(&format!("r{n}")))
        };
        self.tasks.iter().find(is_answered).cloned()
    }

    /// Puts what is open into the boxes, as an agent does that syncs nothing.
    fn publish(&mut self, root: &Root) -> std::io::Result<()> {
        for (request, json) in &self.open {
            let in_box = ["messages", "tasks"][usize::try_from(self.random.below(2)).unwrap()];
            // Now and then under another name than before.
            let name = format!("{request}-{}.json", self.random.below(2));
            let dir = root.data("ipc").join(self.group).join(in_box);
            let temporary = dir.join(format!(".{name}.tmp"));
            fs::File::create(&temporary)?.write_all(json.to_string().as_bytes())?;
            fs::rename(temporary, dir.join(name))?;
        }
        Ok(())
    }

    /// Takes note of replies.
    fn read_replies(&mut self, root: &Root) -> usize {
        let before = self.open.len();
        let group = self.group;
        let answered = &mut self.answered;
        self.open.retain(|request, _| {
            let path = root.data("ipc").join(group).join("responses").join(format!("{request}.json"));
            let reply: Option<Value> =
                fs::read(path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
            let Some(reply) = reply else { return true };
            assert_eq!(reply["ok"], true, "{group} {request}: {reply}");
            answered.insert(request.clone());
            false
        });
        before - self.open.len()
    }

    pub(super) fn work(&mut self, root: &Root, load: &Load) {
        while !load.stops() {
            if self.open.is_empty() {
                self.think();
            }
            if self.publish(root).is_err() {
                return; // Its disk is gone.
            }
            while !load.stops() && !self.open.is_empty() {
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
        self.publish(root).unwrap();
        wait_for(&format!("replies to {} of {:?}", self.group, self.open.keys()), || {
            self.read_replies(root);
            self.open.is_empty().then_some(())
        });
    }
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

    fn approve(&mut self, root: &Root) {
        let listed = root.run(&["--json", "approvals", "list", "--state", "pending"]);
        let rows: Vec<Value> = serde_json::from_slice(&listed.stdout).unwrap_or_default();
        for id in rows.iter().filter_map(|row| row["id"].as_i64()) {
            if root.run(&["approvals", "approve", &id.to_string()]).status.success() {
                self.approved.insert(id);
            }
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
