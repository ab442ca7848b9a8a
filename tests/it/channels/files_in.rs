//! Files that come in: fetched once somebody hears their message, which waits for them, and goes on without them in the end.

use std::{fs, path::Path};

use serde_json::Value;

use super::folder;
use crate::support::{Root, fail_points, wait_for};

pub(super) fn put(root: &Root, name: &str, bytes: &[u8]) {
    let folder = root.path().join("toy/in/chess");
    fs::write(folder.join("new.part"), bytes).unwrap();
    fs::rename(folder.join("new.part"), folder.join(name)).unwrap();
}

pub(super) fn came(root: &Root) -> Vec<Value> {
    root.rows(&["messages", "list", "--chat", "folder:chess"])
}

/// Waits until a message has its answer, and returns the prompt of the run that answered it.
pub(super) fn prompt(root: &Root, n: usize) -> String {
    let seq = wait_for("the message", || came(root).get(n).and_then(|row| row["seq"].as_i64()));
    let run = wait_for("its run", || root.why(seq)["wirings"][0]["run"].as_i64());
    wait_for("its answer", || {
        root.why(seq)["answers"].as_array().is_some_and(|all| !all.is_empty()).then_some(())
    });
    root.prompt(run)
}

fn spooled(root: &Root) -> usize {
    fs::read_dir(root.data("channels/folder/spool/in")).unwrap().count()
}

#[test]
fn a_file_of_a_message_that_is_heard_is_fetched_before_its_agent_reads_it() {
    let root = folder::root();
    put(&root, "1.pdf", b"%PDF-1.4 a report");
    let _daemon = root.serve();
    let prompt = prompt(&root, 0);
    let date = prompt_date(&root);
    let shown = root.data(&format!("media-of/main/{date}/1-1-1.pdf"));
    let line = format!("[document: 1.pdf — {}, 17 bytes]", shown.display());
    assert!(prompt.contains(&line), "{prompt}");
    assert!(prompt.contains("media_mimetype=\"application/pdf\""), "{prompt}");
    assert_eq!(fs::read(shown).unwrap(), b"%PDF-1.4 a report");
    assert_eq!(spooled(&root), 0);
}

fn prompt_date(root: &Root) -> String {
    came(root)[0]["received_at"].as_str().unwrap()[..10].to_owned()
}

#[test]
fn a_file_that_nobody_hears_is_not_fetched_and_one_that_cant_be_is_told_in_the_prompt() {
    let root = folder::root_with("[media]\nlargest_mib = 1\n");
    root.g2(&["chats", "set", "folder:chess", "policy=strict"]);
    put(&root, "1.pdf", b"%PDF-1.4 a stranger's");
    put(&root, "2.pdf", &vec![b'x'; (1 << 20) + 1]);
    let _daemon = root.serve();
    wait_for("both", || (came(&root).len() == 2).then_some(()));
    wait_for("them to be judged", || {
        let verdict = |seq: i64| root.why(seq)["wirings"][0]["verdict"] == "ignore";
        (verdict(1) && verdict(2)).then_some(())
    });
    root.g2(&["chats", "set", "folder:chess", "policy=public"]);
    put(&root, "3.pdf", &vec![b'x'; (1 << 20) + 1]);
    let large = prompt(&root, 2);
    assert!(large.contains("[document: 3.pdf — not fetched: 1.1 MB, the limit is 1 MiB]"), "{large}");
    // What comes after one that can't be had waits behind it.
    fs::create_dir(root.path().join("toy/in/chess/4.pdf")).unwrap();
    put(&root, "5.txt", b"and this?");
    prompt(&root, 4);
    assert_eq!(came(&root)[3]["attachments"][0]["problem"], "not fetched: Is a directory");
    let batch = |seq: i64| root.why(seq)["wirings"][0]["batch"].clone();
    assert_eq!(batch(4), batch(5), "both are read together");
    let kept = fs::read_dir(root.data("media")).unwrap().count();
    assert_eq!(kept, 1, "`new` alone: what nobody hears is not here");
}

#[test]
fn a_daemon_that_dies_over_a_file_that_comes_in_has_it_once() {
    if !fail_points() {
        return;
    }
    for place in ["message.held", "file.fetched", "file.settled"] {
        let root = folder::root();
        let reached = root.path().join("reached");
        put(&root, "1.pdf", b"%PDF-1.4 a report");
        put(&root, "2.txt", b"what is in it?");
        let daemon =
            root.spawn(&[("G2_FAILPOINT", place), ("G2_FAILPOINT_FILE", &reached.display().to_string())]);
        wait_for(place, || Path::new(&reached).exists().then_some(()));
        daemon.wait();
        let _daemon = root.serve();
        let first = prompt(&root, 0);
        assert!(first.contains("[document: 1.pdf — /"), "{place}: {first}");
        prompt(&root, 1);
        let came = came(&root);
        assert_eq!(came.len(), 2, "{place}");
        let hex = came[0]["attachments"][0]["digest"].as_str().unwrap();
        assert!(root.data(&format!("media/{}/{hex}", &hex[..2])).exists(), "{place}");
        let kept = fs::read_dir(root.data("media")).unwrap().count();
        assert_eq!((kept, spooled(&root)), (2, 0), "{place}: `new`, and the folder of the file");
    }
}

/// The adapter has each file when it tells of the message, and does not wait to be asked for it.
const GIVES: [(&str, &str); 3] = [
    ("\"fetch\": path}]", "\"file\": given(path)}]"),
    (
        "def watch(",
        "def given(path):\n    place = f\"in/{time.time_ns()}\"\n    shutil.copyfile(path, os.path.join(SPOOL, place))\n    return place\n\n\ndef watch(",
    ),
    (
        "    start = json.loads(sys.stdin.readline())\n",
        "    global SPOOL\n    start = json.loads(sys.stdin.readline())\n    SPOOL = start[\"spool\"]\n",
    ),
];

#[test]
fn a_daemon_that_dies_over_a_file_that_comes_with_its_message_has_it_once() {
    if !fail_points() {
        return;
    }
    for place in ["channel.told", "media.copied", "media.kept", "channel.stored"] {
        let root = folder::root_changed(&GIVES, "");
        let reached = root.path().join("reached");
        put(&root, "1.pdf", b"%PDF-1.4 a report");
        put(&root, "2.txt", b"what is in it?");
        let daemon =
            root.spawn(&[("G2_FAILPOINT", place), ("G2_FAILPOINT_FILE", &reached.display().to_string())]);
        wait_for(place, || Path::new(&reached).exists().then_some(()));
        daemon.wait();
        let _daemon = root.serve();
        let first = prompt(&root, 0);
        assert!(first.contains("[document: 1.pdf — /"), "{place}: {first}");
        prompt(&root, 1);
        let came = came(&root);
        assert_eq!(came.len(), 2, "{place}");
        let hex = came[0]["attachments"][0]["digest"].as_str().unwrap();
        let kept = fs::read(root.data(&format!("media/{}/{hex}", &hex[..2]))).unwrap();
        assert_eq!(kept, b"%PDF-1.4 a report", "{place}");
        let (kept, begun) = (fs::read_dir(root.data("media")), fs::read_dir(root.data("media/new")));
        assert_eq!((kept.unwrap().count(), begun.unwrap().count()), (2, 0), "{place}");
        assert_eq!(spooled(&root), 0, "{place}");
    }
}
