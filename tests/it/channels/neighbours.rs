//! Accounts beside one another: whatever an adapter does, and however large the files are that it is given, the neighbour is
//! answered as if it was alone.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::json;

use super::{files_in::put, folder, python};
use crate::{
    hostile::neighbour::{compare, timed},
    support::{Daemon, wait_for},
};

/// What the neighbour is allowed of more memory in the daemon, KiB.
const MORE_KIB: u64 = 64 << 10;
const HELLO: &str = r#"echo '{"is":"hello","v":1,"adapter":"x","self":{"id":"x:1","name":"x"}}'; echo '{"is":"state","transport":"ok","inbound":"ok","outbound":"ok"}'; "#;
const EVENTS: &str = r#"n=0; while :; do n=$((n+1)); echo '{"is":"event","n":'$n',"key":"k'$n'","kind":"message","chat":"flood:1","id":"'$n'","text":"x","from":{"id":"1","name":"a"}}'; done"#;

/// An adapter that does harm, and what is told of it in the end.
struct Evil {
    name: &'static str,
    script: String,
    told: Option<&'static str>,
}

fn evils() -> Vec<Evil> {
    let evil = |name, script: String, told| Evil { name, script, told };
    vec![
        evil("flood", format!("{HELLO}{EVENTS}"), Some("more than 64 events that were not stored yet")),
        evil("endless", "head -c 1000000000 /dev/zero; sleep 600".into(), Some("a line is longer than")),
        evil("dies", "exit 1".into(), Some("it ended with exit status: 1")),
        evil("junk", "exec yes nonsense".into(), None),
        evil("loud", format!("{HELLO}exec yes aloud >&2"), None),
        evil("answers", format!("{HELLO}exec yes '{{\"is\":\"done\",\"r\":7,\"ids\":[\"x\"]}}'"), None),
        evil(
            "links",
            format!("{HELLO}exec yes '{{\"is\":\"pair\",\"text\":\"x\"}}'"),
            Some("more than 1000 ways to link the account"),
        ),
        evil(
            "greets",
            format!(
                "{HELLO}exec yes '{{\"is\":\"hello\",\"v\":1,\"adapter\":\"x\",\"self\":{{\"id\":\"x:1\",\"name\":\"x\"}}}}'"
            ),
            None,
        ),
        evil(
            "strange",
            format!(
                "{HELLO}exec yes '{{\"is\":\"chat\",\"chat\":\"other:1\",\"name\":\"x\",\"kind\":\"group\"}}'"
            ),
            None,
        ),
        evil("forks", "for i in $(seq 200); do sleep 600 & done; wait".into(), None),
        evil("hangs", "exec sleep 600".into(), None),
        evil("deaf", format!("{HELLO}exec sleep 600"), None),
    ]
}

fn peak_kib(daemon: &Daemon) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", daemon.pid())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse().unwrap()
}

/// A chat of the example adapter: somebody writes, and the agent answers.
struct Neighbour {
    folder: PathBuf,
    written: usize,
}

impl Neighbour {
    fn of(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), written: 0 }
    }

    fn exchange(&mut self) {
        self.written += 1;
        let text = format!("word {}", self.written);
        let name = format!("{:06}.txt", self.written);
        let inward = self.folder.join("in/chess");
        fs::write(inward.join("next.part"), &text).unwrap();
        fs::rename(inward.join("next.part"), inward.join(name)).unwrap();
        let said = || -> Vec<String> {
            let files = fs::read_dir(self.folder.join("out/chess")).into_iter().flatten().flatten();
            files.map(|file| fs::read_to_string(file.path()).unwrap_or_default()).collect()
        };
        wait_for("the answer", || said().contains(&format!("echo: {text}")).then_some(()));
    }
}

#[test]
fn accounts_that_flood_hang_fork_and_die_cost_their_neighbour_nothing() {
    let root = folder::root();
    let settings = root.path().join("g2.toml");
    let quiet = fs::read_to_string(&settings).unwrap();
    let daemon = root.serve();
    let mut neighbour = Neighbour::of(&root.path().join("toy"));
    neighbour.exchange();
    let alone = timed(|count| count < 20, |_| neighbour.exchange());
    let before = peak_kib(&daemon);

    let mut text = quiet.clone();
    for Evil { name, script, .. } in evils() {
        text += &format!("[channels.{name}]\ncommand = [\"/bin/sh\", \"-c\", '''{script}''']\n");
    }
    fs::write(&settings, text).unwrap();
    let show = |name: &str| root.rows(&["channels", "list"]).into_iter().find(|row| row["name"] == name);
    let begun = |name: &str| show(name).is_some_and(|row| row["starts"].as_i64() >= Some(1));
    wait_for("all to be started", || evils().iter().all(|evil| begun(evil.name)).then_some(()));
    let beside = timed(|count| count < 40, |_| neighbour.exchange());
    compare("accounts that do harm", &alone, &beside);
    for Evil { name, told, .. } in evils() {
        let Some(told) = told else { continue };
        wait_for(name, || show(name)?["why"].as_str()?.contains(told).then_some(()));
    }
    neighbour.exchange();
    let peak = peak_kib(&daemon);
    eprintln!("memory beside accounts that do harm: {before} KiB alone, {peak} KiB at most");
    assert!(peak < before + MORE_KIB, "{peak} KiB after {before} KiB");
    let log = fs::metadata(root.path().join("serve.log")).unwrap().len();
    assert!(log < 1 << 20, "{log} bytes of log");
    // What they started goes with them.
    fs::write(&settings, quiet).unwrap();
    let notes = || fs::read_dir(root.data("children")).unwrap().count();
    wait_for("them to be let go", || (notes() == 1).then_some(()));
    neighbour.exchange();
    assert_eq!(daemon.terminate(), Some(0));
}

#[test]
fn a_hundred_megabytes_in_and_out_do_not_keep_a_neighbour_waiting() {
    const LARGE: usize = 100 << 20;
    let (reads, adapter) = (python(), "LARGEST = 1 << 20");
    let root = folder::root_changed(
        &[(adapter, "LARGEST = 1 << 28")],
        "[media]\nlargest_mib = 128\nchat_mib_per_hour = 1024\n",
    );
    let near = root.path().join("near");
    fs::create_dir_all(near.join("in/chess")).unwrap();
    let settings = root.path().join("g2.toml");
    let python = reads.last().unwrap();
    let text = fs::read_to_string(&settings).unwrap()
        + &format!(
            "[channels.near]\ncommand = [{python:?}, {:?}]\nreads = {reads:?}\nwrites = [{near:?}]\nfolder = {near:?}\n",
            root.path().join("adapter.py")
        );
    fs::write(&settings, text).unwrap();
    root.g2(&["groups", "add", "near", "--chat", "near:chess"]);
    root.g2(&["wirings", "set", "--group", "near", "--chat", "near:chess", "engage=pattern", "pattern=."]);
    root.g2(&["chats", "set", "near:chess", "policy=public"]);
    let _daemon = root.serve();
    let mut neighbour = Neighbour::of(&near);
    neighbour.exchange();
    let alone = timed(|count| count < 20, |_| neighbour.exchange());

    // Its own bytes, so that nothing of it is known.
    let bytes: Vec<u8> = (0..LARGE).map(|n| (n ^ (n >> 8)) as u8).collect();
    put(&root, "1.bin", &bytes);
    let kept = || {
        let came = root.rows(&["messages", "list", "--chat", "folder:chess"]);
        came.first().is_some_and(|row| row["attachments"][0]["digest"].is_string())
    };
    let beside = timed(|_| !kept(), |_| neighbour.exchange());
    compare("100 MB that come in", &alone, &beside);

    fs::write(root.path().join("groups/main/1.bin"), &bytes).unwrap();
    let command = json!({"type": "media", "requestId": "r1", "chatJid": "folder:chess", "filePath": "1.bin", "mediaType": "document"});
    root.put_command("main", "messages", "r1.json", &command);
    let sent = || {
        let out = fs::read_dir(root.path().join("toy/out/chess")).into_iter().flatten().flatten();
        let large = out.filter(|file| file.metadata().is_ok_and(|meta| meta.len() == LARGE as u64));
        large.count() == 1 && root.json(&["channels", "show", "folder"])["unsent"] == 0
    };
    let beside = timed(|_| !sent(), |_| neighbour.exchange());
    compare("100 MB that go out", &alone, &beside);
    assert_eq!(root.reply("main", "r1")["ok"], true);
}
