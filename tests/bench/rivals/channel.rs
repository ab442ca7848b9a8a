//! The bench's chat platform as an adapter of ours: carries lines between the hub and the daemon.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};

use super::hub::{Heard, Message, Reporter};

/// The argument by which this program is the adapter.
pub(crate) const CHANNEL: &str = "be-a-rival-channel";

/// Runs until the daemon ends it. The hub's socket is in the account's settings.
pub(crate) fn run() {
    let mut lines = BufReader::new(std::io::stdin()).lines().map_while(Result::ok);
    let start: Value = serde_json::from_str(&lines.next().unwrap()).unwrap();
    say(
        &json!({"is": "hello", "v": 1, "adapter": "bench", "self": {"id": "bench:0", "name": "G2"}, "sent_twice": {"how": "key"}}),
    );
    say(&json!({"is": "state", "transport": "ok", "inbound": "ok", "outbound": "ok"}));
    let mut hub = Reporter::connect(Path::new(start["config"]["hub"].as_str().unwrap()));
    hub.tell(&Heard::Channel);
    let open = Arc::new(Mutex::new(Vec::<String>::new()));
    let (arriving, told) = (hub.lines(), Arc::clone(&open));
    std::thread::spawn(move || {
        for line in arriving {
            let Message { chat, id, text } = serde_json::from_str(&line).unwrap();
            // A life counts its events from 1.
            let mut told = told.lock().unwrap();
            told.push(id.clone());
            say(
                &json!({"is": "event", "n": told.len(), "key": id, "cursor": {"at": id}, "kind": "message", "chat": chat, "id": id,
                "from": {"id": "ada", "name": "Ada"}, "text": text, "about": {"chat": chat, "name": "a chat", "kind": "group"}}),
            );
        }
    });
    for line in lines {
        let order: Value = serde_json::from_str(&line).unwrap();
        match order["op"].as_str().unwrap_or_default() {
            "took" => {
                let id = order["n"].as_u64().and_then(|n| open.lock().unwrap().get(n as usize - 1).cloned());
                hub.tell(&Heard::Took { id: id.unwrap() });
            }
            "send" => {
                let text = |name: &str| order[name].as_str().unwrap_or_default().to_owned();
                hub.tell(&Heard::Said { chat: text("chat"), text: text("text"), key: Some(text("key")) });
                say(&json!({"is": "done", "r": order["r"], "ids": [order["key"]]}));
            }
            "amend" => say(&json!({"is": "done", "r": order["r"]})),
            "look_for" => say(&json!({"is": "found", "r": order["r"], "ids": [order["key"]]})),
            "ping" => say(&json!({"is": "pong", "r": order["r"]})),
            "stop" => return,
            _ => {}
        }
    }
}

fn say(line: &Value) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(format!("{line}\n").as_bytes());
    let _ = out.flush();
}
