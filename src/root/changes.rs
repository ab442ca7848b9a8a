//! `data/changes.log`: what people changed, a line each.
#![expect(clippy::disallowed_methods, reason = "the door to files that no container can write")]

use std::path::Path;

/// How large `changes.log` gets before it becomes `changes.log.1`, bytes.
const CHANGES: u64 = 1 << 20;

/// Adds a line to `data/changes.log`. Older lines are kept in one more file, at most of the same size.
///
/// # Errors
/// The operating system's.
pub fn append_change(data: &Path, line: &str) -> std::io::Result<()> {
    use std::{io::Write as _, os::unix::fs::OpenOptionsExt as _};
    let path = data.join("changes.log");
    if std::fs::metadata(&path).is_ok_and(|meta| meta.len() >= CHANGES) {
        std::fs::rename(&path, data.join("changes.log.1"))?;
    }
    let mut file = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    file.write_all(format!("{line}\n").as_bytes())
}

/// Returns the lines of the log, those of what is older first.
///
/// # Errors
/// The operating system's.
pub fn noted_changes(data: &Path) -> std::io::Result<Vec<String>> {
    let mut lines = Vec::new();
    for name in ["changes.log.1", "changes.log"] {
        match std::fs::read(data.join(name)) {
            Ok(bytes) => lines.extend(String::from_utf8_lossy(&bytes).lines().map(str::to_owned)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(lines)
}
