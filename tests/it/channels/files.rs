//! Files that go out to a platform: each once, in order, as they were when they were sent.

use std::{
    fs,
    path::{Path, PathBuf},
};

use g2::domain::{platforms::channels::SentTwice, rows::UnknownDeliveries, states::DeliveryStatus};
use serde_json::{Value, json};

use super::{NOW, Rig, World, folder};
use crate::support::{Root, fail_points, wait_for};

/// Sends files of the group, each of which says its name, and returns the reply.
fn send(root: &Root, id: &str, text: &str, files: &[&str]) -> Value {
    let main = root.path().join("groups/main");
    let attach = |name: &&str| {
        fs::write(main.join(name), format!("this is {name}")).unwrap();
        let kind = if name.ends_with(".mp4") { "video" } else { "document" };
        json!({"filePath": name, "mediaType": kind, "mimetype": "text/plain"})
    };
    let attachments: Vec<Value> = files.iter().map(attach).collect();
    let mut command = json!({"type": "send_message", "requestId": id, "chatJid": "folder:chess",
        "attachments": attachments});
    if !text.is_empty() {
        command["text"] = text.into();
    }
    root.put_command("main", "messages", &format!("{id}.json"), &command);
    root.reply("main", id)
}

/// What the platform has, by name.
fn shown(root: &Root) -> Vec<(String, String)> {
    let Ok(files) = fs::read_dir(root.path().join("toy/out/chess")) else { return Vec::new() };
    let read = |path: PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap().split_once('.').unwrap().1.to_owned();
        (name, fs::read_to_string(path).unwrap())
    };
    let mut all: Vec<_> = files.map(|file| read(file.unwrap().path())).collect();
    all.sort();
    all
}

fn connected(root: &Root) {
    wait_for("the connection", || {
        (root.json(&["channels", "show", "folder"])["connection"] == "connected").then_some(())
    });
}

fn all_said(root: &Root) {
    wait_for("all to be said", || (root.json(&["channels", "show", "folder"])["unsent"] == 0).then_some(()));
}

/// The messages that come of three documents and a film: the text stands with the first, the film alone.
fn expected() -> Vec<(String, String)> {
    let all = [
        ("1.1-1-a", "this is a"),
        ("1.1-2-b", "this is b"),
        ("1.1.txt", "All of them"),
        ("1.2-1-c.mp4", "this is c.mp4"),
        ("1.2.txt", ""),
        ("1.3-1-d", "this is d"),
        ("1.3.txt", ""),
    ];
    all.map(|(name, text)| (name.to_owned(), text.to_owned())).into()
}

fn spooled(root: &Root) -> usize {
    fs::read_dir(root.data("channels/folder/spool/out")).unwrap().count()
}

#[test]
fn files_go_out_with_their_text_several_in_one_message_where_they_are_alike() {
    let root = folder::root();
    let _daemon = root.serve();
    assert_eq!(send(&root, "r1", "All of them", &["a", "b", "c.mp4", "d"])["ok"], true);
    // What becomes of the group's own changes nothing.
    fs::write(root.path().join("groups/main/a"), "changed").unwrap();
    all_said(&root);
    assert_eq!(shown(&root), expected());
    wait_for("nothing to be left in the spool", || (spooled(&root) == 0).then_some(()));
    let kept = root.rows(&["outbox", "list"])[0]["attachments"][0]["digest"].as_str().unwrap().to_owned();
    let kept = root.data(&format!("media/{}/{kept}", &kept[..2]));
    assert_eq!(fs::read_to_string(kept).unwrap(), "this is a");
}

#[test]
fn a_file_that_the_platform_does_not_take_is_refused_with_its_limit_before_it_is_queued() {
    let root = folder::root();
    let _daemon = root.serve();
    connected(&root);
    fs::write(root.path().join("groups/main/large"), vec![b'x'; (1 << 20) + 1]).unwrap();
    let command = json!({"type": "media", "requestId": "r1", "chatJid": "folder:chess", "filePath": "large", "mediaType": "document"});
    root.put_command("main", "messages", "r1.json", &command);
    let reply = root.reply("main", "r1");
    assert_eq!(reply["error"]["code"], "too_large");
    assert_eq!(
        reply["error"]["message"],
        "the file \"large\" has 2 MiB; the platform of this chat takes at most 1 MiB"
    );
    assert!(root.rows(&["outbox", "list"]).is_empty());
}

#[test]
fn a_daemon_that_dies_over_files_that_go_out_brings_each_once() {
    if !fail_points() {
        return;
    }
    for place in ["deliver.spooled:2", "deliver.sent"] {
        let root = folder::root();
        let reached = root.path().join("reached");
        let daemon =
            root.spawn(&[("G2_FAILPOINT", place), ("G2_FAILPOINT_FILE", &reached.display().to_string())]);
        assert_eq!(send(&root, "r1", "All of them", &["a", "b", "c.mp4", "d"])["ok"], true);
        wait_for(place, || Path::new(&reached).exists().then_some(()));
        daemon.wait();
        let _daemon = root.serve();
        all_said(&root);
        assert_eq!(shown(&root), expected(), "{place}");
        assert_eq!(root.rows(&["outbox", "list"])[0]["status"], "sent", "{place}");
        wait_for("nothing to be left in the spool", || (spooled(&root) == 0).then_some(()));
    }
}

/// The platform shows each message that it is sent, whether it knows the key or not.
const SHOWS_ALL: (&str, &str) = (
    "    name = re.sub(r\"[^\\w.]\", \"_\", order[\"key\"])\n",
    "    name = re.sub(r\"[^\\w.]\", \"_\", order[\"key\"]) + f\"_{time.time_ns()}\"\n",
);
const NEVER: (&str, &str) = ("\"sent_twice\": {\"how\": \"key\"}", "\"sent_twice\": {\"how\": \"never\"}");
/// It can be asked for a key.
const READBACK: [(&str, &str); 3] = [
    ("\"sent_twice\": {\"how\": \"key\"}", "\"sent_twice\": {\"how\": \"readback\"}"),
    (
        "\"r\": r, \"cannot_tell\": \"a text of the same key is the same file\"}",
        "\"r\": r, **look(folder, prefix, order)}",
    ),
    (
        "def fetch(",
        "def look(folder, prefix, order):\n    place = os.path.join(folder, \"out\", order[\"chat\"].removeprefix(prefix + \":\"))\n    key = re.sub(r\"[^\\w.]\", \"_\", order[\"key\"])\n    found = [name[:-4] for name in os.listdir(place) if name.startswith(key + \"_\") and name.endswith(\".txt\")] if os.path.isdir(place) else []\n    return {\"ids\": found} if found else {\"not_sent\": True}\n\n\ndef fetch(",
    ),
];
/// The places at which a daemon dies over the three messages that [`expected`] has, and how many of them the platform has then.
const DEATHS: [(&str, usize); 6] = [
    ("deliver.laid", 0),
    ("deliver.sending", 0),
    ("deliver.spooled", 0),
    ("deliver.spooled:2", 1),
    ("deliver.sent", 1),
    ("deliver.sent:2", 2),
];

/// What the files and texts that the platform shows say, in order.
fn said(root: &Root) -> Vec<String> {
    let mut said: Vec<String> = shown(root).into_iter().map(|(_, text)| text).collect();
    said.retain(|text| !text.is_empty());
    said.sort();
    said
}

const ALL: [&str; 5] = ["All of them", "this is a", "this is b", "this is c.mp4", "this is d"];

/// Has files said by a daemon that dies at a place; returns what the platform shows then.
fn dies(root: &Root, place: &str) -> Vec<String> {
    let reached = root.path().join("reached");
    let daemon =
        root.spawn(&[("G2_FAILPOINT", place), ("G2_FAILPOINT_FILE", &reached.display().to_string())]);
    assert_eq!(send(root, "r1", "All of them", &["a", "b", "c.mp4", "d"])["ok"], true);
    wait_for(place, || Path::new(&reached).exists().then_some(()));
    daemon.wait();
    said(root)
}

#[test]
fn a_daemon_that_dies_over_files_looks_for_them_where_the_platform_can_be_asked() {
    if !fail_points() {
        return;
    }
    let changes: Vec<_> = READBACK.into_iter().chain([SHOWS_ALL]).collect();
    for (place, messages) in [("deliver.spooled:2", 1), ("deliver.sent", 1)] {
        let root = folder::root_changed(&changes, "");
        assert_eq!(dies(&root, place).len(), [0, 3, 4][messages], "{place}");
        let _daemon = root.serve();
        all_said(&root);
        assert_eq!(said(&root), ALL, "{place}");
        assert_eq!(root.rows(&["outbox", "list"])[0]["status"], "sent", "{place}");
    }
}

#[test]
fn a_daemon_that_dies_over_files_sends_none_twice_where_nobody_knows_unless_a_person_wants_it() {
    if !fail_points() {
        return;
    }
    for (place, messages) in DEATHS {
        let root = folder::root_changed(&[NEVER, SHOWS_ALL], "[outbox]\non_unknown = \"leave\"\n");
        let before = dies(&root, place);
        assert_eq!(before.len(), [0, 3, 4][messages], "{place}");
        let _daemon = root.serve();
        let row = wait_for("the row to be settled", || {
            let row = root.rows(&["outbox", "list"]).remove(0);
            ["sent", "failed"].contains(&row["status"].as_str().unwrap()).then_some(row)
        });
        let after = said(&root);
        if row["status"] == "sent" {
            // Nothing was on its way.
            assert_eq!((place, after), ("deliver.laid", ALL.map(str::to_owned).into()));
            continue;
        }
        assert_eq!(after, before, "{place}");
        root.g2(&["outbox", "retry", &row["id"].to_string()]);
        all_said(&root);
        let mut all = said(&root);
        assert!(all.len() <= ALL.len() + 3, "{place}: the message in doubt alone is there twice: {all:?}");
        all.dedup();
        assert_eq!(all, ALL, "{place}");
    }
}

/// Puts a row with files into the outbox.
async fn say(world: &World, text: &str, files: &[(&str, &str)]) -> i64 {
    let media = g2::system::media::Media::open(world.rig.home()).unwrap();
    let raw = rusqlite::Connection::open(&world.path).unwrap();
    raw.execute(
        "INSERT INTO outbox (chat_jid, thread, text, status, cause, created_at, files) VALUES ('fake:1', '', ?1, 'failed', 'test', ?2, ?3)",
        rusqlite::params![text, NOW.0, files.len()],
    )
    .unwrap();
    let id = raw.last_insert_rowid();
    for (n, (name, says)) in (1..).zip(files) {
        fs::write(world.rig.home().join("in"), says).unwrap();
        let hand = media.take(world.rig.home(), "in", 1 << 20).unwrap();
        let n: i64 = n;
        raw.execute(
            "INSERT INTO attachments (outbox_id, n, name, kind, type, claimed, size, digest, chat_jid, at) VALUES (?1, ?2, ?3, 'document', 'text/plain', 1, ?4, ?5, 'fake:1', ?6)",
            rusqlite::params![id, n, name, hand.size, hand.digest, NOW.0],
        )
        .unwrap();
    }
    id
}

#[tokio::test]
async fn what_became_of_each_message_with_files_is_known_and_only_the_one_in_doubt_is() {
    let world = World::with(Rig::adapter(SentTwice::Never), UnknownDeliveries::Leave).await;
    let large = "x".repeat(1001);
    let id = say(&world, "longer than ten", &[("a", "1"), ("b", "2"), ("c", "3"), ("d", &large)]).await;
    // The text, in two parts, and the first two files go; of the third nobody knows.
    for fault in ["ok", "ok", "ok", "drop-after"] {
        world.platform(&["fault", fault]).await;
    }
    world.store.retry_outbox(id).await.unwrap();
    world.until_row(id, DeliveryStatus::Failed).await;
    let shown = world.shown().await;
    assert_eq!(shown.len(), 4, "{shown:?}");
    assert!(
        shown[0].starts_with("longer than ten") && shown[1].ends_with("in this chat, 2 kB\\]"),
        "{shown:?}"
    );
    assert_eq!(shown[2..], ["<document a: 1><document b: 2>", "<document c: 3>"]);
    let parts = world.store.parts_of(id).await.unwrap();
    let known: Vec<bool> = parts.iter().map(|part| part.platform_id.is_some()).collect();
    assert_eq!(known, [true, true, true, false]);
    // A person has it sent again: the others are not.
    world.store.retry_outbox(id).await.unwrap();
    world.until_row(id, DeliveryStatus::Sent).await;
    assert_eq!(world.shown().await[4..], ["<document c: 3>"]);
}
