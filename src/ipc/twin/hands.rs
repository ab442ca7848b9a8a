//! What others do with the files of the twin, above all containers: plain calls by paths from its root, links followed.

use std::path::Path;

use rustix::{
    fs::Stat,
    io::{Errno, Result},
    path::Arg as _,
};

use super::disk::{Disk, Kind, Number, Opening, ROOT, Renaming, Who};
use super::walk::How;

/// Acts on the files of a twin. No [`Before`](super::Before) is asked.
#[derive(Debug)]
pub struct Hands<'a> {
    disk: &'a mut Disk,
    who: Who,
}

/// A file that somebody holds open for writing, until [`Hands::close`].
#[derive(Debug, PartialEq, Eq)]
pub struct Held(u64);

/// What stands at a path, and what there is to say of it.
#[derive(Clone, Copy, Debug)]
pub struct Is(pub Stat);

impl<'a> Hands<'a> {
    pub(super) fn of(disk: &'a mut Disk) -> Self {
        Self { disk, who: Who { user: 0, group: 0, all: true } }
    }

    /// Has what follows be done by this user and group, whom modes keep out. Before that it is root.
    pub fn act_as(&mut self, user: u32, group: u32) {
        self.who = Who { user, group, all: false };
    }

    fn at<T>(&mut self, path: &Path, act: impl FnOnce(&mut Disk, &[u8], Who) -> Result<T>) -> Result<T> {
        let who = self.who;
        path.into_with_c_str(|path| act(self.disk, path.to_bytes(), who))
    }

    fn find(&mut self, path: &Path, follows: bool) -> Result<Number> {
        let how = How { follows, ..How::default() };
        self.at(path, |disk, path, who| disk.find_at(ROOT, path, how, who))
    }

    fn open(&mut self, path: &Path, opening: Opening) -> Result<u64> {
        let opening = Opening { follows: true, mode: 0o666, ..opening };
        self.at(path, |disk, path, who| disk.open(ROOT, path, opening, How::default(), who))
    }

    /// Makes a folder.
    ///
    /// # Errors
    /// Those of the kernel, as of each of these.
    pub fn make_folder(&mut self, path: impl AsRef<Path>) -> Result<()> {
        self.at(path.as_ref(), |disk, path, who| disk.make_folder(ROOT, path, 0o777, who).map(drop))
    }

    /// Makes a folder, and those above it that are not there.
    ///
    /// # Errors
    /// As above.
    pub fn make_folders(&mut self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        match self.make_folder(path) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(Errno::NOENT) => {
                self.make_folders(path.parent().ok_or(Errno::NOENT)?)?;
                self.make_folder(path)
            }
            Err(other) => Err(other),
        }
    }

    /// Makes a link that leads to another path.
    ///
    /// # Errors
    /// As above.
    pub fn make_link(&mut self, to: impl AsRef<Path>, path: impl AsRef<Path>) -> Result<()> {
        let to = std::os::unix::ffi::OsStrExt::as_bytes(to.as_ref().as_os_str()).to_vec();
        self.make(path.as_ref(), Kind::Link(to))
    }

    /// Makes a FIFO.
    ///
    /// # Errors
    /// As above.
    pub fn make_fifo(&mut self, path: impl AsRef<Path>) -> Result<()> {
        self.make(path.as_ref(), Kind::Fifo)
    }

    /// Makes a socket that nobody listens to.
    ///
    /// # Errors
    /// As above.
    pub fn make_socket(&mut self, path: impl AsRef<Path>) -> Result<()> {
        self.make(path.as_ref(), Kind::Socket)
    }

    fn make(&mut self, path: &Path, kind: Kind) -> Result<()> {
        self.at(path, |disk, path, who| disk.create_at(ROOT, path, kind, 0o666, who).map(drop))
    }

    /// Writes a whole file in its place, and makes it if it is not there.
    ///
    /// # Errors
    /// As above.
    pub fn write(&mut self, path: impl AsRef<Path>, bytes: &[u8]) -> Result<()> {
        let held = self.begin(path)?;
        let done = self.go_on(&held, bytes);
        self.close(held);
        done
    }

    /// Begins to write a file anew, and holds it open.
    ///
    /// # Errors
    /// As above.
    pub fn begin(&mut self, path: impl AsRef<Path>) -> Result<Held> {
        let opening = Opening { writes: true, makes: true, empties: true, ..Opening::default() };
        self.open(path.as_ref(), opening).map(Held)
    }

    /// Opens a file that is there for writing, from its start, and holds it open.
    ///
    /// # Errors
    /// As above.
    pub fn hold(&mut self, path: impl AsRef<Path>) -> Result<Held> {
        self.open(path.as_ref(), Opening { writes: true, ..Opening::default() }).map(Held)
    }

    /// Writes on.
    ///
    /// # Errors
    /// As above.
    pub fn go_on(&mut self, held: &Held, bytes: &[u8]) -> Result<()> {
        self.disk.write(held.0, bytes, self.who).map(drop)
    }

    /// Closes what was held.
    pub fn close(&mut self, held: Held) {
        let Held(id) = held;
        self.disk.close(id);
    }

    /// Returns what a file holds.
    ///
    /// # Errors
    /// As above.
    pub fn read(&mut self, path: impl AsRef<Path>) -> Result<Vec<u8>> {
        self.read_some(path, usize::MAX)
    }

    /// The same, at most as many bytes.
    ///
    /// # Errors
    /// As above.
    pub fn read_some(&mut self, path: impl AsRef<Path>, most: usize) -> Result<Vec<u8>> {
        let id = self.open(path.as_ref(), Opening { reads: true, ..Opening::default() })?;
        let node = self.disk.opened(id)?.node;
        let length = match &self.disk.node(node)?.kind {
            Kind::File(bytes) => bytes.length(),
            _ => 1,
        };
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0).min(most)];
        let read = self.disk.read(id, &mut bytes, 0);
        self.disk.close(id);
        bytes.truncate(read?);
        Ok(bytes)
    }

    /// Returns the names in a folder, sorted.
    ///
    /// # Errors
    /// As above.
    pub fn names(&mut self, path: impl AsRef<Path>) -> Result<Vec<Vec<u8>>> {
        let node = self.find(path.as_ref(), true)?;
        let mut names: Vec<Vec<u8>> =
            self.disk.folder(node)?.behind(0).map(|(_, name, _)| name.to_owned()).collect();
        names.sort();
        Ok(names)
    }

    /// Says what stands at a path, a link not followed.
    ///
    /// # Errors
    /// As above.
    pub fn stat(&mut self, path: impl AsRef<Path>) -> Result<Is> {
        let node = self.find(path.as_ref(), false)?;
        self.disk.stat(node).map(Is)
    }

    /// Says what a path leads to, links followed; `None`: to nothing.
    #[cfg(test)]
    pub(super) fn leads_to(&mut self, path: &Path) -> Option<rustix::fs::FileType> {
        let node = self.find(path, true).ok()?;
        Some(rustix::fs::FileType::from_raw_mode(self.disk.node(node).ok()?.kind.bits()))
    }

    /// Gives a file one more name.
    ///
    /// # Errors
    /// As above.
    pub fn link(&mut self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
        self.both(from.as_ref(), to.as_ref(), Disk::link)
    }

    /// Renames, over what stands there.
    ///
    /// # Errors
    /// As above.
    pub fn rename(&mut self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
        self.both(from.as_ref(), to.as_ref(), |disk, from, to, who| {
            disk.rename(from, to, Renaming::Over, who)
        })
    }

    /// Renames, where nothing stands.
    ///
    /// # Errors
    /// As above.
    pub fn rename_new(&mut self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
        self.both(from.as_ref(), to.as_ref(), |disk, from, to, who| disk.rename(from, to, Renaming::New, who))
    }

    /// Has two paths change places.
    ///
    /// # Errors
    /// As above.
    pub fn exchange(&mut self, one: impl AsRef<Path>, two: impl AsRef<Path>) -> Result<()> {
        self.both(one.as_ref(), two.as_ref(), |disk, one, two, who| {
            disk.rename(one, two, Renaming::Exchange, who)
        })
    }

    fn both(
        &mut self,
        one: &Path,
        two: &Path,
        act: impl FnOnce(&mut Disk, (Number, &[u8]), (Number, &[u8]), Who) -> Result<()>,
    ) -> Result<()> {
        self.at(one, |disk, one, who| {
            two.into_with_c_str(|two| act(disk, (ROOT, one), (ROOT, two.to_bytes()), who))
        })
    }

    /// Removes a name that is no folder's.
    ///
    /// # Errors
    /// As above.
    pub fn unlink(&mut self, path: impl AsRef<Path>) -> Result<()> {
        self.at(path.as_ref(), |disk, path, who| disk.unlink(ROOT, path, who))
    }

    /// Removes an empty folder.
    ///
    /// # Errors
    /// As above.
    pub fn remove_folder(&mut self, path: impl AsRef<Path>) -> Result<()> {
        self.at(path.as_ref(), |disk, path, who| disk.remove_folder(ROOT, path, who))
    }

    /// Sets a mode.
    ///
    /// # Errors
    /// As above.
    pub fn chmod(&mut self, path: impl AsRef<Path>, mode: u32) -> Result<()> {
        let node = self.find(path.as_ref(), true)?;
        self.disk.chmod(node, mode, self.who)
    }

    /// Sets an owner.
    ///
    /// # Errors
    /// As above.
    pub fn chown(&mut self, path: impl AsRef<Path>, user: u32, group: u32) -> Result<()> {
        let node = self.find(path.as_ref(), true)?;
        self.disk.chown(node, user, group, self.who)
    }

    /// Makes a file as long as this, by a hole or by a cut.
    ///
    /// # Errors
    /// As above.
    pub fn set_length(&mut self, path: impl AsRef<Path>, length: u64) -> Result<()> {
        let id = self.open(path.as_ref(), Opening { writes: true, ..Opening::default() })?;
        let node = self.disk.opened(id)?.node;
        let done = self.disk.set_length(node, length, self.who);
        self.disk.close(id);
        done
    }

    /// Sets when contents were changed: seconds and nanoseconds.
    ///
    /// # Errors
    /// As above.
    pub fn set_modified(&mut self, path: impl AsRef<Path>, at: (i64, u32)) -> Result<()> {
        let node = self.find(path.as_ref(), true)?;
        self.disk.set_modified(node, at, self.who)
    }

    /// Gives a folder flags and a project, which all that is made in it has.
    ///
    /// # Errors
    /// As above.
    pub fn mark(&mut self, path: impl AsRef<Path>, flags: u32, project: u32) -> Result<()> {
        let node = self.find(path.as_ref(), true)?;
        let mut extended = self.disk.with_flags(node)?.extended;
        self.disk.may_mark(node, self.who)?;
        extended.project = project;
        self.disk.set_extended(node, extended)?;
        self.disk.set_flags(node, flags)
    }

    /// Sets an attribute.
    ///
    /// # Errors
    /// As above.
    pub fn set_attribute(&mut self, path: impl AsRef<Path>, name: &str, value: &[u8]) -> Result<()> {
        let node = self.find(path.as_ref(), true)?;
        self.disk.set_attribute(node, name.as_bytes(), value, self.who)
    }
}
