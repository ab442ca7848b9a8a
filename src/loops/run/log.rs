//! A run's own files for people, in `data/runs/<run>/`: `launch.json`, `prompt.txt`, `container.log`. No container can
//! reach them; none holds a secret. They are kept until `housekeeping` removes them, and count for what its group has stored.
#![expect(clippy::disallowed_methods, reason = "data/runs is out of every container's reach")]

use std::{
    collections::VecDeque,
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
};

use ipc_handlers::{
    token::RunToken,
    wire::{self, Launch, Provider},
};

use crate::domain::shown::errors::chain;

/// How much output is kept of a run, bytes.
const KEPT: u64 = 1 << 20;
/// How much is kept of a prompt, and of a launch document, bytes; of a script in it a fourth.
const SHOWN: usize = 1 << 20;
/// How much of the end of the output is held for the black box, bytes and lines.
const TAIL: usize = 4 << 10;
const TAIL_LINES: usize = 20;

/// The file that says how far the output was taken in, and after how much more it is written anew, bytes.
const READ: &str = "read";
const NOTE_EVERY: u64 = 1 << 20;
/// What stands behind output that is kept in part.
const NOT_KEPT: &[u8] = b"\n[g2] the rest is not kept\n";

/// The files of one run. Its output is kept from its first byte on, without a gap, so the length of the file says how far:
/// a daemon that reads the output anew passes over what stands there. Failures to write them are logged once: they are for people, nothing depends on them.
pub(super) struct RunLog {
    dir: PathBuf,
    output: Option<File>,
    /// How much of the output was read, bytes, how much of that at the last note, and how long the file is.
    read: u64,
    noted: u64,
    written: u64,
    /// The end of what was written.
    tail: VecDeque<u8>,
}

impl RunLog {
    pub(super) fn open(dir: &Path) -> Self {
        if let Err(error) = fs::create_dir_all(dir) {
            tracing::warn!(path = %dir.display(), error = %chain(&error), "making a run's folder failed; it will have no log");
        }
        let path = dir.join("container.log");
        let output = File::options().create(true).append(true).open(&path).ok();
        let written = fs::symlink_metadata(&path).map_or(0, |m| m.len());
        Self { dir: dir.to_owned(), output, read: 0, noted: 0, written, tail: VecDeque::new() }
    }

    /// Returns how many bytes the files in a run's folder have together.
    pub(super) fn bytes_in(dir: &Path) -> u64 {
        let Ok(entries) = fs::read_dir(dir) else { return 0 };
        let files = entries.flatten().filter_map(|entry| entry.metadata().ok()).filter(fs::Metadata::is_file);
        files.map(|meta| meta.len()).sum()
    }

    pub(super) fn keep_launch(&self, launch: &Launch) {
        let provider = match &launch.provider {
            Provider::Scripted { script } => {
                Provider::Scripted { script: script.as_deref().map(|script| beginning(script, SHOWN / 4)) }
            }
            Provider::Claude(claude) => Provider::Claude(claude.clone()),
            Provider::Acp(acp) => Provider::Acp(acp.clone()),
        };
        let shown = Launch {
            prompt: "see prompt.txt".into(),
            secrets: wire::Secrets::default(),
            token: RunToken::default(),
            script: launch.script.as_deref().map(|script| beginning(script, SHOWN / 4)),
            provider,
            ..launch.clone()
        };
        // For people alone, as all of this file.
        let _ = fs::write(self.dir.join("prompt.txt"), beginning(&launch.prompt, SHOWN));
        let document = serde_json::to_string_pretty(&shown).unwrap_or_default();
        let _ = fs::write(self.dir.join("launch.json"), beginning(&document, SHOWN));
    }

    /// Returns the last lines of the output.
    pub(super) fn last_lines(&self) -> Vec<String> {
        let bytes: Vec<u8> = self.tail.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(TAIL_LINES)..].iter().map(|line| (*line).to_owned()).collect()
    }

    /// Passes over output that an earlier daemon took in to its last record, and says how much that is, bytes, and which record. All of
    /// it stands in the file.
    pub(super) fn pass_over(&mut self) -> (u64, u64) {
        let text = fs::read_to_string(self.dir.join(READ)).unwrap_or_default();
        let both = text.strip_suffix('\n').and_then(|line| line.split_once(' '));
        let both = both.and_then(|(read, seq)| Some((read.parse().ok()?, seq.parse().ok()?)));
        let (read, seq) = both.filter(|(read, _)| self.written >= KEPT.min(*read)).unwrap_or_default();
        (self.read, self.noted) = (read, read);
        (read, seq)
    }

    /// Notes that all that was read is taken in, up to this record, where much was read since the last note. A note that is lost
    /// costs reading alone.
    pub(super) fn note_taken_in(&mut self, seq: u64) {
        if self.read < self.noted.saturating_add(NOTE_EVERY) {
            return;
        }
        self.noted = self.read;
        let new = self.dir.join(format!("{READ}.new"));
        let put = fs::write(&new, format!("{} {seq}\n", self.read))
            .and_then(|()| fs::rename(&new, self.dir.join(READ)));
        if let Err(error) = put {
            tracing::warn!(path = %self.dir.display(), error = %chain(&error), "noting how far a run's output is read failed; a restart reads more of it again");
        }
    }

    /// Takes the next output in: appends what the file does not have yet, up to the bound; then says once that the rest is not kept.
    pub(super) fn append(&mut self, bytes: &[u8]) {
        self.tail.extend(&bytes[bytes.len().saturating_sub(TAIL)..]);
        self.tail.drain(..self.tail.len().saturating_sub(TAIL));
        let start = self.read;
        self.read += bytes.len() as u64;
        let end = self.read.min(KEPT);
        if self.written < end {
            let at = |from_start: u64| usize::try_from(from_start.saturating_sub(start)).unwrap_or(0);
            self.put(&bytes[at(self.written)..at(end)]);
        }
        if self.written == KEPT && self.read >= KEPT {
            self.put(NOT_KEPT);
        }
    }

    /// Appends to the file. Once that fails, nothing more is kept: there must be no gap.
    fn put(&mut self, bytes: &[u8]) {
        let Some(output) = &mut self.output else { return };
        match output.write_all(bytes) {
            Ok(()) => self.written += bytes.len() as u64,
            Err(error) => {
                tracing::warn!(path = %self.dir.display(), error = %chain(&error), "writing a run's log failed; the rest of its output is not kept");
                self.output = None;
            }
        }
    }
}

/// Returns the first bytes of a text, up to a bound, and then says that the rest is not kept.
fn beginning(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    format!("{}\n[g2] the rest is not kept", &text[..text.floor_char_boundary(most)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_that_is_read_again_is_kept_once_wherever_a_life_ended() {
        let output: Vec<u8> = (0..100_000_u32).flat_map(|n| format!("line {n}\n").into_bytes()).collect();
        let kept = [&output[..1 << 20], NOT_KEPT].concat();
        assert!(output.len() > 1 << 20);
        let dir = tempfile::tempdir().unwrap();
        let is = || fs::read(dir.path().join("container.log")).unwrap();
        // In other pieces each time, as an engine may cut them.
        for (end, piece) in [(0, 1), (5, 2), (70_000, 999), (70_001, 64 << 10), (1 << 20, 4096)] {
            let mut log = RunLog::open(dir.path());
            output[..end].chunks(piece).for_each(|some| log.append(some));
            assert!(is().starts_with(&output[..end]), "{end}");
        }
        // The last one died before it could say that the rest is not kept.
        fs::File::options()
            .write(true)
            .open(dir.path().join("container.log"))
            .unwrap()
            .set_len(1 << 20)
            .unwrap();
        for _ in 0..3 {
            let mut log = RunLog::open(dir.path());
            output.chunks(5000).for_each(|some| log.append(some));
            assert!(is() == kept, "{}", is().len());
        }
    }

    #[test]
    fn what_was_taken_in_is_passed_over_unless_the_log_lacks_it() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = RunLog::open(dir.path());
        assert_eq!(log.pass_over(), (0, 0));
        log.append(b"some");
        log.note_taken_in(1);
        assert_eq!(RunLog::open(dir.path()).pass_over(), (0, 0), "it is little");
        log.append(&vec![b'x'; 1 << 20]);
        log.note_taken_in(7);
        let whole = fs::read(dir.path().join("container.log")).unwrap();
        let mut next = RunLog::open(dir.path());
        assert_eq!(next.pass_over(), ((1 << 20) + 4, 7));
        next.append(b"more");
        assert!(fs::read(dir.path().join("container.log")).unwrap() == whole);
        fs::write(dir.path().join("container.log"), "so").unwrap();
        assert_eq!(RunLog::open(dir.path()).pass_over(), (0, 0));
        for odd in ["", "0", "7 8", "x 8\n", "-7 8\n"] {
            fs::write(dir.path().join("read"), odd).unwrap();
            assert_eq!(RunLog::open(dir.path()).pass_over(), (0, 0), "{odd:?}");
        }
    }

    #[test]
    fn of_a_large_script_and_a_large_prompt_only_the_beginning_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let large = "ä".repeat(2 << 20);
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        let log = RunLog::open(dir.path());
        let empty =
            serde_json::json!({"prompt": "", "groupFolder": "main", "chatJid": "local:main", "isMain": true});
        let mut launch: Launch = serde_json::from_value(empty).unwrap();
        launch.run_id = "7".into();
        launch.prompt.clone_from(&large);
        launch.script = Some(large.clone());
        launch.provider = Provider::Scripted { script: Some(large.clone()) };
        log.keep_launch(&launch);
        let kept: Launch = serde_json::from_str(&read("launch.json")).unwrap();
        assert_eq!(kept.run_id, "7", "what else it says is there");
        let Provider::Scripted { script } = kept.provider else { panic!("{:?}", kept.provider) };
        for (text, most) in
            [(read("prompt.txt"), SHOWN), (kept.script.unwrap(), SHOWN / 4), (script.unwrap(), SHOWN / 4)]
        {
            assert!(text.ends_with("[g2] the rest is not kept") && text.len() < most + 100, "{}", text.len());
        }
        launch.session_id = Some(large);
        log.keep_launch(&launch);
        assert!(read("launch.json").len() < SHOWN + 100, "whatever is large in it");
    }
}
