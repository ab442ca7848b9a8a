//! `/_fake/…`: how a test drives the server, and sees what it was told.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Server, world::Kept};

/// How long a test waits for something at most.
const PATIENCE: Duration = Duration::from_secs(60);

impl Server {
    pub(crate) async fn control(&self, what: &str, body: Value) -> Value {
        if what == "wait" {
            return self.wait(&body).await;
        }
        let answer = self.act(what, body);
        self.changed.notify_waiters();
        answer
    }

    fn act(&self, what: &str, body: Value) -> Value {
        let mut world = self.world.lock().unwrap();
        match what {
            "state" => {
                return json!({
                    "now": world.now, "messages": world.messages, "calls": world.calls, "commands": world.commands,
                    "presses": world.presses, "unread": world.unread(),
                });
            }
            "chat" => {
                let place: super::world::Place = serde_json::from_value(body).unwrap();
                world.chats.insert(place.id, place);
            }
            "update" => return world.update(body),
            "rows" => return world.rows(body["chat"].as_i64().unwrap()),
            "migrate" => world.migrate(body["from"].as_i64().unwrap(), body["to"].as_i64().unwrap()),
            "fault" => world.add_fault(serde_json::from_value(body).unwrap()),
            "privacy" => world.hears_all = body["on"] == false,
            "token" => world.token = body["token"].as_str().unwrap().to_owned(),
            "clock" => world.now = body["now"].as_i64().unwrap(),
            "file" => {
                let bytes = body["text"].as_str().unwrap_or_default().as_bytes().to_vec();
                let size = body["size"].as_u64().unwrap_or(bytes.len() as u64);
                let kept = Kept { path: body["path"].as_str().unwrap_or("files/x").to_owned(), size, bytes };
                world.files.insert(body["file_id"].as_str().unwrap().to_owned(), kept);
            }
            _ => return json!({"error": format!("there is no /_fake/{what}")}),
        }
        json!({"ok": true})
    }

    /// Waits until `count` requests of `method` came, and returns them.
    async fn wait(&self, body: &Value) -> Value {
        let (method, count) = (&body["method"], body["count"].as_u64().unwrap_or(1));
        let late = tokio::time::sleep(PATIENCE);
        tokio::pin!(late);
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let calls: Vec<Value> = {
                let world = self.world.lock().unwrap();
                world.calls.iter().filter(|call| call["method"] == *method).cloned().collect()
            };
            if calls.len() as u64 >= count {
                return calls.into();
            }
            tokio::select! {
                () = &mut changed => {}
                () = &mut late => return json!({"error": format!("{} of {count} came", calls.len())}),
            }
        }
    }
}
