//! What is known of threads, so that answers go into them: the daemon keeps it beside the place in the mailbox. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::read::{Mail, thread_of};

/// How many threads are known: the daemon gives all of them back in one line.
const MOST: usize = 300;
/// How many of them are of people for whom nobody vouches: they push nobody else's out.
const MOST_UNPROVEN: usize = 50;
/// The longest note, bytes of the line that the daemon gives back: all of them fit into it.
const LONGEST_NOTE: usize = 2000;
/// What stands before the name of a thread in the daemon's store.
const MARK: &str = "t:";
/// The longest subject that is kept, bytes.
const LONGEST: usize = 200;

/// The newest mail of somebody else's in a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Note {
    /// Counts up: the lowest one is forgotten first.
    pub(super) n: u64,
    /// Its id, which an answer names.
    pub(super) id: String,
    /// The thread's first mail.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) root: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) subject: String,
    /// Nobody vouches for the person.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) u: bool,
    /// Its other readers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) others: Vec<String>,
}

/// The threads that are known.
#[derive(Debug, Default)]
pub(super) struct Notes {
    all: BTreeMap<String, Note>,
    n: u64,
}

/// A thread of one chat has a name of its own: nobody else's mail changes where answers to it go.
fn name(chat: &str, thread: &str) -> String {
    format!("{MARK}{}", thread_of(&format!("{chat} {thread}")))
}

impl Notes {
    /// Reads what the daemon kept.
    pub(super) fn read(cursor: &BTreeMap<String, String>) -> Self {
        let known = cursor.iter().filter(|(name, _)| name.starts_with(MARK));
        let all: BTreeMap<String, Note> =
            known.filter_map(|(name, note)| Some((name.clone(), serde_json::from_str(note).ok()?))).collect();
        let n = all.values().map(|note: &Note| note.n).max().unwrap_or(0);
        Self { all, n }
    }

    /// Takes in a mail. Returns what the daemon is to keep, and to forget.
    pub(super) fn told(&mut self, chat: &str, mail: &Mail, keep_others: bool) -> BTreeMap<String, String> {
        let mut kept = BTreeMap::new();
        if !mail.has_id {
            return kept;
        }
        self.n += 1;
        let root = mail.references.first().filter(|root| **root != mail.id && root.len() <= LONGEST);
        let mut note = Note {
            n: self.n,
            u: !mail.proven,
            id: mail.id.clone(),
            root: root.cloned().unwrap_or_default(),
            subject: mail.subject[..mail.subject.floor_char_boundary(LONGEST)].to_owned(),
            others: if keep_others && mail.proven { mail.others.clone() } else { Vec::new() },
        };
        let text = loop {
            let text = serde_json::to_string(&note).unwrap_or_default();
            // It becomes a word of another JSON.
            let length = text.len() + text.matches(['"', '\\']).count();
            if length <= LONGEST_NOTE || note.others.pop().is_none() {
                break text;
            }
        };
        let name = name(chat, &mail.thread);
        kept.insert(name.clone(), text);
        self.all.insert(name, note);
        while let Some(oldest) = self.too_many() {
            self.all.remove(&oldest);
            kept.insert(oldest, String::new());
        }
        kept
    }

    /// Returns the thread that is forgotten next, if there are too many.
    fn too_many(&self) -> Option<String> {
        let is_flood = self.all.values().filter(|note| note.u).count() > MOST_UNPROVEN;
        if !is_flood && self.all.len() <= MOST {
            return None;
        }
        let some = self.all.iter().filter(|(_, note)| note.u || !is_flood);
        some.min_by_key(|(_, note)| note.n).map(|(name, _)| name.clone())
    }

    /// Returns what is known of a thread.
    pub(super) fn of(&self, chat: &str, thread: &str) -> Option<&Note> {
        self.all.get(&name(chat, thread))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mail(n: usize) -> Mail {
        Mail {
            id: format!("{n}@x"),
            has_id: true,
            proven: true,
            thread: thread_of(&n.to_string()),
            ..Mail::default()
        }
    }

    #[test]
    fn strangers_push_few_threads_out_and_make_no_note_too_long() {
        let (mut notes, mut kept) = (Notes::default(), BTreeMap::new());
        kept.extend(notes.told("mail:a@b.c", &mail(0), false));
        for n in 1..MOST * 2 {
            kept.extend(notes.told("mail:unproven:e@b.c", &Mail { proven: false, ..mail(n) }, false));
        }
        kept.retain(|_, note| !note.is_empty());
        assert_eq!(kept.len(), MOST_UNPROVEN + 1);
        assert_eq!(Notes::read(&kept).of("mail:a@b.c", &mail(0).thread).unwrap().id, "0@x");
        let others: Vec<String> = (0..20).map(|n| format!("{n}{}@b.c", "\\".repeat(240))).collect();
        let long = Mail { subject: "\"".repeat(400), others, ..mail(1) };
        let kept = notes.told("mail:a@b.c", &long, true);
        assert!(serde_json::to_string(&kept).unwrap().len() < LONGEST_NOTE + 100);
        let note = notes.of("mail:a@b.c", &mail(1).thread).unwrap();
        assert!(!note.others.is_empty() && note.others.len() < 20);
        let _ = notes.told("mail:unproven:a@b.c", &Mail { proven: false, ..long }, true);
        assert!(notes.of("mail:unproven:a@b.c", &mail(1).thread).unwrap().others.is_empty());
    }

    #[test]
    fn threads_are_known_again_and_the_oldest_are_forgotten() {
        let (mut notes, mut kept) = (Notes::default(), BTreeMap::new());
        for n in 0..MOST + 10 {
            kept.extend(notes.told("mail:a@b.c", &mail(n), false));
        }
        kept.retain(|_, note| !note.is_empty());
        assert_eq!(kept.len(), MOST);
        let again = Notes::read(&kept);
        assert_eq!(again.of("mail:a@b.c", &mail(0).thread), None);
        assert_eq!(again.of("mail:a@b.c", &mail(10).thread).unwrap().id, "10@x");
        assert_eq!(again.n, notes.n);
        assert_eq!(Notes::read(&BTreeMap::from([("t:x".into(), "{".into())])).all.len(), 0);
    }

    #[test]
    fn a_thread_of_one_person_is_not_changed_by_another() {
        let mut notes = Notes::default();
        let _ = notes.told("mail:a@b.c", &Mail { subject: "plans".into(), ..mail(1) }, false);
        let _ = notes.told(
            "mail:unproven:a@b.c",
            &Mail { subject: "evil".into(), id: "evil@x".into(), ..mail(1) },
            true,
        );
        assert_eq!(notes.of("mail:a@b.c", &mail(1).thread).unwrap().subject, "plans");
        assert_eq!(notes.of("mail:x@b.c", &mail(1).thread), None);
    }
}
