//! Events that are lost: the kernel's queue overflows, the daemon is held, killed and started again, at any moment. Each
//! command is applied once all the same, in the order in which they were published.
#![expect(clippy::disallowed_methods, reason = "makes the kernel's queue overflow; a seed from outside")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::support::{Daemon, Root, fail_points, wait_for};

/// How many things happen.
const STEPS: usize = 14;

/// Numbers that look like chance and are the same for the same seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

fn signal(daemon: &Daemon, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(daemon.pid()).unwrap()).unwrap(), signal).unwrap();
}

/// Publishes this many commands over both boxes, each under a name that sorts behind those before it.
fn publish(root: &Root, chance: &mut Chance, published: &mut usize, count: u64) {
    for _ in 0..count {
        let in_box = ["messages", "tasks"][chance.below(2) as usize];
        let say = json!({"type": "send_message", "chatJid": "local:main", "text": published.to_string()});
        root.put_command("main", in_box, &format!("{published:05}.json"), &say);
        *published += 1;
    }
}

/// More events than the kernel keeps for somebody who does not read them.
fn overflow(root: &Root) {
    let kept: usize =
        fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap().trim().parse().unwrap();
    for n in 0..=kept / 4 {
        // Each is at least made, opened, changed and closed; equal ones in a row would be told of once.
        let path = root.data("ipc/main/messages").join(["a.junk", "b.junk"][n % 2]);
        fs::write(&path, "x").unwrap();
        fs::remove_file(path).unwrap();
    }
}

#[test]
fn each_command_is_applied_once_and_in_order_even_if_events_are_lost() {
    let seed = std::env::var("G2_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7);
    let mut chance = Chance(seed);
    let root = Root::new("");
    let mut daemon = root.serve();
    wait_for("the boxes", || root.data("ipc/main/state").is_dir().then_some(()));
    let mut published = 0;
    for _ in 0..STEPS {
        match chance.below(4) {
            0 => publish(&root, &mut chance, &mut published, 40),
            1 => {
                signal(&daemon, Signal::STOP);
                publish(&root, &mut chance, &mut published, 20);
                overflow(&root);
                publish(&root, &mut chance, &mut published, 20);
                signal(&daemon, Signal::CONT);
                publish(&root, &mut chance, &mut published, 20);
            }
            2 => {
                publish(&root, &mut chance, &mut published, 20);
                daemon.kill();
                publish(&root, &mut chance, &mut published, 20);
                daemon = root.serve();
                publish(&root, &mut chance, &mut published, 20);
            }
            _ => {
                signal(&daemon, Signal::STOP);
                publish(&root, &mut chance, &mut published, 20);
                daemon.kill();
                daemon = root.spawn(&[]);
                publish(&root, &mut chance, &mut published, 20);
            }
        }
    }
    assert!(published > 200, "{published}");
    wait_for("all to be said", || (root.said("local:main").len() >= published).then_some(()));
    let expected: Vec<String> = (0..published).map(|n| n.to_string()).collect();
    assert_eq!(root.said("local:main"), expected, "G2_SEED={seed}");
}

#[test]
fn a_file_that_waits_is_found_even_if_the_first_look_at_its_box_fails() {
    if !fail_points() {
        return;
    }
    let root = Root::new("[limits]\nmin_free_mib = 1\n");
    root.serve().terminate();
    // No event and no later change of the box tells of it.
    let say = json!({"type": "send_message", "chatJid": "local:main", "text": "still here"});
    root.put_command("main", "messages", "x.json", &say);
    let _daemon = root.serve_with(&[("G2_FAILPOINT", "ipc.listing/main:1:panic")]);
    wait_for("it to be found", || (root.said("local:main") == ["still here"]).then_some(()));
}

#[test]
fn a_file_that_no_event_tells_of_is_found_in_every_idle_group_when_it_is_its_turn() {
    let root = Root::new("[limits]\npoll_interval_ms = 20\nmin_free_mib = 1\n");
    let groups = ["main", "second", "third"];
    for group in &groups[1..] {
        root.g2(&["groups", "add", group, "--chat", &format!("local:{group}")]);
    }
    let _daemon = root.serve();
    for group in groups {
        let chat = format!("local:{group}");
        let say = json!({"type": "send_message", "chatJid": chat, "text": "unheard"});
        root.put_command(group, "messages", "x.part", &say);
        let in_box = root.data(&format!("ipc/{group}/messages"));
        // A second name for a file is no file that was closed or renamed.
        fs::hard_link(in_box.join("x.part"), in_box.join("x.json")).unwrap();
        wait_for("it to be found", || (root.said(&chat) == ["unheard"]).then_some(()));
    }
}

#[test]
fn what_waits_when_a_group_is_removed_is_settled_even_if_the_first_look_at_its_box_fails() {
    if !fail_points() {
        return;
    }
    let root = Root::new("[limits]\npoll_interval_ms = 3600000\nmin_free_mib = 1\n");
    root.g2(&["groups", "add", "team", "--chat", "local:team"]);
    // Lays the boxes out: what was seen to be empty is not listed at a start.
    root.serve().terminate();
    let _daemon = root.serve_with(&[("G2_FAILPOINT", "ipc.listing/team:1:panic")]);
    let in_box = root.data("ipc/team/messages");
    let say = |text: &str| json!({"type": "send_message", "chatJid": "local:team", "text": text});
    // Its box is watched from here on.
    root.put_command("team", "messages", "a.json", &say("a"));
    wait_for("the first one", || (root.said("local:team") == ["a"]).then_some(()));
    root.put_command("team", "messages", "x.part", &say("my last words"));
    // No event tells of a second name.
    fs::hard_link(in_box.join("x.part"), in_box.join("x.json")).unwrap();
    let gone = root.g2(&["groups", "remove", "team", "--yes"]);
    assert!(root.log().contains("work on a group's commands panicked"), "{}", root.log());
    assert!(gone.contains("group team is removed") && !gone.contains("unread"), "{gone}");
}
