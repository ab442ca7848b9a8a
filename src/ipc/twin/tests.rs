//! The twin and the real kernel, call by call: a daemon's calls by descriptors, others' by paths, and what a watch is told.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "makes and mounts disks, and plays the container"
)]

mod both;
mod life;
mod steps;

use std::{
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use proptest::{
    prelude::*,
    test_runner::{RngSeed, TestRunner},
};

use self::{
    both::Both,
    steps::{Step, steps},
};
use super::*;

/// A clock that goes on with each look.
fn counter() -> Arc<dyn Fn() -> Time + Send + Sync> {
    let now = AtomicI64::new(1_000_000);
    Arc::new(move || Time(now.fetch_add(1, Ordering::Relaxed)))
}

/// Says that a test is skipped, as this machine does not let it do what it needs. Fails where `G2_REQUIRE_ROOT=1`.
fn skipped(why: &str) {
    let required = std::env::var_os("G2_REQUIRE_ROOT").is_some_and(|value| value == "1");
    assert!(!required, "G2_REQUIRE_ROOT is set, and the test can't do what it needs: {why}");
    eprintln!("skipped: {why}");
}

fn run(words: &[&str], paths: &[&Path]) -> std::io::Result<()> {
    let done = Command::new(words[0]).args(&words[1..]).args(paths).output()?;
    if done.status.success() {
        return Ok(());
    }
    Err(std::io::Error::other(String::from_utf8_lossy(&done.stderr).into_owned()))
}

/// A file system of its own, in a file.
struct Disk(tempfile::TempDir);

impl Disk {
    fn new(mkfs: &[&str]) -> std::io::Result<Self> {
        let at = tempfile::tempdir().unwrap();
        let image = at.path().join("image");
        std::fs::File::create(&image).and_then(|file| file.set_len(320 << 20)).unwrap();
        std::fs::create_dir(at.path().join("root")).unwrap();
        run(mkfs, &[&image])?;
        run(&["mount", "-o", "loop"], &[&image, &at.path().join("root")])?;
        Ok(Self(at))
    }

    fn root(&self) -> PathBuf {
        self.0.path().join("root")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = run(&["umount"], &[&self.root()]);
    }
}

/// Who the daemon is, and all others too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum As {
    /// Who runs the tests.
    Us,
    /// A user whom modes keep out.
    Nobody,
}

/// The user that is nobody.
const NOBODY: u32 = 65_534;

/// Has both go through the same steps, the real one in a folder `at`.
fn compare(at: &Path, who: As, cases: u32) {
    compare_by(at, who, cases, Both::step);
}

type Stepping = fn(&mut Both, &Step) -> std::result::Result<(), TestCaseError>;

fn compare_by(at: &Path, who: As, cases: u32, stepping: Stepping) {
    let config = ProptestConfig {
        cases,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(7),
        max_shrink_iters: 1_000,
        ..ProptestConfig::default()
    };
    let all = |steps: Vec<Step>| {
        let mut both = Both::new(at, who);
        for (n, step) in steps.iter().enumerate() {
            stepping(&mut both, step)
                .map_err(|fault| TestCaseError::fail(format!("step {n}, {step:?}: {fault}")))?;
        }
        both.finish()
    };
    let mut runner = TestRunner::new(config);
    if let Err(error) = runner.run(&steps(), all) {
        panic!("{}: {error}", at.display());
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Does so as another user: of one thread alone, so that no other test has its rights.
fn compare_as_nobody(at: &Path, cases: u32) {
    if !is_root() {
        return skipped("only root can be somebody else");
    }
    std::thread::scope(|threads| {
        let compared = threads.spawn(|| {
            let (user, group) = (rustix::fs::Uid::from_raw(NOBODY), rustix::fs::Gid::from_raw(NOBODY));
            rustix::thread::set_thread_groups(&[]).unwrap();
            rustix::thread::set_thread_res_gid(group, group, group).unwrap();
            rustix::thread::set_thread_res_uid(user, user, user).unwrap();
            compare(at, As::Nobody, cases);
        });
        compared.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

/// A folder that anybody can make folders in.
fn open_to_all(at: &Path) -> tempfile::TempDir {
    let folder = tempfile::tempdir_in(at).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(folder.path(), mode).unwrap();
    folder
}

#[test]
fn the_twin_does_what_the_file_system_of_temporary_files_does() {
    let at = open_to_all(&std::env::temp_dir());
    compare(at.path(), As::Us, 150);
    compare_as_nobody(at.path(), 150);
}

#[test]
fn stamps_of_the_twin_change_when_those_of_the_kernel_do() {
    for at in [std::env::temp_dir(), PathBuf::from("/dev/shm")] {
        let Ok(at) = tempfile::tempdir_in(&at) else { return skipped("no tmpfs at /dev/shm") };
        compare_by(at.path(), As::Us, 60, Both::step_with_stamps);
    }
}

#[test]
fn the_twin_does_what_tmpfs_does() {
    let Ok(at) = tempfile::tempdir_in("/dev/shm") else { return skipped("no tmpfs at /dev/shm") };
    let at = open_to_all(at.path());
    compare(at.path(), As::Us, 150);
    compare_as_nobody(at.path(), 150);
}

#[test]
fn the_twin_does_what_xfs_and_ext4_with_projects_do() {
    if !is_root() {
        return skipped("only root can mount");
    }
    let kinds: [&[&str]; 2] = [&["mkfs.ext4", "-q", "-O", "project,quota"], &["mkfs.xfs", "-q"]];
    for mkfs in kinds {
        match Disk::new(mkfs) {
            Ok(disk) => {
                let at = open_to_all(&disk.root());
                compare(at.path(), As::Us, 120);
                if mkfs[0] == "mkfs.xfs" {
                    compare_as_nobody(at.path(), 150);
                }
            }
            // Not every kernel has projects on ext4.
            Err(why) if mkfs[0] == "mkfs.ext4" => eprintln!("skipped: no ext4 with projects ({why})"),
            Err(why) => skipped(&format!("no XFS can be mounted here ({why})")),
        }
    }
}
