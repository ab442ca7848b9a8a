//! The table: each attack inside, and its required outcome outside.
#![expect(clippy::disallowed_methods, reason = "waits for a whole table, looks into a box")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    collections::BTreeMap,
    os::unix::fs::MetadataExt as _,
    sync::mpsc::{self, RecvTimeoutError},
    time::Duration,
};

use serde_json::{Value, json};

use super::{neighbour::Neighbour, scene::Scene};
use crate::support::{DEADLINE, Root, wait_for};

/// One attack of the hostile program. Each is given the path, on the host, of a file that it would like to reach.
struct Attack {
    word: &'static str,
    seen: &'static [Seen],
}

/// What `g2 ipc list`, the chat, or the attacker itself shows.
#[derive(Debug)]
enum Seen {
    /// The file is set aside as dead, with this code.
    Dead(&'static str, &'static str),
    /// It is refused, with this code.
    Refused(&'static str, &'static str),
    /// It is applied.
    Applied(&'static str),
    /// It has an end; which, depends on who was faster.
    Settled(&'static str),
    /// It stays in its box, and this is why.
    Waits(&'static str, &'static str),
    /// The chat was told this, so often.
    Said(&'static str, usize),
    /// This line is what the attacker saw.
    Inside(&'static str),
}

use Seen::{Applied, Dead, Inside, Refused, Said, Settled, Waits};

const ATTACKS: &[Attack] = &[
    Attack {
        word: "links",
        seen: &[
            Dead("l-file.json", "malformed"),
            Dead("l-folder.json", "malformed"),
            Dead("l-dangling.json", "malformed"),
            Dead("l-etc.json", "malformed"),
            Dead("l-passwd.json", "malformed"),
            Dead("l-proc.json", "malformed"),
            Dead("l-root.json", "malformed"),
            Dead("l-zero.json", "malformed"),
            Dead("l-itself.json", "malformed"),
            Dead("l-box.json", "malformed"),
            Dead("l-up.json", "malformed"),
            Dead("l-victim.json", "malformed"),
            Said("stolen through a link", 0),
            Said("stolen from a stranger", 0),
        ],
    },
    Attack {
        word: "pipes",
        seen: &[
            Dead("p-fifo.json", "malformed"),
            Dead("p-fed.json", "malformed"),
            Dead("p-socket.json", "malformed"),
            Inside("device: refused"),
            Applied("p-after.json"),
            Said("through a pipe", 0),
        ],
    },
    Attack {
        word: "directories",
        seen: &[Waits("d-folder.json", "a directory"), Said("out of a folder", 0)],
    },
    Attack {
        word: "hard-links",
        seen: &[
            Inside("snapshot: refused"),
            Inside("other mount: refused"),
            Applied("h-after.json"),
            Said("one inode", 1),
        ],
    },
    Attack { word: "sparse", seen: &[Dead("sp-4gib.json", "too_large"), Dead("sp-over.json", "too_large")] },
    Attack {
        word: "names",
        seen: &[
            Applied("two\\nlines.json"),
            Applied("\\xff\\xfe.json"),
            Applied("..json"),
            Applied(".json"),
            Applied("-rf *.json"),
            Applied("\\u{1b}[2Jn.json"),
            Applied("\\u{202e}nosj.json"),
            Applied("$(reboot).json"),
            Applied("..%2f..%2fx.json"),
            Said("named strangely", 10),
        ],
    },
    Attack {
        word: "stamps",
        seen: &[
            Applied("t-1970.json"),
            Applied("t-2037.json"),
            Said("t-1970.json", 1),
            Said("t-2037.json", 1),
        ],
    },
    Attack { word: "modes", seen: &[Applied("m-zero.json"), Applied("m-after.json")] },
    Attack {
        word: "leases",
        seen: &[Inside("answered while leased: true"), Applied("le-held.json"), Applied("le-behind.json")],
    },
    Attack {
        word: "held",
        seen: &[
            Inside("answered: true"),
            Applied("he-held.json"),
            Said("first words", 1),
            Said("second words", 0),
        ],
    },
    Attack {
        word: "growing",
        seen: &[
            Settled("g-0.json"),
            Settled("g-1.json"),
            Settled("g-2.json"),
            Settled("g-3.json"),
            Applied("g-after.json"),
        ],
    },
    Attack { word: "swaps", seen: &[Applied("s-after.json"), Said("stolen through a link", 0)] },
    Attack { word: "events", seen: &[] },
    Attack {
        word: "bombs",
        seen: &[
            Dead("b-deep.json", "malformed"),
            Dead("b-deep-objects.json", "malformed"),
            Dead("b-wide.json", "malformed"),
            Dead("b-wide-objects.json", "malformed"),
            Dead("b-wide-texts.json", "malformed"),
            Dead("b-keys.json", "malformed"),
            Dead("b-digits.json", "malformed"),
            Dead("b-exponent.json", "malformed"),
            Dead("b-nul.json", "malformed"),
            Dead("b-zeros.json", "malformed"),
            Dead("b-utf16.json", "malformed"),
            Dead("b-two-marks.json", "malformed"),
            Dead("b-empty.json", "malformed"),
            Applied("b-equal-keys.json"),
            Said("last of equals", 1),
            Applied("b-mark.json"),
            Said("after a mark", 1),
            Applied("b-surrogate.json"),
            Said("half \u{fffd}", 1),
            Applied("b-control.json"),
        ],
    },
    Attack {
        word: "heavy",
        seen: &[
            Dead("hv-000-unreadable.json", "malformed"),
            Dead("hv-019-unreadable.json", "malformed"),
            Settled("hv-019-readable.json"),
        ],
    },
    Attack {
        word: "ids",
        seen: &[
            Refused("i-request-0.json", "invalid_field"),
            Refused("i-request-1.json", "invalid_field"),
            Refused("i-request-2.json", "invalid_field"),
            Refused("i-request-3.json", "invalid_field"),
            Refused("i-request-4.json", "invalid_field"),
            Refused("i-request-5.json", "invalid_field"),
            Refused("i-request-6.json", "invalid_field"),
            Refused("i-target-2.json", "not_authorized"),
            Refused("i-target-6.json", "not_authorized"),
            Refused("i-as-main-0.json", "not_authorized"),
            Refused("i-as-main-1.json", "not_authorized"),
            Refused("i-as-main-2.json", "not_authorized"),
            Refused("i-as-main-3.json", "invalid_field"),
            Refused("i-folder-0.json", "invalid_field"),
            Refused("i-folder-1.json", "invalid_field"),
            Refused("i-folder-2.json", "invalid_field"),
            Refused("i-folder-3.json", "invalid_field"),
            Refused("i-folder-4.json", "invalid_field"),
            Refused("i-folder-5.json", "invalid_field"),
            Refused("i-folder-6.json", "not_authorized"),
            Refused("i-interval-0.json", "invalid_schedule"),
            Refused("i-interval-1.json", "invalid_schedule"),
            Refused("i-interval-2.json", "invalid_schedule"),
            Refused("i-interval-3.json", "invalid_schedule"),
            Refused("i-interval-4.json", "invalid_schedule"),
            Refused("i-interval-5.json", "invalid_schedule"),
            Said("under a bad id", 0),
        ],
    },
    // Another group's tasks and sessions read as what is not there; acting as another group is not allowed.
    Attack {
        word: "foreign",
        seen: &[
            Refused("fo-pause.json", "not_found"),
            Refused("fo-resume.json", "not_found"),
            Refused("fo-cancel.json", "not_found"),
            Refused("fo-update.json", "not_found"),
            Refused("fo-nowhere.json", "not_found"),
            Applied("fo-list.json"),
            Inside("list shows a neighbour's: false"),
            Refused("fo-task.json", "not_authorized"),
            Refused("fo-say.json", "not_authorized"),
            Refused("fo-take.json", "not_found"),
            Refused("fo-take-there.json", "not_authorized"),
            Refused("fo-clear.json", "not_authorized"),
            Refused("fo-clear-main.json", "not_authorized"),
            Refused("fo-keep.json", "not_authorized"),
            Refused("fo-search.json", "not_authorized"),
            Applied("fo-search-own.json"),
            Inside("search-own shows a neighbour's: false"),
            Refused("fo-register.json", "not_authorized"),
            Refused("fo-register-main.json", "invalid_field"),
            Refused("fo-refresh.json", "not_authorized"),
            Said("as a neighbour", 0),
        ],
    },
    Attack {
        word: "replays",
        seen: &[
            Applied("re-same-19.json"),
            Refused("re-other.json", "conflict"),
            Said("said once", 1),
            Said("said never", 0),
        ],
    },
    Attack {
        word: "replies",
        seen: &[
            Inside("rp-link is a file: true"),
            Inside("rp-up is a file: true"),
            Inside("rp-fifo is a file: true"),
            Inside("rp-folder is a folder: true"),
            Applied("rp-folder.json"),
            Said("answered", 5),
        ],
    },
    Attack { word: "inputs", seen: &[] },
    Attack { word: "state", seen: &[] },
    Attack {
        word: "transcripts",
        seen: &[
            Inside("answered: true"),
            Applied("tr-one-line.json"),
            Applied("tr-lines.json"),
            Applied("tr-sparse.json"),
        ],
    },
    // Nothing is read, written or cleaned up through links in the agent's own folders.
    Attack {
        word: "folders",
        seen: &[Refused("f-clear.json", "invalid_field"), Applied("f-archive.json"), Applied("f-after.json")],
    },
    Attack {
        word: "mounts",
        seen: &[
            Inside("rename a box: refused"),
            Inside("exchange boxes: refused"),
            Inside("remove a box: refused"),
            Inside("link beside the boxes: refused"),
            Inside("file beside the boxes: refused"),
            Inside("write a snapshot: refused"),
            Inside("remove a snapshot: refused"),
            Inside("rename .claude: refused"),
            Inside("mount over a box: refused"),
            Inside("mounts of our own: refused"),
            Inside("write shared memory: refused"),
            Inside("the store: refused"),
            Inside("another group: refused"),
            Inside("the engine: refused"),
            Inside("kernel settings: refused"),
        ],
    },
    Attack { word: "markers", seen: &[Said("forged", 0)] },
    // Last: the container is asked to leave in it.
    Attack {
        word: "way-out",
        seen: &[
            Inside("taken: true"),
            Inside("../../..: refused"),
            Inside("../../../claimed: refused"),
            Inside("../../../../g2.sqlite: refused"),
            Inside("../../../../ipc: refused"),
            Inside("../../../../../g2.toml: refused"),
            Inside("a name in the trash: refused"),
            Applied("w-close.json"),
        ],
    },
];

#[test]
fn every_attack_is_recognised_and_harms_no_other_group() {
    let Some(mut scene) = Scene::new("[health]\nclose_grace_ms = 500\n") else { return };
    let victim = scene.victim();
    let (archive, task) = a_neighbours_own(&scene.root);
    scene.remember();
    let root: &Root = &scene.root;
    let mut outputs = BTreeMap::new();
    let neighbour = Neighbour::of(root, &scene.daemon);
    std::thread::scope(|threads| {
        // It asks all the while.
        let (stop, stopped) = mpsc::channel::<()>();
        let neighbour = &neighbour;
        threads.spawn(move || {
            let goes_on =
                || stopped.recv_timeout(Duration::from_millis(20)) == Err(RecvTimeoutError::Timeout);
            neighbour.beside("all of the table", |_| goes_on());
        });
        for attack in ATTACKS {
            outputs.insert(attack.word, scene.attack(attack.word, &[&victim, &archive.to_string()]));
            scene.assert_untouched(attack.word);
        }
        drop(stop);
    });
    let mut unseen = Vec::new();
    let since = std::time::Instant::now();
    while since.elapsed() < DEADLINE {
        unseen = unseen_of(root, &outputs);
        if unseen.is_empty() {
            break;
        }
    }
    assert!(unseen.is_empty(), "{unseen:#?}");
    assert_eq!(
        (archive, task),
        (archived(root, "good", "secret"), root.json(&["tasks", "show", "good-task"]))
    );
    let kept = root.json(&["sessions", "show", &archived(root, "evil", "through a link").to_string()]);
    assert_eq!((&kept["name"], &kept["content"]), (&json!("through a link"), &json!("")));
    wait_for("the boxes to be the agent's alone again", || {
        let mode = |name: &str| std::fs::symlink_metadata(root.data("ipc/evil").join(name)).unwrap().mode();
        ["messages", "tasks", "input", "responses", "state"]
            .iter()
            .all(|name| mode(name) & 0o7777 == 0o700)
            .then_some(())
    });
    // The container was asked to leave, in vain; it is put out, and the next one begins with empty boxes.
    wait_for("the hostile container to be gone", || scene.root.containers().is_empty().then_some(()));
    assert!(!scene.container_of_a_new_run().is_empty());
    assert_eq!(std::fs::read_dir(root.data("ipc/evil/input")).unwrap().count(), 0);
    scene.assert_unharmed();
    scene.assert_no_more_memory();
}

/// Gives the neighbour a session in the archive and a task; returns the number of the one and the other's row.
fn a_neighbours_own(root: &Root) -> (i64, Value) {
    let keep = json!({"type": "archive_session", "sessionId": "s", "name": "secret", "content": "a secret", "requestId": "own-1"});
    let task = json!({"type": "schedule_task", "taskId": "good-task", "prompt": "secret", "schedule_type": "interval", "schedule_value": "86400000", "requestId": "own-2"});
    for (request, command) in [("own-1", keep), ("own-2", task)] {
        root.put_command("good", "tasks", &format!("{request}.json"), &command);
        assert_eq!(root.reply("good", request)["ok"], true);
    }
    wait_for("main to see the task", || {
        (root.data_json("ipc/main/current_tasks.json")[0]["id"] == "good-task").then_some(())
    });
    (archived(root, "good", "secret"), root.json(&["tasks", "show", "good-task"]))
}

/// The number of a group's one archived session of this name.
fn archived(root: &Root, group: &str, name: &str) -> i64 {
    let rows = root.rows(&["sessions", "list", "--group", group]);
    let mut archived = rows.iter().filter(|row| row["state"] == "archived" && row["name"] == name);
    let id = archived.next().and_then(|row| row["id"].as_i64()).unwrap();
    assert!(archived.next().is_none(), "{rows:?}");
    id
}

/// Rows of the table whose outcome is not there yet, with the present one.
fn unseen_of(root: &Root, outputs: &BTreeMap<&str, String>) -> Vec<String> {
    let rows = root.rows(&["ipc", "list", "--group", "evil"]);
    let outbox = root.rows(&["outbox", "list"]);
    let row = |name: &str| rows.iter().find(|row| row["name"] == name);
    let is = |name: &str, state: &str, code: Option<&str>| {
        let told = |row: &&Value| row["reason"].as_str().is_some_and(|reason| !reason.is_empty());
        row(name).is_some_and(|row| {
            row["state"] == state && code.is_none_or(|code| row["code"] == code && told(&row))
        })
    };
    let mut unseen = Vec::new();
    for attack in ATTACKS {
        for seen in attack.seen {
            let (holds, instead) = match seen {
                Dead(name, code) => (is(name, "dead", Some(code)), row(name).cloned().unwrap_or_default()),
                Refused(name, code) => {
                    (is(name, "refused", Some(code)), row(name).cloned().unwrap_or_default())
                }
                Applied(name) => (is(name, "applied", None), row(name).cloned().unwrap_or_default()),
                Settled(name) => {
                    let settled = ["applied", "refused", "dead"].iter().any(|state| is(name, state, None));
                    (settled, row(name).cloned().unwrap_or_default())
                }
                Waits(name, why) => {
                    let found = row(name).cloned().unwrap_or_default();
                    let told = found["reason"].as_str().is_some_and(|reason| reason.contains(why));
                    (is(name, "waiting", None) && told, found)
                }
                Said(text, times) => {
                    let said = outbox.iter().filter(|row| row["text"] == *text).count();
                    (said == *times, Value::from(said))
                }
                Inside(line) => {
                    let output = &outputs[attack.word];
                    (output.lines().any(|l| l == *line), Value::from(output.as_str()))
                }
            };
            if !holds {
                unseen.push(format!("{}: {seen:?}, but {instead}", attack.word));
            }
        }
    }
    unseen
}
