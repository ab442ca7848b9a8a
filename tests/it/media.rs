//! Files beside messages: what a command sends is copied before it is queued, what came in is where its agent sees it, and
//! nothing of it stays that nobody names.
#![expect(
    clippy::disallowed_methods,
    reason = "plays the agent, and looks at what the daemon leaves on disk"
)]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    fs::{self, File},
    os::unix::fs::{MetadataExt as _, symlink},
    path::PathBuf,
};

use g2::{
    channels::Intake,
    domain::{
        platforms::attachments::{Attachment, MediaLimits},
        rows::Inbound,
    },
    store::{Bounds, Store},
    system::{media::Media, world::World},
};
use ipc_handlers::{Time, file::MediaKind};
use serde_json::{Value, json};

use crate::{
    crash::scene::die_at,
    support::{Root, fail_points, wait_for},
};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\nand more";

fn two_groups(toml: &str) -> Root {
    let root = Root::new(toml);
    root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    root
}

fn group(root: &Root, name: &str) -> PathBuf {
    root.path().join("groups/family").join(name)
}

fn ask(root: &Root, mut command: Value, id: &str) -> Value {
    command["requestId"] = id.into();
    root.put_command("family", "messages", &format!("{id}.json"), &command);
    root.reply("family", id)
}

fn media(path: &str) -> Value {
    json!({"type": "media", "chatJid": "local:family", "filePath": path, "mediaType": "image"})
}

/// The kept files of a root.
fn kept(root: &Root) -> Vec<PathBuf> {
    let folders = fs::read_dir(root.data("media")).into_iter().flatten().map(|entry| entry.unwrap().path());
    let mut all: Vec<PathBuf> =
        folders.flat_map(|folder| fs::read_dir(folder).unwrap().map(|file| file.unwrap().path())).collect();
    all.sort();
    all
}

#[test]
fn a_file_is_copied_before_it_is_queued_and_told_of_where_the_chat_takes_none() {
    let root = two_groups("");
    let _daemon = root.serve();
    fs::write(group(&root, "chart.png"), PNG).unwrap();
    fs::create_dir(group(&root, "out")).unwrap();
    fs::write(group(&root, "out/a.txt"), "plain").unwrap();
    let mut command = media("/workspace/group/chart.png");
    command["caption"] = "This week <internal>x</internal>".into();
    let reply = ask(&root, command, "r1");
    assert_eq!(reply, json!({"requestId": "r1", "ok": true, "result": {"outboxId": 1}}));
    // What becomes of the agent's own changes nothing.
    fs::write(group(&root, "chart.png"), "other").unwrap();
    let both = json!({"type": "send_message", "chatJid": "local:family", "attachments": [
        {"filePath": "out/a.txt", "name": "A.txt", "caption": "read this", "mimetype": "text/plain"},
        {"filePath": group(&root, "chart.png")}]});
    assert_eq!(ask(&root, both, "r2")["ok"], true);
    let rows = root.rows(&["outbox", "list"]);
    assert_eq!(rows[0]["text"], "This week");
    let file = &rows[0]["attachments"][0];
    assert_eq!(
        (&file["name"], &file["kind"], &file["type"]),
        (&json!("chart.png"), &json!("image"), &json!("image/png"))
    );
    assert_eq!((&file["size"], file.get("claimed")), (&json!(PNG.len()), None));
    let other = &rows[1]["attachments"];
    assert_eq!((&rows[1]["text"], &other[0]["name"]), (&json!(""), &json!("A.txt")));
    assert_eq!((&other[0]["type"], &other[0]["claimed"]), (&json!("text/plain"), &json!(true)));
    assert_eq!((&other[1]["kind"], &other[1]["size"]), (&json!("document"), &json!(5)));
    let hex = file["digest"].as_str().unwrap();
    let path = root.data(&format!("media/{}/{hex}", &hex[..2]));
    assert_eq!(fs::read(&path).unwrap(), PNG);
    let meta = fs::metadata(&path).unwrap();
    assert_eq!((meta.mode() & 0o7777, meta.nlink()), (0o444, 1));
    assert_eq!(kept(&root).len(), 3);
    // A person of this machine reads where it is.
    wait_for("both to be said", || (root.said("local:family").len() == 2).then_some(()));
    let listed = root.g2(&["outbox", "list"]);
    let size = PNG.len();
    assert!(
        listed.contains(&format!("[image: chart.png — data/media/{}/{hex}, {size} bytes]", &hex[..2])),
        "{listed}"
    );
    assert!(listed.contains("read this"), "{listed}");
    // The same bytes are kept once.
    fs::write(group(&root, "again.png"), PNG).unwrap();
    assert_eq!(ask(&root, media("again.png"), "r3")["ok"], true);
    assert_eq!(kept(&root).len(), 3);
}

#[test]
fn what_is_no_plain_file_of_the_group_is_refused_with_the_fault_and_nothing_of_it_stays() {
    let root = two_groups("[media]\nlargest_mib = 1\n");
    let daemon = root.serve();
    fs::write(root.path().join("secret"), "the host's").unwrap();
    fs::write(group(&root, "own"), "own").unwrap();
    symlink(root.path().join("secret"), group(&root, "link")).unwrap();
    symlink(root.path(), group(&root, "up")).unwrap();
    fs::hard_link(root.path().join("secret"), group(&root, "second")).unwrap();
    fs::create_dir(group(&root, "folder")).unwrap();
    fs::write(group(&root, "empty"), "").unwrap();
    File::create(group(&root, "sparse")).unwrap().set_len(1 << 40).unwrap();
    fs::write(group(&root, "large"), vec![b'x'; (1 << 20) + 1]).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, group(&root, "pipe"), rustix::fs::Mode::RWXU).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(group(&root, "socket")).unwrap();
    let cases = [
        ("gone", "not_found"),
        ("link", "invalid_field"),
        ("up/secret", "invalid_field"),
        ("../../secret", "invalid_field"),
        ("/etc/passwd", "invalid_field"),
        ("/workspace/group/../../secret", "invalid_field"),
        ("second", "invalid_field"),
        ("folder", "invalid_field"),
        ("empty", "invalid_field"),
        ("pipe", "invalid_field"),
        ("socket", "invalid_field"),
        ("sparse", "too_large"),
        ("large", "too_large"),
    ];
    for (n, (path, code)) in cases.into_iter().enumerate() {
        let reply = ask(&root, media(path), &format!("r{n}"));
        assert_eq!(reply["error"]["code"], code, "{path}: {reply}");
        assert!(!reply["error"]["hint"].as_str().unwrap().is_empty());
    }
    let reply = ask(&root, media("large"), "limit");
    assert_eq!(reply["error"]["message"], "the file \"large\" has 2 MiB; at most 1 MiB are sent");
    // One that can't be sent holds back the others, and what was copied of them goes.
    let both = json!({"type": "send_message", "chatJid": "local:family", "text": "x",
                      "attachments": [{"filePath": "own"}, {"filePath": "link"}]});
    assert_eq!(ask(&root, both, "both")["error"]["code"], "invalid_field");
    // A chat of another group, with a file that could be sent.
    let mut foreign = media("own");
    foreign["chatJid"] = "local:main".into();
    assert_eq!(ask(&root, foreign, "foreign")["error"]["code"], "not_authorized");
    assert_eq!(kept(&root), [] as [PathBuf; 0]);
    assert!(root.rows(&["outbox", "list"]).is_empty());
    assert!(!daemon.has_ended());
}

#[test]
fn a_file_that_is_replaced_all_the_time_is_sent_whole_or_refused() {
    let root = two_groups("");
    let _daemon = root.serve();
    fs::write(root.path().join("secret"), "the host's").unwrap();
    let (stop, path) = (std::sync::atomic::AtomicBool::new(false), group(&root, "racing"));
    fs::write(&path, "a".repeat(70_000)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let next = group(&root, "next");
            for n in 0.. {
                if stop.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
                match n % 3 {
                    0 => symlink(root.path().join("secret"), &next).unwrap(),
                    1 => fs::hard_link(root.path().join("secret"), &next).unwrap(),
                    _ => fs::write(&next, "b".repeat(70_000 + n % 7)).unwrap(),
                }
                fs::rename(&next, &path).unwrap();
                // A link onto its own file is left by the rename.
                let _ = fs::remove_file(&next);
            }
        });
        for n in 0..40 {
            ask(&root, media("racing"), &format!("r{n}"));
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    for file in kept(&root) {
        let bytes = fs::read(&file).unwrap();
        assert!(bytes.iter().all(|byte| *byte == bytes[0]) && bytes.len() >= 70_000, "{}", file.display());
    }
    let outcomes = root.rows(&["ipc", "list", "--group", "family"]);
    assert_eq!(outcomes.len(), 40);
}

#[test]
fn a_chat_gets_no_more_than_its_bytes_an_hour_and_all_are_bounded() {
    let root = two_groups("[media]\nchat_mib_per_hour = 1\n");
    let daemon = root.serve();
    fs::write(group(&root, "a"), vec![b'a'; 700_000]).unwrap();
    assert_eq!(ask(&root, media("a"), "r1")["ok"], true);
    let reply = ask(&root, media("a"), "r2");
    assert_eq!(reply["error"]["code"], "rate_limited");
    assert_eq!(reply["error"]["message"], "a chat gets at most 1 MiB of files an hour");
    // Another chat has its own.
    root.g2(&["wirings", "add", "--group", "family", "--chat", "local:den", "--engage", "mention"]);
    let mut den = media("a");
    den["chatJid"] = "local:den".into();
    assert_eq!(ask(&root, den.clone(), "r3")["ok"], true);
    let said = kept(&root);
    assert_eq!(said.len(), 1);
    assert_eq!(daemon.terminate(), Some(0));
    root.settings("[media]\nstore_mib = 1\n");
    let _daemon = root.serve();
    fs::write(group(&root, "b"), vec![b'b'; 700_000]).unwrap();
    den["filePath"] = "b".into();
    assert_eq!(ask(&root, den, "r4")["error"]["code"], "no_room");
    assert_eq!(kept(&root), said);
    let stored = rusqlite::Connection::open(root.data("g2.sqlite")).unwrap();
    let bytes = |sql: &str| stored.query_row(sql, [], |r| r.get::<_, i64>(0)).unwrap();
    assert_eq!(bytes("SELECT bytes FROM media_size"), 700_000, "a file that is named twice is kept once");
    assert!(bytes("SELECT bytes FROM stored WHERE group_folder = 'family'") > 1_400_000);
}

#[test]
fn commands_that_wait_together_have_the_room_that_they_have_one_by_one() {
    for (settings, code) in [("chat_mib_per_hour = 1", "rate_limited"), ("store_mib = 1", "no_room")] {
        let root = two_groups(&format!("[media]\n{settings}\n"));
        // Three of the first ones have room, and then a smaller one.
        let sizes = [300_000, 300_000, 300_000, 300_000, 100_000, 100_000, 20_000];
        for (n, size) in sizes.into_iter().enumerate() {
            fs::write(group(&root, &n.to_string()), vec![b'0' + u8::try_from(n).unwrap(); size]).unwrap();
            let mut command = media(&n.to_string());
            command["requestId"] = n.to_string().into();
            root.put_command("family", "messages", &format!("{n}.json"), &command);
        }
        let _daemon = root.serve();
        let codes = (0..sizes.len()).map(|n| root.reply("family", &n.to_string())["error"]["code"].clone());
        let refused = json!(code);
        let expected =
            [Value::Null, Value::Null, Value::Null, refused.clone(), Value::Null, refused, Value::Null];
        assert_eq!(codes.collect::<Vec<_>>(), expected, "{settings}");
        assert_eq!(kept(&root).len(), 5, "{settings}");
    }
}

#[test]
fn a_daemon_that_dies_over_a_file_sends_it_once_and_leaves_nothing_behind() {
    if !fail_points() {
        return;
    }
    for point in ["media.copied", "media.named", "media.kept", "ipc.decided", "ipc.committed"] {
        let root = two_groups("");
        fs::write(group(&root, "a.png"), PNG).unwrap();
        let mut command = media("a.png");
        command["requestId"] = "r".into();
        die_at(&root, point, || root.put_command("family", "messages", "r.json", &command));
        // What the agent has changed since is what is sent, unless it was queued before.
        fs::write(group(&root, "a.png"), "changed").unwrap();
        let _daemon = root.serve();
        assert_eq!(root.reply("family", "r")["ok"], true, "{point}");
        wait_for("it to be sent", || (root.said("local:family").len() == 1).then_some(()));
        let rows = root.rows(&["outbox", "list"]);
        let hex = rows[0]["attachments"][0]["digest"].as_str().unwrap();
        wait_for("no other file to be kept", || {
            let kept = kept(&root);
            assert!(kept.iter().any(|path| path.ends_with(hex)), "{point}: {kept:?}");
            (kept.len() == 1).then_some(())
        });
        assert_eq!(fs::read_dir(root.data("media/new")).unwrap().count(), 0, "{point}");
    }
}

#[test]
fn a_daemon_that_dies_over_a_file_that_is_kept_already_sends_it_once_and_keeps_it_once() {
    if !fail_points() {
        return;
    }
    let root = two_groups("");
    fs::write(group(&root, "a.png"), PNG).unwrap();
    {
        let daemon = root.serve();
        assert_eq!(ask(&root, media("a.png"), "r1")["ok"], true);
        wait_for("it to be sent", || (root.said("local:family").len() == 1).then_some(()));
        assert_eq!(daemon.terminate(), Some(0));
    }
    let mut command = media("a.png");
    command["requestId"] = "r2".into();
    die_at(&root, "media.known", || root.put_command("family", "messages", "r2.json", &command));
    let _daemon = root.serve();
    assert_eq!(root.reply("family", "r2")["ok"], true);
    wait_for("it to be sent", || (root.said("local:family").len() == 2).then_some(()));
    assert_eq!(kept(&root).len(), 1);
    assert_eq!(root.rows(&["outbox", "list"]).len(), 2);
}

/// Has a message come in with two files, one of which is missing; returns its number.
fn comes(root: &Root) -> i64 {
    let spool = root.path().join("spool");
    fs::create_dir(&spool).unwrap();
    fs::write(spool.join("1"), PNG).unwrap();
    let store = Store::open(&root.data("g2.sqlite")).unwrap();
    let media = Media::open(&root.data("")).unwrap();
    fs::write(spool.join("2"), vec![b'x'; 2 << 20]).unwrap();
    let limits = MediaLimits { largest: 1 << 20, ..MediaLimits::NONE };
    let store = store.bounded(Bounds { media: limits, ..Bounds::NONE });
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let told = |name: &str| Attachment {
        name: name.into(),
        kind: MediaKind::Image,
        mime: "text/html".into(),
        ..Attachment::default()
    };
    let (intake, chat) = (Intake::new(World::real(), store.clone()), "local:family");
    let file = |n: &str, name: &str| {
        let place = (spool.clone(), n.to_owned());
        runtime.block_on(intake.file(&media, chat, place, told(name))).unwrap()
    };
    let ((film, none), (photo, _hand)) = (file("2", "film.mp4"), file("1", "../pho to\".png"));
    assert!(none.is_none() && !spool.join("1").exists() && spool.join("2").exists());
    let inbound = Inbound {
        chat_jid: "local:family".into(),
        replay_key: "k".into(),
        sender: "local:me".into(),
        sender_name: "Me".into(),
        text: "look <here>".into(),
        attachments: vec![film, photo],
        ..Inbound::default()
    };
    // 2026-11-22.
    runtime.block_on(store.accept(inbound, Time(1_795_305_600_000))).unwrap().seq
}

#[test]
fn a_file_that_came_in_is_where_its_agent_sees_it_and_named_in_the_prompt() {
    let root = two_groups("");
    let seq = comes(&root);
    let daemon = root.serve();
    wait_for("the answer", || (root.said("local:family").len() == 1).then_some(()));
    let run = root.why(seq)["wirings"][0]["run"].as_i64().unwrap();
    let prompt = root.prompt(run);
    let shown = root.data(&format!("media-of/family/2026-11-22/{seq}-2-_pho_to_.png"));
    let at = shown.display();
    assert!(
        prompt.contains(&format!(" media_type=\"image\" media_path=\"{at}\" media_mimetype=\"image/png\">")),
        "{prompt}"
    );
    let lines = format!(
        ">look &lt;here&gt;\n[image: film.mp4 — not kept: 2.1 MB, the limit is 1 MiB]\n[image: ../pho to&quot;.png — {at}, {} bytes]</message>",
        PNG.len()
    );
    assert!(prompt.contains(&lines), "{prompt}");
    assert_eq!(fs::read(&shown).unwrap(), PNG);
    assert_eq!(fs::metadata(&shown).unwrap().nlink(), 2);
    let listed = root.rows(&["messages", "list"]);
    assert_eq!(listed[0]["attachments"][0]["problem"], "not kept: 2.1 MB, the limit is 1 MiB");
    assert!(!root.data("media-of/main/2026-11-22").exists(), "nobody else is shown it");
    assert_eq!(daemon.terminate(), Some(0));
    // Once the row is gone, so are its names.
    root.change_store("DELETE FROM attachments");
    let _daemon = root.serve();
    wait_for("the file to be gone", || (kept(&root).is_empty() && !shown.exists()).then_some(()));
}

#[test]
fn a_daemon_that_dies_over_a_file_that_it_shows_shows_it_once_more() {
    if !fail_points() {
        return;
    }
    let root = two_groups("");
    let seq = comes(&root);
    die_at(&root, "media.shown", || {});
    let _daemon = root.serve();
    wait_for("the answer", || (root.said("local:family").len() == 1).then_some(()));
    assert!(root.data(&format!("media-of/family/2026-11-22/{seq}-2-_pho_to_.png")).exists());
    assert_eq!(kept(&root).len(), 1);
}

#[test]
fn a_script_sends_files_and_standard_input_and_says_something_in_a_group_s_name() {
    use std::{io::Write as _, process::Stdio};
    let root = Root::new("[media]\nlargest_mib = 1\n");
    let _daemon = root.serve();
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    std::fs::write(path("plan.txt"), "the plan").unwrap();
    std::fs::write(path("large"), vec![0; 2 << 20]).unwrap();
    let sent = root.run(&[
        "send",
        "--wait",
        "60",
        "--file",
        &path("plan.txt"),
        "--file",
        &path("plan.txt"),
        "read this",
    ]);
    let answer = String::from_utf8_lossy(&sent.stdout).into_owned();
    assert!(sent.status.success() && answer.contains("read this") && answer.contains("plan.txt"), "{sent:?}");
    let files = root.rows(&["messages", "list"])[0]["attachments"].clone();
    let named =
        |n: usize| (files[n]["name"].clone(), files[n]["size"].clone(), files[n]["problem"].is_null());
    assert_eq!(named(0), (json!("plan.txt"), json!(8), true), "{files}");
    assert_eq!((named(1), &files[0]["digest"]), ((json!("2-plan.txt"), json!(8), true), &files[1]["digest"]));
    // A file alone is a message too, and one that is too large is none.
    assert!(root.run(&["send", "--file", &path("plan.txt")]).status.success());
    for (file, why) in [("large", "at most 1048576 are sent"), ("none", "No such file")] {
        let refused = root.run(&["send", "--file", &path(file), "x"]);
        let told = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && told.contains(why), "{told}");
    }
    let left = std::fs::read_dir(root.data("incoming")).map_or(0, Iterator::count);
    assert!(left <= 1, "only the folder of the message that was never sent may be left: {left}");
    let mut piped = root.command(&["send", "--wait", "60", "-"]);
    let mut piped = piped.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    piped.stdin.take().unwrap().write_all(b"up\nfor 3 days\n").unwrap();
    let output = piped.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "echo: up\nfor 3 days\n");
    root.g2(&["say", "--chat", "local:main", "dinner is ready"]);
    wait_for("the text", || root.said("local:main").contains(&"dinner is ready".to_owned()).then_some(()));
    let row =
        root.rows(&["outbox", "list"]).into_iter().find(|row| row["text"] == "dinner is ready").unwrap();
    assert_eq!((&row["cause"], &row["status"]), (&json!("command line"), &json!("sent")), "{row}");
    let audit = root.rows(&["audit", "list"]);
    assert!(
        audit.iter().any(|row| row["what"].as_str().is_some_and(|what| what.starts_with("outbox.say "))),
        "{audit:?}"
    );
}
