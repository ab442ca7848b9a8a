//! The file system of the twin: what it holds, and what each call does to it. Nobody waits here, and nothing fails by chance.

use std::collections::{BTreeMap, BTreeSet};

use rustix::io::{Errno, Result};

use super::{
    Settings,
    bytes::Bytes,
    walk::{Found, How, Last, NAME},
};
use crate::ipc::kernel::Extended;

/// The number of an inode.
pub(super) type Number = u64;
/// Seconds and nanoseconds.
pub(super) type Stamp = (i64, u32);

/// The number of the root.
pub(super) const ROOT: Number = 2;
/// The first number of others.
const FIRST: Number = 12;
/// The most names that a file can have.
const MOST_LINKS: u64 = 65_000;
/// Flags: what is made in a folder has its project. The first set, and the extended one.
const INHERITS: u32 = 0x2000_0000;
const INHERITS_EXTENDED: u32 = 0x200;
/// Flags that are in both sets.
const BOTH: [(u32, u32); 5] =
    [(0x8, 0x20), (0x10, 0x8), (0x20, 0x10), (0x40, 0x80), (INHERITS, INHERITS_EXTENDED)];
/// No access times. In both sets, too.
const NO_ATIME: (u32, u32) = (0x80, 0x40);
/// Flags that a file has from its folder.
const INHERITED: u32 = 0x8 | 0x40 | 0x80;

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Who {
    pub(super) user: u32,
    pub(super) group: u32,
    /// No mode keeps it out.
    pub(super) all: bool,
}

/// What somebody wants of a file: bits of a mode.
pub(super) const READ: u32 = 4;
pub(super) const WRITE: u32 = 2;
pub(super) const ENTER: u32 = 1;

/// What an inode is.
#[derive(Debug)]
pub(super) enum Kind {
    File(Bytes),
    Folder(Folder),
    Link(Vec<u8>),
    Fifo,
    Socket,
}

impl Kind {
    /// The bits of a mode that say it.
    pub(super) fn bits(&self) -> u32 {
        match self {
            Self::File(_) => 0o100_000,
            Self::Folder(_) => 0o040_000,
            Self::Link(_) => 0o120_000,
            Self::Fifo => 0o010_000,
            Self::Socket => 0o140_000,
        }
    }
}

/// The names in a folder.
#[derive(Debug)]
pub(super) struct Folder {
    names: BTreeMap<Vec<u8>, (Number, u64)>,
    /// The same in the order in which they are listed.
    order: BTreeMap<u64, Vec<u8>>,
    next: u64,
    pub(super) parent: Number,
    /// Its own name there.
    pub(super) name: Vec<u8>,
}

impl Folder {
    fn new(parent: Number, name: &[u8]) -> Self {
        Self { names: BTreeMap::new(), order: BTreeMap::new(), next: 1, parent, name: name.to_owned() }
    }

    fn put(&mut self, name: &[u8], number: Number, seed: Option<u64>) {
        let mut at = seed.map_or(self.next, |seed| scattered(seed, name));
        self.next += 1;
        while self.order.contains_key(&at) {
            at = at.wrapping_add(1);
        }
        if let Some((_, before)) = self.names.insert(name.to_owned(), (number, at)) {
            self.order.remove(&before);
        }
        self.order.insert(at, name.to_owned());
    }

    fn take(&mut self, name: &[u8]) {
        if let Some((_, at)) = self.names.remove(name) {
            self.order.remove(&at);
        }
    }

    /// Gives the names behind a place, each with its own.
    pub(super) fn behind(&self, at: u64) -> impl Iterator<Item = (u64, &[u8], Number)> {
        self.order.range(at.saturating_add(1)..).filter_map(|(at, name)| {
            let (number, _) = self.names.get(name)?;
            Some((*at, name.as_slice(), *number))
        })
    }
}

/// A place in a listing that depends on the name, as file systems have it that find names by a hash.
fn scattered(seed: u64, name: &[u8]) -> u64 {
    let mix =
        |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
    name.iter().fold(seed ^ 0xcbf2_9ce4_8422_2325, mix) | 1
}

/// A file of any kind.
#[derive(Debug)]
pub(super) struct Inode {
    pub(super) generation: u32,
    pub(super) kind: Kind,
    /// The permission bits.
    pub(super) mode: u32,
    pub(super) user: u32,
    pub(super) group: u32,
    /// How many names it has; of a folder, two and one for each folder in it.
    pub(super) links: u64,
    /// It was made without a name, and never had one.
    unnamed: bool,
    pub(super) modified: Stamp,
    pub(super) changed: Stamp,
    pub(super) made: Stamp,
    pub(super) attributes: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(super) flags: u32,
    pub(super) extended: Extended,
    /// How many hold it open.
    pub(super) open: usize,
    /// How many of them for writing.
    pub(super) writers: usize,
}

impl Inode {
    /// Whether the mode lets somebody do all of this.
    fn lets(&self, who: Who, wants: u32) -> bool {
        let class = if who.user == self.user {
            self.mode >> 6
        } else if who.group == self.group {
            self.mode >> 3
        } else {
            self.mode
        };
        who.all || class & wants == wants
    }
}

/// Something that a watch may be told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// This name came into a folder by a rename.
    MovedTo(Number, Vec<u8>),
    /// Who wrote to this name has closed it.
    Written(Number, Vec<u8>),
    /// It has another name or parent.
    Moved(Number),
    /// It is gone.
    Gone(Number),
}

/// What is open, and how.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) node: Number,
    pub(super) reads: bool,
    pub(super) writes: bool,
    /// It is open for its name alone.
    pub(super) passes: bool,
    /// Where the next byte is written.
    pub(super) at: u64,
    /// Behind which place the next name is listed; `None`: nothing was listed yet.
    pub(super) listed: Option<u64>,
    /// The daemon has it open.
    pub(super) is_daemons: bool,
    /// By which name it was opened, as that is now; `None`: it has gone.
    spot: Option<(Number, Vec<u8>)>,
}

/// How something is to be opened.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Opening {
    pub(super) reads: bool,
    pub(super) writes: bool,
    pub(super) passes: bool,
    pub(super) folder: bool,
    pub(super) makes: bool,
    pub(super) only_makes: bool,
    pub(super) empties: bool,
    pub(super) unnamed: bool,
    pub(super) follows: bool,
    pub(super) mode: u32,
}

/// A file system in memory.
#[derive(Debug)]
pub(super) struct Disk {
    pub(super) settings: Settings,
    nodes: BTreeMap<Number, Inode>,
    opened: BTreeMap<u64, Opened>,
    next_opened: u64,
    next: Number,
    free: BTreeSet<Number>,
    generations: u32,
    /// What has happened and was told to nobody yet.
    pub(super) events: Vec<Event>,
}

impl Disk {
    pub(super) fn new(settings: Settings) -> Self {
        let mut disk = Self {
            settings,
            nodes: BTreeMap::new(),
            opened: BTreeMap::new(),
            next_opened: 1,
            next: FIRST,
            free: BTreeSet::new(),
            generations: 0,
            events: Vec::new(),
        };
        let mut root = disk.inode(Kind::Folder(Folder::new(ROOT, b"")), 0o755, 0, 0);
        root.links = 2;
        disk.nodes.insert(ROOT, root);
        disk
    }

    fn inode(&mut self, kind: Kind, mode: u32, user: u32, group: u32) -> Inode {
        let now = self.now();
        self.generations = self.generations.wrapping_add(1);
        Inode {
            generation: self.generations,
            kind,
            mode,
            user,
            group,
            links: 0,
            unnamed: false,
            modified: now,
            changed: now,
            made: now,
            attributes: BTreeMap::new(),
            flags: 0,
            extended: Extended::default(),
            open: 0,
            writers: 0,
        }
    }

    pub(super) fn now(&self) -> Stamp {
        let ms = (self.settings.now)().0;
        let nanoseconds = u32::try_from(ms.rem_euclid(1_000)).unwrap_or(0) * 1_000_000;
        (ms.div_euclid(1_000), nanoseconds)
    }

    /// Returns an inode; one that is open or has a name is there.
    pub(super) fn node(&self, number: Number) -> Result<&Inode> {
        self.nodes.get(&number).ok_or(Errno::NOENT)
    }

    pub(super) fn node_mut(&mut self, number: Number) -> Result<&mut Inode> {
        self.nodes.get_mut(&number).ok_or(Errno::NOENT)
    }

    pub(super) fn folder(&self, number: Number) -> Result<&Folder> {
        match &self.node(number)?.kind {
            Kind::Folder(folder) => Ok(folder),
            _ => Err(Errno::NOTDIR),
        }
    }

    fn folder_mut(&mut self, number: Number) -> Result<&mut Folder> {
        match &mut self.node_mut(number)?.kind {
            Kind::Folder(folder) => Ok(folder),
            _ => Err(Errno::NOTDIR),
        }
    }

    pub(super) fn is_folder(&self, number: Number) -> bool {
        self.folder(number).is_ok()
    }

    /// Sees to it that a mode lets somebody do all of this.
    pub(super) fn ask(&self, number: Number, who: Who, wants: u32) -> Result<()> {
        if self.node(number)?.lets(who, wants) { Ok(()) } else { Err(Errno::ACCESS) }
    }

    /// Finds a name in a folder, which its asker may enter.
    pub(super) fn find(&self, folder: Number, name: &[u8]) -> Result<Number> {
        if self.node(folder)?.links == 0 {
            return Err(Errno::NOENT);
        }
        if name.len() > NAME {
            return Err(Errno::NAMETOOLONG);
        }
        self.folder(folder)?.names.get(name).map(|(number, _)| *number).ok_or(Errno::NOENT)
    }

    /// Returns where a folder is now; nothing of one that has no place.
    pub(super) fn path_of(&self, mut folder: Number) -> Vec<u8> {
        let mut path = Vec::new();
        while folder != ROOT {
            let Ok(here) = self.folder(folder) else { return Vec::new() };
            path = [b"/", here.name.as_slice(), &path].concat();
            folder = here.parent;
        }
        path
    }

    fn touch(&mut self, number: Number, is_modified: bool) {
        let now = self.now();
        if let Ok(node) = self.node_mut(number) {
            node.changed = now;
            if is_modified {
                node.modified = now;
            }
        }
    }

    /// Whether something can be made in a folder.
    fn may_make(&self, folder: Number, who: Who) -> Result<()> {
        if self.node(folder)?.links == 0 {
            return Err(Errno::NOENT);
        }
        self.ask(folder, who, WRITE | ENTER)
    }

    /// Whether a name can be taken out of a folder.
    fn may_take(&self, folder: Number, victim: Number, who: Who, as_folder: bool) -> Result<()> {
        let (at, is) = (self.node(folder)?, self.node(victim)?);
        self.ask(folder, who, WRITE | ENTER)?;
        if at.mode & 0o1000 != 0 && !who.all && who.user != is.user && who.user != at.user {
            return Err(Errno::PERM);
        }
        match (as_folder, self.is_folder(victim)) {
            (true, false) => Err(Errno::NOTDIR),
            (false, true) => Err(Errno::ISDIR),
            _ => Ok(()),
        }
    }

    /// Makes something that has no name yet.
    fn make(&mut self, folder: Number, kind: Kind, mode: u32, who: Who) -> Result<Number> {
        let at = self.node(folder)?;
        let is_folder = matches!(kind, Kind::Folder(_));
        let (shared, flags, extended) = (at.mode & 0o2000, at.flags, at.extended);
        let group = if shared == 0 { who.group } else { at.group };
        let is_link = matches!(kind, Kind::Link(_));
        let mode = if is_link { 0o777 } else { mode & 0o7777 & !self.settings.umask };
        let mode = if is_folder { mode | shared } else { mode };
        let mut node = self.inode(kind, mode, who.user, group);
        node.flags = if is_folder { flags } else { flags & INHERITED };
        node.extended.flags = extended_of(node.flags, 0);
        if flags & INHERITS != 0 {
            node.extended.project = extended.project;
        }
        let number = match self.settings.reuses_inodes.then(|| self.free.pop_first()).flatten() {
            Some(number) => number,
            None => {
                self.next += 1;
                self.next - 1
            }
        };
        self.nodes.insert(number, node);
        Ok(number)
    }

    /// Gives something its name in a folder, where nothing stands.
    fn place(&mut self, folder: Number, name: &[u8], number: Number) -> Result<()> {
        let seed = self.settings.scatters;
        self.folder_mut(folder)?.put(name, number, seed);
        self.touch(folder, true);
        if self.is_folder(number) {
            let moved = self.folder_mut(number)?;
            (moved.parent, moved.name) = (folder, name.to_owned());
            self.node_mut(folder)?.links += 1;
        }
        Ok(())
    }

    /// Takes a name out of a folder, and leaves what had it.
    fn unplace(&mut self, folder: Number, name: &[u8], number: Number) -> Result<()> {
        self.folder_mut(folder)?.take(name);
        self.touch(folder, true);
        if self.is_folder(number) {
            self.node_mut(folder)?.links -= 1;
        }
        Ok(())
    }

    /// Forgets what has no name and is open to nobody.
    fn sweep(&mut self, number: Number) {
        if self.nodes.get(&number).is_some_and(|node| node.links == 0 && node.open == 0) {
            self.nodes.remove(&number);
            self.free.insert(number);
            self.events.push(Event::Gone(number));
        }
    }

    /// Makes something at a name.
    fn create(&mut self, folder: Number, name: &[u8], kind: Kind, mode: u32, who: Who) -> Result<Number> {
        self.may_make(folder, who)?;
        let number = self.make(folder, kind, mode, who)?;
        self.node_mut(number)?.links = 1;
        if self.is_folder(number) {
            self.node_mut(number)?.links = 2;
        }
        self.place(folder, name, number)?;
        Ok(number)
    }

    /// Makes a folder, link, FIFO or socket.
    pub(super) fn create_at(
        &mut self,
        at: Number,
        path: &[u8],
        kind: Kind,
        mode: u32,
        who: Who,
    ) -> Result<Number> {
        let spot = self.walk(at, path, How::default(), who)?;
        let Last::Name(name) = &spot.last else { return Err(Errno::EXIST) };
        match self.find(spot.folder, name) {
            Ok(_) => Err(Errno::EXIST),
            Err(Errno::NOENT) if spot.slash && !matches!(kind, Kind::Folder(_)) => Err(Errno::NOENT),
            Err(Errno::NOENT) => self.create(spot.folder, name, kind, mode, who),
            Err(other) => Err(other),
        }
    }

    pub(super) fn make_folder(&mut self, at: Number, path: &[u8], mode: u32, who: Who) -> Result<Number> {
        self.create_at(at, path, Kind::Folder(Folder::new(ROOT, b"")), mode & 0o1777, who)
    }

    /// Opens; returns the number of what is open.
    pub(super) fn open(
        &mut self,
        at: Number,
        path: &[u8],
        opening: Opening,
        how: How,
        who: Who,
    ) -> Result<u64> {
        let (node, spot) = self.opened_node(at, path, opening, how, who)?;
        let is = self.node_mut(node)?;
        is.open += 1;
        is.writers += usize::from(opening.writes);
        let opened = Opened {
            node,
            reads: opening.reads,
            writes: opening.writes,
            passes: opening.passes,
            at: 0,
            listed: None,
            is_daemons: false,
            spot,
        };
        self.next_opened += 1;
        self.opened.insert(self.next_opened, opened);
        Ok(self.next_opened)
    }

    fn opened_node(
        &mut self,
        at: Number,
        path: &[u8],
        opening: Opening,
        how: How,
        who: Who,
    ) -> Result<Found> {
        let how = How { follows: opening.follows && !opening.only_makes, ..how };
        let makes_folder = opening.makes && path.ends_with(b"/");
        let how = if makes_folder { How { follows: false, ..how } } else { how.to_look(path) };
        let spot = self.walk(at, path, how, who)?;
        if makes_folder && matches!(spot.last, Last::Name(_)) {
            return Err(Errno::ISDIR);
        }
        if opening.unnamed {
            let (folder, _) = self.found(&spot)?;
            if !self.is_folder(folder) {
                return Err(Errno::NOTDIR);
            }
            if !self.settings.unnamed {
                return Err(Errno::OPNOTSUPP);
            }
            self.ask(folder, who, WRITE | ENTER)?;
            if let (0, Some(error)) = (self.node(folder)?.links, self.settings.unnamed_in_removed) {
                return Err(error);
            }
            let number = self.make(folder, Kind::File(Bytes::default()), opening.mode, who)?;
            self.node_mut(number)?.unnamed = true;
            return Ok((number, None));
        }
        let found = match self.found(&spot) {
            Err(Errno::NOENT) if opening.makes => {
                let Last::Name(name) = &spot.last else { return Err(Errno::NOENT) };
                let file = Kind::File(Bytes::default());
                let number = self.create(spot.folder, name, file, opening.mode, who)?;
                return Ok((number, Some((spot.folder, name.clone()))));
            }
            other => other?,
        };
        let (node, by) = found;
        self.may_open(node, opening, who)?;
        if opening.empties && opening.writes {
            self.set_length(node, 0, who)?;
        }
        Ok((node, by))
    }

    fn may_open(&self, node: Number, opening: Opening, who: Who) -> Result<()> {
        let kind = &self.node(node)?.kind;
        let is_folder = matches!(kind, Kind::Folder(_));
        if opening.makes && opening.only_makes {
            return Err(Errno::EXIST);
        }
        if opening.makes && is_folder {
            return Err(Errno::ISDIR);
        }
        if opening.folder && !is_folder {
            return Err(Errno::NOTDIR);
        }
        if opening.passes {
            return Ok(());
        }
        if matches!(kind, Kind::Link(_)) {
            return Err(Errno::LOOP);
        }
        if opening.writes && is_folder {
            return Err(Errno::ISDIR);
        }
        let wants = if opening.reads { READ } else { 0 } | if opening.writes { WRITE } else { 0 };
        self.ask(node, who, wants)?;
        match kind {
            Kind::Socket => Err(Errno::NXIO),
            // Nobody reads it.
            Kind::Fifo if opening.writes && !opening.reads => Err(Errno::NXIO),
            _ => Ok(()),
        }
    }

    pub(super) fn opened(&self, id: u64) -> Result<&Opened> {
        self.opened.get(&id).ok_or(Errno::BADF)
    }

    pub(super) fn opened_mut(&mut self, id: u64) -> Result<&mut Opened> {
        self.opened.get_mut(&id).ok_or(Errno::BADF)
    }

    pub(super) fn close(&mut self, id: u64) {
        let Some(opened) = self.opened.remove(&id) else { return };
        if let Ok(node) = self.node_mut(opened.node) {
            node.open -= 1;
            node.writers -= usize::from(opened.writes);
        }
        if let (true, Some((folder, name))) = (opened.writes, opened.spot) {
            self.events.push(Event::Written(folder, name));
        }
        self.sweep(opened.node);
    }

    /// Closes all that the daemon has open.
    pub(super) fn close_daemons(&mut self) {
        let ids: Vec<u64> =
            self.opened.iter().filter(|(_, opened)| opened.is_daemons).map(|(id, _)| *id).collect();
        ids.into_iter().for_each(|id| self.close(id));
    }

    /// Tells those who hold a name open what became of it.
    fn follow(&mut self, folder: Number, name: &[u8], now: Option<(Number, &[u8])>) {
        for opened in self.opened.values_mut() {
            if opened.spot.as_ref().is_some_and(|(at, is)| *at == folder && is == name) {
                opened.spot = now.map(|(folder, name)| (folder, name.to_owned()));
            }
        }
    }

    /// Gives a file one more name.
    pub(super) fn link(&mut self, from: (Number, &[u8]), to: (Number, &[u8]), who: Who) -> Result<()> {
        let node = self.find_at(from.0, from.1, How::default(), who)?;
        self.link_node(node, to, who)
    }

    /// Gives an open file one more name.
    pub(super) fn link_node(&mut self, node: Number, to: (Number, &[u8]), who: Who) -> Result<()> {
        let spot = self.walk(to.0, to.1, How::default(), who)?;
        let Last::Name(name) = &spot.last else { return Err(Errno::EXIST) };
        match self.find(spot.folder, name) {
            Ok(_) => return Err(Errno::EXIST),
            Err(Errno::NOENT) if spot.slash => return Err(Errno::NOENT),
            Err(Errno::NOENT) => {}
            Err(other) => return Err(other),
        }
        let is = self.node(node)?;
        // Nobody gets a name for what another one could change.
        let is_plain = matches!(is.kind, Kind::File(_)) && is.mode & 0o6000 == 0;
        if self.settings.protects_links
            && !(who.all || who.user == is.user || is_plain && is.lets(who, READ | WRITE))
        {
            return Err(Errno::PERM);
        }
        self.may_make(spot.folder, who)?;
        if self.is_folder(node) {
            return Err(Errno::PERM);
        }
        let is = self.node(node)?;
        if is.links == 0 && !is.unnamed {
            return Err(Errno::NOENT);
        }
        if is.links >= MOST_LINKS {
            return Err(Errno::MLINK);
        }
        self.fits_project(node, spot.folder)?;
        let is = self.node_mut(node)?;
        is.links += 1;
        is.unnamed = false;
        self.touch(node, false);
        self.place(spot.folder, name, node)
    }

    fn fits_project(&self, node: Number, folder: Number) -> Result<()> {
        let (is, at) = (self.node(node)?, self.node(folder)?);
        let fits = at.flags & INHERITS == 0 || is.extended.project == at.extended.project;
        if fits { Ok(()) } else { Err(Errno::XDEV) }
    }

    /// Removes a name that is no folder's.
    pub(super) fn unlink(&mut self, at: Number, path: &[u8], who: Who) -> Result<()> {
        let spot = self.walk(at, path, How::default(), who)?;
        let Last::Name(name) = &spot.last else { return Err(Errno::ISDIR) };
        let node = self.find(spot.folder, name)?;
        if spot.slash {
            return Err(if self.is_folder(node) { Errno::ISDIR } else { Errno::NOTDIR });
        }
        self.may_take(spot.folder, node, who, false)?;
        self.unplace(spot.folder, name, node)?;
        self.follow(spot.folder, name, None);
        self.drop_link(node)
    }

    fn drop_link(&mut self, node: Number) -> Result<()> {
        let is_folder = self.is_folder(node);
        let is = self.node_mut(node)?;
        is.links = if is_folder { 0 } else { is.links - 1 };
        self.touch(node, is_folder);
        self.sweep(node);
        Ok(())
    }

    /// Removes an empty folder.
    pub(super) fn remove_folder(&mut self, at: Number, path: &[u8], who: Who) -> Result<()> {
        let spot = self.walk(at, path, How::default(), who)?;
        let name = match &spot.last {
            Last::Name(name) => name,
            Last::Here => return Err(Errno::INVAL),
            Last::Above => return Err(Errno::NOTEMPTY),
        };
        let node = self.find(spot.folder, name)?;
        self.may_take(spot.folder, node, who, true)?;
        if !self.folder(node)?.names.is_empty() {
            return Err(Errno::NOTEMPTY);
        }
        self.unplace(spot.folder, name, node)?;
        self.drop_link(node)
    }

    /// Renames.
    pub(super) fn rename(
        &mut self,
        from: (Number, &[u8]),
        to: (Number, &[u8]),
        how: Renaming,
        who: Who,
    ) -> Result<()> {
        let from = self.walk(from.0, from.1, How::default(), who)?;
        let to = self.walk(to.0, to.1, How::default(), who)?;
        let Last::Name(name) = &from.last else { return Err(Errno::BUSY) };
        let Last::Name(new) = &to.last else {
            return Err(if how == Renaming::New { Errno::EXIST } else { Errno::BUSY });
        };
        if how == Renaming::New && !self.settings.renames_new {
            return Err(Errno::INVAL);
        }
        let node = self.find(from.folder, name)?;
        let there = match self.find(to.folder, new) {
            Ok(_) if how == Renaming::New => return Err(Errno::EXIST),
            Ok(there) => Some(there),
            Err(Errno::NOENT) if how == Renaming::Exchange => return Err(Errno::NOENT),
            Err(Errno::NOENT) => None,
            Err(other) => return Err(other),
        };
        let is_folder = self.is_folder(node);
        if !is_folder && (from.slash || to.slash && how != Renaming::Exchange) {
            return Err(Errno::NOTDIR);
        }
        if self.is_above(node, to.folder) {
            return Err(Errno::INVAL);
        }
        if there.is_some_and(|there| self.is_above(there, from.folder)) {
            return Err(if how == Renaming::Exchange { Errno::INVAL } else { Errno::NOTEMPTY });
        }
        if there == Some(node) {
            return Ok(());
        }
        self.may_take(from.folder, node, who, is_folder)?;
        match there {
            None => self.may_make(to.folder, who)?,
            Some(there) if how == Renaming::Exchange => {
                self.may_take(to.folder, there, who, self.is_folder(there))?;
            }
            Some(there) => self.may_take(to.folder, there, who, is_folder)?,
        }
        let is_other = from.folder != to.folder;
        for moved in [Some(node), there.filter(|_| how == Renaming::Exchange)].into_iter().flatten() {
            // It gets another `..`.
            if is_other && self.is_folder(moved) {
                self.ask(moved, who, WRITE)?;
            }
        }
        self.fits_project(node, to.folder)?;
        if let Some(there) = there.filter(|_| how == Renaming::Exchange) {
            self.fits_project(there, from.folder)?;
        }
        if let Some(there) = there {
            let is_full = self.folder(there).is_ok_and(|folder| !folder.names.is_empty());
            if how != Renaming::Exchange && is_full {
                return Err(Errno::NOTEMPTY);
            }
            self.unplace(to.folder, new, there)?;
        }
        self.unplace(from.folder, name, node)?;
        let exchanged = there.filter(|_| how == Renaming::Exchange);
        if let Some(there) = exchanged {
            self.exchange((from.folder, name), (to.folder, new));
            self.place(from.folder, name, there)?;
            self.touch(there, false);
        } else {
            self.follow(to.folder, new, None);
            self.follow(from.folder, name, Some((to.folder, new)));
        }
        self.place(to.folder, new, node)?;
        self.touch(node, false);
        self.events.push(Event::MovedTo(to.folder, new.clone()));
        self.events.push(Event::Moved(node));
        match (exchanged, there) {
            (Some(there), _) => {
                self.events.push(Event::MovedTo(from.folder, name.clone()));
                self.events.push(Event::Moved(there));
            }
            (None, Some(there)) => self.drop_link(there)?,
            (None, None) => {}
        }
        Ok(())
    }

    fn exchange(&mut self, one: (Number, &[u8]), two: (Number, &[u8])) {
        for opened in self.opened.values_mut() {
            let Some((at, is)) = &opened.spot else { continue };
            let other = match (*at, is.as_slice()) {
                here if here == one => two,
                here if here == two => one,
                _ => continue,
            };
            opened.spot = Some((other.0, other.1.to_owned()));
        }
    }

    /// Whether a folder is another one, or above it.
    fn is_above(&self, folder: Number, below: Number) -> bool {
        let mut at = below;
        loop {
            if at == folder {
                return true;
            }
            match self.folder(at) {
                Ok(here) if at != ROOT && self.node(at).is_ok_and(|node| node.links > 0) => at = here.parent,
                _ => return false,
            }
        }
    }

    pub(super) fn chmod(&mut self, node: Number, mode: u32, who: Who) -> Result<()> {
        let is = self.node_mut(node)?;
        if !who.all && who.user != is.user {
            return Err(Errno::PERM);
        }
        is.mode = mode & 0o7777;
        self.touch(node, false);
        Ok(())
    }

    pub(super) fn chown(&mut self, node: Number, user: u32, group: u32, who: Who) -> Result<()> {
        let is = self.node_mut(node)?;
        let keeps = who.user == is.user && user == is.user && (group == is.group || group == who.group);
        if !who.all && !keeps {
            return Err(Errno::PERM);
        }
        (is.user, is.group) = (user, group);
        // What runs as its owner no more does.
        if !matches!(is.kind, Kind::Folder(_)) {
            is.mode &= if is.mode & 0o10 == 0 { !0o4000 } else { !0o6000 };
        }
        self.touch(node, false);
        Ok(())
    }

    pub(super) fn set_length(&mut self, node: Number, length: u64, who: Who) -> Result<()> {
        match &mut self.node_mut(node)?.kind {
            Kind::File(bytes) => bytes.set_length(length),
            Kind::Folder(_) => return Err(Errno::ISDIR),
            _ => return Ok(()),
        }
        self.is_changed(node, who)
    }

    /// Notes that contents were changed. What runs as its owner or group no more does, unless root did it.
    fn is_changed(&mut self, node: Number, who: Who) -> Result<()> {
        self.touch(node, true);
        let is = self.node_mut(node)?;
        if !who.all {
            is.mode &= if is.mode & 0o10 == 0 { !0o4000 } else { !0o6000 };
        }
        Ok(())
    }

    /// Sets when contents were changed, as their owner says.
    pub(super) fn set_modified(&mut self, node: Number, at: Stamp, who: Who) -> Result<()> {
        let is = self.node_mut(node)?;
        if !who.all && who.user != is.user {
            return Err(Errno::PERM);
        }
        is.modified = at;
        self.touch(node, false);
        Ok(())
    }

    pub(super) fn write(&mut self, id: u64, bytes: &[u8], who: Who) -> Result<usize> {
        let opened = self.opened(id)?;
        let (node, at) = (opened.node, opened.at);
        if !opened.writes || opened.passes {
            return Err(Errno::BADF);
        }
        match &mut self.node_mut(node)?.kind {
            Kind::File(file) => file.write(at, bytes),
            _ => return Err(Errno::INVAL),
        }
        if !bytes.is_empty() {
            self.is_changed(node, who)?;
        }
        self.opened_mut(id)?.at = at + bytes.len() as u64;
        Ok(bytes.len())
    }

    pub(super) fn read(&self, id: u64, into: &mut [u8], at: u64) -> Result<usize> {
        let opened = self.opened(id)?;
        if !opened.reads || opened.passes {
            return Err(Errno::BADF);
        }
        match &self.node(opened.node)?.kind {
            Kind::File(file) => Ok(file.read(at, into)),
            Kind::Folder(_) => Err(Errno::ISDIR),
            _ => Err(Errno::SPIPE),
        }
    }

    pub(super) fn set_flags(&mut self, node: Number, flags: u32) -> Result<()> {
        let is = self.node_mut(node)?;
        is.flags = flags;
        is.extended.flags = extended_of(flags, is.extended.flags);
        self.touch(node, false);
        Ok(())
    }

    pub(super) fn set_extended(&mut self, node: Number, extended: Extended) -> Result<()> {
        let is = self.node_mut(node)?;
        is.extended = extended;
        if !matches!(is.kind, Kind::Folder(_)) {
            is.extended.flags &= !INHERITS_EXTENDED;
        }
        let extended = is.extended;
        for (flag, same) in BOTH.into_iter().chain([NO_ATIME]) {
            is.flags = if extended.flags & same == 0 { is.flags & !flag } else { is.flags | flag };
        }
        self.touch(node, false);
        Ok(())
    }

    pub(super) fn set_attribute(&mut self, node: Number, name: &[u8], value: &[u8], who: Who) -> Result<()> {
        if !self.settings.attributes {
            return Err(Errno::NOTSUP);
        }
        if !matches!(self.node(node)?.kind, Kind::File(_) | Kind::Folder(_)) {
            return Err(Errno::PERM);
        }
        self.ask(node, who, WRITE)?;
        self.node_mut(node)?.attributes.insert(name.to_owned(), value.to_owned());
        self.touch(node, false);
        Ok(())
    }

    pub(super) fn attribute(&self, node: Number, name: &[u8], into: &mut [u8], who: Who) -> Result<usize> {
        if !self.settings.attributes {
            return Err(Errno::NOTSUP);
        }
        let is = self.node(node)?;
        if matches!(is.kind, Kind::File(_) | Kind::Folder(_)) {
            self.ask(node, who, READ)?;
        }
        let value = is.attributes.get(name).ok_or(Errno::NODATA)?;
        if into.is_empty() {
            return Ok(value.len());
        }
        into.get_mut(..value.len()).ok_or(Errno::RANGE)?.copy_from_slice(value);
        Ok(value.len())
    }
}

/// How something is renamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Renaming {
    /// What stands there is replaced.
    Over,
    /// Nothing may stand there.
    New,
    /// What stands there gets the old name.
    Exchange,
}

/// The extended flags of somebody with these flags, with those that are extended ones alone.
fn extended_of(flags: u32, extended: u32) -> u32 {
    let all = BOTH.into_iter().chain([NO_ATIME]);
    all.fold(extended, |is, (flag, same)| if flags & flag == 0 { is & !same } else { is | same })
}
