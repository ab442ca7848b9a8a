//! The contents that an archive may have, and the way it is read. Nothing in it is believed before it was looked at.
#![expect(clippy::disallowed_methods, reason = "reads the archive, which the owner names")]

use std::{
    collections::HashMap,
    fs::File,
    io::{self, BufReader, Read, Seek as _},
    path::{Component, Path},
};

use anyhow::{Context as _, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::domain::shown::screen::hides;

use super::holes::{NAME_KEY, Pieces, SIZE_KEY, VERSION_KEYS};

/// The version of the format that this program writes. Since version 2 files may have several names, and holes.
pub(super) const VERSION: u32 = 2;
/// The oldest one that it reads.
const OLDEST: u32 = 1;
/// The store, which is the first entry.
pub(super) const STORE: &str = "data/g2.sqlite";
/// Files at the top of a root and in its data, and folders of either: what is in every backup.
pub(super) const FILES: [&str; 3] = ["g2.toml", "data/changes.log", "data/changes.log.1"];
pub(super) const FOLDERS: [&str; 6] =
    ["groups", "container", "data/sessions", "data/media", "data/results", "data/memories"];
/// What is in a backup that has the secrets.
pub(super) const SECRET_FILES: [&str; 2] = [".env", "data/token.key"];
pub(super) const SECRET_FOLDERS: [&str; 2] = ["data/secrets", "data/channels"];
/// Folders whose every name is a part of its own: a group's, or an account's.
const OF_PARTS: [&str; 3] = ["groups", "data/sessions", "data/channels"];
/// The last entry of an archive.
pub(super) const MANIFEST: &str = "manifest.json";
/// The most that is read of one, bytes.
const MANIFEST_LIMIT: u64 = 1 << 30;
/// The longest name of the program that made an archive, bytes.
const LONGEST_MAKER: usize = 100;
/// The longest path of an entry that is read, bytes: the kernel's own limit.
const LONGEST_PATH: u64 = 4096;
/// The longest one that is written, bytes: where it is restored the path of the root stands before it.
pub(super) const LONGEST_PACKED: usize = 3072;
/// The most entries that are read: more than a backup ever has.
const MOST_ENTRIES: u64 = 16_000_000;

/// What an archive holds.
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) version: u32,
    pub(super) made_by: String,
    pub(super) made_at: String,
    pub(super) with_secrets: bool,
    pub(super) files: Vec<Packed>,
    pub(super) left_out: Vec<String>,
    pub(super) left_out_count: u64,
    /// Folders of groups that there was no room for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) without: Vec<String>,
}

/// A file in an archive.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct Packed {
    pub path: String,
    /// Bytes in the archive. Of a file with holes those are the list of its pieces, and the pieces.
    pub size: u64,
    /// Of the same bytes.
    pub sha256: String,
    /// The place in the list of an earlier path of the same file, from 0; its bytes stand there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_as: Option<usize>,
    /// Whole size of a file with holes, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with_holes: Option<u64>,
}

/// What a backup says of itself, once all of it was read and found right.
#[derive(Debug, Serialize)]
pub struct Contents {
    /// The program that wrote it.
    pub made_by: String,
    pub made_at: String,
    pub with_secrets: bool,
    /// Its files in order, with size and SHA-256.
    pub files: Vec<Packed>,
    /// What it has no copy of, with the reason: at most 100 of them.
    pub left_out: Vec<String>,
    pub left_out_count: u64,
    /// Folders of groups that there was no room for.
    pub without: Vec<String>,
}

/// Reads a backup from its start to its end, and compares each file with its size and SHA-256.
///
/// # Errors
/// What is wrong with it.
pub fn contents(archive: &Path) -> Result<Contents> {
    scan(archive, &|_| true)?;
    let Manifest { version: _, made_by, made_at, with_secrets, files, left_out, left_out_count, without } =
        read(archive, &mut |_| Ok(()))?;
    Ok(Contents { made_by, made_at, with_secrets, files, left_out, left_out_count, without })
}

/// A part of an archive on its way to somebody who keeps it.
pub(super) enum Part<'a> {
    Folder {
        path: &'a str,
        mode: u32,
        owner: Option<(u32, u32)>,
    },
    /// `pieces`: where the bytes belong, of a file with holes.
    File {
        path: &'a str,
        mode: u32,
        owner: Option<(u32, u32)>,
        bytes: &'a mut dyn Read,
        pieces: Option<Pieces>,
    },
    /// One more name of an earlier file.
    Link {
        path: &'a str,
        first: &'a str,
    },
}

/// How much an archive holds, by its headers alone.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Held {
    pub(super) entries: u64,
    /// Of all files together that are wanted.
    pub(super) bytes: u64,
}

/// Looks at each header before anything else is read: files and folders alone, names that are not too long, and not too
/// many of them. Counts the bytes of the files whose paths are wanted.
///
/// # Errors
/// What an archive of ours never has.
pub(super) fn scan(archive: &Path, is_wanted: &dyn Fn(&str) -> bool) -> Result<Held> {
    let opening = || format!("opening {} failed", archive.display());
    // A pipe would be waited for.
    let is_plain = std::fs::metadata(archive).with_context(opening)?.is_file();
    ensure!(is_plain, "{} is no plain file", archive.display());
    let mut file = File::open(archive).with_context(opening)?;
    if let Some(unpack) = packed_by(&mut file)? {
        bail!("it is compressed: unpack it first, with `{unpack}`");
    }
    let mut tar = tar::Archive::new(file);
    let mut held = Held::default();
    // The path of the next file, if it does not stand in its own header.
    let mut named: Option<Vec<u8>> = None;
    for entry in tar.entries_with_seek()?.raw(true) {
        // The reader's words quote bytes of it.
        let Ok(mut entry) = entry else { bail!("this is no backup, or it is cut off") };
        let size = entry.header().size()?;
        held.entries += 1;
        ensure!(held.entries <= MOST_ENTRIES, "it has more than {MOST_ENTRIES} entries");
        match entry.header().entry_type() {
            tar::EntryType::Directory => named = None,
            tar::EntryType::Regular => {
                let path = named.take().unwrap_or_else(|| entry.path_bytes().into_owned());
                if is_wanted(&String::from_utf8_lossy(&path)) {
                    held.bytes = held.bytes.saturating_add(size);
                }
            }
            tar::EntryType::Link => {
                ensure!(size == 0, "{} is a name with bytes", name_of(&entry));
                named = None;
            }
            kind @ (tar::EntryType::GNULongName | tar::EntryType::GNULongLink) => {
                ensure!(size <= LONGEST_PATH + 1, "a name in it has more than {LONGEST_PATH} bytes");
                if kind == tar::EntryType::GNULongName {
                    let mut path = Vec::new();
                    entry.read_to_end(&mut path)?;
                    named = Some(path);
                }
            }
            tar::EntryType::XHeader => {
                ensure!(size <= LONGEST_PATH + 512, "a name in it has more than {LONGEST_PATH} bytes");
                // Others change how the next entry is read.
                let ours =
                    |key: &str| [NAME_KEY, SIZE_KEY, VERSION_KEYS[0].0, VERSION_KEYS[1].0].contains(&key);
                for pair in entry.pax_extensions()?.into_iter().flatten() {
                    let pair = pair.ok().filter(|pair| pair.key().is_ok_and(ours));
                    let pair = pair.context("a header in it is none of a backup's")?;
                    if pair.key() == Ok(NAME_KEY) {
                        named = Some(pair.value_bytes().to_vec());
                    }
                }
            }
            other => bail!("{} is {other:?}, which no backup has", name_of(&entry)),
        }
    }
    Ok(held)
}

/// Returns the program that unpacks a compressed file; `None`: it is not compressed as people do it.
fn packed_by(file: &mut File) -> Result<Option<&'static str>> {
    let mut head = Vec::new();
    file.by_ref().take(6).read_to_end(&mut head)?;
    file.rewind()?;
    const PACKED: [(&[u8], &str); 4] = [
        (b"\x1f\x8b", "gunzip"),
        (b"\x28\xb5\x2f\xfd", "unzstd"),
        (b"\xfd7zXZ", "unxz"),
        (b"BZh", "bunzip2"),
    ];
    Ok(PACKED.into_iter().find(|(begin, _)| head.starts_with(begin)).map(|(_, program)| program))
}

/// The name of an entry, for people.
fn name_of<R: Read>(entry: &tar::Entry<'_, R>) -> String {
    String::from_utf8_lossy(&entry.path_bytes()).escape_debug().to_string()
}

/// Reads an archive whose headers were looked at, gives each part to `keep`, and compares all of it with its manifest.
///
/// # Errors
/// What is wrong with it, or what `keep` returns.
pub(super) fn read(archive: &Path, keep: &mut dyn FnMut(Part<'_>) -> Result<()>) -> Result<Manifest> {
    let file = File::open(archive).with_context(|| format!("opening {} failed", archive.display()))?;
    let mut tar = tar::Archive::new(BufReader::with_capacity(1 << 16, file));
    let mut files: Vec<Packed> = Vec::new();
    let mut manifest: Option<Manifest> = None;
    // Which file stands at a path, in the part that is read.
    let mut here: HashMap<String, usize> = HashMap::new();
    for entry in tar.entries()? {
        let mut entry = entry.context("this is no backup, or it is cut off")?;
        let holed = holed(&mut entry)?;
        let path = match &holed {
            Some((path, _)) => path.clone(),
            None => {
                String::from_utf8(entry.path_bytes().into_owned()).context("a name in it is not UTF-8")?
            }
        };
        ensure!(manifest.is_none(), "{path:?} comes after the manifest");
        let mode = entry.header().mode()? & 0o777;
        let id = |id: io::Result<u64>| id.ok().and_then(|id| u32::try_from(id).ok());
        let owner = id(entry.header().uid()).zip(id(entry.header().gid()));
        let kind = entry.header().entry_type();
        let is_folder = kind == tar::EntryType::Directory;
        if !is_folder && path == MANIFEST {
            let read = serde_json::from_reader(BufReader::new(entry.by_ref().take(MANIFEST_LIMIT)));
            manifest = Some(read.context("its manifest can't be read")?);
            continue;
        }
        let path = path.strip_suffix('/').filter(|_| is_folder).unwrap_or(&path);
        check_name(path, is_folder)?;
        if is_folder {
            keep(Part::Folder { path, mode, owner })?;
            continue;
        }
        if files.last().is_none_or(|last| part_of(&last.path) != part_of(path)) {
            here.clear();
        }
        if kind == tar::EntryType::Link {
            let first = entry.link_name_bytes().and_then(|name| String::from_utf8(name.into_owned()).ok());
            let known = first.as_ref().and_then(|first| here.get(first)).copied();
            // Within one part alone: a link out of it would give a container what is not its own.
            let Some(known) = known else { bail!("{path:?} is another name of no file of its part") };
            let first = files[known].clone();
            keep(Part::Link { path, first: &first.path })?;
            files.push(Packed { path: path.to_owned(), same_as: Some(known), ..first });
            continue;
        }
        let stored = entry.size();
        let mut bytes = Hashed::of(entry);
        let pieces = match holed {
            Some((_, size)) => Some(Pieces::read(&mut bytes, size, stored)?),
            None => None,
        };
        let with_holes = pieces.as_ref().map(|pieces| pieces.size);
        keep(Part::File { path, mode, owner, bytes: &mut bytes, pieces })?;
        io::copy(&mut bytes, &mut io::sink())?;
        if is_below(path, &FOLDERS) || is_below(path, &SECRET_FOLDERS) {
            here.insert(path.to_owned(), files.len());
        }
        files.push(Packed { with_holes, ..bytes.packed(path) });
    }
    let manifest = manifest.context("its end is missing")?;
    ensure!(
        (OLDEST..=VERSION).contains(&manifest.version),
        "its format is version {}, and this program reads versions {OLDEST} to {VERSION}; use the g2 that wrote it, {}",
        manifest.version,
        brief(&manifest.made_by)
    );
    // People are shown both.
    ensure!(
        manifest.made_at.parse::<jiff::Timestamp>().is_ok(),
        "its manifest does not say when it was made, but {}",
        brief(&manifest.made_at)
    );
    ensure!(
        manifest.made_by.len() <= LONGEST_MAKER && !manifest.made_by.contains(hides),
        "its manifest does not say which program wrote it, but {}",
        brief(&manifest.made_by)
    );
    let differs = files.iter().zip(&manifest.files).find(|(read, said)| read != said);
    if let Some((read, _)) = differs {
        bail!("{:?} is not as the manifest says", read.path);
    }
    ensure!(
        files.len() == manifest.files.len(),
        "it has {} files, and its manifest {}",
        files.len(),
        manifest.files.len()
    );
    ensure!(files.first().is_some_and(|first| first.path == STORE), "it does not begin with the store");
    if !manifest.with_secrets
        && let Some(secret) = files.iter().find(|file| is_secret(&file.path))
    {
        bail!("{:?} is a secret, and its manifest says that it has none", secret.path);
    }
    Ok(manifest)
}

/// Returns the beginning of a text from an archive, for people.
fn brief(text: &str) -> String {
    format!("{:?}", text.chars().take(LONGEST_MAKER).collect::<String>())
}

/// Returns path and whole size of a file with holes; `None`: it is none.
fn holed<R: Read>(entry: &mut tar::Entry<'_, R>) -> Result<Option<(String, u64)>> {
    let (mut name, mut size) = (None, None);
    for pair in entry.pax_extensions()?.into_iter().flatten() {
        let pair = pair.context("a header in it can't be read")?;
        match pair.key() {
            Ok(NAME_KEY) => name = Some(pair.value().context("a name in it is not UTF-8")?.to_owned()),
            Ok(SIZE_KEY) => size = pair.value().ok().and_then(|text| text.parse().ok()),
            Ok(_) | Err(_) => {}
        }
    }
    match (name, size) {
        (None, None) => Ok(None),
        (Some(name), Some(size)) if entry.header().entry_type() == tar::EntryType::Regular => {
            Ok(Some((name, size)))
        }
        _ => bail!("a file with holes in it can't be read"),
    }
}

/// Returns the part of a root that a path is in: the folder of a group or account, otherwise one of the root's folders.
pub(super) fn part_of(path: &str) -> &str {
    for folder in OF_PARTS {
        if let Some(rest) = path.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/')) {
            return &path[..folder.len() + 1 + rest.find('/').unwrap_or(rest.len())];
        }
    }
    let is_in = |folder: &&&str| path.strip_prefix(**folder).is_some_and(|rest| rest.starts_with('/'));
    FOLDERS.iter().chain(&SECRET_FOLDERS).find(is_in).copied().unwrap_or(path)
}

/// Whether a part is the folder of a group, which its container can write to.
pub(super) fn is_of_group(part: &str) -> bool {
    is_below(part, &["groups", "data/sessions"])
}

/// Whether others than G2 write to a part: a group's container, or an account's adapter.
pub(super) fn is_of_others(part: &str) -> bool {
    is_below(part, &OF_PARTS)
}

fn is_below(path: &str, folders: &[&str]) -> bool {
    folders.iter().any(|folder| path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')))
}

fn is_secret(path: &str) -> bool {
    SECRET_FILES.contains(&path) || is_below(path, &SECRET_FOLDERS)
}

/// Whether a backup may have an entry of this name: a part of a root, and no way out of it.
fn check_name(path: &str, is_folder: bool) -> Result<()> {
    let is_plain = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
        && !path.contains("//")
        && !path.ends_with('/')
        && !path.split('/').any(|part| part == "." || part.is_empty())
        && !path.contains('\0')
        && path.len() as u64 <= LONGEST_PATH;
    let is_file = || path == STORE || FILES.contains(&path) || SECRET_FILES.contains(&path);
    let is_part = is_below(path, &FOLDERS) || is_below(path, &SECRET_FOLDERS) || (!is_folder && is_file());
    ensure!(is_plain && is_part, "{path:?} is no part of a root");
    Ok(())
}

/// Bytes on their way, counted and hashed.
pub(super) struct Hashed<R> {
    inner: R,
    hash: Sha256,
    pub(super) size: u64,
    /// The bytes could not be read to their end.
    pub(super) has_failed: bool,
}

impl<R> Hashed<R> {
    pub(super) fn of(inner: R) -> Self {
        Self { inner, hash: Sha256::new(), size: 0, has_failed: false }
    }

    pub(super) fn packed(self, path: &str) -> Packed {
        let sha256 = self.hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Packed { path: path.to_owned(), size: self.size, sha256, same_as: None, with_holes: None }
    }
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(into).inspect_err(|error| {
            self.has_failed |= error.kind() != io::ErrorKind::Interrupted;
        })?;
        self.hash.update(&into[..n]);
        self.size += n as u64;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_group_is_a_part_of_its_own() {
        for (path, part) in [
            ("groups/main/a/b", "groups/main"),
            ("groups/main", "groups/main"),
            ("data/sessions/main/x", "data/sessions/main"),
            ("data/media/ab/cd", "data/media"),
            ("data/channels/tg/x", "data/channels/tg"),
            ("container/skills/x", "container"),
            ("data/g2.sqlite", "data/g2.sqlite"),
        ] {
            assert_eq!(part_of(path), part);
            assert_eq!(is_of_group(part), path.contains("main"), "{path}");
        }
    }

    #[test]
    fn only_parts_of_a_root_have_a_place() {
        for name in [
            "data/g2.sqlite",
            "g2.toml",
            ".env",
            "groups/main/a b",
            "data/media/ab/cd",
            "data/memories/main/1-1-replaced.md",
            "data/channels/tg/x",
        ] {
            assert!(check_name(name, false).is_ok(), "{name}");
        }
        let long = format!("groups/{}", "n".repeat(5000));
        for name in [
            "",
            "/etc/passwd",
            "../x",
            "groups/../../x",
            "groups/./x",
            "groups//x",
            "groups/x/",
            "groups",
            "data/lock",
            "data/g2.sqlite-wal",
            "data/ipc/main/messages/x",
            "data/secretsx/y",
            "manifest.json/x",
            "groups/\0",
            &long,
        ] {
            assert!(check_name(name, false).is_err(), "{name}");
        }
        assert!(check_name("groups/main", true).is_ok() && check_name("g2.toml", true).is_err());
    }
}
