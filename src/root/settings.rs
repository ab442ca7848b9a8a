//! `.env`, changed in one place. All of a change is written, or nothing.
#![expect(clippy::disallowed_methods, reason = "the door to files that no container can write")]

use std::{fs, io, path::Path};

use crate::system::process;

/// Has `.env` say a variable, for this user alone. Other lines stay.
///
/// # Errors
/// The operating system's.
pub fn put_variable(root: &Path, name: &str, value: &str) -> io::Result<()> {
    let path = root.join(".env");
    let before = text(&path)?;
    let says = |line: &&str| line.split_once('=').is_some_and(|(found, _)| found.trim() == name);
    let before = before.strip_prefix('\u{feff}').unwrap_or(&before);
    let mut lines: Vec<&str> = before.lines().filter(|line| !says(line)).collect();
    let line = format!("{name}={value}");
    lines.push(&line);
    replace(&path, &(lines.join("\n") + "\n"))
}

fn text(path: &Path) -> io::Result<String> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        read => read,
    }
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let new = path.with_file_name(format!("{name}.new"));
    let _ = fs::remove_file(&new);
    process::write_private(&new, text.as_bytes())?;
    fs::File::open(&new)?.sync_all()?;
    fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_replaced_and_the_file_is_for_its_owner() {
        use std::os::unix::fs::PermissionsExt as _;
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join(".env"), "# mine\nTZ=UTC\nKEY=old\nKEY = older\n").unwrap();
        // What a killed writer has left is in nobody's way.
        fs::write(root.path().join(".env.new"), "half").unwrap();
        put_variable(root.path(), "KEY", "new").unwrap();
        let path = root.path().join(".env");
        assert_eq!(fs::read_to_string(&path).unwrap(), "# mine\nTZ=UTC\nKEY=new\n");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!root.path().join(".env.new").exists());
    }
}
