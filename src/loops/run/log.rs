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

use crate::domain::host::errors::chain;

/// How much output is kept of a run, bytes.
const KEPT: u64 = 1 << 20;
/// How much is kept of a prompt, and of a launch document, bytes; of a script in it a fourth.
const SHOWN: usize = 1 << 20;
/// How much of the end of the output is held for the black box, bytes and lines.
const TAIL: usize = 4 << 10;
const TAIL_LINES: usize = 20;

/// The files of one run. Failures to write them are logged once: they are for people, nothing depends on them.
pub(super) struct RunLog {
    dir: PathBuf,
    output: Option<File>,
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
        Self { dir: dir.to_owned(), output, written, tail: VecDeque::new() }
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

    /// Appends output, up to the bound; then says once that the rest is not kept.
    pub(super) fn append(&mut self, bytes: &[u8]) {
        self.tail.extend(&bytes[bytes.len().saturating_sub(TAIL)..]);
        self.tail.drain(..self.tail.len().saturating_sub(TAIL));
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
