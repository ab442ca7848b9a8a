//! `data/starts.json`: notes on starts that take in work of the daemon before them.
#![expect(clippy::disallowed_methods, reason = "the door to files that no container can write")]

use std::path::Path;

/// Returns the notes on starts that took work in, see `loops::starts`; `None`: there are none.
///
/// # Errors
/// The operating system's.
pub fn read_starts(data: &Path) -> std::io::Result<Option<Vec<u8>>> {
    match std::fs::read(data.join("starts.json")) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes down, or forgets, what [`read_starts`] returns; in one step, and without waiting for the disk.
///
/// # Errors
/// The operating system's.
pub fn write_starts(data: &Path, text: Option<&[u8]>) -> std::io::Result<()> {
    let (place, draft) = (data.join("starts.json"), data.join("starts.json.draft"));
    match text {
        Some(text) => {
            std::fs::write(&draft, text)?;
            std::fs::rename(draft, place)
        }
        None => std::fs::remove_file(place),
    }
}
