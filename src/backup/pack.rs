//! Writing an archive: the store, and the files beside it, as they are when they are read.
#![expect(
    clippy::disallowed_methods,
    reason = "writes the archive, into a folder that no container can write to"
)]

use std::{
    fs::{File, OpenOptions},
    io::{self, BufWriter, Read, Seek as _, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use anyhow::Result;
use ipc_handlers::Time;
use rustix::io::Errno;

use super::archive::{
    FILES, FOLDERS, Hashed, MANIFEST, Manifest, SECRET_FILES, SECRET_FOLDERS, STORE, VERSION,
};
use crate::ipc::{Met, each_below};

/// How many things that were left out are named; the others are counted.
const NAMED: usize = 100;
/// Files up to this many bytes are held in memory while they are read.
const HELD: usize = 1 << 20;

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
    /// Where files that change are held while they are read.
    workshop: PathBuf,
    manifest: Manifest,
}

impl Packing {
    pub(super) fn new(archive: &Path, workshop: &Path, with_secrets: bool, now: Time) -> Result<Self> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(archive)?;
        let manifest = Manifest {
            version: VERSION,
            made_by: format!("g2 {}", env!("CARGO_PKG_VERSION")),
            made_at: now.to_string(),
            with_secrets,
            files: Vec::new(),
            left_out: Vec::new(),
            left_out_count: 0,
        };
        Ok(Self { tar: tar::Builder::new(BufWriter::new(file)), workshop: workshop.to_owned(), manifest })
    }

    pub(super) fn pack(&mut self, root: &Path, store: &Path, opened: Opened) -> io::Result<()> {
        let copy = File::open(store)?;
        let size = copy.metadata()?.len();
        self.append(STORE, &copy, size, &copy)?;
        let mut folders = FOLDERS.to_vec();
        if self.manifest.with_secrets {
            folders.extend(SECRET_FOLDERS);
        }
        for (path, file, size) in opened.0 {
            self.append_changing(path, file, size)?;
        }
        for folder in folders {
            each_below(&root.join(folder), &mut |below, met| {
                let path = format!("{folder}/{}", below.display());
                match met {
                    Met::Folder => self.append_folder(&path, &root.join(&path)),
                    Met::File(file) => {
                        let size = file.metadata()?.len();
                        self.append_changing(&path, file, size)
                    }
                    Met::LeftOut(why) => {
                        self.leave_out(&path, why);
                        Ok(())
                    }
                }
            })?;
        }
        Ok(())
    }

    fn leave_out(&mut self, path: &str, why: &str) {
        self.manifest.left_out_count += 1;
        if self.manifest.left_out.len() < NAMED {
            self.manifest.left_out.push(format!("{path}: {why}"));
        }
    }

    fn append_folder(&mut self, path: &str, like: &Path) -> io::Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Directory);
        header.set_mode(0o755);
        // It may be gone, or another, by now.
        if let Ok(meta) = like.symlink_metadata() {
            header.set_mode(meta.mode() & 0o777);
            header.set_uid(meta.uid().into());
            header.set_gid(meta.gid().into());
            header.set_mtime(u64::try_from(meta.mtime()).unwrap_or(0));
        }
        header.set_size(0);
        self.tar.append_data(&mut header, path, io::empty())
    }

    /// Appends a file that somebody may be writing to: its first `most` bytes, or fewer.
    fn append_changing(&mut self, path: &str, file: File, most: u64) -> io::Result<()> {
        let mut held = tempfile::spooled_tempfile_in(HELD, &self.workshop);
        if let Err(error) = io::copy(&mut (&file).take(most), &mut held) {
            if error.raw_os_error() == Some(Errno::NOSPC.raw_os_error()) {
                return Err(error);
            }
            self.leave_out(path, "it can't be read");
            return Ok(());
        }
        let size = held.stream_position()?;
        held.rewind()?;
        self.append(path, &mut held, size, &file)
    }

    fn append(&mut self, path: &str, bytes: impl Read, size: u64, like: &File) -> io::Result<()> {
        let meta = like.metadata()?;
        let mut header = tar::Header::new_gnu();
        header.set_mode(meta.mode() & 0o777);
        header.set_uid(meta.uid().into());
        header.set_gid(meta.gid().into());
        header.set_mtime(u64::try_from(meta.mtime()).unwrap_or(0));
        header.set_size(size);
        let mut bytes = Hashed::of(bytes);
        self.tar.append_data(&mut header, path, &mut bytes)?;
        self.manifest.files.push(bytes.packed(path));
        Ok(())
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
