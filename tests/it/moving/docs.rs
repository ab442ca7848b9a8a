//! The commands of docs/moving.md and docs/export.md can be pasted, in their order, by somebody with a sample installation.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "plays a new user in a shell")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{fs, os::unix::fs::symlink, path::Path, process::Command};

use super::samples::{Sample, copy};

/// Commands that need the network, a person who answers, or the machine's own service manager.
const NOT_HERE: [&str; 4] = ["g2 image build", "g2 channels add telegram", "g2 service", "jq "];

/// The shell blocks of a page, each with the heading that it stands under.
fn blocks(page: &str) -> Vec<(String, String)> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(page)).unwrap();
    let (mut heading, mut block, mut found) = (String::new(), None::<String>, Vec::new());
    for line in text.lines() {
        match (line.trim(), &mut block) {
            ("```sh", _) => block = Some(String::new()),
            ("```", Some(_)) => found.push((heading.clone(), block.take().unwrap())),
            (line, Some(_)) if NOT_HERE.iter().any(|not| line.starts_with(not)) => {}
            (line, Some(block)) => block.push_str(&format!("{line}\n")),
            (line, None) if line.starts_with("## ") => heading = line[3..].to_owned(),
            _ => {}
        }
    }
    found
}

/// A machine of a user's own, with a sample installation at `~/nanoclaw`.
fn home() -> tempfile::TempDir {
    let (home, sample) = (tempfile::tempdir().unwrap(), Sample::of("nanoclaw"));
    copy(sample.dir.path(), &home.path().join("nanoclaw"));
    fs::write(home.path().join("nanoclaw/.env"), "ANTHROPIC_API_KEY=sk-ant-test\nTELEGRAM_BOT_TOKEN=1:a\n")
        .unwrap();
    let bin = home.path().join("bin");
    fs::create_dir(&bin).unwrap();
    symlink(env!("CARGO_BIN_EXE_g2"), bin.join("g2")).unwrap();
    home
}

fn bash(home: &Path, script: &str) -> String {
    let mut bash = Command::new("bash");
    bash.args(["-ec", script]).current_dir(home).env_clear().env("HOME", home).env("TZ", "UTC");
    bash.env("PATH", format!("{}:/usr/bin:/bin", home.join("bin").display()));
    let output = bash.env("DOCKER_HOST", "unix:///nowhere/docker.sock").output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{script}\n{said}\n{told}");
    format!("{said}{told}")
}

#[test]
fn moving_in_looking_trying_and_cutting_over_go_as_the_page_says() {
    let home = home();
    let under = |heading: &str| -> String {
        let blocks = blocks("docs/moving.md").into_iter().filter(|(under, _)| under == heading);
        blocks.map(|(_, block)| block).collect()
    };
    let told = bash(home.path(), &under("Look first"));
    assert!(told.contains("Dry run: nothing was written"), "{told}");
    // Its agents need Docker, which is not here: the daemon is up all the same, and says so.
    let told = bash(home.path(), &format!("{}g2 stop", under("Side by side")));
    assert!(told.contains("rows and"), "{told}");
    let trial = home.path().join("g2-trial");
    assert_eq!(fs::read_to_string(trial.join(".env")).unwrap(), "ANTHROPIC_API_KEY=sk-ant-test\n");
    assert!(trial.join("groups/family/notes/cake.txt").exists());
    let told = bash(home.path(), &under("Cut over"));
    assert!(told.contains("rows and"), "{told}");
    let root = home.path().join(".local/share/g2");
    assert!(fs::read_to_string(root.join(".env")).unwrap().contains("TELEGRAM_BOT_TOKEN=1:a"));
    let told = bash(home.path(), &format!("g2 start || true\n{}", under("Go back")));
    assert!(told.contains("rows,"), "{told}");
    assert!(home.path().join("since-then/manifest.json").exists());
}

#[test]
fn moving_out_and_in_again_goes_as_the_page_says() {
    let home = home();
    fs::create_dir_all(home.path().join(".claude/projects/-home-me-notes")).unwrap();
    fs::write(home.path().join(".claude/projects/-home-me-notes/0a1b2c3d.jsonl"), "{}\n").unwrap();
    let all: String = blocks("docs/export.md").into_iter().map(|(_, block)| block).collect();
    bash(home.path(), &format!("g2 init\ng2 import nanoclaw ~/nanoclaw\n{all}"));
    assert!(home.path().join("g2-new/groups/family/notes/cake.txt").exists());
}
