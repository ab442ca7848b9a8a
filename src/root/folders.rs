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

/// Reads the scripted agent's script.
///
/// # Errors
/// The operating system's.
pub fn read_script(path: &Path) -> std::io::Result<String> {
    std::fs::read_to_string(path)
}
