//! `data/incoming/KEY/`: files on their way into a local chat, until the daemon takes them with the message of this key.
#![expect(
    clippy::disallowed_methods,
    reason = "files that their owner names, and folders that no container can write"
)]

use std::{
    io::{self, Read as _},
    os::unix::fs::DirBuilderExt as _,
    path::Path,
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
    for n in 1.. {
        let name = if n == 1 { name.clone() } else { format!("{n}-{name}") };
        let made = std::fs::OpenOptions::new().write(true).create_new(true).open(folder.join(&name));
        match made {
            // It may grow meanwhile; the daemon looks at its size again.
            Ok(mut to) => {
                io::copy(&mut file.take(most.saturating_add(1)), &mut to)?;
                return Ok(name);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(invalid("it has no free name".into()))
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
