//! A root in one file: the store as it stands at one instant, and the files beside it, read back before the file gets its name.
//!
//! ```text
//! FILE.partial/g2.sqlite ──▶ FILE.partial/archive ──read back──▶ FILE
//! ```
//!
//! | a death leaves | the next backup into this file |
//! |---|---|
//! | `FILE.partial/`, no FILE | makes the folder's files anew |
//! | FILE, whole, and `FILE.partial/` | is refused, as FILE is there; the folder may be removed |
#![expect(
    clippy::disallowed_methods,
    reason = "writes the archive, into a folder that no container can write to"
)]

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, BufReader, BufWriter, Read, Seek as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail, ensure};
use ipc_handlers::Time;
use rustix::{fs::FlockOperation, io::Errno};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{
    domain::rows::rfc3339,
    ipc::{Met, each_below},
    store,
    system::failpoint,
};

/// Files at the top of a root and in its data, and folders of either: what is in every backup.
const FILES: [&str; 3] = ["g2.toml", "data/changes.log", "data/changes.log.1"];
const FOLDERS: [&str; 5] = ["groups", "container", "data/sessions", "data/media", "data/results"];
/// What is in a backup that has the secrets.
const SECRET_FILES: [&str; 2] = [".env", "data/token.key"];
const SECRET_FOLDERS: [&str; 2] = ["data/secrets", "data/channels"];
/// The last entry of an archive.
const MANIFEST: &str = "manifest.json";
/// The most that is read of one, bytes.
const MANIFEST_LIMIT: u64 = 1 << 30;
/// How many things that were left out are named; the others are counted.
const NAMED: usize = 100;
/// Files up to this many bytes are held in memory while they are read.
const HELD: usize = 1 << 20;
/// The files of the folder in which an archive is made.
const PARTS: [&str; 3] = ["g2.sqlite", "g2.sqlite-journal", "archive"];

/// What an archive holds.
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
struct Manifest {
    version: u32,
    made_by: String,
    made_at: String,
    with_secrets: bool,
    files: Vec<Packed>,
    left_out: Vec<String>,
    left_out_count: u64,
}

/// A file in an archive.
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
struct Packed {
    path: String,
    size: u64,
    sha256: String,
}

/// What was written.
#[derive(Debug, Serialize)]
pub struct Saved {
    pub file: PathBuf,
    #[serde(serialize_with = "rfc3339")]
    pub made_at: Time,
    pub with_secrets: bool,
    pub files: usize,
    /// Size of the archive.
    pub bytes: u64,
    /// What no copy could be made of, with the reason: at most 100 of them.
    pub left_out: Vec<String>,
    pub left_out_count: u64,
}

/// Writes the root into the new file `file`, beside a daemon or without one, and reads it back.
///
/// # Errors
/// What went wrong; then there is no such file.
pub fn save(root: &Path, file: &Path, with_secrets: bool, now: Time) -> Result<Saved> {
    let file = std::path::absolute(file)?;
    let (Some(folder), Some(name)) = (file.parent(), file.file_name()) else {
        bail!("{} names no file", file.display());
    };
    ensure!(file.symlink_metadata().is_err(), "{} is there already; name a new file", file.display());
    let folder = folder.canonicalize().with_context(|| format!("opening {} failed", folder.display()))?;
    for part in FOLDERS.iter().chain(&SECRET_FOLDERS).chain(&["data"]) {
        let part = root.join(part);
        let is_below = part.canonicalize().is_ok_and(|part| folder.starts_with(part));
        ensure!(
            !is_below,
            "{} lies in {}, which is in the backup; name a file elsewhere",
            file.display(),
            part.display()
        );
    }
    let file = folder.join(name);
    let workshop = Workshop::open(&file)?;
    let copy = workshop.at("g2.sqlite");
    store::copy_to(&root.join("data/g2.sqlite"), &copy).context("copying the store failed")?;
    failpoint::reach("backup.copied");
    let archive = workshop.at("archive");
    let mut packing = Packing::new(&archive, &workshop.path, with_secrets, now)?;
    packing.pack(root, &copy).context("writing the archive failed")?;
    let manifest = packing.finish().context("writing the archive failed")?;
    failpoint::reach("backup.archived");
    check(&archive, &manifest).context("the archive, read back, is not as it was written")?;
    failpoint::reach("backup.verified");
    let bytes = fs::metadata(&archive)?.len();
    put(&archive, &file).with_context(|| format!("naming {} failed", file.display()))?;
    File::open(&folder)?.sync_all()?;
    failpoint::reach("backup.named");
    Ok(Saved {
        file,
        made_at: now,
        with_secrets,
        files: manifest.files.len(),
        bytes,
        left_out: manifest.left_out,
        left_out_count: manifest.left_out_count,
    })
}

/// The folder in which an archive is made. One process works in it.
struct Workshop {
    path: PathBuf,
    _lock: File,
}

impl Workshop {
    fn open(file: &Path) -> Result<Self> {
        let mut path = file.to_owned().into_os_string();
        path.push(".partial");
        let path = PathBuf::from(path);
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(error).with_context(|| format!("making {} failed", path.display()));
            }
            Ok(()) | Err(_) => {}
        }
        let is_ours = path
            .symlink_metadata()
            .is_ok_and(|meta| meta.is_dir() && meta.uid() == crate::system::process::own_ids().0);
        ensure!(is_ours, "{} is in the way; remove it", path.display());
        let lock = File::open(&path)?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => bail!("another backup is being written into {}", file.display()),
            other => other?,
        }
        let workshop = Self { path, _lock: lock };
        workshop.empty();
        Ok(workshop)
    }

    fn at(&self, part: &str) -> PathBuf {
        self.path.join(part)
    }

    fn empty(&self) {
        for part in PARTS {
            let _ = fs::remove_file(self.at(part));
        }
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        self.empty();
        let _ = fs::remove_dir(&self.path);
    }
}

/// An archive that is being written.
struct Packing {
    tar: tar::Builder<BufWriter<File>>,
    /// Where files that change are held while they are read.
    workshop: PathBuf,
    manifest: Manifest,
}

impl Packing {
    fn new(archive: &Path, workshop: &Path, with_secrets: bool, now: Time) -> Result<Self> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(archive)?;
        let manifest = Manifest {
            version: 1,
            made_by: format!("g2 {}", env!("CARGO_PKG_VERSION")),
            made_at: now.to_string(),
            with_secrets,
            files: Vec::new(),
            left_out: Vec::new(),
            left_out_count: 0,
        };
        Ok(Self { tar: tar::Builder::new(BufWriter::new(file)), workshop: workshop.to_owned(), manifest })
    }

    fn pack(&mut self, root: &Path, store: &Path) -> io::Result<()> {
        let copy = File::open(store)?;
        let size = copy.metadata()?.len();
        self.append("data/g2.sqlite", &copy, size, &copy)?;
        let (mut files, mut folders) = (FILES.to_vec(), FOLDERS.to_vec());
        if self.manifest.with_secrets {
            files.extend(SECRET_FILES);
            folders.extend(SECRET_FOLDERS);
        }
        for path in files {
            // They are ours, so a link is what their owner wants.
            match File::open(root.join(path)) {
                Ok(file) => self.append_changing(path, file)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        for folder in folders {
            each_below(&root.join(folder), &mut |below, met| {
                let path = format!("{folder}/{}", below.display());
                match met {
                    Met::Folder => self.append_folder(&path),
                    Met::File(file) => self.append_changing(&path, file),
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

    fn append_folder(&mut self, path: &str) -> io::Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Directory);
        header.set_mode(0o755);
        header.set_size(0);
        self.tar.append_data(&mut header, path, io::empty())
    }

    /// Appends a file that somebody may be writing to: as many bytes as it had when it was opened, or fewer.
    fn append_changing(&mut self, path: &str, file: File) -> io::Result<()> {
        let most = file.metadata()?.len();
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
        let mut bytes = Hashed { inner: bytes, hash: Sha256::new(), size: 0 };
        self.tar.append_data(&mut header, path, &mut bytes)?;
        self.manifest.files.push(bytes.packed(path));
        Ok(())
    }

    fn finish(mut self) -> Result<Manifest> {
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

/// Bytes on their way, counted and hashed.
struct Hashed<R> {
    inner: R,
    hash: Sha256,
    size: u64,
}

impl<R> Hashed<R> {
    fn packed(self, path: &str) -> Packed {
        let sha256 = self.hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Packed { path: path.to_owned(), size: self.size, sha256 }
    }
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(into)?;
        self.hash.update(&into[..n]);
        self.size += n as u64;
        Ok(n)
    }
}

/// Reads an archive back: its files and its manifest are those that were written, and nothing else is in it.
fn check(archive: &Path, written: &Manifest) -> Result<()> {
    let mut tar = tar::Archive::new(BufReader::new(File::open(archive)?));
    let mut wanted = written.files.iter();
    let mut is_whole = false;
    for entry in tar.entries()? {
        let mut entry = entry?;
        let path = String::from_utf8(entry.path_bytes().into_owned())?;
        ensure!(!is_whole, "{path} comes after the manifest");
        match entry.header().entry_type() {
            tar::EntryType::Directory => continue,
            tar::EntryType::Regular => {}
            other => bail!("{path} is {other:?}"),
        }
        if path == MANIFEST {
            let read: Manifest = serde_json::from_reader(entry.by_ref().take(MANIFEST_LIMIT))?;
            ensure!(read == *written, "the manifest differs");
            is_whole = true;
            continue;
        }
        let mut bytes = Hashed { inner: entry, hash: Sha256::new(), size: 0 };
        io::copy(&mut bytes, &mut io::sink())?;
        ensure!(wanted.next() == Some(&bytes.packed(&path)), "{path} differs");
    }
    ensure!(is_whole && wanted.next().is_none(), "its end is missing");
    Ok(())
}

/// Gives the archive its name, which must be free.
fn put(archive: &Path, file: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    match renameat_with(CWD, archive, CWD, file, RenameFlags::NOREPLACE) {
        // This file system can't do it in one step; a moment ago the name was free.
        Err(Errno::INVAL | Errno::NOSYS) if file.symlink_metadata().is_err() => fs::rename(archive, file),
        other => Ok(other?),
    }
}
