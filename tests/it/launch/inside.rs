//! The inside of a real container.

use crate::support::skipped;
use std::{fs, os::unix::fs::symlink};

use serde_json::{Value, json};

use crate::{
    sandbox::house::probe,
    support::{Docked, Linkage, run_docker},
};

/// Puts a program into a group's folder, by which a test looks around inside.
pub(crate) fn put_probe(root: &Docked, group: &str) {
    let folder = root.path().join("groups").join(group);
    fs::create_dir_all(&folder).unwrap();
    fs::copy(probe(Linkage::Static), folder.join("probe")).unwrap();
}

/// What the program says in the one container of the root.
pub(crate) fn inside(root: &Docked, arguments: &[&str]) -> String {
    let containers = root.containers();
    assert_eq!(containers.len(), 1);
    run_docker(&[&["exec", &containers[0], "/workspace/group/probe"], arguments].concat())
}

pub(super) fn inspect(root: &Docked) -> Value {
    let seen: Value = serde_json::from_str(&run_docker(&["inspect", &root.containers()[0]])).unwrap();
    seen[0].clone()
}

#[test]
fn the_main_group_sees_the_project_without_secrets_state_or_other_groups() {
    let Some(root) = Docked::new(
        "[gateway]\ntoken_file = \"of-the-model\"\n[channels.tg]\ncommand = [\"/bin/true\"]\ntoken = \"sk-real-of-tg\" # sk-real-of-tg\n",
    ) else {
        return;
    };
    let at = |name: &str| root.path().join(name);
    fs::write(at(".env"), "ANTHROPIC_API_KEY=sk-real\n").unwrap();
    fs::write(at(".env.local"), "OTHER=sk-real\n").unwrap();
    fs::write(at("g2.toml~"), "token = \"sk-real\"\n").unwrap();
    fs::write(at("of-the-model"), "sk-real").unwrap();
    fs::create_dir_all(at("notes/deep")).unwrap();
    fs::write(at("notes/deep/page"), "a page").unwrap();
    fs::create_dir_all(at("groups/other")).unwrap();
    fs::write(at("groups/other/CLAUDE.md"), "sk-real memory of others").unwrap();
    symlink("/etc", at("away")).unwrap();
    put_probe(&root, "main");
    let _daemon = root.serve();
    root.ask("local:main", "hello");
    // What comes later is not seen by a container that runs.
    fs::write(at(".env.production"), "sk-real").unwrap();
    fs::write(at("later"), "sk-real").unwrap();
    let settings = fs::read_to_string(at("g2.toml")).unwrap();
    fs::write(at("g2.toml"), settings + "# sk-real\n").unwrap();
    let seen = inside(&root, &["look", "/workspace/project"]);
    assert!(seen.contains("/workspace/project/notes/deep/page: a page"), "{seen}");
    assert!(seen.contains("/workspace/project/g2.toml: "), "{seen}");
    for hidden in ["sk-real", "/data", "/groups", ".env", "/of-the-model", "away", "sqlite"] {
        assert!(!seen.contains(hidden), "{hidden} in {seen}");
    }
    let written = inside(
        &root,
        &["write", "/workspace/project/x", "/workspace/project/notes/x", "/workspace/project/g2.toml"],
    );
    assert_eq!(written.matches("refused").count(), 3, "{written}");
}

#[test]
fn another_group_sees_only_its_own_and_shared_folders() {
    let Some(root) = Docked::new("") else { return };
    root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    fs::write(root.path().join("groups/global/CLAUDE.md"), "for all").unwrap();
    put_probe(&root, "family");
    let _daemon = root.serve();
    root.ask("local:family", "hello");
    let seen = inside(&root, &["look", "/workspace", "/home/node"]);
    assert!(seen.contains("/workspace/global/CLAUDE.md: for all"), "{seen}");
    assert!(!seen.contains("/workspace/project") && !seen.contains(".aws"), "{seen}");
    let written = inside(
        &root,
        &[
            "write",
            "/workspace/global/x",
            "/workspace/ipc/x",
            "/home/node/x",
            "/home/node/.claude/x",
            "/tmp/x",
            "/workspace/group/x",
            "/workspace/group/CLAUDE.md",
        ],
    );
    let lines: Vec<bool> = written.lines().map(|line| line.ends_with("written")).collect();
    assert_eq!(lines, [false, false, true, true, true, true, true], "{written}");
    let env = inside(&root, &["env"]);
    for line in ["HOME=/home/node", "TMPDIR=/tmp", "TZ=UTC"] {
        assert!(env.lines().any(|l| l == line), "{line} in {env}");
    }
}

#[test]
fn files_that_root_put_into_a_group_s_folder_belong_to_its_agent_and_a_link_out_of_it_is_not_followed() {
    let Some(root) = Docked::new("") else { return };
    if !rustix::process::geteuid().is_root() {
        return skipped("not root");
    }
    put_probe(&root, "main");
    let folder = root.path().join("groups/main");
    let outside = root.path().join("outside");
    fs::create_dir_all(folder.join("a/b")).unwrap();
    fs::write(folder.join("a/b/page"), "old").unwrap();
    fs::write(&outside, "root's").unwrap();
    symlink(&outside, folder.join("a/link")).unwrap();
    fs::hard_link(&outside, folder.join("a/also")).unwrap();
    let _daemon = root.serve();
    root.ask("local:main", "hello");
    let written = inside(
        &root,
        &["write", "/workspace/group/a/b/page", "/workspace/group/a/new", "/workspace/group/a/also"],
    );
    let lines: Vec<bool> = written.lines().map(|line| line.ends_with("written")).collect();
    assert_eq!(lines, [true, true, false], "{written}");
    let owner =
        |path: &std::path::Path| std::os::unix::fs::MetadataExt::uid(&fs::symlink_metadata(path).unwrap());
    assert_eq!((owner(&outside), owner(&folder.join("a/b"))), (0, 1000));
}

#[test]
fn a_group_s_own_settings_are_its_next_container_s() {
    let Some(root) = Docked::new("") else { return };
    put_probe(&root, "main");
    let _daemon = root.serve();
    root.ask("local:main", "one");
    let before = inspect(&root);
    root.g2(&[
        "groups",
        "set",
        "main",
        "memory_mib=300",
        "cpus=0.5",
        "pids=99",
        "network=open",
        "timezone=Asia/Tokyo",
    ]);
    root.ask("local:main", "two");
    let after = inspect(&root);
    assert_ne!(before["Id"], after["Id"], "the run that lived was asked to leave");
    let host = &after["HostConfig"];
    assert_eq!(
        (&host["Memory"], &host["MemorySwap"], &host["NanoCpus"], &host["PidsLimit"]),
        (&json!(300 << 20), &json!(300 << 20), &json!(500_000_000), &json!(99))
    );
    assert_eq!(
        (&before["HostConfig"]["NetworkMode"], &host["NetworkMode"]),
        (&json!("none"), &json!("bridge"))
    );
    assert_eq!((&host["ReadonlyRootfs"], &host["CapDrop"]), (&json!(true), &json!(["ALL"])));
    assert_eq!(host["SecurityOpt"], json!(["no-new-privileges:true"]));
    assert!(inside(&root, &["env"]).lines().any(|line| line == "TZ=Asia/Tokyo"));
    let shown = root.json(&["groups", "show", "main"]);
    assert_eq!(shown["config"]["memory_mib"], 300);
    // An empty value is everybody's again.
    root.g2(&["groups", "set", "main", "memory_mib=", "network="]);
    root.ask("local:main", "three");
    let last = inspect(&root);
    assert_eq!(
        (&last["HostConfig"]["Memory"], &last["HostConfig"]["NetworkMode"]),
        (&json!(2_i64 << 30), &json!("none"))
    );
}

#[test]
fn mounts_are_labelled_for_selinux_when_that_is_set() {
    let Some(root) = Docked::new("selinux = \"Z\"\n") else { return };
    let _daemon = root.serve();
    assert_eq!(root.ask("local:main", "hello"), "echo: hello\n");
    let binds = inspect(&root)["HostConfig"]["Binds"].to_string();
    assert!(binds.contains(":/workspace/group:rw,Z") && binds.contains(":/workspace/global:rw,z"), "{binds}");
    root.settings(&Docked::settings("selinux = \"disable\"\n"));
    drop(_daemon);
    let _daemon = root.serve();
    root.g2(&["groups", "set", "main", "pids=100"]);
    root.ask("local:main", "again");
    assert_eq!(
        inspect(&root)["HostConfig"]["SecurityOpt"],
        json!(["no-new-privileges:true", "label=disable"])
    );
}
