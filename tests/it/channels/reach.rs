//! What an adapter tells of its addresses and of people, by the example of the docs, which tells what stands in its files.

use std::{fs, path::Path};

use serde_json::{Value, json};

use super::folder::{root_changed, said};
use crate::support::{Root, fail_points, wait_for};

/// One message a prompt.
const MORE: &str =
    "[limits]\nretry_base_ms = 20\npoll_interval_ms = 100\nmin_free_mib = 1\nbatch_messages = 1\n";
const FORMS: &str = r#""addresses": {"endings": ["@folder.example"], "direct": r"d.*|.*p@folder\.example", "main_thread": "1"},"#;

/// A root whose adapter tells these forms, and each file as an event with the fields of its JSON.
fn root(forms: &str) -> Root {
    let hello = r#""can": ["media_in", "media_out", "list_chats"],"#;
    let from = r#""from": {"id": str(os.stat(path).st_uid), "name": "somebody"},"#;
    let changes = [
        (hello, format!("{hello} {forms}")),
        (from, r#""from": {"id": "7"}, **json.loads(text),"#.to_owned()),
    ];
    let changes: Vec<(&str, &str)> = changes.iter().map(|(was, is)| (*was, is.as_str())).collect();
    root_changed(&changes, MORE)
}

fn write(root: &Root, name: &str, event: &Value) {
    let folder = root.path().join("toy/in/chess");
    fs::write(folder.join("new.part"), event.to_string()).unwrap();
    fs::rename(folder.join("new.part"), folder.join(format!("{name}.txt"))).unwrap();
}

fn came(root: &Root, texts: &[&str]) {
    wait_for("the messages", || {
        let rows = root.rows(&["messages", "list"]);
        let all: Vec<&str> = rows.iter().map(|row| row["text"].as_str().unwrap()).collect();
        (all == texts).then_some(())
    });
}

fn mode_of(root: &Root, group: &str, chat: &str) -> String {
    root.g2(&["groups", "add", group, "--chat", chat]);
    let rows = root.rows(&["wirings", "list"]);
    let row = rows.iter().find(|row| row["group"] == group).unwrap();
    row["engage_mode"].as_str().unwrap().to_owned()
}

fn standing(root: &Root, who: &str) -> String {
    let rows = root.rows(&["engage", "explain", "--chat", "folder:chess", "--as", who, "hello"]);
    rows[0]["standing"].as_str().unwrap().to_owned()
}

#[test]
fn addresses_read_as_their_account_has_told_also_while_it_is_off_and_after_it_is_removed() {
    let root = root(FORMS);
    assert_eq!(
        mode_of(&root, "early", "folder:d0"),
        "mention",
        "nothing is told yet: it counts as a group's"
    );
    let daemon = root.serve();
    for (name, chat) in
        [("1", "9p@folder.example"), ("2", "9@folder.example"), ("3", "folder:d1"), ("4", "other:d1")]
    {
        write(&root, name, &json!({"chat": chat, "text": name, "from": {"id": "9p@folder.example"}}));
    }
    came(&root, &["1", "2", "3"]);
    let chats = root.rows(&["chats", "list"]);
    let told = |jid: &str| {
        let row = chats.iter().find(|row| row["jid"] == jid).unwrap_or_else(|| panic!("{jid} of {chats:?}"));
        (row["channel"].as_str().unwrap().to_owned(), row["kind"].as_str().unwrap().to_owned())
    };
    let of = |kind: &str| ("folder".to_owned(), kind.to_owned());
    assert_eq!(
        [told("9p@folder.example"), told("9@folder.example"), told("folder:d1")],
        [of("direct"), of("group"), of("direct")]
    );
    assert_eq!(told("folder:d0"), of("direct"), "it has the kind that its address shows now");
    let rows = root.rows(&["messages", "list"]);
    assert_eq!(rows[1]["sender"], "folder:9p@folder.example");
    // A text for an address without a prefix goes to its account, which has no such folder.
    root.g2(&["say", "--chat", "9@folder.example", "hello"]);
    wait_for("the text to fail", || {
        let rows = root.rows(&["outbox", "list", "--chat", "9@folder.example"]);
        rows.iter().any(|row| row["status"] == "failed").then_some(())
    });
    assert_eq!(daemon.terminate(), Some(0));
    assert_eq!(mode_of(&root, "off", "folder:d2"), "pattern");
    assert_eq!(mode_of(&root, "ending", "3p@folder.example"), "pattern");
    root.g2(&["channels", "remove", "folder"]);
    assert_eq!(mode_of(&root, "gone", "folder:d3"), "pattern");
    assert_eq!(mode_of(&root, "group", "folder:x"), "mention");
}

#[test]
fn an_adapter_whose_addresses_can_not_be_so_is_refused_and_says_why() {
    let root = root(r#""addresses": {"direct": "(unclosed"},"#);
    let _daemon = root.serve();
    wait_for("the refusal", || {
        let row = root.json(&["channels", "show", "folder"]);
        row["why"]
            .as_str()
            .is_some_and(|why| why.contains("expression for chats of one person"))
            .then_some(())
    });
}

#[test]
fn a_person_is_known_by_any_of_their_ids_after_a_death_and_a_restart() {
    if !fail_points() {
        return;
    }
    for place in ["channel.taken", "channel.stored"] {
        let root = root(FORMS);
        root.g2(&["users", "role", "folder:1", "owner"]);
        let reached = root.path().join("reached");
        let file = reached.display().to_string();
        write(&root, "1", &json!({"is": "person_is", "id": "2", "also": ["1", "local:me"]}));
        let daemon = root.spawn(&[("G2_FAILPOINT", place), ("G2_FAILPOINT_FILE", &file)]);
        wait_for(place, || Path::new(&reached).exists().then_some(()));
        daemon.wait();
        let daemon = root.serve();
        write(&root, "2", &json!({"text": "hello", "from": {"id": "3", "also": ["4"]}}));
        came(&root, &["hello"]);
        assert_eq!(daemon.terminate(), Some(0));
        assert_eq!([standing(&root, "2"), standing(&root, "3")], ["owner", "unknown"], "{place}");
        let users = root.rows(&["users", "list"]);
        let one = users.iter().find(|row| row["id"] == "folder:1").unwrap();
        assert_eq!(one["also"], json!(["folder:2", "folder:local:me"]), "{place}");
        let audit = root.run(&["audit", "list"]);
        let audit = String::from_utf8_lossy(&audit.stdout).into_owned();
        assert_eq!(audit.matches("folder:1 has folder:2, folder:local:me beside it").count(), 1, "{audit}");
        // A member under the other id is heard, and a list that names the other id lets them in.
        root.g2(&["members", "add", "--group", "main", "folder:4"]);
        assert_eq!(standing(&root, "3"), "member");
    }
}

#[test]
fn an_agent_sees_the_title_and_a_message_belongs_into_the_thread_of_what_it_continues() {
    let root = root(FORMS);
    let _daemon = root.serve();
    write(&root, "1", &json!({"text": "one", "id": "m1", "thread": "t", "title": "Bill \"42\"\n"}));
    write(&root, "2", &json!({"text": "two", "id": "m2", "references": ["none", "m1", "m0"]}));
    write(&root, "3", &json!({"text": "three", "id": "m3", "references": ["none"]}));
    write(&root, "4", &json!({"text": "four", "id": "m4", "thread": "own", "references": ["m1"]}));
    came(&root, &["one", "two", "three", "four"]);
    let rows = root.rows(&["messages", "list"]);
    let threads: Vec<&str> = rows.iter().map(|row| row["thread"].as_str().unwrap()).collect();
    assert_eq!(threads, ["t", "t", "", "own"]);
    assert_eq!((&rows[0]["title"], &rows[1]["title"]), (&json!("Bill \"42\""), &Value::Null));
    wait_for("the answers", || (said(&root).len() == 4).then_some(()));
    let runs = fs::read_dir(root.data("runs")).unwrap();
    let prompts: Vec<String> =
        runs.filter_map(|run| fs::read_to_string(run.unwrap().path().join("prompt.txt")).ok()).collect();
    assert!(
        prompts.iter().any(|prompt| prompt.contains(r#" title="Bill &quot;42&quot;">one"#)),
        "{prompts:?}"
    );
}
