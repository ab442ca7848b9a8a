//! Claimed commands, from the moment they are out of their container's reach until they are acknowledged.

mod aside;
mod back;
mod read;

use std::{
    ffi::{CStr, CString, OsStr},
    fmt,
    ops::ControlFlow,
    os::unix::ffi::OsStrExt as _,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

pub(super) use self::read::origin;
pub use self::{
    aside::{DONE_FILES, Why},
    read::{COMMAND_LIMIT, HEAD, Origin, OriginKind, Read, ReadError},
};
use super::{
    boxes::GroupBoxes,
    dir,
    files::Fd,
    host::HostDirs,
    kernel::Writer,
    names::{CommandBox, display_name},
    world_fault::WorldFault,
};
use ipc_handlers::{Folder, Time};

/// Where a claimed file says that it came from: `<box>/<name>`. Only ever shown, as its container can change it.
pub(super) const SOURCE: &CStr = c"user.g2.from";

/// `data/claimed/`, and the folders that its files are set aside in. One for the whole daemon.
#[derive(Debug)]
pub struct Claims {
    host: Arc<HostDirs>,
    next: AtomicI64,
    aside: aside::Aside,
}

/// A command that was taken out of its box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// Greater than that of every claim before.
    pub id: i64,
    /// Who asks: the group whose box it was taken from.
    pub folder: Folder,
    /// Where it stood. `None` after a restart on a file system without extended attributes.
    pub source: Option<Source>,
    /// Where it is now; for people.
    pub path: Box<Path>,
    /// When it was last changed in its box, which a rename is too. `None` after a restart.
    pub written: Option<Time>,
    /// When it was taken out of its box.
    pub taken: Option<Time>,
}

/// Where a command stood before it was claimed; for people and `why.json`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    pub in_box: CommandBox,
    /// Safe to print, see [`display_name`].
    pub name: String,
}

/// What a start finds in `claimed/`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOver {
    /// In the order in which they were claimed.
    pub claims: Vec<Claimed>,
    /// Names that are no claims, left alone; safe to print.
    pub strange: Vec<String>,
}

impl Claims {
    /// Opens `claimed/`. Ids go on above every one found there and above `floor`, the highest that the store knows.
    ///
    /// # Errors
    /// [`WorldFault`] when the folder can't be read.
    pub fn open(host: &Arc<HostDirs>, floor: i64) -> Result<Self, WorldFault> {
        let mut highest = floor.max(0);
        dir::each_name(&host.claimed, |name, _| {
            highest = highest.max(parse(dir::os(name)).map_or(0, |(id, _)| id));
            ControlFlow::Continue(())
        })
        .map_err(|e| WorldFault::new("reading", "data/claimed", e))?;
        let next = AtomicI64::new(highest.saturating_add(1));
        Ok(Self { host: Arc::clone(host), next, aside: aside::Aside::default() })
    }

    /// Returns an id that no claim has had, for what a person does; everything else gets one as it is claimed.
    #[must_use]
    pub fn next_id(&self) -> i64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the claims that an earlier life left, in id order; a start goes on with these before it looks at a box.
    ///
    /// A directory among them, which a crash can leave, goes to `dead/` as it would have; it is returned all the same,
    /// and reads as [`ReadError::NotAFile`].
    ///
    /// # Errors
    /// [`WorldFault`] when the folder can't be read.
    pub fn left_over(&self) -> Result<LeftOver, WorldFault> {
        let mut found = LeftOver::default();
        dir::each_name(&self.host.claimed, |name, _| {
            match parse(dir::os(name)) {
                Some((id, folder)) => found.claims.push(Claimed::new(&self.host, id, &folder, None)),
                None => found.strange.push(display_name(dir::os(name))),
            }
            ControlFlow::Continue(())
        })
        .map_err(|e| WorldFault::new("reading", "data/claimed", e))?;
        found.claims.sort_by_key(|c| c.id);
        for claim in &mut found.claims {
            self.look_at(claim);
        }
        Ok(found)
    }

    /// Returns the claim with this id, if its file is there.
    ///
    /// # Errors
    /// [`WorldFault`] when the folder can't be read.
    pub fn find(&self, id: i64) -> Result<Option<Claimed>, WorldFault> {
        let mut found = None;
        dir::each_name(&self.host.claimed, |name, _| match parse(dir::os(name)) {
            Some((this, folder)) if this == id => {
                found = Some(Claimed::new(&self.host, id, &folder, None));
                ControlFlow::Break(())
            }
            Some(_) | None => ControlFlow::Continue(()),
        })
        .map_err(|e| WorldFault::new("reading", "data/claimed", e))?;
        if let Some(claim) = &mut found {
            self.look_at(claim);
        }
        Ok(found)
    }

    /// Asks whether somebody still has the claimed file open for writing.
    #[must_use]
    pub fn writer(&self, claimed: &Claimed) -> Writer {
        match self.open_file(claimed) {
            Ok(file) => file.writer(),
            Err(_) => Writer::Unknown,
        }
    }

    /// Unlinks the claimed file: the very last step. That it is gone already is no error. A directory that was swapped in
    /// goes to the trash, unread: nothing bounds its contents.
    ///
    /// # Errors
    /// [`WorldFault`] when it can't be removed.
    pub fn acknowledge(&self, claimed: &Claimed) -> Result<(), WorldFault> {
        let name = CString::new(claimed.file_name()).unwrap_or_default(); // Digits and a folder's name.
        self.host.remove_entry(&self.host.claimed, &name).map_err(|e| claimed.world("removing", e))
    }

    /// Makes the claim itself survive a power cut: first that the file is here, then that it is gone from its box.
    ///
    /// Needed before the commit where [`Origin::kind`] is weak, and nowhere else.
    ///
    /// # Errors
    /// [`WorldFault`] when the disk says so.
    pub fn sync_source(&self, boxes: &GroupBoxes, b: CommandBox) -> Result<(), WorldFault> {
        self.host.claimed.sync().map_err(|e| WorldFault::new("syncing", "data/claimed", e))?;
        boxes.sync(b)
    }

    /// Notes on the claimed inode where it came from. Best effort: after a restart it is shown to people, no more.
    pub(super) fn note_source(file: &Fd, claimed: &Claimed, name: &OsStr) {
        let Some(source) = &claimed.source else { return };
        let mut value = source.in_box.as_str().as_bytes().to_vec();
        value.push(b'/');
        value.extend_from_slice(name.as_bytes());
        let _ = file.set_attribute(SOURCE, &value);
    }

    fn source_of(&self, claimed: &Claimed) -> Option<Source> {
        let file = self.open_file(claimed).ok()?;
        let mut value = vec![0; 512];
        let length = file.attribute(SOURCE, &mut value).ok()?;
        value.truncate(length);
        let slash = value.iter().position(|b| *b == b'/')?;
        Some(Source::new(CommandBox::parse(&value[..slash])?, OsStr::from_bytes(&value[slash + 1..])))
    }

    /// Learns again what was known of a claim when it was made.
    fn look_at(&self, claim: &mut Claimed) {
        claim.source = self.source_of(claim);
        claim.taken = dir::stat(&self.host.claimed, claim.file_name().as_str()).ok().map(|s| changed_at(&s));
    }
}

impl Claimed {
    pub(super) fn new(host: &HostDirs, id: i64, folder: &Folder, source: Option<Source>) -> Self {
        let path = host.path().join("claimed").join(file_name(id, folder));
        Self { id, folder: folder.clone(), source, path: path.into(), written: None, taken: None }
    }

    /// Returns the claimed file's name, `<id>-<folder>.json`.
    pub(super) fn file_name(&self) -> String {
        file_name(self.id, &self.folder)
    }

    pub(super) fn world(&self, doing: &'static str, e: impl Into<std::io::Error>) -> WorldFault {
        WorldFault::new(doing, self.to_string(), e)
    }
}

impl fmt::Display for Claimed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "claim {} of {}", self.id, self.folder)
    }
}

impl Source {
    pub(super) fn new(in_box: CommandBox, name: &OsStr) -> Self {
        Self { in_box, name: display_name(name) }
    }
}

/// When an inode was last changed.
pub(super) fn changed_at(stat: &rustix::fs::Stat) -> Time {
    let ms = i64::try_from(stat.st_ctime_nsec).unwrap_or(0) / 1_000_000;
    Time(stat.st_ctime.saturating_mul(1000).saturating_add(ms))
}

fn file_name(id: i64, folder: &Folder) -> String {
    format!("{id}-{folder}.json")
}

/// The id and group that a name in `claimed/` stands for.
pub(super) fn parse(name: &OsStr) -> Option<(i64, Folder)> {
    let (id, folder) = name.to_str()?.strip_suffix(".json")?.split_once('-')?;
    let folder = Folder::parse(folder).ok()?;
    let id = id.parse().ok().filter(|id| *id > 0)?;
    (name == OsStr::new(&file_name(id, &folder))).then_some((id, folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claims_name_holds_its_id_and_group_and_nothing_else_is_a_claim() {
        let folder = Folder::parse("family-chat").unwrap();
        assert_eq!(parse(OsStr::new(&file_name(7, &folder))), Some((7, folder)));
        for strange in
            ["7.json", "-7-main.json", "07-main.json", "+7-main.json", "0-main.json", "7-..json", "7-main"]
        {
            assert_eq!(parse(OsStr::new(strange)), None, "{strange}");
        }
    }

    #[test]
    fn ids_go_on_above_what_is_on_disk_and_what_the_store_knows() {
        let root = tempfile::tempdir().unwrap();
        let host = HostDirs::open(root.path()).unwrap();
        dir::write_host_file(&host.claimed, "41-main.json", b"{}").unwrap();
        dir::write_host_file(&host.claimed, "stranger", b"").unwrap();
        assert_eq!(Claims::open(&host, 0).unwrap().next_id(), 42);
        let claims = Claims::open(&host, 99).unwrap();
        assert_eq!((claims.next_id(), claims.next_id()), (100, 101));
        let left = claims.left_over().unwrap();
        assert_eq!(left.claims.iter().map(|c| c.id).collect::<Vec<_>>(), [41]);
        assert_eq!(left.strange, ["stranger"]);
    }
}
