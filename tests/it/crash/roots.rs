//! One root, one daemon; and a root that is not the one it was.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests copy roots and look at sockets"
)]

use std::{
    fs,
    os::unix::{
        fs::{FileTypeExt as _, MetadataExt as _},
        net::UnixListener,
    },
};

use serde_json::json;

use super::{
    client::{rest, send},
    ledger::Ledger,
    scene::{all_settled, die_at},
};
use crate::support::{Root, wait_for};

const CHAT: &str = "local:main";

#[test]
fn a_second_daemon_does_not_start_on_a_root_and_the_first_goes_on() {
    let root = Root::new("");
    let _first = root.serve();
    let second = root.run(&["serve"]);
    assert_eq!(second.status.code(), Some(1));
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(said.contains("another g2"), "{said}");
    assert_eq!(root.ask(CHAT, "hello"), "echo: hello\n");
}

#[test]
fn of_many_daemons_started_at_once_one_serves() {
    let root = Root::new("");
    let all: Vec<_> = (0..6).map(|_| root.spawn(&[])).collect();
    wait_for("all but one to have given up", || {
        (all.iter().filter(|daemon| daemon.has_ended()).count() == 5).then_some(())
    });
    assert_eq!(root.ask(CHAT, "hello"), "echo: hello\n");
}

#[test]
fn the_lock_of_a_dead_daemon_holds_nobody_up() {
    let root = Root::new("");
    root.serve().kill();
    assert!(root.data("lock").exists(), "it is never unlinked");
    let _next = root.serve();
    assert_eq!(root.ask(CHAT, "hello"), "echo: hello\n");
}

#[test]
fn an_old_socket_is_no_obstacle() {
    let root = Root::new("");
    root.serve().kill();
    assert!(
        fs::symlink_metadata(root.data("g2.sock")).unwrap().file_type().is_socket(),
        "left by the dead one"
    );
    let next = root.serve();
    assert_eq!(root.ask(CHAT, "one"), "echo: one\n");
    assert_eq!(next.terminate(), Some(0));
    // Nor is one that somebody else listens on: who holds the lock owns the name.
    let _ = fs::remove_file(root.data("g2.sock"));
    let _squatter = UnixListener::bind(root.data("g2.sock")).unwrap();
    let inode = || fs::symlink_metadata(root.data("g2.sock")).map(|found| found.ino()).unwrap_or(0);
    let squatted = inode();
    let daemon = root.spawn(&[]);
    wait_for("the daemon to own its socket", || (![0, squatted].contains(&inode())).then_some(()));
    assert_eq!(root.json(&["status"])["pid"], daemon.pid());
    assert_eq!(root.ask(CHAT, "two"), "echo: two\n");
}

#[test]
fn a_copied_root_is_an_instance_of_its_own_with_the_same_contents() {
    let root = Root::new("");
    root.g2(&["groups", "add", "other", "--chat", "local:other"]);
    // A command that is committed and not answered, and a message that is in hand: both are carried over.
    root.script(None, &json!([{"do": [{"hang": true}]}]));
    let command =
        json!({"type": "send_message", "requestId": "r1", "chatJid": "local:other", "text": "by file"});
    die_at(&root, "ipc.committed", || {
        send(&root, CHAT, "hello");
        let in_hand = "SELECT count(*) FROM batches WHERE state = 'claimed'";
        wait_for("the agent to have it", || {
            (Ledger::of_the_living(&root).number(in_hand) == 1).then_some(())
        });
        root.put_command("other", "messages", "it.json", &command);
    });

    let copy = Root::new("");
    fs::remove_dir_all(copy.data("")).unwrap();
    let copied =
        std::process::Command::new("cp").arg("-a").arg(root.data("")).arg(copy.data("")).status().unwrap();
    assert!(copied.success());
    let instance = |root: &Root| {
        Ledger::of_the_dead(root).column::<String>("SELECT value FROM meta WHERE key = 'instance'")
    };
    assert_eq!(instance(&copy), instance(&root), "as copied");
    for (root, is_new) in [(&copy, true), (&root, false)] {
        root.settings("");
        let before = instance(root);
        let daemon = root.serve();
        rest(root, CHAT);
        rest(root, "local:other");
        assert_eq!(all_settled(root).len(), 1);
        assert_eq!(root.said(CHAT), ["echo: hello"]);
        assert_eq!(root.said("local:other"), ["by file"]);
        assert_eq!(send(root, CHAT, "hello"), 1);
        assert_eq!(daemon.terminate(), Some(0));
        assert_eq!(instance(root) != before, is_new);
    }
}
