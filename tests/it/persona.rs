//! Whose agent it is: memories that groups begin with and that a person edits, and tool servers of a group's own.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests play the user and the agent")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{fs, os::unix::fs::symlink, path::PathBuf, process::Command};

use serde_json::{Value, json};

use crate::support::{Root, Terminal};

fn memory(root: &Root, group: &str) -> PathBuf {
    root.path().join("groups").join(group).join("CLAUDE.md")
}

fn read(root: &Root, group: &str) -> String {
    fs::read_to_string(memory(root, group)).unwrap()
}

/// Runs a command that has to fail; returns its exit code and what it said.
fn refused(root: &Root, arguments: &[&str]) -> (i32, String) {
    let output = root.run(arguments);
    assert!(!output.status.success(), "{arguments:?}: {output:?}");
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_new_root_s_main_group_is_told_who_it_is_and_how_that_changes() {
    let root = Root::empty();
    fs::write(root.path().join("g2.toml"), "assistant_name = \"Ada\"\n").unwrap();
    root.g2(&["init"]);
    let text = read(&root, "main");
    assert!(text.starts_with("# Ada\n\nYou are Ada, the assistant of this machine's owner."), "{text}");
    for words in ["How you speak", "What you remember, and where", "`g2 groups edit main`"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn init_writes_over_nothing_and_through_no_link_that_an_agent_has_laid() {
    let root = Root::empty();
    root.g2(&["init"]);
    fs::write(memory(&root, "main"), "mine").unwrap();
    fs::write(memory(&root, "global"), "ours").unwrap();
    root.g2(&["init"]);
    assert_eq!((read(&root, "main").as_str(), read(&root, "global").as_str()), ("mine", "ours"));
    let outside = root.path().join("outside");
    for group in ["main", "global"] {
        fs::remove_file(memory(&root, group)).unwrap();
        symlink(&outside, memory(&root, group)).unwrap();
    }
    root.g2(&["init"]);
    assert!(!outside.exists(), "a link that leads to nothing was followed");
    assert!(fs::symlink_metadata(memory(&root, "main")).unwrap().is_symlink());
}

#[test]
fn a_group_begins_with_the_template_that_is_chosen() {
    let root = Root::new("");
    let daemon = root.serve();
    for (template, words) in
        [("assistant", "whatever comes up"), ("researcher", "sources.md"), ("family", "lists/shopping.md")]
    {
        let chat = format!("local:{template}");
        root.g2(&["groups", "add", template, "--chat", &chat, "--trigger", "@Bo", "--from", template]);
        let text = read(&root, template);
        assert!(text.starts_with("# Bo\n\nYou are Bo") && text.contains(words), "{text}");
        assert!(text.contains(&format!("`g2 groups edit {template}`")), "{text}");
        assert_eq!(root.ask(&chat, "hello"), "echo: hello\n");
    }
    assert_eq!(daemon.terminate(), Some(0));
    // Without one, and without a daemon.
    root.g2(&["groups", "add", "plain", "--chat", "local:plain"]);
    assert!(read(&root, "plain").starts_with("# A group's memory"));
    root.g2(&["groups", "add", "down", "--chat", "local:down", "--from", "family"]);
    assert!(read(&root, "down").contains("lists/shopping.md"));
    // A group that is refused leaves nothing behind.
    let many: Vec<&str> =
        ["groups", "add", "two", "--chat", "local:two", "--from", "family", "--main"].into();
    let (_, said) = refused(&root, &many);
    assert!(said.contains("main"), "{said}");
    assert!(!root.path().join("groups/two").exists());
    // A folder that stayed keeps what is in it.
    fs::write(memory(&root, "down"), "mine").unwrap();
    root.g2(&["groups", "remove", "down", "--yes"]);
    let added = root.run(&["groups", "add", "down", "--chat", "local:down", "--from", "assistant"]);
    assert!(added.status.success(), "{added:?}");
    let said = String::from_utf8([added.stdout, added.stderr].concat()).unwrap();
    assert!(said.contains("groups/down/CLAUDE.md was there and stays as it is"), "{said}");
    assert_eq!(read(&root, "down"), "mine");
}

#[test]
fn an_unknown_template_is_refused_with_the_list_and_a_shell_completes_them() {
    let root = Root::new("");
    let (code, said) = refused(&root, &["groups", "add", "x", "--chat", "local:x", "--from", "pirate"]);
    assert!(code == 2 && said.contains("assistant, researcher, family"), "{said}");
    assert!(!root.path().join("groups/x").exists());
    let mut asks = Command::new(env!("CARGO_BIN_EXE_g2"));
    asks.env("G2_COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", "5").env("_CLAP_IFS", "\n");
    asks.args(["--", "g2", "groups", "add", "x", "--from", ""]);
    let offered = String::from_utf8(asks.output().unwrap().stdout).unwrap();
    for template in ["assistant", "researcher", "family"] {
        assert!(offered.contains(template), "{offered}");
    }
}

/// An editor that does this to the file `$file`.
fn editor(root: &Root, does: &str) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let path = root.path().join("my editor.sh");
    let script = format!("#!/bin/sh\nfor file; do :; done\necho \"$#:$1\" > \"$0.called\"\n{does}\n");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    format!("'{}' '--an option' ", path.display())
}

/// Has `g2 groups edit main` in a terminal; returns its exit code and what was shown.
fn edit(root: &Root, does: &str) -> (i32, String) {
    edit_of(root, "main", does)
}

fn edit_of(root: &Root, whose: &str, does: &str) -> (i32, String) {
    let mut terminal = Terminal::of(200, 24);
    let mut command = root.command(&["groups", "edit", whose]);
    command.env("EDITOR", editor(root, does)).env("NO_COLOR", "1").env("TMPDIR", root.path());
    let ended = terminal.start(command).wait().unwrap();
    (ended.code().unwrap(), terminal.rest())
}

/// The copies that were kept.
fn kept(root: &Root) -> Vec<PathBuf> {
    let names = fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().path());
    names.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("g2-edit-")).collect()
}

#[test]
fn a_memory_is_edited_in_the_user_s_own_editor_without_a_shell() {
    let root = Root::new("");
    for daemon in [None, Some(root.serve())] {
        let text = format!("be kind $(touch {}/shell) {}\n", root.path().display(), daemon.is_some());
        fs::write(root.path().join("new"), &text).unwrap();
        let (code, shown) = edit(&root, "cat \"$(dirname \"$0\")/new\" > \"$file\"");
        assert!(code == 0 && shown.contains("group main has a new CLAUDE.md"), "{code}: {shown}");
        assert_eq!(read(&root, "main"), text);
        assert_eq!(fs::read_to_string(root.path().join("my editor.sh.called")).unwrap(), "2:--an option\n");
    }
    assert!(!root.path().join("shell").exists());
    assert!(kept(&root).is_empty(), "{:?}", kept(&root));
    let names = fs::read_dir(root.path().join("groups/main")).unwrap().count();
    assert_eq!(names, 1, "nothing is left beside it");
    let audit = root.rows(&["audit", "list"]);
    assert!(
        audit.iter().any(|row| row["what"].as_str().unwrap().starts_with("groups.edit folder=main")),
        "{audit:?}"
    );
}

#[test]
fn the_memory_of_all_groups_is_edited_in_the_same_way() {
    let root = Root::new("");
    let (code, shown) = edit_of(&root, "--global", "printf 'we live in Rome' > \"$file\"");
    assert!(code == 0 && shown.contains("all groups have a new CLAUDE.md"), "{code}: {shown}");
    assert_eq!(read(&root, "global"), "we live in Rome");
    let secret = root.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    fs::remove_file(memory(&root, "global")).unwrap();
    symlink(&secret, memory(&root, "global")).unwrap();
    let (code, shown) = edit_of(&root, "--global", "printf new > \"$file\"");
    assert!(code == 1 && shown.contains("no plain file"), "{shown}");
    assert_eq!(fs::read_to_string(&secret).unwrap(), "secret");
    assert_eq!(refused(&root, &["groups", "edit"]).0, 2);
    assert_eq!(refused(&root, &["groups", "edit", "main", "--global"]).0, 2);
}

#[test]
fn an_edit_that_changes_nothing_or_fails_leaves_the_memory_as_it_is() {
    let root = Root::new("");
    fs::write(memory(&root, "main"), "mine").unwrap();
    for (does, code, words) in [
        ("true", 0, "nothing was changed"),
        ("printf other > \"$file\"; exit 3", 1, "so nothing was changed"),
        ("rm \"$file\"", 1, "left no file"),
        ("rm \"$file\"; mkfifo \"$file\"", 1, "left no file"),
        ("printf '\\377' > \"$file\"", 1, "not in UTF-8"),
        ("truncate -s 1048577 \"$file\"", 1, "more than 1048576 bytes"),
    ] {
        let (ended, shown) = edit(&root, does);
        assert!(ended == code && shown.contains(words), "{does}: {ended}: {shown}");
        assert_eq!(read(&root, "main"), "mine", "{does}");
    }
    assert_eq!(kept(&root).len(), 3, "what was written is kept");
}

#[test]
fn what_an_agent_changes_meanwhile_stays_and_what_the_person_wrote_is_kept() {
    let root = Root::new("");
    fs::write(memory(&root, "main"), "mine").unwrap();
    let theirs = memory(&root, "main");
    let (code, shown) =
        edit(&root, &format!("printf new > \"$file\"; printf theirs > '{}'", theirs.display()));
    assert!(code == 1 && shown.contains("was changed meanwhile"), "{shown}");
    assert_eq!(read(&root, "main"), "theirs");
    let [copy] = &kept(&root)[..] else { panic!("{:?}", kept(&root)) };
    assert_eq!(fs::read_to_string(copy.join("CLAUDE.md")).unwrap(), "new");
    assert!(shown.contains(&format!("what you wrote is kept in {}/CLAUDE.md", copy.display())), "{shown}");
}

#[test]
fn a_memory_is_taken_from_a_file_or_stdin_and_the_newest_texts_before_are_kept() {
    let root = Root::new("");
    fs::write(memory(&root, "main"), "text 0").unwrap();
    for n in 1..=22 {
        let text = root.path().join("text");
        fs::write(&text, format!("text {n}")).unwrap();
        let file = fs::File::open(&text).unwrap();
        let mut command = root.command(&["groups", "edit", "main", "--file"]);
        match n % 2 {
            0 => command.arg("-").stdin(file),
            _ => command.arg(&text),
        };
        assert!(command.output().unwrap().status.success());
        assert_eq!(read(&root, "main"), format!("text {n}"));
    }
    let kept = root.rows(&["groups", "history", "main"]);
    assert_eq!(
        (kept.len(), kept[0]["version"].as_u64(), kept[19]["version"].as_u64()),
        (20, Some(22), Some(3))
    );
    assert_eq!(root.g2(&["groups", "history", "main", "--show", "22"]), "text 21");
    root.g2(&["groups", "back", "main", "--to", "3"]);
    assert_eq!(read(&root, "main"), "text 2");
    assert_eq!(root.g2(&["groups", "history", "main", "--show", "23"]), "text 22");
    for (arguments, words) in [
        (&["groups", "back", "main", "--to", "3"][..], "no CLAUDE.md is kept with the number 3"),
        (&["groups", "history", "main", "--show", "1"], "no CLAUDE.md is kept with the number 1"),
        (&["groups", "history", "none"], "group none does not exist"),
        (&["groups", "edit", "main", "--file", "/none"], "/none can't be read"),
    ] {
        assert!(refused(&root, arguments).1.contains(words), "{arguments:?}");
    }
    assert_eq!(refused(&root, &["groups", "back", "--to", "3"]).0, 2);
    let folder = root.data("memories/main");
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&folder).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn nothing_that_an_agent_puts_in_the_place_of_its_memory_is_opened() {
    let root = Root::new("");
    let (memory, secret) = (memory(&root, "main"), root.path().join("secret"));
    fs::write(&secret, "secret").unwrap();
    let put: [(&str, &dyn Fn()); 4] = [
        ("a link", &|| symlink(&secret, &memory).unwrap()),
        ("a pipe", &|| rustix::fs::mkfifoat(rustix::fs::CWD, &memory, rustix::fs::Mode::RUSR).unwrap()),
        ("a folder", &|| fs::create_dir(&memory).unwrap()),
        ("a huge file", &|| fs::File::create(&memory).unwrap().set_len(1 << 40).unwrap()),
    ];
    for (what, put) in put {
        let _ = fs::remove_file(&memory);
        let _ = fs::remove_dir(&memory);
        put();
        let (code, shown) = edit(&root, "touch \"$0.opened\"; printf new > \"$file\"");
        assert!(
            code == 1 && (shown.contains("no plain file") || shown.contains("more than")),
            "{what}: {shown}"
        );
        assert!(!root.path().join("my editor.sh.opened").exists(), "{what}");
        assert_eq!(fs::read_to_string(&secret).unwrap(), "secret", "{what}");
        let _ = fs::remove_dir(&memory);
        let _ = fs::remove_file(&memory);
        // And while the editor is open.
        fs::write(&memory, "mine").unwrap();
        let path = memory.display();
        let swap = match what {
            "a link" => format!("rm '{path}'; ln -s '{}' '{path}'", secret.display()),
            "a pipe" => format!("rm '{path}'; mkfifo '{path}'"),
            "a folder" => format!("rm '{path}'; mkdir '{path}'"),
            _ => format!("truncate -s 1T '{path}'"),
        };
        let (code, shown) = edit(&root, &format!("printf new > \"$file\"; {swap}"));
        assert!(code == 1 && shown.contains("what you wrote is kept"), "{what}: {shown}");
        assert_eq!(fs::read_to_string(&secret).unwrap(), "secret", "{what}");
    }
}

#[test]
fn without_a_terminal_or_an_editor_the_file_is_named() {
    let root = Root::new("");
    let (code, said) = refused(&root, &["groups", "edit", "main"]);
    let path = memory(&root, "main").display().to_string();
    assert!(code == 1 && said.contains("needs a terminal") && said.contains(&path), "{said}");
    let (_, said) = refused(&root, &["groups", "edit", "none"]);
    assert!(said.contains("group none does not exist"), "{said}");
    for (editor, words) in [
        (None, "no editor is chosen"),
        (Some("'vi"), "a quote is not closed"),
        (Some("  "), "is blank"),
        (Some("/no/such/editor"), "can't be started"),
    ] {
        let mut terminal = Terminal::of(200, 24);
        let mut command = root.command(&["groups", "edit", "main"]);
        command.env("NO_COLOR", "1").env("TMPDIR", root.path());
        if let Some(editor) = editor {
            command.env("VISUAL", editor).env("EDITOR", "true");
        }
        let ended = terminal.start(command).wait().unwrap();
        let shown = terminal.rest();
        assert!(ended.code() == Some(1) && shown.contains(words), "{editor:?}: {shown}");
    }
    assert!(kept(&root).is_empty(), "{:?}", kept(&root));
}

fn set(root: &Root, settings: &[&str]) -> String {
    let output = root.run(&[&["groups", "set", "main"], settings].concat());
    assert!(output.status.success(), "{settings:?}: {output:?}");
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

fn servers(root: &Root) -> Value {
    let text = root.json(&["groups", "show", "main"])["config"].clone();
    let config: Value = text.as_str().map_or(text.clone(), |text| serde_json::from_str(text).unwrap());
    config["mcp"].clone()
}

#[test]
fn tool_servers_are_typed_or_come_from_a_file() {
    let root = Root::new("");
    set(&root, &["mcp.weather=UNITS=metric python3 'my server.py'", "mcp.clock=clock-server --utc"]);
    let weather =
        json!({"type": "stdio", "command": "python3", "args": ["my server.py"], "env": {"UNITS": "metric"}});
    let clock = json!({"type": "stdio", "command": "clock-server", "args": ["--utc"]});
    assert_eq!(servers(&root), json!({"weather": weather, "clock": clock}));
    set(&root, &["mcp.clock="]);
    assert_eq!(servers(&root), json!({"weather": weather}));
    let file = root.path().join("servers.json");
    fs::write(&file, json!({"mcpServers": {"files": {"command": "files"}}}).to_string()).unwrap();
    set(&root, &[&format!("mcp=@{}", file.display())]);
    assert_eq!(servers(&root), json!({"files": {"type": "stdio", "command": "files"}}));
    set(&root, &["mcp="]);
    assert_eq!(servers(&root), Value::Null);
}

#[test]
fn what_can_t_be_a_tool_server_is_refused_and_its_secret_is_written_down_nowhere() {
    let root = Root::new("");
    let (huge, pipe) = (root.path().join("huge"), root.path().join("pipe"));
    fs::File::create(&huge).unwrap().set_len(1 << 30).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
    let of = |path: &PathBuf| format!("mcp=@{}", path.display());
    for (setting, words) in [
        ("mcp.g2=x", "mcp.g2 can't be set: `g2` is the name of G2's own tools"),
        ("mcp.weather=API_KEY=sk-hush x", "mcp.weather can't be set: API_KEY holds a secret"),
        ("mcp.weather=x --token sk-hush", "Give --token as a variable"),
        (
            r#"mcp={"mcpServers": {"a": {"command": "x", "env": {"MY_TOKEN": "sk-hush"}}}}"#,
            "MY_TOKEN holds a secret",
        ),
        ("mcp=sk-hush", "a line is `NAME: COMMAND`"),
        ("mcp.none=", "there is no server of that name"),
        (&of(&huge), "it has more than"),
        (&of(&pipe), "it is no file"),
        ("mcp=@/no/such/file", "can't be read"),
    ] {
        let (_, said) = refused(&root, &["groups", "set", "main", setting]);
        assert!(said.contains(words), "{setting}: {said}");
    }
    assert_eq!(servers(&root), Value::Null);
    let log = fs::read_to_string(root.data("changes.log")).unwrap();
    assert!(!log.contains("hush") && log.contains("weather: …"), "{log}");
    assert!(!root.g2(&["audit", "list", "--wide"]).contains("hush"));
}

#[test]
fn a_server_outside_is_told_with_the_command_that_lets_it_be_reached() {
    let root = Root::new("");
    let said = set(&root, &["mcp.docs=https://mcp.example.com/mcp Authorization='Bearer ${DOCS_TOKEN}'"]);
    assert!(
        said.contains(
            "`g2 groups set main network=allowlist`, then `g2 egress allow mcp.example.com --group main`"
        ),
        "{said}"
    );
    assert!(said.contains("write DOCS_TOKEN=… into .env"), "{said}");
    let doctor = |root: &Root| -> Vec<String> {
        let rows = root
            .rows(&["doctor"])
            .into_iter()
            .filter(|row| row["check"] == "tool_server" && row["status"] == "warn");
        rows.map(|row| format!("{}: {} {}", row["status"], row["detail"], row["fix"])).collect()
    };
    assert_eq!(doctor(&root).len(), 2, "{:?}", doctor(&root));
    root.g2(&["egress", "allow", "mcp.example.com", "--group", "main"]);
    fs::write(root.path().join(".env"), "DOCS_TOKEN=sk-hush\n").unwrap();
    let said = set(&root, &["network=allowlist"]);
    assert!(!said.contains("mcp.example.com") && !said.contains("DOCS_TOKEN"), "{said}");
    // The name counts as one that somebody reads.
    let all = root.rows(&["doctor"]);
    assert!(!all.iter().any(|row| row.to_string().contains("DOCS_TOKEN")), "{all:?}");
}
