//! Every operation does the same and refuses the same with the daemon up or down, and its schema fits.
#![expect(clippy::disallowed_methods, reason = "tests look at what was left")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::collections::BTreeSet;

use g2::{
    app::{Tried, perform_alone},
    config::{Config, Environment},
    domain::shown::audit::Origin,
    ops::{By, Op, schema},
};
use regex::Regex;
use serde_json::{Value, json};

use super::fits::fits;
use crate::support::{Root, Socket, wait_for};

/// Commands that wait, which cases name.
const WAITING: [&str; 2] = ["1.json", "2.json"];

/// A root in which there is something to change: a session, two tasks, questions, something that could not be said.
fn lived_in() -> Root {
    let root = Root::new(
        "[channels.toy]\ncommand = [\"/bin/false\"]\n[web]\nlisten = \"127.0.0.1:0\"\n[notify]\ncommand = [\"/bin/true\"]\n[backup]\nto = \"shelf\"\n",
    );
    root.g2(&["wirings", "add", "--group", "main", "--chat", "tg:-100", "--engage", "mention"]);
    root.g2(&["wirings", "add", "--group", "main", "--chat", "local:side", "--pattern", "."]);
    root.g2(&["chats", "set", "local:side", "policy=request_approval"]);
    let daemon = root.serve();
    root.ask("local:main", "hello");
    for who in ["bob", "carol", "dave"] {
        root.g2(&["send", "--chat", "local:side", "--as", who, "may I?"]);
    }
    wait_for("the questions", || (root.rows(&["approvals", "list"]).len() == 3).then_some(()));
    let far = json!({"type": "send_message", "chatJid": "tg:-100", "text": "hi", "requestId": "far"});
    root.put_command("main", "messages", "0.json", &far);
    wait_for("what can't be said", || {
        root.rows(&["outbox", "list"]).into_iter().any(|row| row["status"] == "failed").then_some(())
    });
    assert_eq!(daemon.terminate(), Some(0));
    root.g2(&["ipc", "hold", "main"]);
    for name in WAITING {
        let text = json!({"type": "send_message", "chatJid": "local:main", "text": name});
        root.put_command("main", "messages", name, &text);
    }
    root
}

/// One operation, in the order in which all are done to one root.
struct Case {
    name: &'static str,
    args: Value,
    /// Arguments that are refused, then; and with which code.
    wrong: (Value, &'static str),
}

fn case(name: &'static str, args: Value, wrong: Value, code: &'static str) -> Case {
    Case { name, args, wrong: (wrong, code) }
}

fn cases(failed: i64, sha256_of_memory: &str, elsewhere: &str) -> Vec<Case> {
    let wiring = |chat: &str| json!({"group": "family", "chat": chat});
    let engage = json!({"group": "family", "chat": "local:two", "engage": "mention-sticky"});
    let family = json!({"folder": "family", "chat": "local:family", "name": "Us"});
    let task = |id: &str| json!({"group": "family", "chat": "local:family", "type": "once", "value": "2099-01-01T00:00:00", "prompt": "p", "id": id});
    let role = |role: &str| json!({"id": "tg:7", "role": role});
    let member = json!({"group": "family", "user": "tg:7"});
    let outside = |host: &str| json!({"group": "family", "host": host});
    let what = |what: &str| json!({"what": what});
    let pattern = json!({"group": "family", "chat": "local:two", "engage": "mention", "pattern": "x"});
    vec![
        case("groups.add", family.clone(), family, "refused"),
        case(
            "groups.set",
            json!({"folder": "family", "settings": {"name": "We", "timeout": "5000"}}),
            json!({"folder": "family", "settings": {"name": "They", "timeout": "1"}}),
            "invalid",
        ),
        case(
            "groups.edit",
            json!({"folder": "main", "text": "be kind", "was": sha256_of_memory}),
            json!({"folder": "main", "text": "be kinder", "was": "00"}),
            "refused",
        ),
        case(
            "groups.back",
            json!({"folder": "main", "to": 1}),
            json!({"folder": "main", "to": 77}),
            "not_found",
        ),
        // No group has lost its folder in either root.
        case(
            "groups.restore",
            json!({"folder": "none", "from": "/none.tar"}),
            json!({"folder": "family"}),
            "refused",
        ),
        case("groups.renew", json!({"folder": "none"}), json!({"folder": "family"}), "refused"),
        case("groups.restart", json!({"folder": "family"}), json!({"folder": "none"}), "not_found"),
        case("egress.allow", outside("*.Example.com."), outside("127.0.0.1"), "invalid"),
        case(
            "egress.deny",
            outside("a.example.com"),
            json!({"group": "none", "host": "a.example"}),
            "not_found",
        ),
        case("egress.remove", outside("*.example.com"), outside("*.example.com"), "not_found"),
        case("wirings.add", wiring("local:two"), wiring("local:two"), "refused"),
        case("wirings.set", engage, pattern, "invalid"),
        case("wirings.unstick", wiring("local:two"), wiring("local:none"), "not_found"),
        case("wirings.remove", wiring("local:two"), wiring("local:two"), "not_found"),
        case("users.add", json!({"id": "tg:7", "dm": "tg:7"}), json!({"id": "nobody"}), "invalid"),
        case("users.role", role("admin"), json!({"id": "local:me", "role": "none"}), "refused"),
        case("users.claim", json!({}), json!({"role": "owner", "group": "main"}), "refused"),
        case(
            "outbox.say",
            json!({"chat": "local:main", "text": "by hand"}),
            json!({"chat": "irc:#x", "text": "by hand"}),
            "refused",
        ),
        case("notices.note", json!({"id": "owners/toy"}), json!({"id": "nothing"}), "not_found"),
        case("backup.now", json!({}), json!({"all": true}), "invalid"),
        case("notices.try", json!({}), json!({"all": true}), "invalid"),
        case("members.add", member.clone(), json!({"group": "none", "user": "tg:7"}), "not_found"),
        case("members.remove", member.clone(), member, "not_found"),
        case("users.remove", json!({"id": "tg:7"}), json!({"id": "tg:7"}), "not_found"),
        case(
            "chats.set",
            json!({"chat": "tg:-100", "policy": "strict", "threaded": true}),
            json!({"chat": "tg:-5", "policy": "strict"}),
            "not_found",
        ),
        // Nobody is connected in either root.
        case("chats.refresh", json!({}), json!({"account": "none"}), "not_found"),
        case("dropped.clear", json!({}), json!({"all": true}), "invalid"),
        case("tasks.add", task("t1"), task("t1"), "refused"),
        case(
            "tasks.update",
            json!({"id": "t1", "prompt": "q"}),
            json!({"id": "t1", "prompt": " "}),
            "invalid",
        ),
        case("tasks.pause", json!({"id": "t1"}), json!({"id": "none"}), "not_found"),
        case("tasks.run", json!({"id": "none"}), json!({"id": "t1"}), "refused"),
        case("tasks.resume", json!({"id": "t1"}), json!({"id": "t1", "group": "main"}), "not_found"),
        case("tasks.cancel", json!({"id": "t1"}), json!({"id": "t1"}), "not_found"),
        case(
            "sessions.archive",
            json!({"group": "main", "name": "kept"}),
            json!({"group": "family", "name": "kept"}),
            "refused",
        ),
        case("sessions.resume", json!({"id": 1}), json!({"id": 77}), "not_found"),
        case(
            "sessions.clear",
            json!({"group": "main", "name": "again"}),
            json!({"group": "none"}),
            "not_found",
        ),
        case("sessions.delete", json!({"id": 2}), json!({"id": 2}), "not_found"),
        case(
            "sessions.adopt",
            json!({"group": "main", "file": format!("{elsewhere}/0a1b.jsonl"), "chat": "local:main"}),
            json!({"group": "main", "file": format!("{elsewhere}/0a1b.txt"), "chat": "local:main"}),
            "invalid",
        ),
        // A daemon has the root for itself, whatever is to be imported.
        case(
            "import",
            json!({"kind": "export", "path": format!("{elsewhere}/export"), "only": ["people"]}),
            json!({"kind": "export", "path": format!("{elsewhere}/none")}),
            "refused",
        ),
        case("lanes.wake", json!({"group": "main"}), json!({"group": "none"}), "not_found"),
        // Nothing of a loop rests in either root.
        case(
            "loops.release",
            json!({"loop": "deliver", "all": true}),
            json!({"loop": "deliver", "key": "local:none"}),
            "refused",
        ),
        case("ipc.hold", what("family"), what("nobody"), "not_found"),
        case(
            "ipc.send",
            json!({"group": "main", "command": {"text": "{}"}}),
            json!({"group": "main"}),
            "invalid",
        ),
        case("ipc.release", what("family"), what("family"), "refused"),
        case("ipc.drop", what(WAITING[0]), what(WAITING[0]), "refused"),
        case("ipc.retry", what(WAITING[0]), what(WAITING[1]), "refused"),
        case(
            "channels.add",
            json!({"name": "toy.two", "token": "x", "program": ["/bin/false"], "settings": {"a": [1]}}),
            json!({"name": "toy.two"}),
            "refused",
        ),
        case("channels.remove", json!({"name": "toy.two"}), json!({"name": "toy.two"}), "not_found"),
        case("channels.restart", json!({"name": "toy"}), json!({"name": "other"}), "not_found"),
        case("web.open", json!({}), json!({"all": true}), "invalid"),
        case("web.revoke", json!({"id": 1}), json!({"id": 77}), "not_found"),
        case(
            "web.add_token",
            json!({"name": "bot", "purpose": "operate"}),
            json!({"name": "bot", "purpose": "metrics"}),
            "refused",
        ),
        case("web.revoke_token", json!({"name": "bot"}), json!({"name": "bot"}), "not_found"),
        // Nothing runs in either root, and nothing waits there that can be given up.
        case("runs.stop", json!({"id": 77}), json!({"id": 1}), "refused"),
        case("runs.say", json!({"id": 77, "text": "t"}), json!({"id": 77, "text": " "}), "invalid"),
        case("messages.skip", json!({"seq": 77, "reason": "r"}), json!({"seq": 2, "reason": " "}), "invalid"),
        case("outbox.drop", json!({"id": 77}), json!({"id": failed}), "refused"),
        case("restored.resume", json!({"all": true}), json!({"all": true, "texts": [1]}), "invalid"),
        case("restored.drop", json!({"all": true}), json!({"messages": [1]}), "refused"),
        case(
            "config.set",
            json!({"name": "limits.keep_days", "value": "3650"}),
            json!({"name": "limits.keep_days", "value": "-1"}),
            "invalid",
        ),
        case(
            "config.unset",
            json!({"name": "limits.keep_days"}),
            json!({"name": "limits.keep_days"}),
            "not_found",
        ),
        case("outbox.retry", json!({"id": failed}), json!({"id": 77}), "not_found"),
        // A daemon goes on with what these bring about, so they come last.
        case("approvals.approve", json!({"id": 1}), json!({"id": 1}), "refused"),
        case("approvals.deny", json!({"id": 2}), json!({"id": 3, "user": "tg:1"}), "not_authorized"),
        case("approvals.deny_many", json!({}), json!({"chat": ""}), "invalid"),
        case("groups.remove", json!({"folder": "family"}), json!({"folder": "family"}), "not_found"),
    ]
}

/// What differs from root to root, or from moment to moment, made the same.
fn plain(value: &Value) -> Value {
    let moment = Regex::new(
        r"\d{4}-\d\d-\d\dT[0-9:.]+(Z|[+-]\d\d:\d\d)?|\d{13}-sent-[0-9a-f]{8}|[0-9a-f]{8}-[0-9a-f-]{20,}|/\S*/\.tmp\w+",
    )
    .unwrap();
    match value {
        Value::String(text) => moment.replace_all(text, "*").into(),
        Value::Array(items) => items.iter().map(plain).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| match name.as_str() {
                "code" if value.as_str().is_some_and(|code| code.len() == 9 && code.contains('-')) => {
                    (name.clone(), "*".into())
                }
                "age_ms" | "session_id" | "ticket" | "token" | "opened_by" | "made_by" => {
                    (name.clone(), "*".into())
                }
                _ => (name.clone(), plain(value)),
            })
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// Does an operation under the root's lock, as a program without a daemon does.
async fn alone(root: &Root, asked: &Value) -> Value {
    let config = Config::load(root.path(), &Environment::default()).unwrap();
    let refused = |error| json!({"is": "op_refused", "error": error});
    let op = match Op::read(asked.clone()) {
        Ok(op) => op,
        Err(error) => return refused(serde_json::to_value(error).unwrap()),
    };
    match perform_alone(
        &g2::system::world::World::real(),
        root.path(),
        Ok(&config),
        &By::owner(0, None, Origin::CommandLine),
        op,
    )
    .await
    .unwrap()
    {
        Tried::Performed(Ok(answer)) => {
            let mut value = serde_json::to_value(answer).unwrap();
            value["is"] = "op_done".into();
            value
        }
        Tried::Performed(Err(error)) => refused(serde_json::to_value(error).unwrap()),
        Tried::Busy(who) => panic!("{who}"),
    }
}

fn failed(root: &Root) -> i64 {
    let rows = root.rows(&["outbox", "list"]);
    rows.iter().find(|row| row["status"] == "failed").unwrap()["id"].as_i64().unwrap()
}

#[tokio::test]
async fn every_operation_does_and_refuses_the_same_with_the_daemon_up_or_down() {
    let (down, up) = (lived_in(), lived_in());
    let _daemon = up.serve();
    let mut socket = Socket::connect(&up);
    let schema = schema();
    assert_eq!(failed(&down), failed(&up));
    let main = ipc_handlers::Folder::parse("main").unwrap();
    let memory = g2::ipc::read_memory(up.path(), g2::ipc::MemoryOf::Group(&main)).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::write(elsewhere.path().join("0a1b.jsonl"), "{}\n").unwrap();
    up.g2(&["export", elsewhere.path().join("export").to_str().unwrap()]);
    let cases = cases(failed(&up), &memory.digest, elsewhere.path().to_str().unwrap());
    let covered: BTreeSet<&str> = cases.iter().map(|case| case.name).collect();
    assert_eq!(covered, Op::ALL.iter().map(|op| op.name).collect(), "each operation has a case");
    for Case { name, args, wrong: (wrong, code) } in cases {
        let described = &schema["operations"][name];
        assert!(fits(&schema, &described["args"], &args), "{name}: {args}");
        let mut ask = async |args: &Value| {
            let asked = json!({"name": name, "args": args});
            let request = json!({"op": "op", "do": asked});
            assert!(
                args.get("all").is_some()
                    || name == "ipc.send"
                    || fits(&schema, &schema["request"], &request),
                "{request}"
            );
            (alone(&down, &asked).await, socket.call(&request))
        };
        let (by_hand, by_daemon) = ask(&args).await;
        if name == "import" {
            assert!(fits(&schema, &described["row"], &by_hand["row"]), "{name}: {by_hand}");
            assert_eq!(by_daemon["error"]["code"], "refused", "{by_daemon}");
            let (by_hand, _) = ask(&wrong).await;
            assert_eq!(by_hand["error"]["code"], code, "{by_hand}");
            continue;
        }
        const NOT_FOUND: [&str; 7] = [
            "groups.restore",
            "groups.renew",
            "tasks.run",
            "runs.stop",
            "runs.say",
            "messages.skip",
            "outbox.drop",
        ];
        if NOT_FOUND.contains(&name) {
            assert_eq!(by_hand["error"]["code"], "not_found", "{by_hand}");
        } else {
            assert!(fits(&schema, &schema["done"], &by_hand), "{name}: {by_hand}");
            assert!(fits(&schema, &described["row"], &by_hand["row"]), "{name}: {by_hand}");
        }
        if name == "ipc.retry" {
            // The next daemon decides what is tried again without one.
            assert_eq!(
                (&by_hand["row"]["state"], &by_daemon["row"]["state"]),
                (&json!("claimed"), &json!("applied"))
            );
            assert_eq!(by_hand["row"]["id"], by_daemon["row"]["id"]);
        } else {
            assert_eq!(plain(&by_hand), plain(&by_daemon), "{name} {args}");
        }
        let (by_hand, by_daemon) = ask(&wrong).await;
        assert!(fits(&schema, &schema["refused"], &by_hand), "{name}: {by_hand}");
        assert_eq!(
            (&by_hand["is"], &by_hand["error"]["code"]),
            (&json!("op_refused"), &json!(code)),
            "{name} {by_hand}"
        );
        assert_eq!(plain(&by_hand), plain(&by_daemon), "{name} {wrong}");
    }
    // The log has who asked for it, by either way.
    for root in [&down, &up] {
        let log = std::fs::read_to_string(root.data("changes.log")).unwrap();
        let user = format!(" uid {}", rustix::process::geteuid().as_raw());
        for line in [" done: groups.remove folder=family", " failed: groups.remove folder=family"] {
            assert!(
                log.lines().any(|l| l.contains(&user) && l.contains(&format!("{line} [audit "))),
                "{line}: {log}"
            );
        }
    }
}
