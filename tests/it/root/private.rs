//! Nobody else on the machine reads a root, and what agents write in a checkout is nothing to git.

use std::{
    fs,
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _},
        process::CommandExt as _,
    },
    path::Path,
    process::Command,
};

use serde_json::Value;

use crate::support::{Root, skipped, wait_for};

/// Nobody's user and group.
const NOBODY: u32 = 65_534;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o777
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// What of a root another user can read, of those paths in it.
fn read_by_nobody(root: &Root, paths: &[&str]) -> Vec<String> {
    let reads = |path: &&&str| {
        let mut cat = Command::new("cat");
        let output = cat.arg(root.path().join(path)).uid(NOBODY).gid(NOBODY).output().unwrap();
        output.status.success()
    };
    paths.iter().filter(reads).map(|path| (*path).to_owned()).collect()
}

/// The doctor's rows about who may look into the root.
fn told(root: &Root) -> Vec<Value> {
    let rows = root.rows(&["doctor"]);
    rows.into_iter().filter(|row| row["detail"].as_str().unwrap().starts_with("other users")).collect()
}

const SECRET: [&str; 5] =
    ["data/g2.sqlite", "groups/main/CLAUDE.md", "groups/global/CLAUDE.md", "g2.toml", ".env"];

#[test]
fn another_user_reads_nothing_of_a_root_and_the_next_start_closes_open_files() {
    if !rustix::process::geteuid().is_root() {
        return skipped("not root");
    }
    let root = Root::new("");
    chmod(root.path(), 0o755);
    fs::write(root.path().join(".env"), "TZ=UTC\n").unwrap();
    fs::write(root.path().join("page"), "open").unwrap();
    let serve = || {
        let daemon = root.serve();
        assert_eq!(root.ask("local:main", "hello"), "echo: hello\n");
        // While it is up the store has its log beside it.
        assert_eq!(
            read_by_nobody(&root, &["data/g2.sqlite-wal", "data/g2.sqlite-shm", "page"]),
            ["page"],
            "the page, as nothing closes it"
        );
        assert_eq!(daemon.terminate(), Some(0));
    };
    serve();
    assert_eq!(read_by_nobody(&root, &SECRET), Vec::<String>::new());
    assert_eq!(told(&root), Vec::<Value>::new());
    // As git and an earlier version left it.
    for path in ["data", "groups", "groups/main"] {
        chmod(&root.path().join(path), 0o755);
    }
    let backup = root.data("g2.sqlite.before-0002");
    fs::copy(root.data("g2.sqlite"), &backup).unwrap();
    for path in SECRET {
        chmod(&root.path().join(path), 0o644);
    }
    assert_eq!(read_by_nobody(&root, &SECRET), SECRET);
    let row = &told(&root)[0];
    assert_eq!(row["status"], "fail");
    assert!(row["detail"].as_str().unwrap().contains("data (mode 0755)"), "{row}");
    serve();
    assert_eq!(read_by_nobody(&root, &SECRET), Vec::<String>::new());
    assert_eq!(told(&root), Vec::<Value>::new());
    let closed = ["data", "groups", "groups/main", "data/g2.sqlite", "g2.toml", ".env"];
    for path in closed.iter().map(|path| root.path().join(path)).chain([backup]) {
        assert_eq!(mode(&path) & 0o077, 0, "{}", path.display());
    }
}

#[test]
fn agents_can_read_their_files_under_a_narrow_umask() {
    let root = Root::new("");
    let mut command = Command::new("sh");
    let script = "umask 077; exec \"$0\" --root \"$1\" serve";
    command.args(["-c", script, env!("CARGO_BIN_EXE_g2")]).arg(root.path());
    let mut child = command.env("TZ", "UTC").stderr(std::process::Stdio::null()).spawn().unwrap();
    wait_for("the list to be there", || root.data("ipc/main/available_groups.json").exists().then_some(()));
    let modes = ["ipc", "ipc/main", "ipc/main/available_groups.json"].map(|path| mode(&root.data(path)));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(modes, [0o755, 0o755, 0o644]);
}

/// Runs git in a folder, which has to succeed; returns what it printed.
fn git(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.current_dir(folder).args(["-c", "user.name=t", "-c", "user.email=t@t", "-c", "safe.directory=*"]);
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_run_in_a_checkout_leaves_nothing_to_git() {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR"));
    let is_checkout = Command::new("git").args(["rev-parse", "--git-dir"]).current_dir(ours).output();
    if !is_checkout.is_ok_and(|output| output.status.success()) {
        return eprintln!("skipped: no checkout of git");
    }
    // The tracked files as they are here, committed or not.
    let root = Root::new("");
    fs::remove_dir_all(root.path().join("container")).unwrap();
    for part in ["groups", "data"] {
        fs::remove_dir_all(root.path().join(part)).unwrap();
    }
    fs::remove_file(root.path().join("g2.toml")).unwrap();
    for path in git(ours, &["ls-files", ".gitignore", "groups", "data", "container/skills"]).lines() {
        let (from, to) = (ours.join(path), root.path().join(path));
        if from.exists() {
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(from, to).unwrap();
        }
    }
    for arguments in [&["init", "-q"][..], &["add", "."], &["commit", "-qm", "tracked"]] {
        git(root.path(), arguments);
    }
    root.g2(&["init"]);
    let writes = "for f in CLAUDE.md notes ../global/CLAUDE.md; do echo mine >> $f; done; mkdir -p logs conversations; \
        echo mine > conversations/a.md; exec '$G2' agent"
        .replace("$G2", env!("CARGO_BIN_EXE_g2"));
    root.settings(&format!(
        "[sandbox]\nkind = \"process\"\nallow_unsandboxed = true\n[agent]\ncommand = [\"/bin/sh\", \"-c\", \"{writes}\"]\n"
    ));
    // Started by hand: the harness keeps its log in the root.
    let mut command = root.command(&["serve"]);
    let mut daemon = command.stderr(std::process::Stdio::null()).spawn().unwrap();
    wait_for("the daemon", || (root.run(&["status"]).status.code() != Some(3)).then_some(()));
    root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    for chat in ["local:main", "local:family"] {
        root.ask(chat, "hello");
    }
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    for group in ["main", "family"] {
        let memory = fs::read_to_string(root.path().join(format!("groups/{group}/CLAUDE.md"))).unwrap();
        assert!(memory.ends_with("mine\n"), "{memory}");
    }
    assert_eq!(git(root.path(), &["status", "--porcelain"]), "");
}
