#![expect(clippy::disallowed_methods, reason = "looks at what was set aside, in a temporary folder")]

use super::*;

struct WorldFault {
    root: tempfile::TempDir,
    host: Arc<HostDirs>,
    claims: Claims,
}

fn world() -> WorldFault {
    let root = tempfile::tempdir().unwrap();
    let host = HostDirs::open(root.path()).unwrap();
    let claims = Claims::open(&host, 0).unwrap();
    WorldFault { root, host, claims }
}

fn why() -> Why {
    Why { receipt: 1, code: Some(Code::Malformed), message: "no JSON".into(), hint: None, at: Time(0) }
}

impl WorldFault {
    fn claimed(&self, id: i64) -> Claimed {
        Claimed::new(&self.host, id, &Folder::parse("main").unwrap(), None)
    }

    fn names(&self, place: &str) -> Vec<String> {
        let folder = self.root.path().join(place).join("main");
        let mut names: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

#[test]
fn done_keeps_the_newest_hundred_and_a_command_with_its_reply_is_one() {
    let w = world();
    for id in 1..=150 {
        w.claims.settle_applied(&w.claimed(id), b"{}", Some(b"{\"ok\":true}")).unwrap();
    }
    let names = w.names("done");
    assert_eq!(names.len(), 200);
    assert!(names.contains(&"51.json".to_owned()) && names.contains(&"150.reply.json".to_owned()));
    assert!(!names.contains(&"50.json".to_owned()) && !names.contains(&"50.reply.json".to_owned()));
}

#[test]
fn what_is_kept_under_a_name_is_that_commands_own_and_whole() {
    let w = world();
    // Each is shorter than the one whose file it may be given.
    let said =
        |id: i64| format!("{{\"n\":{id},\"x\":\"{}\"}}", "x".repeat(400 - usize::try_from(id).unwrap()));
    for id in 1..=250 {
        let (command, reply) = (said(id), format!("[{}]", said(id)));
        match id % 3 {
            0 => w.claims.settle_refused(&w.claimed(id), command.as_bytes(), &why()).unwrap(),
            1 => w.claims.settle_applied(&w.claimed(id), command.as_bytes(), None).unwrap(),
            _ => w.claims.settle_applied(&w.claimed(id), command.as_bytes(), Some(reply.as_bytes())).unwrap(),
        }
        let read =
            |part: &str| std::fs::read_to_string(w.root.path().join(format!("done/main/{id}.{part}"))).ok();
        assert_eq!(read("json"), Some(command), "{id}");
        assert_eq!(read("reply.json"), (id % 3 == 2).then_some(reply), "{id}");
        assert_eq!(read("why.json").is_some(), id % 3 == 0, "{id}");
    }
    let kept: Vec<i64> =
        w.names("done").iter().filter_map(|name| name.strip_suffix(".json")?.parse().ok()).collect();
    assert_eq!((kept.len(), kept.iter().min()), (100, Some(&151)));
}

#[test]
fn a_restart_counts_what_is_there_and_goes_on() {
    let w = world();
    for id in 1..=100 {
        w.claims.settle_refused(&w.claimed(id), b"{}", &why()).unwrap();
    }
    let later = Claims::open(&w.host, 100).unwrap();
    later.settle_applied(&w.claimed(101), b"{}", None).unwrap();
    let names = w.names("done");
    assert!(!names.contains(&"1.json".to_owned()) && !names.contains(&"1.why.json".to_owned()));
    assert!(names.contains(&"2.json".to_owned()) && names.contains(&"101.json".to_owned()));
}

#[test]
fn settling_twice_is_settling_once() {
    let w = world();
    for _ in 0..3 {
        w.claims.settle_dead(&w.claimed(1), b"{", &why()).unwrap();
    }
    assert_eq!(w.names("dead"), ["1.json", "1.why.json"]);
    let shelves = w.claims.aside.shelves.lock().unwrap();
    let shelf = shelves[&(Pile::Dead, Folder::parse("main").unwrap())].lock().unwrap();
    let shelf = shelf.as_ref().unwrap();
    assert_eq!(shelf.kept.len(), 1);
    let on_disk: u64 = ["1.json", "1.why.json"]
        .iter()
        .map(|n| std::fs::metadata(w.root.path().join("dead/main").join(n)).unwrap().len())
        .sum();
    assert_eq!(shelf.bytes, on_disk);
}

#[test]
fn dead_keeps_at_most_64_mib_of_contents_cut_at_64_kib() {
    let w = world();
    let large = vec![b'x'; 1_000_000];
    for id in 1..=1_050 {
        w.claims.settle_dead(&w.claimed(id), &large, &why()).unwrap();
    }
    let sizes: Vec<u64> = w
        .names("dead")
        .iter()
        .map(|n| std::fs::metadata(w.root.path().join("dead/main").join(n)).unwrap().len())
        .collect();
    assert_eq!(sizes.iter().max(), Some(&65_536));
    assert!(sizes.iter().sum::<u64>() <= DEAD_BYTES && sizes.len() <= 2 * DEAD_FILES);
    assert!(w.names("dead").contains(&"1050.json".to_owned()));
}

#[test]
fn done_keeps_at_most_64_mib_of_commands_and_replies() {
    let w = world();
    let large = vec![b'x'; 1_000_000];
    for id in 1..=80 {
        w.claims.settle_applied(&w.claimed(id), &large, Some(&large)).unwrap();
    }
    let names = w.names("done");
    assert!((60..=67).contains(&names.len()), "{}", names.len());
    assert!(names.contains(&"80.json".to_owned()) && names.contains(&"80.reply.json".to_owned()));
}

#[test]
fn why_says_where_the_command_stood_and_when() {
    let w = world();
    let mut claimed = w.claimed(9);
    claimed.source =
        Some(super::super::Source { in_box: crate::ipc::CommandBox::Tasks, name: "x\\n.json".into() });
    let why = Why { hint: Some("write JSON".into()), ..why() };
    w.claims.settle_dead(&claimed, b"{", &why).unwrap();
    let text = std::fs::read(w.root.path().join("dead/main/9.why.json")).unwrap();
    let read: serde_json::Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(
        read,
        serde_json::json!({"receipt": 1, "code": "malformed", "message": "no JSON", "hint": "write JSON", "box": "tasks",
            "name": "x\\n.json", "at": "1970-01-01T00:00:00.000Z"})
    );
}

#[test]
fn a_folder_that_a_person_removed_is_made_again() {
    let w = world();
    w.claims.settle_applied(&w.claimed(1), b"{}", None).unwrap();
    std::fs::remove_dir_all(w.root.path().join("done/main")).unwrap();
    w.claims.settle_applied(&w.claimed(2), b"{}", None).unwrap();
    assert_eq!(w.names("done"), ["2.json"]);
}
