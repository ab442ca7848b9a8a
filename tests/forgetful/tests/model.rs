//! The model of forgetting, tried with any changes, syncs and power losses.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    time::SystemTime,
};

use g2_forgetful::{Body, Disk, Ino, PAGE, Place, ROOT, Random, Rights, Tree};
use proptest::prelude::*;

const NOW: SystemTime = SystemTime::UNIX_EPOCH;
const RIGHTS: Rights = Rights { mode: 0o700, uid: 0, gid: 0 };

/// Names and folders are few, so that they meet.
#[derive(Clone, Debug)]
enum Act {
    File(u8, u8),
    Folder(u8, u8),
    Unnamed,
    LinkUnnamed(u8, u8),
    Link(u8, u8, u8),
    Unlink(u8, u8),
    Rename(u8, u8, u8, u8, bool),
    Write(u8, u16, u16),
    Size(u8, u16),
    Sync(u8, bool),
    SyncFolder(u8),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let (folder, name, file) = (0..4_u8, 0..5_u8, 0..8_u8);
    let at = 0..(3 * PAGE as u16);
    let act = prop_oneof![
        4 => (folder.clone(), name.clone()).prop_map(|(f, n)| Act::File(f, n)),
        1 => (folder.clone(), name.clone()).prop_map(|(f, n)| Act::Folder(f, n)),
        1 => Just(Act::Unnamed),
        1 => (folder.clone(), name.clone()).prop_map(|(f, n)| Act::LinkUnnamed(f, n)),
        2 => (file.clone(), folder.clone(), name.clone()).prop_map(|(i, f, n)| Act::Link(i, f, n)),
        2 => (folder.clone(), name.clone()).prop_map(|(f, n)| Act::Unlink(f, n)),
        4 => (folder.clone(), name.clone(), folder.clone(), name, any::<bool>())
            .prop_map(|(f, n, g, m, swap)| Act::Rename(f, n, g, m, swap)),
        6 => (file.clone(), at.clone(), 1..9000_u16).prop_map(|(i, at, len)| Act::Write(i, at, len)),
        2 => (file.clone(), at).prop_map(|(i, len)| Act::Size(i, len)),
        3 => (file, any::<bool>()).prop_map(|(i, data)| Act::Sync(i, data)),
        1 => folder.prop_map(Act::SyncFolder),
    ];
    prop::collection::vec(act, 1..60)
}

/// A disk, and what was made on it.
struct Played {
    disk: Disk,
    folders: Vec<Ino>,
    files: Vec<Ino>,
    unnamed: Vec<Ino>,
    /// All that a file held, at any time.
    held: BTreeMap<Ino, Vec<Vec<u8>>>,
    /// What a file held when it was synced, and nothing was written since.
    synced: BTreeMap<Ino, Vec<u8>>,
    /// Files that got their first name later than they were made: `fdatasync` is not about it.
    named_later: BTreeSet<Ino>,
    writes: u8,
}

fn pick(all: &[Ino], n: u8) -> Option<Ino> {
    (!all.is_empty()).then(|| all[usize::from(n) % all.len()])
}

impl Played {
    fn new() -> Self {
        Self {
            disk: Disk::new(RIGHTS, NOW),
            folders: vec![ROOT],
            files: Vec::new(),
            unnamed: Vec::new(),
            held: BTreeMap::new(),
            synced: BTreeMap::new(),
            named_later: BTreeSet::new(),
            writes: 0,
        }
    }

    fn place(&self, folder: u8, name: u8) -> Place {
        let folder = pick(&self.folders, folder).unwrap();
        Place::new(folder, OsStr::new(&format!("n{name}")))
    }

    fn is_below(&self, ino: Ino, above: Ino) -> bool {
        let inside = |folder: Ino| {
            let entries = self.disk.seen().node(folder).and_then(|node| node.entries().cloned());
            entries.unwrap_or_default().into_values().collect::<Vec<_>>()
        };
        let mut open = vec![above];
        while let Some(at) = open.pop() {
            if at == ino {
                return true;
            }
            open.extend(inside(at));
        }
        false
    }

    fn act(&mut self, act: &Act) {
        let disk = &mut self.disk;
        match *act {
            Act::File(folder, name) => {
                let place = self.place(folder, name);
                if let Ok(ino) = self.disk.create(place, Body::File(Vec::new()), RIGHTS, NOW) {
                    self.files.push(ino);
                    self.held.insert(ino, vec![Vec::new()]);
                }
            }
            Act::Folder(folder, name) => {
                let place = self.place(folder, name);
                if let Ok(ino) = self.disk.create(place, Body::Folder(BTreeMap::new()), RIGHTS, NOW) {
                    self.folders.push(ino);
                }
            }
            Act::Unnamed => {
                let ino = disk.make(Body::File(Vec::new()), RIGHTS, NOW);
                self.named_later.insert(ino);
                self.unnamed.push(ino);
                self.held.insert(ino, vec![Vec::new()]);
            }
            Act::LinkUnnamed(folder, name) => {
                let place = self.place(folder, name);
                if let Some(ino) = self.unnamed.pop() {
                    match self.disk.link(ino, place, NOW) {
                        Ok(()) => self.files.push(ino),
                        Err(_) => self.unnamed.push(ino),
                    }
                }
            }
            Act::Link(file, folder, name) => {
                let place = self.place(folder, name);
                if let Some(ino) = pick(&self.files, file) {
                    let _ = self.disk.link(ino, place, NOW);
                }
            }
            Act::Unlink(folder, name) => {
                let place = self.place(folder, name);
                if let Ok(ino) = self.disk.unlink(place, NOW) {
                    self.gone(ino);
                }
            }
            Act::Rename(folder, name, other, other_name, swap) => {
                let (from, to) = (self.place(folder, name), self.place(other, other_name));
                let named = |place: &Place| {
                    let entries = self.disk.seen().node(place.folder)?.entries()?;
                    entries.get(&place.name).copied()
                };
                let (moved, there) = (named(&from), named(&to));
                // The kernel refuses to move a folder into itself.
                let inside = |ino: Option<Ino>, folder| ino.is_some_and(|ino| self.is_below(folder, ino));
                if inside(moved, to.folder) || inside(there, from.folder) {
                    return;
                }
                if self.disk.rename(from, to, swap, NOW).is_ok()
                    && let Some(there) = there
                {
                    self.gone(there);
                }
            }
            Act::Write(file, at, len) => {
                if let Some(ino) = pick(&self.files, file) {
                    self.writes = self.writes.wrapping_add(1).max(1);
                    disk.write(ino, at.into(), &vec![self.writes; len.into()], NOW).unwrap();
                    self.note(ino);
                }
            }
            Act::Size(file, len) => {
                if let Some(ino) = pick(&self.files, file) {
                    disk.set_size(ino, len.into(), NOW).unwrap();
                    self.note(ino);
                }
            }
            Act::Sync(file, data_only) => {
                if let Some(ino) = pick(&self.files, file) {
                    disk.sync(ino, data_only).unwrap();
                    let bytes = disk.seen().node(ino).unwrap().bytes().unwrap().clone();
                    if !data_only || !self.named_later.contains(&ino) {
                        self.synced.insert(ino, bytes);
                    }
                }
            }
            Act::SyncFolder(folder) => disk.sync(pick(&self.folders, folder).unwrap(), false).unwrap(),
        }
    }

    fn note(&mut self, ino: Ino) {
        self.synced.remove(&ino);
        let bytes = self.disk.seen().node(ino).unwrap().bytes().unwrap().clone();
        self.held.entry(ino).or_default().push(bytes);
    }

    /// Nobody has it open.
    fn gone(&mut self, ino: Ino) {
        if self.disk.seen().node(ino).is_some_and(|node| node.names == 0) {
            self.disk.reap(ino);
            self.files.retain(|file| *file != ino);
            self.folders.retain(|folder| *folder != ino);
        }
    }
}

/// The names of a tree, with what they lead to.
fn names(tree: &Tree) -> BTreeSet<(String, Ino)> {
    let mut all = BTreeSet::new();
    let mut open = vec![(String::new(), ROOT)];
    while let Some((path, ino)) = open.pop() {
        for (name, ino) in tree.node(ino).and_then(|node| node.entries()).into_iter().flatten() {
            let path = format!("{path}/{}", name.display());
            all.insert((path.clone(), *ino));
            open.push((path, *ino));
        }
    }
    all
}

fn played(acts: &[Act]) -> Played {
    let mut played = Played::new();
    acts.iter().for_each(|act| played.act(act));
    played
}

proptest! {
    #[test]
    fn what_is_left_is_a_whole_tree_that_was_there_once(all in acts(), seed: u64) {
        // Names are those of a moment: so all of a rename is there, or nothing.
        let mut playing = Played::new();
        let mut seen = vec![names(playing.disk.seen())];
        for act in &all {
            playing.act(act);
            seen.push(names(playing.disk.seen()));
        }
        let forgotten = playing.disk.lose_power(&mut Random::new(seed));
        prop_assert_eq!(playing.disk.seen().faults(), Vec::<String>::new());
        let left = names(playing.disk.seen());
        prop_assert!(seen.contains(&left), "{:?} of {:?}", left, seen);
        if forgotten.changes == 0 {
            prop_assert_eq!(Some(&left), seen.last());
        }
        prop_assert_eq!(playing.disk.at_stake(), Default::default());
    }

    #[test]
    fn bytes_that_are_left_were_written_there_once(all in acts(), seed: u64) {
        let mut playing = played(&all);
        playing.disk.lose_power(&mut Random::new(seed));
        for (ino, held) in &playing.held {
            let Some(bytes) = playing.disk.seen().node(*ino).and_then(|node| node.bytes()) else { continue };
            let longest = held.iter().map(Vec::len).max().unwrap_or(0);
            prop_assert!(bytes.len() <= longest);
            for (at, byte) in bytes.iter().enumerate() {
                let was = *byte == 0 || held.iter().any(|held| held.get(at) == Some(byte));
                prop_assert!(was, "byte {} of {}: {}", at, ino, byte);
            }
        }
    }

    #[test]
    fn what_was_synced_and_not_changed_since_is_there(all in acts(), seed: u64) {
        let mut playing = played(&all);
        let seen = playing.disk.seen().clone();
        playing.disk.lose_power(&mut Random::new(seed));
        for (ino, bytes) in &playing.synced {
            let left = playing.disk.seen().node(*ino).and_then(|node| node.bytes());
            // A file that has lost all names since is there or not.
            if seen.node(*ino).is_some_and(|node| node.names > 0) {
                prop_assert_eq!(left, Some(bytes));
            } else if let Some(left) = left {
                prop_assert_eq!(left, bytes);
            }
        }
    }

    #[test]
    fn a_synced_folder_has_the_names_that_it_had(all in acts(), seed: u64, folder: u8) {
        let mut playing = played(&all);
        let folder = pick(&playing.folders, folder).unwrap();
        playing.disk.sync(folder, false).unwrap();
        let before = playing.disk.seen().node(folder).and_then(|node| node.entries().cloned());
        playing.disk.lose_power(&mut Random::new(seed));
        prop_assert_eq!(playing.disk.seen().node(folder).and_then(|node| node.entries().cloned()), before);
    }

    #[test]
    fn the_same_seed_forgets_the_same_and_all_is_kept_after_a_sync_of_all(all in acts(), seed: u64) {
        let playing = played(&all);
        let [mut one, mut other] = [playing.disk.clone(), playing.disk.clone()];
        prop_assert_eq!(
            one.lose_power(&mut Random::new(seed)),
            other.lose_power(&mut Random::new(seed))
        );
        prop_assert_eq!(one.seen(), other.seen());
        let mut whole = playing.disk;
        whole.sync_all();
        let before = names(whole.seen());
        whole.lose_power(&mut Random::new(seed));
        prop_assert_eq!(names(whole.seen()), before);
    }
}

#[test]
fn seeds_tear_a_new_file_in_every_way() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..200 {
        let mut disk = Disk::new(RIGHTS, NOW);
        let ino =
            disk.create(Place::new(ROOT, OsStr::new("new")), Body::File(Vec::new()), RIGHTS, NOW).unwrap();
        disk.write(ino, 0, &vec![1; 2 * PAGE], NOW).unwrap();
        disk.rename(Place::new(ROOT, OsStr::new("new")), Place::new(ROOT, OsStr::new("it")), false, NOW)
            .unwrap();
        disk.lose_power(&mut Random::new(seed));
        let name = ["new", "it"].into_iter().find(|name| disk.seen().find(name).is_some());
        let bytes = name.and_then(|name| disk.seen().find(name)?.1.bytes().cloned());
        let pages =
            bytes.map(|bytes| (bytes.len() / PAGE, bytes.iter().filter(|byte| **byte == 1).count() / PAGE));
        outcomes.insert((name, pages));
    }
    let torn = [(0, 0), (1, 1), (2, 1), (2, 2)];
    let names = [Some("new"), Some("it")];
    let expected =
        names.into_iter().flat_map(|name| torn.map(|pages| (name, Some(pages)))).chain([(None, None)]);
    assert_eq!(outcomes, expected.collect());
}
