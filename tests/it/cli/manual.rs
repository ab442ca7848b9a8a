//! Completions and pages for `man`: every command is in them.

use std::process::Command;

use super::{texts::helps, *};

#[test]
fn a_shell_completes_commands_and_their_options() {
    let dir = tempfile::tempdir().unwrap();
    let asked = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let script = format!(
            "source <({} completions bash)\nCOMP_WORDS=({})\nCOMP_CWORD={}\n_g2 g2 '{}' '{}'\necho \"${{COMPREPLY[@]}}\"",
            env!("CARGO_BIN_EXE_g2"),
            words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" "),
            words.len() - 1,
            words.last().unwrap(),
            words[words.len().saturating_sub(2)],
        );
        let output = Command::new("bash").args(["-c", &script]).current_dir(dir.path()).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{line}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(asked("g2 gro"), "groups");
    assert_eq!(asked("g2 groups rem"), "remove");
    assert_eq!(asked("g2 send --wa"), "--wait");
}

#[test]
fn each_shell_has_its_script() {
    for (shell, piece) in [("bash", "complete -F _g2"), ("zsh", "#compdef g2"), ("fish", "complete -c g2")] {
        let output = Command::new(env!("CARGO_BIN_EXE_g2")).args(["completions", shell]).output().unwrap();
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && script.contains(piece), "{shell}: {script}");
    }
    let output = Command::new(env!("CARGO_BIN_EXE_g2")).args(["completions", "cmd"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn each_command_has_a_page_for_man_and_a_second_time_replaces_it() {
    let dir = tempfile::tempdir().unwrap();
    let pages = dir.path().join("new/man1");
    for _ in 0..2 {
        let output = Command::new(env!("CARGO_BIN_EXE_g2")).arg("man").arg(&pages).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    for command in helps().keys() {
        let name = format!("{}.1", command.replace(' ', "-"));
        let page = fs::read_to_string(pages.join(&name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(page.contains(".TH ") && page.contains(".SH SYNOPSIS"), "{name}: {page}");
    }
    assert_eq!(fs::read_dir(&pages).unwrap().count(), helps().len());
}

#[test]
fn pages_are_not_written_into_a_file() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    let output =
        Command::new(env!("CARGO_BIN_EXE_g2")).arg("man").arg(dir.path().join("file")).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("making "), "{output:?}");
}
