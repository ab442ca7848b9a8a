//! What is remembered of messages: who wrote one, so that nobody changes another one's words, and how it is answered.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    fs::{File, OpenOptions},
    io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use whatsapp_rust::Jid;

/// How many messages are remembered in this life, beside those of the file.
const MOST: usize = 20_000;
/// After this number of lines a new file is begun; one older file is kept.
const MOST_LINES: usize = 10_000;
/// How much of a file is read, bytes.
const MOST_BYTES: u64 = 4 << 20;
/// How many persons have a name here, and how many chats are known.
const MOST_NAMES: usize = 10_000;
/// How many messages of a chat may wait to be marked as read, and in how many chats.
const MOST_UNREAD: usize = 100;
const MOST_UNREAD_CHATS: usize = 1000;
/// How much of a text is remembered for an answer to it, bytes.
const MOST_TEXT: usize = 300;

/// A message that came or went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Note {
    /// Its author's id; ours is empty.
    pub(crate) by: String,
    /// The beginning of its text, if it came or went in this life.
    pub(crate) text: String,
}

/// A message that is not marked as read, by WhatsApp's own addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unread {
    pub(crate) chat: Jid,
    pub(crate) by: Jid,
    pub(crate) id: String,
}

/// What is remembered.
#[derive(Debug, Default)]
pub(crate) struct Known {
    notes: HashMap<(String, String), Note>,
    order: VecDeque<(String, String)>,
    names: HashMap<String, String>,
    chats: HashSet<String>,
    unread: BTreeMap<String, VecDeque<Unread>>,
    signs: HashMap<(String, String, String), String>,
    timers: HashMap<String, u32>,
    path: PathBuf,
    file: Option<File>,
    lines: usize,
}

impl Known {
    /// Reads what earlier lives noted. `chats`: where somebody wrote before.
    pub(crate) fn read(state_dir: &Path, chats: impl Iterator<Item = String>) -> Self {
        let path = state_dir.join("authors");
        let mut known = Self { chats: chats.take(MOST_NAMES).collect(), path, ..Self::default() };
        for path in [known.older(), known.path.clone()] {
            known.lines = known.take_in(&path);
        }
        known
    }

    fn older(&self) -> PathBuf {
        self.path.with_extension("old")
    }

    /// Reads a file of notes, and returns how many lines it has. What can't be read is as if it were not there.
    fn take_in(&mut self, path: &Path) -> usize {
        let Ok(file) = File::open(path) else { return 0 };
        let lines = BufReader::new(file.take(MOST_BYTES)).lines().map_while(Result::ok).take(2 * MOST_LINES);
        let mut count = 0;
        for line in lines {
            count += 1;
            let mut parts = line.split('\t');
            if let (Some(chat), Some(id), Some(by), None) =
                (parts.next(), parts.next(), parts.next(), parts.next())
            {
                self.remember(chat, id, Note { by: by.to_owned(), text: String::new() });
            }
        }
        count
    }

    fn remember(&mut self, chat: &str, id: &str, note: Note) {
        let key = (chat.to_owned(), id.to_owned());
        // An id is its sender's to choose: nobody becomes the author of another one's message by it. Ours are ours.
        if !note.by.is_empty() && self.notes.get(&key).is_some_and(|old| old.by != note.by) {
            return;
        }
        if self.notes.insert(key.clone(), note).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > MOST
            && let Some(old) = self.order.pop_front()
        {
            self.notes.remove(&old);
        }
    }

    /// Notes a message, also for later lives. Returns why that failed; then a later life takes an edit of it for a new message.
    pub(crate) fn note(&mut self, chat: &str, id: &str, by: &str, text: &str) -> std::io::Result<()> {
        // A line is one note, whatever its parts are.
        if [chat, id, by].iter().any(|part| part.chars().any(char::is_control)) {
            return Err(std::io::Error::from(std::io::ErrorKind::InvalidInput));
        }
        let is_new = self.of(chat, id).is_none_or(|old| by.is_empty() && !old.by.is_empty());
        self.remember(chat, id, Note { by: by.to_owned(), text: adapter_kit::cut(text, MOST_TEXT) });
        if !is_new {
            return Ok(());
        }
        if self.lines >= MOST_LINES {
            self.file = None;
            std::fs::rename(&self.path, self.older())?;
            self.lines = 0;
        }
        let (file, begins) = match &mut self.file {
            Some(file) => (file, ""),
            none => {
                // A kill can leave half a line, which swallows none that comes after it.
                let begins = if is_whole(&self.path) { "" } else { "\n" };
                (none.insert(OpenOptions::new().create(true).append(true).open(&self.path)?), begins)
            }
        };
        self.lines += 1;
        file.write_all(format!("{begins}{chat}\t{id}\t{by}\n").as_bytes())
    }

    /// Returns what is known of a message.
    pub(crate) fn of(&self, chat: &str, id: &str) -> Option<&Note> {
        self.notes.get(&(chat.to_owned(), id.to_owned()))
    }

    /// Somebody has written in a chat.
    pub(crate) fn wrote(&mut self, chat: &str) {
        if self.chats.len() < 4 * MOST_NAMES && !self.chats.contains(chat) {
            self.chats.insert(chat.to_owned());
        }
    }

    /// Whether somebody has written in a chat.
    pub(crate) fn has_written(&self, chat: &str) -> bool {
        self.chats.contains(chat)
    }

    /// A chat has another address. Returns whether it was known by the old one.
    pub(crate) fn moved(&mut self, from: &str, to: &str) -> bool {
        let was = self.chats.remove(from);
        if was {
            self.chats.insert(to.to_owned());
            self.move_notes(from, to);
        }
        was
    }

    /// What is remembered of a chat is remembered by its new address.
    fn move_notes(&mut self, from: &str, to: &str) {
        for key in &mut self.order {
            let new = (to.to_owned(), key.1.clone());
            if key.0 == from
                && !self.notes.contains_key(&new)
                && let Some(note) = self.notes.remove(key)
            {
                self.notes.insert(new.clone(), note);
                *key = new;
            }
        }
        if let Some(seconds) = self.timers.remove(from) {
            self.timers.entry(to.to_owned()).or_insert(seconds);
        }
        for message in self.unread.remove(from).unwrap_or_default() {
            self.unread(to, message);
        }
        let signs: Vec<_> = self.signs.keys().filter(|key| key.0 == from).cloned().collect();
        for key in signs {
            if let Some(sign) = self.signs.remove(&key) {
                self.signs.insert((to.to_owned(), key.1, key.2), sign);
            }
        }
    }

    /// Notes what a person calls themselves.
    pub(crate) fn named(&mut self, id: &str, name: &str) {
        if !name.is_empty() && (self.names.len() < MOST_NAMES || self.names.contains_key(id)) {
            self.names.insert(id.to_owned(), adapter_kit::cut(name, 128));
        }
    }

    /// Returns what a person calls themselves.
    pub(crate) fn name(&self, id: &str) -> Option<&str> {
        self.names.get(id).map(String::as_str)
    }

    /// Notes for how long messages of a chat stay, s; 0: for ever.
    pub(crate) fn timed(&mut self, chat: &str, seconds: u32) {
        if self.timers.len() < MOST_NAMES || self.timers.contains_key(chat) {
            self.timers.insert(chat.to_owned(), seconds);
        }
    }

    /// Returns for how long a message to a chat is to stay.
    pub(crate) fn timer(&self, chat: &str) -> Option<u32> {
        self.timers.get(chat).copied().filter(|seconds| *seconds > 0)
    }

    /// A message waits to be marked as read.
    pub(crate) fn unread(&mut self, chat: &str, message: Unread) {
        if self.unread.len() >= MOST_UNREAD_CHATS && !self.unread.contains_key(chat) {
            self.unread.pop_first();
        }
        let all = self.unread.entry(chat.to_owned()).or_default();
        all.push_back(message);
        if all.len() > MOST_UNREAD {
            all.pop_front();
        }
    }

    /// Returns the messages of a chat that are to be marked as read, those of one author together.
    pub(crate) fn take_unread(&mut self, chat: &str) -> Vec<(Jid, Jid, Vec<String>)> {
        let mut all: Vec<(Jid, Jid, Vec<String>)> = Vec::new();
        for Unread { chat, by, id } in self.unread.remove(chat).unwrap_or_default() {
            match all.iter_mut().find(|(of, author, _)| *of == chat && *author == by) {
                Some((.., ids)) => ids.push(id),
                None => all.push((chat, by, vec![id])),
            }
        }
        all
    }

    /// A person puts a sign to a message, in the place of the one before, which is returned.
    pub(crate) fn sign(&mut self, chat: &str, of: &str, by: &str, sign: &str) -> Option<String> {
        let key = (chat.to_owned(), of.to_owned(), by.to_owned());
        if sign.is_empty() {
            return self.signs.remove(&key);
        }
        if self.signs.len() >= MOST_NAMES {
            // What goes is told without its sign.
            self.signs.clear();
        }
        self.signs.insert(key, sign.to_owned())
    }
}

/// Whether a file ends with a whole line, or has none.
fn is_whole(path: &Path) -> bool {
    let mut last = [0];
    let read = File::open(path)
        .and_then(|mut file| file.seek(SeekFrom::End(-1)).and_then(|_| file.read_exact(&mut last)));
    read.is_err() || last == *b"\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(dir: &Path) -> Known {
        Known::read(dir, ["1@g.us".to_owned()].into_iter())
    }

    #[test]
    fn a_later_life_knows_who_wrote_a_message_and_the_files_have_bounds() {
        let dir = tempfile::tempdir().unwrap();
        let mut known = read(dir.path());
        known.note("1@g.us", "A", "49@s.whatsapp.net", "hello").unwrap();
        known.note("1@g.us", "B", "", "ours").unwrap();
        assert_eq!(known.of("1@g.us", "A").unwrap().text, "hello");
        let known = read(dir.path());
        assert_eq!(
            known.of("1@g.us", "A"),
            Some(&Note { by: "49@s.whatsapp.net".into(), text: String::new() })
        );
        assert_eq!((known.of("1@g.us", "B").unwrap().by.as_str(), known.of("2@g.us", "A")), ("", None));
        let mut known = read(dir.path());
        for n in 0..2 * MOST_LINES + MOST_LINES / 2 {
            known.note("1@g.us", &n.to_string(), "x", "").unwrap();
        }
        let lines = |path: &Path| BufReader::new(File::open(path).unwrap()).lines().count();
        assert!(lines(&known.path) <= MOST_LINES && lines(&known.older()) <= MOST_LINES);
        let later = read(dir.path());
        assert!(later.notes.len() <= MOST && later.of("1@g.us", &(2 * MOST_LINES).to_string()).is_some());
        std::fs::write(&known.path, b"\xff\xfe\n\t\nx").unwrap();
        assert!(read(dir.path()).notes.len() <= MOST);
    }

    #[test]
    fn nobody_becomes_the_author_of_another_ones_message_by_its_id() {
        let dir = tempfile::tempdir().unwrap();
        let mut known = read(dir.path());
        known.note("1@g.us", "A", "49@s.whatsapp.net", "hers").unwrap();
        known.note("1@g.us", "B", "", "ours").unwrap();
        for id in ["A", "B"] {
            known.note("1@g.us", id, "50@s.whatsapp.net", "his").unwrap();
        }
        let of = |known: &Known, id: &str| known.of("1@g.us", id).unwrap().by.clone();
        assert_eq!((of(&known, "A"), of(&known, "B")), ("49@s.whatsapp.net".into(), String::new()));
        // A text of ours is ours, also where somebody was here with its id before.
        known.note("1@g.us", "C", "50@s.whatsapp.net", "his").unwrap();
        known.note("1@g.us", "C", "", "ours").unwrap();
        assert!(known.note("1@g.us", "x\n1@g.us\tA", "50@s.whatsapp.net", "").is_err());
        let later = read(dir.path());
        assert_eq!((of(&later, "A"), of(&later, "C")), ("49@s.whatsapp.net".into(), String::new()));
        // Half a line of a life that was killed.
        std::fs::write(dir.path().join("authors"), "1@g.us\tA\t49@s.what").unwrap();
        let mut known = read(dir.path());
        known.note("1@g.us", "D", "", "ours").unwrap();
        assert!(of(&read(dir.path()), "D").is_empty());
    }

    #[test]
    fn chats_names_and_what_is_unread_are_known_within_bounds() {
        let dir = tempfile::tempdir().unwrap();
        let mut known = read(dir.path());
        let unread =
            |n: usize, by: &str| Unread { chat: Jid::group("1"), by: Jid::pn(by), id: n.to_string() };
        assert!(known.has_written("1@g.us") && !known.has_written("2@lid"));
        known.wrote("2@lid");
        known.note("2@lid", "A", "2@lid", "hello").unwrap();
        known.timed("2@lid", 60);
        known.unread("2@lid", unread(1, "2"));
        known.sign("2@lid", "A", "2@lid", "👍");
        assert!(known.moved("2@lid", "49@s.whatsapp.net") && known.has_written("49@s.whatsapp.net"));
        let new = "49@s.whatsapp.net";
        assert_eq!((known.of(new, "A").unwrap().text.as_str(), known.of("2@lid", "A")), ("hello", None));
        assert_eq!((known.timer(new), known.take_unread(new).len()), (Some(60), 1));
        assert_eq!(known.sign(new, "A", "2@lid", ""), Some("👍".into()));
        assert!(!known.moved("2@lid", "49@s.whatsapp.net"));
        known.named("49", "Eve");
        known.named("49", "");
        assert_eq!((known.name("49"), known.name("50")), (Some("Eve"), None));
        known.timed("1@g.us", 86_400);
        known.timed("2@g.us", 0);
        assert_eq!((known.timer("1@g.us"), known.timer("2@g.us")), (Some(86_400), None));
        for n in 0..150 {
            known.unread("1@g.us", unread(n, if n % 2 == 0 { "1" } else { "2" }));
        }
        let all = known.take_unread("1@g.us");
        assert_eq!((all.len(), all[0].2.len() + all[1].2.len()), (2, MOST_UNREAD));
        assert!(known.take_unread("1@g.us").is_empty());
        for n in 0..2 * MOST_UNREAD_CHATS {
            known.unread(&n.to_string(), unread(n, "1"));
        }
        assert_eq!(known.unread.len(), MOST_UNREAD_CHATS);
        assert_eq!(known.sign("c", "A", "x", "👍"), None);
        assert_eq!(known.sign("c", "A", "x", "❤"), Some("👍".into()));
        assert_eq!((known.sign("c", "A", "x", ""), known.sign("c", "A", "x", "")), (Some("❤".into()), None));
    }
}
