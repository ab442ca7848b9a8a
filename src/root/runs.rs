//! `data/runs/`: a folder for each run; `data/results/`: what runs of tasks said at length.
#![expect(clippy::disallowed_methods, reason = "the door to files that no container can write")]

use std::{
    collections::BTreeSet,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

/// Returns the output of a run, as far as it is kept.
///
/// # Errors
/// The operating system's.
pub fn read_run_log(root: &Path, run: i64) -> std::io::Result<Vec<u8>> {
    std::fs::read(root.join("data/runs").join(run.to_string()).join("container.log"))
}

/// Returns the end of the output of a run, at most `most` bytes, and whether something stands before it.
///
/// # Errors
/// The operating system's.
pub fn read_run_log_end(root: &Path, run: i64, most: u64) -> std::io::Result<(Vec<u8>, bool)> {
    read_end(&run_file(root, run, "container.log"), most)
}

/// Returns the prompt that a run was started with, its first bytes; `None`: it is not kept.
#[must_use]
pub fn read_run_prompt(root: &Path, run: i64, most: u64) -> Option<Vec<u8>> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    let file = std::fs::File::open(run_file(root, run, "prompt.txt")).ok()?;
    file.take(most).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn run_file(root: &Path, run: i64, name: &str) -> PathBuf {
    root.join("data/runs").join(run.to_string()).join(name)
}

/// Returns the end of a file, and whether something stands before it.
pub(super) fn read_end(path: &Path, most: u64) -> std::io::Result<(Vec<u8>, bool)> {
    let file = std::fs::File::open(path)?;
    let from = file.metadata()?.len().saturating_sub(most);
    let mut bytes = vec![0; usize::try_from(most).unwrap_or(usize::MAX)];
    let mut read = 0;
    while read < bytes.len() {
        match file.read_at(&mut bytes[read..], from + read as u64)? {
            0 => break,
            more => read += more,
        }
    }
    bytes.truncate(read);
    Ok((bytes, from > 0))
}

/// Returns the runs that have a folder of their own in `data/runs/`, or a result in `data/results/`.
///
/// # Errors
/// The operating system's.
pub fn run_folders(data: &Path) -> std::io::Result<BTreeSet<i64>> {
    numbered(data, &["runs", "results"])
}

/// Returns the runs after which something in these folders is named.
fn numbered(data: &Path, folders: &[&str]) -> std::io::Result<BTreeSet<i64>> {
    let mut runs = BTreeSet::new();
    for folder in folders {
        let entries = match std::fs::read_dir(data.join(folder)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for entry in entries {
            runs.extend(entry?.path().file_stem().and_then(|name| name.to_str()?.parse::<i64>().ok()));
        }
    }
    Ok(runs)
}

/// Returns the runs that have a folder in `data/runs/`.
///
/// # Errors
/// The operating system's.
pub fn folders_of_runs(data: &Path) -> std::io::Result<BTreeSet<i64>> {
    numbered(data, &["runs"])
}

/// Removes the folder of a run that has ended; its result stays.
///
/// # Errors
/// The operating system's; that it is gone already is none.
pub fn remove_files_of_run(data: &Path, run: i64) -> std::io::Result<()> {
    match std::fs::remove_dir_all(data.join("runs").join(run.to_string())) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Removes the folder and the result of a run that has ended.
///
/// # Errors
/// The operating system's; that they are gone already is none.
pub fn remove_run_folder(data: &Path, run: i64) -> std::io::Result<()> {
    remove_files_of_run(data, run)?;
    match std::fs::remove_file(result_file(data, run)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Writes what a task's run said from byte `at` of its result on; what is there from then on is replaced. It is on the disk
/// when this returns.
///
/// # Errors
/// The operating system's.
pub fn put_result(data: &Path, run: i64, at: u64, text: &str) -> std::io::Result<()> {
    std::fs::create_dir_all(data.join("results"))?;
    let file =
        std::fs::File::options().write(true).create(true).truncate(false).open(result_file(data, run))?;
    file.set_len(at)?;
    file.write_all_at(text.as_bytes(), at)?;
    file.sync_data()
}

fn result_file(data: &Path, run: i64) -> PathBuf {
    data.join("results").join(format!("{run}.txt"))
}
