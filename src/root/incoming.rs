//! `data/incoming/KEY/`: files on their way into a local chat, until the daemon takes them with the message of this key.
#![expect(
    clippy::disallowed_methods,
    reason = "files that their owner names, and folders that no container can write"
)]

use std::{
    fs::File,
    io::{self, Read as _},
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use crate::system::tree;

/// The folder, below `data/`.
pub const INCOMING: &str = "incoming";

/// Copies a file there. Returns its name, which is another one's of the same message never.
///
/// # Errors
/// It can't be read or copied, or is no file, or has more than `most` bytes.
pub fn put_incoming(data: &Path, key: &str, path: &Path, most: u64) -> io::Result<String> {
    let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
    let file = std::fs::File::open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(invalid("it is no file".into()));
    }
    if meta.len() > most {
        return Err(invalid(format!("it has {} bytes; at most {most} are sent", meta.len())));
    }
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name: String = name.chars().map(|c| if c.is_control() { '_' } else { c }).collect();
    let folder = data.join(INCOMING).join(key);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
    let (mut to, name) = make(&folder, &name)?;
    // It may grow meanwhile; the daemon looks at its size again.
    io::copy(&mut file.take(most.saturating_add(1)), &mut to)?;
    Ok(name)
}

/// Makes a new file there; of several of one name each gets another one.
fn make(folder: &Path, name: &str) -> io::Result<(File, String)> {
    for n in 1_u32.. {
        let name = if n == 1 { name.to_owned() } else { format!("{n}-{name}") };
        match std::fs::OpenOptions::new().write(true).create_new(true).open(folder.join(&name)) {
            Ok(made) => return Ok((made, name)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it has no free name"))
}

/// The folder of a message whose files come piece by piece. What the daemon has not taken by the end goes with it.
pub struct Receiving(PathBuf);

impl Receiving {
    /// Makes the folder of a message that has none.
    ///
    /// # Errors
    /// The key can't name a folder, or another one's files are on their way under it.
    pub fn begin(data: &Path, key: &str) -> io::Result<Self> {
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
        if !(1..=64).contains(&key.len()) || !key.bytes().all(is_plain) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the message has no usable key"));
        }
        let all = data.join(INCOMING);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&all)?;
        let folder = all.join(key);
        std::fs::DirBuilder::new().mode(0o700).create(&folder)?;
        Ok(Self(folder))
    }

    /// Makes a file of the name that somebody else gave it, as far as it can be one. Returns its own.
    ///
    /// # Errors
    /// The operating system's.
    pub fn file(&self, told: &str) -> io::Result<(File, String)> {
        make(&self.0, &as_a_name(told))
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        // The next start removes what can't be removed now.
        let _ = tree::remove(&self.0);
    }
}

/// The longest name of a file that comes so, bytes: there is room for a number before it.
const LONGEST_NAME: usize = 200;

/// Returns the name of a file without folders and control characters.
fn as_a_name(told: &str) -> String {
    let last = told.rsplit(['/', '\\']).next().unwrap_or_default().trim();
    let name: String = last.chars().map(|c| if c.is_control() { '_' } else { c }).collect();
    let name = &name[..name.floor_char_boundary(LONGEST_NAME)];
    if ["", ".", ".."].contains(&name) { "file".to_owned() } else { name.to_owned() }
}

/// Removes what programs have left that did not send their message.
///
/// # Errors
/// The operating system's.
pub fn clear_incoming(data: &Path) -> io::Result<()> {
    tree::remove(&data.join(INCOMING))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_come_in_pieces_have_plain_names_in_a_folder_of_their_own_that_goes() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path();
        for key in ["", "..", "a/b", "a b", &"x".repeat(65)] {
            assert!(Receiving::begin(data, key).is_err(), "{key:?}");
        }
        let receiving = Receiving::begin(data, "page-1").unwrap();
        assert_eq!(
            Receiving::begin(data, "page-1").err().map(|error| error.kind()),
            Some(io::ErrorKind::AlreadyExists)
        );
        let long = "ä".repeat(300);
        for (told, name) in [
            ("../../etc/passwd", "passwd"),
            ("C:\\x\\a.txt", "a.txt"),
            ("a.txt", "2-a.txt"),
            ("a\nb", "a_b"),
            ("..", "file"),
            ("", "2-file"),
            (&long, &"ä".repeat(100)),
        ] {
            assert_eq!(receiving.file(told).unwrap().1, name, "{told:?}");
        }
        assert!(data.join("incoming/page-1/passwd").exists());
        drop(receiving);
        assert!(!data.join("incoming/page-1").exists());
    }

    #[test]
    fn files_of_one_name_get_names_of_their_own_and_what_is_no_file_or_too_large_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (data, path) = (dir.path().join("data"), dir.path().join("a\nb.txt"));
        std::fs::write(&path, "one").unwrap();
        let put = |path: &Path, most| put_incoming(&data, "k", path, most);
        assert_eq!(put(&path, 3).unwrap(), "a_b.txt");
        assert_eq!(put(&path, 3).unwrap(), "2-a_b.txt");
        assert!(put(&path, 2).unwrap_err().to_string().contains("3 bytes; at most 2"));
        assert!(put(dir.path(), 100).unwrap_err().to_string().contains("no file"));
        assert_eq!(put(&dir.path().join("none"), 100).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(std::fs::read_to_string(data.join("incoming/k/2-a_b.txt")).unwrap(), "one");
        clear_incoming(&data).unwrap();
        clear_incoming(&data).unwrap();
        assert!(!data.join("incoming").exists());
    }
}
