//! A run's own files for people, in `data/runs/<run>/`: `launch.json`, `prompt.txt`, `container.log`. No container can
//! reach them; none holds a secret.
#![expect(clippy::disallowed_methods, reason = "data/runs is out of every container's reach")]

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
};

use ipc_handlers::wire::{self, Launch};

/// Of how many runs the files are kept.
const KEPT_RUNS: i64 = 1000;
/// How much output is kept of a run, bytes.
const KEPT: u64 = 1 << 20;

/// The files of one run. Failures to write them are logged once: they are for people, nothing depends on them.
pub(super) struct RunLog {
    dir: PathBuf,
    output: Option<File>,
    written: u64,
}

impl RunLog {
    pub(super) fn open(dir: &Path) -> Self {
        if let Err(error) = fs::create_dir_all(dir) {
            tracing::warn!(path = %dir.display(), %error, "making a run's folder failed; it will have no log");
        }
        let path = dir.join("container.log");
        let output = File::options().create(true).append(true).open(&path).ok();
        let written = fs::symlink_metadata(&path).map_or(0, |m| m.len());
        Self { dir: dir.to_owned(), output, written }
    }

    /// Removes the folder of a run so long ago that nobody looks for it.
    pub(super) fn forget_old(runs: &Path, run: i64) {
        if let Some(old) = run.checked_sub(KEPT_RUNS).filter(|old| *old > 0) {
            let _ = fs::remove_dir_all(runs.join(old.to_string()));
        }
    }

    pub(super) fn keep_launch(&self, launch: &Launch) {
        let shown =
            Launch { prompt: "see prompt.txt".into(), secrets: wire::Secrets::default(), ..launch.clone() };
        let _ = fs::write(self.dir.join("prompt.txt"), &launch.prompt);
        let _ =
            fs::write(self.dir.join("launch.json"), serde_json::to_vec_pretty(&shown).unwrap_or_default());
    }

    /// Appends output, up to the bound; then says once that the rest is not kept.
    pub(super) fn append(&mut self, bytes: &[u8]) {
        let Some(output) = &mut self.output else { return };
        if self.written >= KEPT {
            return;
        }
        let room = usize::try_from(KEPT - self.written).unwrap_or(usize::MAX);
        let some = &bytes[..bytes.len().min(room)];
        self.written += some.len() as u64;
        let _ = output.write_all(some);
        if self.written >= KEPT {
            let _ = output.write_all(b"\n[g2] the rest is not kept\n");
        }
    }
}
