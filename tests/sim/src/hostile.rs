//! What goes wrong with files in boxes: the hands of a hostile container between any two calls, calls that fail, and news that come
//! late, twice or never.

use std::path::{Path, PathBuf};

use g2::ipc::twin::{Before, Call, Fate, Hands, Op, Told, Twin};
use rustix::io::Errno;

use crate::{Dice, Faults, Life, plan::GROUPS, shaky::PANIC};

/// Of 1 000 calls, the number of those in which each happens.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trouble {
    /// A container does something to its own boxes.
    pub meddles: u64,
    /// The call fails.
    pub fails: u64,
    /// Of notices: they are lost, come twice, or late.
    pub misleads: u64,
}

/// How often containers meddle in one life of the daemon.
const MOST: u32 = 60;

/// Decides about the calls of one life.
pub(crate) struct Meddler {
    pub(crate) life: Life,
    pub(crate) dice: Dice,
    pub(crate) trouble: Trouble,
    pub(crate) data: PathBuf,
    pub(crate) faults: Faults,
    /// At which call the daemon dies.
    pub(crate) dies_at: Option<u64>,
    /// At which call it panics. No later call of this life is heard.
    pub(crate) panics_at: Option<u64>,
    pub(crate) calls: u64,
    pub(crate) meddled: u32,
    pub(crate) calm: Box<dyn Fn() -> bool + Send>,
    /// What else dies with it.
    pub(crate) ends: Box<dyn Fn() + Send>,
}

impl Before for Meddler {
    fn call(&mut self, call: &Call<'_>, hands: &mut Hands<'_>) -> Fate {
        self.calls += 1;
        if (self.calm)() {
            return Fate::Made;
        }
        if self.dies_at == Some(self.calls) {
            self.life.end("at a call for a file");
            self.faults.count("the daemon died at a call for a file");
            (self.ends)();
            return Fate::Dies;
        }
        // These have no errors that anybody is told of.
        let told = !matches!(call.op, Op::Handle | Op::Writer | Op::RemoveWatch);
        if told && self.panics_at.is_some_and(|at| at <= self.calls) {
            self.faults.count("a call for a file panicked");
            std::panic::panic_any(PANIC);
        }
        // What it does has the daemon do more, which would never end.
        if self.meddled < MOST && self.dice.per_mille(self.trouble.meddles) {
            self.meddled += 1;
            self.faults.count("a container meddled with its boxes");
            self.meddle(hands);
        }
        if told && self.dice.per_mille(self.trouble.fails) {
            self.faults.count("a call for a file failed");
            return Fate::Fails(self.dice.one(&[Errno::IO, Errno::NOSPC, Errno::MFILE]));
        }
        Fate::Made
    }
}

impl Meddler {
    /// Acts as a container does that means it, in boxes of its own. It leaves alone what the agent beside it asked for.
    fn meddle(&self, hands: &mut Hands<'_>) {
        let (group, _) = self.dice.one(&GROUPS);
        let place = self.dice.one(&["messages", "tasks", "input", "responses", "state"]);
        let folder = self.data.join("ipc").join(group).join(place);
        let path = folder.join(format!("junk{}.json", self.dice.below(6)));
        hands.act_as(1000, 1000);
        if self.dice.per_mille(300) {
            self.brings_back(group, hands);
            return;
        }
        // What can't be done is not done.
        let _ = match self.dice.below(9) {
            0 => hands.write(&path, b"{"),
            1 => hands.write(&path, br#"{"type": "send_message", "chatJid": "sima:1", "text": "junk"}"#),
            2 => hands.make_link("/etc/passwd", &path),
            3 => hands.make_fifo(&path),
            4 => hands.make_folder(&path),
            5 => hands.write(&path, b"x").and_then(|()| hands.set_length(&path, 1 << 40)),
            6 => hands.unlink(&path).or_else(|_| hands.remove_folder(&path)),
            7 => hands.rename(&path, folder.join("junk9.json")),
            _ => hands.begin(&path).and_then(|held| hands.go_on(&held, b"{\"type\": ")),
        };
    }
}

impl Meddler {
    /// Gives a command another name, or puts that in its box again: a file that the daemon had is there once more.
    fn brings_back(&self, group: &str, hands: &mut Hands<'_>) {
        let of_group = self.data.join("ipc").join(group);
        let (folder, kept) = (of_group.join("messages"), of_group.join("state").join("again.json"));
        if hands.rename(&kept, folder.join("again.json")).is_ok() {
            self.faults.count("a command came back");
            return;
        }
        let names = hands.names(&folder).unwrap_or_default();
        let mut names: Vec<String> =
            names.into_iter().filter_map(|name| String::from_utf8(name).ok()).collect();
        names.sort();
        if let Some(name) = names.iter().find(|name| name.contains(&format!("-{group}-"))) {
            // What can't be done is not done.
            let _ = hands.link(folder.join(name), &kept);
        }
    }
}

/// Has news of files come late, twice or never, unless it is calm.
pub(crate) fn mislead(
    twin: &Twin,
    dice: Dice,
    per_mille: u64,
    calm: impl Fn() -> bool + Send + 'static,
    faults: Faults,
) {
    twin.telling(move |_| {
        if calm() || !dice.per_mille(per_mille) {
            return Told::Once;
        }
        faults.count("news of a file was lost, or came late or twice");
        dice.one(&[Told::Never, Told::Twice, Told::Later, Told::Overflow])
    });
}

/// Returns the names in a folder.
pub(crate) fn names(twin: &Twin, folder: &Path) -> Vec<String> {
    let names = twin.hands(|hands| hands.names(folder)).unwrap_or_default();
    names.into_iter().filter_map(|name| String::from_utf8(name).ok()).collect()
}
