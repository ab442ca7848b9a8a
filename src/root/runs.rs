//! `data/runs/`: a folder for each run.
#![expect(clippy::disallowed_methods, reason = "the door to files that no container can write")]

use std::path::Path;

/// Returns the output of a run, as far as it is kept.
///
/// # Errors
/// The operating system's.
pub fn read_run_log(root: &Path, run: i64) -> std::io::Result<String> {
    let bytes = std::fs::read(root.join("data/runs").join(run.to_string()).join("container.log"))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the runs that have a folder of their own in `data/runs/`.
///
/// # Errors
/// The operating system's.
pub fn run_folders(data: &Path) -> std::io::Result<Vec<i64>> {
    let entries = match std::fs::read_dir(data.join("runs")) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    entries.filter_map(|entry| entry.map(|e| e.file_name().to_str()?.parse().ok()).transpose()).collect()
}

/// Removes the folder of a run that has ended.
///
/// # Errors
/// The operating system's; that it is gone already is none.
pub fn remove_run_folder(data: &Path, run: i64) -> std::io::Result<()> {
    match std::fs::remove_dir_all(data.join("runs").join(run.to_string())) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
