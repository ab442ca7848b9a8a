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
