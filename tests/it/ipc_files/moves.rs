//! Files on their way out of a box and into one: what a container does in the middle of it, and what a crash leaves.

use super::*;

/// A name that a daemon which died gave to a file that it had in hand.
const DEAD_HAND: &str = ".g2-0123abcd-0123456789abcdef-";

fn in_hand(name: &str) -> String {
    format!("{DEAD_HAND}{name}")
}

#[test]
fn a_file_put_under_a_name_that_is_being_claimed_is_claimed_too() {
    let w = world();
    let rounds = 2_000;
    let mut seen = std::collections::BTreeSet::new();
    let stop = AtomicBool::new(false);
    std::thread::scope(|threads| {
        // Each is there before the next one takes its name: an agent that writes one file again and again.
        let writer = threads.spawn(|| {
            let mut replaced = std::collections::BTreeSet::new();
            for n in 0..rounds {
                fs::write(w.at(BoxName::Tasks, ".next"), n.to_string()).unwrap();
                let exchanged = rustix::fs::renameat_with(
                    CWD,
                    w.at(BoxName::Tasks, ".next"),
                    CWD,
                    w.at(BoxName::Tasks, "x.json"),
                    RenameFlags::EXCHANGE,
                );
                match exchanged {
                    Ok(()) => {
                        // What was there is the writer's again: it has replaced it itself.
                        let old = fs::read_to_string(w.at(BoxName::Tasks, ".next")).unwrap();
                        replaced.insert(old.parse::<i32>().unwrap());
                    }
                    Err(_) => {
                        fs::rename(w.at(BoxName::Tasks, ".next"), w.at(BoxName::Tasks, "x.json")).unwrap()
                    }
                }
            }
            stop.store(true, Ordering::Relaxed);
            replaced
        });
        let mut last = false;
        while !last {
            last = stop.load(Ordering::Relaxed);
            match w.claim("x.json") {
                Ok(claimed) => {
                    let read = w.claims.read(&claimed).unwrap();
                    let n = String::from_utf8(read.bytes).unwrap().parse::<i32>().unwrap();
                    assert!(seen.insert(n), "{n} was claimed twice");
                    w.claims.acknowledge(&claimed).unwrap();
                }
                Err(ClaimError::Gone) => {}
                Err(other) => panic!("{other}"),
            }
        }
        seen.extend(writer.join().unwrap());
    });
    assert_eq!(seen.len(), rounds, "each was claimed, or replaced by its own writer");
}

#[test]
fn a_file_in_hand_of_a_dead_daemon_is_claimed_under_its_first_name() {
    let w = world();
    fs::write(w.at(BoxName::Tasks, in_hand("a.json")), "{}").unwrap();
    let listed = w.boxes.list(CommandBox::Tasks, 10).unwrap();
    assert_eq!(listed.entries.len(), 1);
    let claimed = w.claim(&listed.entries[0].name).unwrap();
    assert_eq!(claimed.source.as_ref().unwrap().name, "a.json");
    let again = Claims::open(&w.host, 0).unwrap().left_over().unwrap();
    assert_eq!(again.claims[0].source.as_ref().unwrap().name, "a.json");
    assert_eq!(fs::read_dir(w.boxes.path_of(BoxName::Tasks)).unwrap().count(), 0);
}

#[test]
fn files_in_hand_or_not_yet_claimable_go_before_later_ones() {
    let w = world();
    let names = || -> Vec<String> {
        let listed = w.boxes.list(CommandBox::Tasks, 10).unwrap();
        let hand = DEAD_HAND.len();
        let had = |name: &OsStr| name.to_str().unwrap().get(hand..).unwrap_or("later.json").to_owned();
        listed.entries.iter().map(|entry| had(&entry.name)).collect()
    };
    let tick = || {
        // The kernel's clock for files has to go on, so that times can be told apart.
        let changed = |name: &str| fs::metadata(w.at(BoxName::State, name)).unwrap().modified().unwrap();
        fs::write(w.at(BoxName::State, "before"), "").unwrap();
        loop {
            fs::write(w.at(BoxName::State, "after"), "").unwrap();
            if changed("after") > changed("before") {
                return;
            }
        }
    };
    fs::write(w.at(BoxName::Tasks, "first.json"), "1").unwrap();
    tick();
    fs::write(w.at(BoxName::Tasks, "later.json"), "2").unwrap();
    tick();
    // A daemon that died took it in hand.
    fs::rename(w.at(BoxName::Tasks, "first.json"), w.at(BoxName::Tasks, in_hand("first.json"))).unwrap();
    assert_eq!(names(), ["first.json", "later.json"]);
    // Something stands where it is to be put, so it can't be claimed; once, and again.
    for id in [1, 2] {
        fs::create_dir(w.root.path().join(format!("claimed/{id}-main.json"))).unwrap();
        let listed = w.boxes.list(CommandBox::Tasks, 10).unwrap();
        assert!(matches!(w.claim(&listed.entries[0].name), Err(ClaimError::World(_))));
        assert_eq!(names(), ["first.json", "later.json"]);
    }
    let oldest = w.boxes.list(CommandBox::Tasks, 1).unwrap().entries.remove(0);
    let claimed = w.claim(&oldest.name).unwrap();
    assert_eq!(claimed.source.as_ref().unwrap().name, "first.json");
    assert_eq!(w.claims.read(&claimed).unwrap().bytes, b"1");
}

#[test]
fn a_file_that_is_claimed_and_still_in_hand_is_one_file_by_its_origin() {
    let w = world();
    fs::write(w.at(BoxName::Tasks, "a.json"), "{}").unwrap();
    let first = w.claim("a.json").unwrap();
    fs::hard_link(&first.path, w.at(BoxName::Tasks, in_hand("a.json"))).unwrap();
    let second = w.claim(in_hand("a.json")).unwrap();
    assert_eq!(w.claims.read(&first).unwrap(), w.claims.read(&second).unwrap());
}

#[test]
fn follow_ups_in_hand_of_a_dead_daemon_are_claimed_back_unchanged() {
    let w = world();
    let dest = w.root.path().join("kept");
    fs::write(w.at(BoxName::Input, in_hand("b1.json")), "").unwrap();
    fs::write(w.at(BoxName::Input, in_hand("b2.claimed")), "").unwrap();
    // This one was linked already, and that one had not yet reached its place.
    fs::create_dir(&dest).unwrap();
    fs::write(dest.join("b3.claimed"), "").unwrap();
    fs::hard_link(dest.join("b3.claimed"), w.at(BoxName::Input, in_hand("b3.claimed"))).unwrap();
    fs::write(w.at(BoxName::Input, in_hand("tmp")), "").unwrap();
    let left = |id: &str, state| InputLeft { batch_id: id.to_owned(), state };
    let expected =
        [left("b1", InputState::Unread), left("b2", InputState::Claimed), left("b3", InputState::Claimed)];
    for _ in 0..2 {
        assert_eq!(w.boxes.claim_back_inputs(&dest).unwrap(), expected);
        assert_eq!(fs::read_dir(w.boxes.path_of(BoxName::Input)).unwrap().count(), 0);
    }
    w.boxes.forget_inputs(&dest).unwrap();
    w.boxes.forget_inputs(&dest).unwrap();
    assert!(!dest.exists());
}

#[test]
fn a_file_with_as_many_names_as_can_be_is_claimed_all_the_same() {
    let w = world();
    let first = w.at(BoxName::Tasks, "x.json");
    fs::write(&first, "{}").unwrap();
    let many = (0..70_000).find(|n| fs::hard_link(&first, w.at(BoxName::State, n.to_string())).is_err());
    if many.is_none() {
        return eprintln!("skipped: this file system sets no limit");
    }
    let claimed = w.claim("x.json").unwrap();
    assert_eq!(w.claims.read(&claimed).unwrap().bytes, b"{}");
    assert!(!first.exists());
}
