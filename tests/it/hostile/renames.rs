//! The one lock that a file system has for renames between its directories, held by a container for as long as it likes.
#![expect(clippy::disallowed_methods, reason = "plays the host's other programs")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    fs,
    time::{Duration, Instant},
};

use super::{
    neighbour::{Neighbour, Waits, compare, timed},
    scene::{Scene, ended},
};
use crate::support::{Root, Socket, wait_for};

/// How many names the container's directory has: enough for a rename between directories to wait for half a
/// second and longer.
const NAMES: &str = "500000";
/// A process that waits for such a rename waits longer than this.
const HELD: Duration = Duration::from_millis(200);

/// How long a rename from one directory to another takes, on the same file system and of nobody's concern.
fn rename_between_directories(root: &Root) -> Duration {
    let [one, other] = ["other-programs/one", "other-programs/other"].map(|name| root.data(name));
    for folder in [&one, &other] {
        fs::create_dir_all(folder).unwrap();
    }
    fs::write(one.join("x"), "").unwrap();
    let since = Instant::now();
    fs::rename(one.join("x"), other.join("x")).unwrap();
    since.elapsed()
}

/// Sends messages to the neighbour's running agent, again and again.
fn follow_ups(root: &Root, called: &str, count: usize) -> Waits {
    let mut socket = Socket::connect(root);
    let input = root.data("ipc/good/input");
    let there = || fs::read_dir(&input).unwrap().count();
    timed(
        |done| done < count,
        |n| {
            let before = there();
            socket.accepted("local:good", "more", &format!("{called}-{n}"));
            wait_for("the follow-up", || (there() > before).then_some(()));
        },
    )
}

#[test]
fn a_container_that_holds_the_lock_of_renames_between_directories_keeps_no_neighbour_waiting() {
    // The lock is the kernel's, and the same on each file system; on a disk of its own it keeps nobody else waiting.
    let Some(scene) = Scene::on_a_disk("") else { return };
    let root: &Root = &scene.root;
    // The neighbour's agent is up, and takes nothing that comes after.
    let seq = root.send("local:good", "begin");
    wait_for("the neighbour's agent", || {
        (root.why(seq)["wirings"][0]["batch_state"] == "done").then_some(())
    });
    let neighbour = Neighbour::of(root, &scene.daemon);
    let alone = follow_ups(root, "alone", 9);
    let quiet = rename_between_directories(root);
    scene.attack("crowd", &[NAMES]);
    let attack = scene.begin("rename-lock", &["120"]);
    let held = || Some(rename_between_directories(root)).filter(|rename| *rename > HELD);
    let before = wait_for("a rename to be held up", held);
    let asked = neighbour.beside("a rename lock that is held", |asked| asked < 100);
    let said = follow_ups(root, "beside", 9);
    compare("a rename lock that is held, follow-ups", &alone, &said);
    let after = wait_for("a rename to be held up to the end", held);
    eprintln!("a rename between directories: {quiet:.1?} alone, {before:.1?} and {after:.1?} beside");
    fs::write(root.data("ipc/evil/state/enough"), "").unwrap();
    eprintln!("{}", ended(attack));
    for waits in [asked, said] {
        assert!(waits.median() < HELD, "{waits}");
    }
    neighbour.assert_no_more_memory("a rename lock that is held", &scene.daemon);
}
