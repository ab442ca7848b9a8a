//! The commands of README.md and of docs/ work as they are pasted, on a machine that has nothing of ours.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "plays a new user in a shell")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Output},
};

/// Lines that are not run here: they would take minutes, or the machine's own service manager.
const NOT_HERE: [&str; 1] = ["cargo install --path . --locked"];

/// The front page, and the pages for users behind it.
fn pages() -> String {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let names = ["README.md", "docs/people.md", "docs/agents.md", "docs/persona.md", "docs/service.md"];
    names.map(|name| fs::read_to_string(top.join(name)).unwrap()).concat()
}

/// The lines of a section's shell blocks; `None`: of all sections.
fn lines(section: Option<&str>) -> Vec<String> {
    let (mut here, mut inside, mut found) = (section.is_none(), false, Vec::new());
    for line in pages().lines() {
        match line {
            heading if heading.starts_with("# ") || heading.starts_with("## ") => {
                here = section.is_none_or(|s| heading == format!("## {s}"))
            }
            "```sh" => inside = true,
            "```" => inside = false,
            line if inside && here => found.push(line.to_owned()),
            _ => {}
        }
    }
    found
}

/// A machine of a new user's own: `g2` lies where `cargo install` puts it, and there is no Docker.
fn bash(home: &Path, script: &str) -> Output {
    let bin = home.join(".cargo/bin");
    fs::create_dir_all(&bin).unwrap();
    let _ = symlink(env!("CARGO_BIN_EXE_g2"), bin.join("g2"));
    let mut bash = Command::new("bash");
    bash.args(["-c", script]).current_dir(home).env_clear();
    bash.env("HOME", home).env("PATH", "/usr/bin:/bin").env("TZ", "UTC");
    bash.env("DOCKER_HOST", "unix:///nowhere/docker.sock").output().unwrap()
}

/// What a line says that it prints.
fn claimed(line: &str) -> Option<&str> {
    line.split_once("→ ").map(|(_, claim)| claim.trim())
}

#[test]
fn the_tour_can_be_pasted_line_by_line_and_prints_what_it_says() {
    let home = tempfile::tempdir().unwrap();
    let tour = lines(Some("A tour"));
    assert!(tour.len() > 20 && tour.iter().filter_map(|line| claimed(line)).count() >= 4, "{tour:?}");
    let mut script = String::new();
    for (n, line) in tour.iter().enumerate().filter(|(_, line)| !NOT_HERE.contains(&line.as_str())) {
        script.push_str(&format!("echo '@@{n}'\n{line}\necho \"@={n} $?\"\n"));
    }
    script.push_str("g2 stop\n");
    let output = bash(home.path(), &script);
    let printed = String::from_utf8(output.stdout).unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    for (n, line) in tour.iter().enumerate().filter(|(_, line)| !NOT_HERE.contains(&line.as_str())) {
        let from = printed.find(&format!("@@{n}\n")).unwrap_or_else(|| panic!("{line}: {printed}{told}"));
        let mine = &printed[from..];
        let mine = &mine[..mine.find("@=").unwrap()];
        assert!(printed.contains(&format!("@={n} 0\n")), "{line} fails:\n{mine}\n{told}");
        if let Some(claim) = claimed(line) {
            assert!(mine.contains(claim), "{line}\nprints:\n{mine}\n{told}");
        }
    }
    assert!(home.path().join(".local/share/g2/data/daemon.log").exists());
    // What other sections name is there to be typed: whatever comes of it here, it is no mistake of usage.
    let all = lines(None);
    let rest = all.iter().filter(|line| line.starts_with("g2 ") && !tour.contains(line));
    for line in rest {
        let output = bash(home.path(), &format!("export PATH=\"$HOME/.cargo/bin:$PATH\"\n{line}"));
        assert_ne!(output.status.code(), Some(2), "{line}: {output:?}");
    }
}

#[test]
fn the_pages_name_the_things_that_a_new_user_needs() {
    let pages = pages();
    for named in [
        "cargo install --path . --locked",
        "g2 service install",
        "loginctl enable-linger",
        "container/agent-runner/SCRIPT.md",
    ] {
        assert!(pages.contains(named), "{named}");
    }
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    for file in ["LICENSE", "container/agent-runner/SCRIPT.md", "tests/bench/FIGURES.md"] {
        assert!(top.join(file).is_file(), "{file}");
    }
}
