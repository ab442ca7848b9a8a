//! Nodes and their names, as they are at one moment.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    time::SystemTime,
};

use super::change::{Change, Place};

/// The number of a node. It is never used again.
pub type Ino = u64;

/// The folder at the top.
pub const ROOT: Ino = 1;

/// What a node holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Bytes.
    File(Vec<u8>),
    /// Names.
    Folder(BTreeMap<OsString, Ino>),
    /// A path.
    Symlink(OsString),
    /// A socket, a pipe or a device: the kernel does the rest.
    Special(Special),
}

/// A node of which only the name lies on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// A Unix socket.
    Socket,
    /// A named pipe.
    Pipe,
}

/// Who may do what with a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// Permissions, without the kind.
    pub mode: u16,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// A file, folder or other thing that has names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// What it holds.
    pub body: Body,
    /// Who may do what.
    pub rights: Rights,
    /// How many names it has.
    pub names: u32,
    /// When its contents were last changed.
    pub modified: SystemTime,
    /// When anything of it was last changed.
    pub changed: SystemTime,
    /// Extended attributes.
    pub attributes: BTreeMap<OsString, Vec<u8>>,
}

impl Node {
    /// A node without a name.
    #[must_use]
    pub fn new(body: Body, rights: Rights, now: SystemTime) -> Self {
        Self { body, rights, names: 0, modified: now, changed: now, attributes: BTreeMap::new() }
    }

    /// The names in a folder; none in any other node.
    #[must_use]
    pub fn entries(&self) -> Option<&BTreeMap<OsString, Ino>> {
        match &self.body {
            Body::Folder(entries) => Some(entries),
            Body::File(_) | Body::Symlink(_) | Body::Special(_) => None,
        }
    }

    /// The bytes of a file; none of any other node.
    #[must_use]
    pub fn bytes(&self) -> Option<&Vec<u8>> {
        match &self.body {
            Body::File(bytes) => Some(bytes),
            Body::Folder(_) | Body::Symlink(_) | Body::Special(_) => None,
        }
    }
}

/// All nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    pub(super) nodes: BTreeMap<Ino, Node>,
}

impl Tree {
    pub(super) fn new(rights: Rights, now: SystemTime) -> Self {
        let mut root = Node::new(Body::Folder(BTreeMap::new()), rights, now);
        root.names = 1;
        Self { nodes: BTreeMap::from([(ROOT, root)]) }
    }

    /// Returns a node.
    #[must_use]
    pub fn node(&self, ino: Ino) -> Option<&Node> {
        self.nodes.get(&ino)
    }

    /// Returns the node at a path of names below the root.
    #[must_use]
    pub fn find(&self, path: &str) -> Option<(Ino, &Node)> {
        let mut at = ROOT;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            at = *self.node(at)?.entries()?.get(std::ffi::OsStr::new(name))?;
        }
        Some((at, self.node(at)?))
    }

    /// The node that has a name.
    #[must_use]
    pub fn named(&self, place: &Place) -> Option<Ino> {
        self.node(place.folder)?.entries()?.get(&place.name).copied()
    }

    pub(super) fn bytes_mut(&mut self, ino: Ino) -> Option<&mut Vec<u8>> {
        match &mut self.nodes.get_mut(&ino)?.body {
            Body::File(bytes) => Some(bytes),
            Body::Folder(_) | Body::Symlink(_) | Body::Special(_) => None,
        }
    }

    fn put(&mut self, place: &Place, ino: Option<Ino>) -> Option<Ino> {
        let Body::Folder(entries) = &mut self.nodes.get_mut(&place.folder)?.body else { return None };
        let before = match ino {
            Some(ino) => entries.insert(place.name.clone(), ino),
            None => entries.remove(&place.name),
        };
        for (ino, gained) in [(ino, true), (before, false)] {
            if let Some(node) = ino.and_then(|ino| self.nodes.get_mut(&ino)) {
                node.names = if gained { node.names + 1 } else { node.names.saturating_sub(1) };
            }
        }
        before
    }

    /// Does one change. Changes are done in the order in which they were made, so that nothing is missing that one needs.
    pub(super) fn apply(&mut self, change: &Change) {
        match change {
            Change::Make { ino, node } => drop(self.nodes.insert(*ino, (**node).clone())),
            Change::Link { place, ino } => drop(self.put(place, Some(*ino))),
            Change::Unlink { place } => drop(self.put(place, None)),
            Change::Rename { from, to, swap } => {
                let moved = self.put(from, None);
                let replaced = self.put(to, moved);
                if *swap {
                    self.put(from, replaced);
                }
            }
            Change::Rights { ino, rights } => {
                if let Some(node) = self.nodes.get_mut(ino) {
                    node.rights = *rights;
                }
            }
            Change::Attribute { ino, name, value } => {
                let Some(node) = self.nodes.get_mut(ino) else { return };
                match value {
                    Some(value) => drop(node.attributes.insert(name.clone(), value.clone())),
                    None => drop(node.attributes.remove(name)),
                }
            }
            // Sizes go with the bytes of their file.
            Change::Size { .. } => {}
            Change::Reap { ino } => drop(self.nodes.remove(ino)),
        }
    }

    /// Removes nodes that no path leads to.
    pub(super) fn sweep(&mut self) {
        let mut reached = BTreeSet::from([ROOT]);
        let mut folders = vec![ROOT];
        while let Some(entries) = folders.pop().and_then(|ino| self.node(ino)).and_then(Node::entries) {
            for ino in entries.values() {
                if reached.insert(*ino) && self.node(*ino).is_some_and(|node| node.entries().is_some()) {
                    folders.push(*ino);
                }
            }
        }
        self.nodes.retain(|ino, _| reached.contains(ino));
    }

    /// Says what contradicts itself: a name without a node, a wrong count of names, a node without a path.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut counts: BTreeMap<Ino, u32> = BTreeMap::from([(ROOT, 1)]);
        for (folder, node) in &self.nodes {
            for (name, ino) in node.entries().into_iter().flatten() {
                *counts.entry(*ino).or_default() += 1;
                if !self.nodes.contains_key(ino) {
                    faults.push(format!("{} in {folder} leads nowhere", name.display()));
                }
            }
        }
        for (ino, node) in &self.nodes {
            let count = counts.get(ino).copied().unwrap_or(0);
            if count != node.names || count == 0 || (node.entries().is_some() && count > 1) {
                faults.push(format!("node {ino} has {count} names and counts {}", node.names));
            }
        }
        let mut swept = self.clone();
        swept.sweep();
        faults.extend((swept.nodes.len() != self.nodes.len()).then(|| "a node without a path".to_owned()));
        faults
    }
}
