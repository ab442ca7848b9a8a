//! Folders and files that agents are given.
#![expect(clippy::disallowed_methods, reason = "the door to files that no container can write")]

use std::path::Path;

/// Makes a folder that every user may look into, if it is not there.
///
/// # Errors
/// The operating system's.
pub fn make_folder(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::create_dir_all(folder)?;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755))
}

/// Makes a folder that only this user may look into, if it is not there, with those around it.
///
/// # Errors
/// The operating system's.
pub fn make_private_folder(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Makes folders that are mounted into a container, and gives each to `owner` when it was made here.
///
/// # Errors
/// The operating system's.
pub fn make_agent_folders(folders: &[&Path], owner: Option<(u32, u32)>) -> std::io::Result<()> {
    for folder in folders {
        let new = !folder.exists();
        std::fs::create_dir_all(folder)?;
        if let Some((user, group)) = owner {
            // The root's own folder is followed by nothing a container can write: only the top is given away.
            let meta = std::fs::symlink_metadata(folder)?;
            use std::os::unix::fs::MetadataExt as _;
            if new || meta.uid() != user {
                std::os::unix::fs::lchown(folder, Some(user), Some(group))?;
            }
        }
    }
    Ok(())
}

/// Makes the folder of a group that has lost its own, and gives it to `owner`.
///
/// # Errors
/// The operating system's.
pub fn make_group_folder(
    root: &Path,
    group: &ipc_handlers::Folder,
    owner: Option<(u32, u32)>,
) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = root.join("groups").join(group.as_str());
    make_agent_folders(&[&folder], owner)?;
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700))
}

/// The longest script, bytes.
const LONGEST_SCRIPT: u64 = 16 << 20;

/// Reads the scripted agent's script. It may lie in a folder that agents write to, so a pipe or a huge file must not stop us.
///
/// # Errors
/// The operating system's; or it is no file, or too long.
pub fn read_script(path: &Path) -> std::io::Result<String> {
    use std::{
        io::{Error, Read as _},
        os::unix::fs::OpenOptionsExt as _,
    };
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).map_err(Error::other)?;
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(Error::other("it is no file"));
    }
    let mut text = String::new();
    if file.take(LONGEST_SCRIPT + 1).read_to_string(&mut text)? as u64 > LONGEST_SCRIPT {
        return Err(Error::other(format!("it has more than {LONGEST_SCRIPT} bytes")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_a_file_of_bounded_length_and_nothing_that_blocks() {
        let dir = tempfile::tempdir().unwrap();
        let (script, pipe, huge) = (dir.path().join("s"), dir.path().join("p"), dir.path().join("h"));
        std::fs::write(&script, "[]").unwrap();
        assert_eq!(read_script(&script).unwrap(), "[]");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
        std::fs::File::create(&huge).unwrap().set_len(LONGEST_SCRIPT + 1).unwrap();
        for (path, why) in [(&pipe, "no file"), (&huge, "more than"), (&dir.path().to_owned(), "no file")] {
            let error = read_script(path).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
