//! Completions and pages for `man`: every command is in them.

use std::process::Command;

use super::{texts::helps, *};

/// Returns what bash offers at the end of a line that is typed in this root.
fn offered(root: &Root, line: &str) -> Vec<String> {
    // As readline cuts a line: at blanks, and around colons and equals signs.
    let words: Vec<String> = line
        .split(' ')
        .flat_map(|word| {
            let pieces = word.replace(':', "\0:\0").replace('=', "\0=\0");
            let pieces: Vec<String> = pieces.split('\0').map(str::to_owned).collect();
            let is_whole = pieces.len() == 1;
            // Behind a colon at the end there is an empty word only where something is to be completed.
            pieces.into_iter().filter(move |piece| is_whole || !piece.is_empty())
        })
        .collect();
    let quoted = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    let script = format!(
        "source <(g2 completions bash)\nCOMP_WORDS=({quoted})\nCOMP_CWORD={}\nCOMP_TYPE=9\n\
         _g2 g2 '{}' ''\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"",
        words.len() - 1,
        words.last().unwrap(),
    );
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_g2")).parent().unwrap();
    let output = Command::new("bash")
        .args(["-c", &script])
        .env("PATH", format!("{}:/usr/bin:/bin", program.display()))
        .env("G2_ROOT", root.path())
        .output()
        .unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{line}: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
}

#[test]
fn a_shell_completes_commands_options_and_names_from_the_store() {
    let root = lived_in();
    root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    for (line, names) in [
        ("g2 gro", &["groups"][..]),
        ("g2 groups rem", &["remove"]),
        ("g2 send --wa", &["--wait"]),
        ("g2 groups show f", &["family"]),
        ("g2 groups show ", &["family", "main"]),
        ("g2 runs list --group m", &["main"]),
        ("g2 runs list --group=m", &["main"]),
        ("g2 runs list --state fail", &["failed"]),
        ("g2 runs show ", &["1"]),
        ("g2 tasks pause ", &["task-1"]),
        ("g2 send --chat loc", &["local:family", "local:main"]),
        ("g2 send --chat local:f", &["family"]),
        ("g2 wirings remove --group main --chat local:ma", &["main"]),
        ("g2 ipc hold f", &["family"]),
        ("g2 groups show nobody", &[]),
    ] {
        let mut found = offered(&root, line);
        found.retain(|name| !name.starts_with('-') || line.contains("--wa"));
        found.sort();
        assert_eq!(found, names, "{line}");
    }
    // Without a root, commands are completed all the same.
    let nowhere = Root::new("");
    std::fs::remove_dir_all(nowhere.path().join("data")).unwrap();
    assert_eq!(offered(&nowhere, "g2 gro"), ["groups"]);
    assert_eq!(offered(&nowhere, "g2 groups show f"), [""; 0]);
}

#[test]
fn each_shell_has_its_script() {
    for (shell, piece) in [
        ("bash", "-F _g2 g2"),
        ("zsh", "#compdef g2"),
        ("fish", "complete --keep-order --exclusive --command g2"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_g2")).args(["completions", shell]).output().unwrap();
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && script.contains(piece), "{shell}: {script}");
    }
    let output = Command::new(env!("CARGO_BIN_EXE_g2")).args(["completions", "cmd"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

/// Runs a script in another shell; `None`: it is not there, and need not be.
fn in_shell(root: &Root, shell: &str, script: &str) -> Option<String> {
    if !Command::new(shell).arg("--version").output().is_ok_and(|output| output.status.success()) {
        assert!(
            std::env::var_os("G2_REQUIRE_SHELLS").is_none(),
            "G2_REQUIRE_SHELLS is set and there is no {shell}"
        );
        eprintln!("skipped: no {shell}");
        return None;
    }
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_g2")).parent().unwrap();
    let home = tempfile::tempdir().unwrap();
    let bare = if shell == "zsh" { "-f" } else { "--no-config" };
    let output = Command::new(shell)
        .args([bare, "-c", script])
        .env("PATH", format!("{}:/usr/bin:/bin", program.display()))
        .env("HOME", home.path())
        .env("G2_ROOT", root.path())
        .output()
        .unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{shell}: {output:?}");
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn zsh_and_fish_load_their_scripts_and_complete_names_from_the_store() {
    let root = lived_in();
    root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    let lines: [(&[&str], &str); 4] = [
        (&["g2", "gro"], "groups"),
        (&["g2", "groups", "show", "f"], "family"),
        (&["g2", "runs", "list", "--group", "m"], "main"),
        (&["g2", "send", "--chat", "local:f"], "local:family"),
    ];
    for (words, name) in lines {
        let line = words.join(" ");
        // What zsh would show is printed instead; a colon in a value is escaped there, and ends it otherwise.
        let zsh = format!(
            "compdef() {{ }}\n_describe() {{ print -l -- \"${{(@P)3}}\"; }}\nsource <(g2 completions zsh)\nwords=({line}) CURRENT={}\n_clap_dynamic_completer_g2",
            words.len()
        );
        let fish = format!("g2 completions fish | source; complete --do-complete '{line}'");
        for (shell, script) in [("zsh", zsh), ("fish", fish)] {
            let Some(shown) = in_shell(&root, shell, &script) else { continue };
            let shown = shown.replace("\\:", ":");
            let found = shown.lines().any(|line| {
                line.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '\t']))
            });
            assert!(found, "{shell}, {line}: {shown}");
        }
    }
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

#[test]
fn the_recording_of_the_terminal_is_made_of_what_g2_shows() {
    if !Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success()) {
        assert!(
            std::env::var_os("G2_REQUIRE_SHELLS").is_none(),
            "G2_REQUIRE_SHELLS is set and there is no python3"
        );
        return eprintln!("skipped: no python3");
    }
    let checkout = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let dir = tempfile::tempdir().unwrap();
    let made = dir.path().join("new.cast");
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_g2")).parent().unwrap();
    let output =
        Command::new(checkout.join("docs/recording.sh")).arg(&made).env("G2_BIN", program).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    // The one that is kept tells the same story: make it anew with docs/recording.sh when this fails.
    for path in [made, checkout.join("docs/recording.cast")] {
        let cast = fs::read_to_string(&path).unwrap();
        let mut lines = cast.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        assert_eq!(lines.next().unwrap()["version"], 2);
        let (mut shown, mut last) = (String::new(), 0.0);
        for event in lines {
            assert!(event[0].as_f64().unwrap() >= last && event[1] == "o", "{event}");
            last = event[0].as_f64().unwrap();
            shown.push_str(event[2].as_str().unwrap());
        }
        for words in [
            "echo: hello",
            "g2 is healthy",
            "task task-1 runs first",
            "every day at 09:00",
            "answered; the answer is sent",
            "the daemon has stopped",
        ] {
            assert!(shown.contains(words), "{}: {words}: {shown}", path.display());
        }
        assert!(last < 90.0 && cast.len() < 64 << 10, "{last} s, {} bytes", cast.len());
    }
}
