//! `data/typed.jsonl`: what people typed into chats on a terminal, for the arrow keys, a JSON string a line.
#![expect(clippy::disallowed_methods, reason = "the door to files that no container can write")]

use std::path::Path;

/// How large `typed.jsonl` gets before it becomes `typed.jsonl.1`, bytes.
const TYPED: u64 = 128 << 10;
/// Longer lines are not kept, bytes.
const LONGEST: usize = 8 << 10;

/// Adds a typed line. Older lines are kept in one more file, at most of the same size; only this user can read it.
///
/// # Errors
/// The operating system's.
pub fn append_typed(data: &Path, typed: &str) -> std::io::Result<()> {
    use std::{io::Write as _, os::unix::fs::OpenOptionsExt as _};
    if typed.len() > LONGEST {
        return Ok(());
    }
    let path = data.join("typed.jsonl");
    if std::fs::metadata(&path).is_ok_and(|meta| meta.len() >= TYPED) {
        std::fs::rename(&path, data.join("typed.jsonl.1"))?;
    }
    let mut file = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    file.write_all(format!("{}\n", serde_json::Value::from(typed)).as_bytes())
}

/// Returns the newest of what was typed, at most `most`, oldest first. What can't be read is left out.
#[must_use]
pub fn read_typed(data: &Path, most: usize) -> Vec<String> {
    let read = |name: &str| {
        use std::io::Read as _;
        let mut bytes = Vec::new();
        let file = std::fs::File::open(data.join(name));
        // A file that somebody made longer is not read to its end.
        let _ = file.map(|file| file.take(2 * TYPED).read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let both = read("typed.jsonl.1") + &read("typed.jsonl");
    let mut newest: Vec<String> =
        both.lines().rev().filter_map(|line| serde_json::from_str(line).ok()).take(most).collect();
    newest.reverse();
    newest
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_was_typed_comes_back_and_is_bounded_and_private() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read_typed(dir.path(), 5), [""; 0]);
        append_typed(dir.path(), "one\ntwo \"é\"").unwrap();
        append_typed(dir.path(), &"x".repeat(LONGEST + 1)).unwrap();
        let path = dir.path().join("typed.jsonl");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let torn = std::fs::read_to_string(&path).unwrap() + "\"half";
        std::fs::write(&path, torn + "\n").unwrap();
        append_typed(dir.path(), "last").unwrap();
        assert_eq!(read_typed(dir.path(), 5), ["one\ntwo \"é\"", "last"]);
        assert_eq!(read_typed(dir.path(), 1), ["last"]);
        for n in 0..100 {
            append_typed(dir.path(), &format!("{n} {}", "y".repeat(LONGEST - 10))).unwrap();
        }
        let kept: u64 = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().metadata().unwrap().len())
            .sum();
        assert!(kept < 2 * TYPED + 4 * LONGEST as u64, "{kept}");
        let newest = read_typed(dir.path(), 20);
        assert!(newest.len() == 20 && newest[19].starts_with("99 ") && newest[0].starts_with("80 "));
    }
}
