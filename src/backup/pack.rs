//! Writing an archive: the store, and the files beside it, as they are when they are read.
#![expect(
    clippy::disallowed_methods,
    reason = "writes the archive, into a folder that no container can write to"
)]

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::{self, BufWriter, Read, Seek as _, SeekFrom, Write as _},
    ops::ControlFlow,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::Path,
};

use anyhow::Result;
use ipc_handlers::Time;

use super::{
    archive::{FILES, Hashed, MANIFEST, Manifest, Packed, SECRET_FILES, STORE, VERSION, part_of},
    holes::{BLOCK, NAME_KEY, Pieces, Reading, SIZE_KEY, Shape, VERSION_KEYS},
    weigh::{First, Inodes, Known, Weighed, each_name, name_bytes},
};
use crate::{config::without_secrets, domain::kept::backups::allowance, ipc::Met};

/// How many things that were left out are named; the others are counted.
const NAMED: usize = 100;
/// The settings, which adapters' tokens may stand in.
const SETTINGS: &str = "g2.toml";
/// Larger settings are not searched for secrets, bytes.
const LARGEST_SETTINGS: u64 = 16 << 20;
/// How many characters of their paths.
const SHOWN: usize = 300;

/// Files of the root, opened at one instant: whatever is added to them later is not read.
pub(super) struct Opened(Vec<(&'static str, File, u64)>);

/// Opens the root's own files. Done before the store is copied, the list of changes tells of nothing that the copy does not have.
pub(super) fn open(root: &Path, with_secrets: bool) -> io::Result<Opened> {
    let secret: &[&str] = if with_secrets { &SECRET_FILES } else { &[] };
    let mut opened = Vec::new();
    for path in FILES.iter().chain(secret) {
        // They are ours, so a link is what their owner wants.
        match File::open(root.join(path)) {
            Ok(file) => {
                let size = file.metadata()?.len();
                opened.push((*path, file, size));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Opened(opened))
}

/// An archive that is being written.
pub(super) struct Packing {
    tar: tar::Builder<BufWriter<File>>,
    /// How much each part may still take, bytes.
    left: BTreeMap<String, u64>,
    /// How much of the manifest the files of one part may take, bytes.
    share: u64,
    inodes: Inodes,
    manifest: Manifest,
}

impl Packing {
    /// Begins an archive: each part takes about as much of it as it was weighed.
    pub(super) fn new(
        archive: &Path,
        weighed: Weighed,
        without: Vec<String>,
        with_secrets: bool,
        now: Time,
    ) -> Result<Self> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(archive)?;
        let manifest = Manifest {
            version: VERSION,
            made_by: format!("g2 {}", env!("CARGO_PKG_VERSION")),
            made_at: now.to_string(),
            with_secrets,
            files: Vec::new(),
            left_out: Vec::new(),
            left_out_count: 0,
            without,
        };
        let left = weighed.parts.into_iter().map(|(part, bytes)| (part, allowance(bytes))).collect();
        Ok(Self {
            tar: tar::Builder::new(BufWriter::new(file)),
            left,
            share: weighed.share,
            inodes: Inodes::default(),
            manifest,
        })
    }

    pub(super) fn pack(&mut self, root: &Path, store: &Path, opened: Opened) -> io::Result<()> {
        let copy = File::open(store)?;
        let size = copy.metadata()?.len();
        if !self.append(STORE, &copy, size)? {
            return Err(io::Error::other("the copy of the store can't be read"));
        }
        let with_secrets = self.manifest.with_secrets;
        for (path, file, size) in opened.0 {
            if path == SETTINGS && !with_secrets {
                self.append_settings(&file, size)?;
            } else {
                self.append(path, &file, size)?;
            }
        }
        let share = self.share;
        each_name(root, with_secrets, share, &mut |path, met| {
            if self.manifest.without.iter().any(|part| part == part_of(path)) {
                return Ok(ControlFlow::Break(()));
            }
            match met {
                Met::Folder if !self.has_room(path, name_bytes(path)) => return Ok(ControlFlow::Break(())),
                Met::Folder => self.append_folder(path, &root.join(path))?,
                Met::File(file) => self.append_changing(path, &file)?,
                Met::LeftOut(why) => self.leave_out(path, why),
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    fn leave_out(&mut self, path: &str, why: &str) {
        self.manifest.left_out_count += 1;
        if self.manifest.left_out.len() < NAMED {
            let short: String = path.chars().take(SHOWN).collect();
            let cut = if short.len() < path.len() { "…" } else { "" };
            self.manifest.left_out.push(format!("{short}{cut}: {why}"));
        }
    }

    /// Takes bytes out of what a part may have; says so where it has too few left.
    fn has_room(&mut self, path: &str, bytes: u64) -> bool {
        let left = match self.left.get_mut(part_of(path)) {
            Some(left) => left,
            None => self.left.entry(part_of(path).to_owned()).or_insert(allowance(0)),
        };
        let rest = left.checked_sub(bytes);
        match rest {
            Some(rest) => *left = rest,
            None => self.leave_out(path, "its folder has grown since it was weighed"),
        }
        rest.is_some()
    }

    fn append_folder(&mut self, path: &str, like: &Path) -> io::Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Directory);
        header.set_mode(0o755);
        // It may be gone, or another, by now.
        if let Ok(meta) = like.symlink_metadata() {
            describe(&mut header, &meta);
        }
        header.set_size(0);
        self.tar.append_data(&mut header, path, io::empty())
    }

    /// Appends a file that somebody may be writing to, unless it stands in the archive already: then another name of it.
    fn append_changing(&mut self, path: &str, file: &File) -> io::Result<()> {
        match self.inodes.known(path, file)? {
            Some(Known::Full) => {
                self.leave_out(path, "more than 32000 names of one file");
                return Ok(());
            }
            Some(Known::Stored(first)) => {
                let has_room = self.has_room(path, name_bytes(path) + name_bytes(&first.path));
                return if has_room { self.append_link(path, first, file) } else { Ok(()) };
            }
            None => {}
        }
        let shape = Shape::of(path, file)?;
        if !self.has_room(path, name_bytes(path) + shape.stored()) {
            return Ok(());
        }
        let is_there = match shape {
            Shape::Plain(size) => self.append(path, file, size)?,
            Shape::Holed(pieces) => self.append_holed(path, file, &pieces)?,
            Shape::LeftOut(why) => {
                self.leave_out(path, why);
                false
            }
        };
        match self.manifest.files.len().checked_sub(1).filter(|_| is_there) {
            Some(at) => self.inodes.stored(path, at, file),
            None => Ok(()),
        }
    }

    fn append_link(&mut self, path: &str, first: First, file: &File) -> io::Result<()> {
        let mut header = tar::Header::new_gnu();
        describe(&mut header, &file.metadata()?);
        header.set_entry_type(tar::EntryType::Link);
        header.set_size(0);
        self.tar.append_link(&mut header, path, &first.path)?;
        let of = self.manifest.files[first.at].clone();
        self.manifest.files.push(Packed { path: path.to_owned(), same_as: Some(first.at), ..of });
        Ok(())
    }

    /// Appends the first `most` bytes of a file, or fewer. Returns whether it could be read.
    fn append(&mut self, path: &str, file: &File, most: u64) -> io::Result<bool> {
        // The look for its holes has moved in it.
        (&*file).rewind()?;
        self.append_bytes(path, path, file, most, file.take(most))
    }

    /// Appends the settings without the secrets that stand in them.
    fn append_settings(&mut self, file: &File, most: u64) -> io::Result<()> {
        let mut text = Vec::new();
        let read = file.take(most.min(LARGEST_SETTINGS)).read_to_end(&mut text);
        let text = String::from_utf8(text).ok().filter(|_| read.is_ok() && most <= LARGEST_SETTINGS);
        match text.and_then(|text| without_secrets(&text)) {
            Some(text) => {
                self.append_bytes(SETTINGS, SETTINGS, file, text.len() as u64, text.as_bytes()).map(drop)
            }
            None => {
                self.leave_out(SETTINGS, "it can't be read as TOML, so nobody can tell what is secret in it");
                Ok(())
            }
        }
    }

    /// Appends the pieces of a file with holes.
    fn append_holed(&mut self, path: &str, file: &File, pieces: &Pieces) -> io::Result<bool> {
        let start = self.tar.get_mut().stream_position()?;
        let size = pieces.size.to_string();
        let mut pairs = VERSION_KEYS.to_vec();
        pairs.extend([(NAME_KEY, path), (SIZE_KEY, &size)]);
        let text: String = pairs.into_iter().map(|(key, value)| pax_line(key, value)).collect();
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(tar::EntryType::XHeader);
        header.set_mode(0o600);
        header.set_size(text.len() as u64);
        self.tar.append_data(&mut header, "PaxHeaders/file", text.as_bytes())?;
        let head = pieces.head();
        let bytes = head.as_slice().chain(Reading::new(file, pieces));
        let is_there = self.append_bytes(path, "GNUSparseFile.0/file", file, pieces.stored(), bytes)?;
        match self.manifest.files.last_mut() {
            Some(last) if is_there => last.with_holes = Some(pieces.size),
            // Its own header is nothing without it.
            Some(_) | None => self.cut(start)?,
        }
        Ok(is_there)
    }

    /// Appends bytes under a name, `size` of them or fewer. Returns whether they could be read.
    fn append_bytes(
        &mut self,
        path: &str,
        name: &str,
        like: &File,
        size: u64,
        bytes: impl Read,
    ) -> io::Result<bool> {
        let start = self.tar.get_mut().stream_position()?;
        // Behind a pax header GNU tar looks for the pieces of a file only if this one is of the same kind.
        let mut header = if name == path { tar::Header::new_gnu() } else { tar::Header::new_ustar() };
        describe(&mut header, &like.metadata()?);
        header.set_size(size);
        let mut bytes = Hashed::of(bytes);
        match self.tar.append_data(&mut header, name, &mut bytes) {
            Err(_) if bytes.has_failed => {
                self.cut(start)?;
                self.leave_out(path, "it can't be read");
                return Ok(false);
            }
            other => other?,
        }
        if bytes.size < size {
            // It was cut off while it was read: its header says so.
            let out = self.tar.get_mut();
            let back = bytes.size.next_multiple_of(BLOCK) + BLOCK;
            let end = out.stream_position()?;
            header.set_size(bytes.size);
            header.set_cksum();
            out.seek(SeekFrom::Start(end - back))?;
            out.write_all(header.as_bytes())?;
            out.seek(SeekFrom::Start(end))?;
        }
        self.manifest.files.push(bytes.packed(path));
        Ok(true)
    }

    /// Takes back what was written from there on.
    fn cut(&mut self, start: u64) -> io::Result<()> {
        let out = self.tar.get_mut();
        out.seek(SeekFrom::Start(start))?;
        out.get_ref().set_len(start)
    }

    pub(super) fn finish(mut self) -> Result<Manifest> {
        let bytes = serde_json::to_vec_pretty(&self.manifest)?;
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o600);
        header.set_size(bytes.len() as u64);
        self.tar.append_data(&mut header, MANIFEST, bytes.as_slice())?;
        let mut file = self.tar.into_inner()?;
        file.flush()?;
        file.get_ref().sync_all()?;
        Ok(self.manifest)
    }
}

/// Puts into a header what is known of a file or folder beside its name and size.
fn describe(header: &mut tar::Header, meta: &std::fs::Metadata) {
    header.set_mode(meta.mode() & 0o777);
    header.set_uid(meta.uid().into());
    header.set_gid(meta.gid().into());
    header.set_mtime(u64::try_from(meta.mtime()).unwrap_or(0));
}

/// Returns a line of a pax header, which begins with its own length.
fn pax_line(key: &str, value: &str) -> String {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while rest + length.to_string().len() != length {
        length += 1;
    }
    format!("{length} {key}={value}\n")
}
