//! The chats that a platform lists: known before anybody speaks there, by their newest names, within bounds.

use std::{fs, path::PathBuf};

use serde_json::{Value, json};

use super::folder::root_changed;
use crate::support::{Root, wait_for};

/// A root whose account lists what stands in `list.json` of its folder, a chat a row, and notes in `asked` that it was asked. A text
/// that is no list is a problem of the platform.
fn root() -> Root {
    let lists = r#"tell(read_list(folder, r))"#;
    let read = r#"def read_list(folder, r):
    with open(os.path.join(folder, "asked"), "a") as file:
        file.write(".")
    with open(os.path.join(folder, "list.json")) as file:
        told = json.load(file)
    if isinstance(told, str):
        return {"is": "chats", "r": r, "problem": told}
    return {"is": "chats", "r": r, "chats": told}


def main():"#;
    root_changed(
        &[(r#"tell({"is": "chats", "r": r, "chats": chats(folder, prefix)})"#, lists), ("def main():", read)],
        "",
    )
}

fn toy(root: &Root, name: &str) -> PathBuf {
    root.path().join("toy").join(name)
}

fn lists(root: &Root, what: &Value) {
    fs::write(toy(root, "list.json"), what.to_string()).unwrap();
}

fn asked(root: &Root) -> usize {
    fs::read(toy(root, "asked")).unwrap_or_default().len()
}

fn connected(root: &Root) {
    wait_for("the account", || {
        (root.json(&["channels", "show", "folder"])["connection"] == "connected").then_some(())
    });
}

fn refresh(root: &Root, group: &str, request: &str) -> Value {
    let command = json!({"type": "refresh_groups", "requestId": request});
    root.put_command(group, "tasks", &format!("{request}.json"), &command);
    root.reply(group, request)
}

#[test]
fn an_agent_of_main_sees_chats_where_nobody_has_spoken_and_nobody_else_has_platforms_asked() {
    let root = root();
    root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    lists(
        &root,
        &json!([{"chat": "folder:team", "name": "Team"}, {"chat": "folder:chess", "name": "Chess"},
        {"chat": "folder:ada", "name": "Ada", "kind": "direct"}, {"chat": "local:main", "name": "not its own"},
        {"chat": "folder:team", "name": "twice"}, {"chat": "folder:x", "name": "n".repeat(9000)}]),
    );
    let daemon = root.serve();
    connected(&root);
    // The account may be asked by itself at any time from its connection on.
    let before = asked(&root);
    assert_eq!(refresh(&root, "family", "r0")["error"]["code"], "not_authorized");
    assert_eq!(asked(&root), before);
    let reply = refresh(&root, "main", "r1");
    let of = |jid: &str| -> Value {
        let rows = reply["result"]["groups"].as_array().unwrap();
        rows.iter().find(|row| row["jid"] == jid).cloned().unwrap_or_default()
    };
    assert_eq!(
        of("folder:team"),
        json!({"jid": "folder:team", "name": "Team", "lastActivity": null, "isRegistered": false})
    );
    assert_eq!(
        (&of("folder:chess")["name"], &of("folder:chess")["isRegistered"]),
        (&json!("Chess"), &json!(true))
    );
    assert_eq!((of("folder:ada"), of("folder:x")["name"].as_str().unwrap().len()), (Value::Null, 128));
    assert_eq!(root.data_json("ipc/main/available_groups.json")["groups"], reply["result"]["groups"]);
    let log = root.g2(&["channels", "log", "folder"]);
    let line = r#"of the chats that it lists 2 are passed over, the first one because "local:main" is no chat of this account"#;
    assert!(log.contains(line), "{log}");

    // Within the minute nobody is asked again, whatever a container wants.
    lists(&root, &json!([{"chat": "folder:team", "name": "The team"}]));
    for n in 0..20 {
        refresh(&root, "main", &format!("again{n}"));
    }
    assert_eq!(asked(&root), 1);
    daemon.terminate();

    // The next daemon learns the new name; chats that are not listed any more stay.
    let _daemon = root.serve();
    connected(&root);
    let rows = refresh(&root, "main", "r2")["result"]["groups"].clone();
    let names: Vec<&str> = rows.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"The team") && names.contains(&"Chess"), "{names:?}");
    assert_eq!(asked(&root), 2);
}

#[test]
fn a_person_has_accounts_asked_and_is_told_what_came_of_it() {
    let root = root();
    lists(&root, &json!([{"chat": "folder:team", "name": "Team"}, {"chat": "tg:1", "name": "x"}]));
    let down = root.json(&["chats", "refresh"]);
    assert_eq!(down["accounts"][0]["problem"], "there is no connection to the platform");
    let daemon = root.serve();
    connected(&root);
    let told = root.json(&["chats", "refresh", "folder"]);
    let row = |new| json!({"account": "folder", "chats": 1, "new": new, "passed_over": 1, "problem": null});
    assert_eq!(told["accounts"], json!([row(1)]));
    assert_eq!(root.json(&["chats", "refresh"])["accounts"], json!([row(1)]), "it was asked just now");
    assert!(root.rows(&["chats", "list"]).iter().any(|chat| chat["name"] == "Team"));
    let shown = root.json(&["channels", "show", "folder"]);
    assert!(shown["chats"] == 2 && shown["chats_listed"].is_string(), "{shown}");
    let output = root.run(&["chats", "refresh", "nobody"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    daemon.terminate();

    // A platform that does not tell takes nothing away.
    lists(&root, &json!("come back\u{7} later"));
    let _daemon = root.serve();
    connected(&root);
    let told = root.json(&["chats", "refresh"]);
    assert_eq!(told["accounts"][0]["problem"], "come back  later");
    assert!(root.rows(&["chats", "list"]).iter().any(|chat| chat["name"] == "Team"));
}
