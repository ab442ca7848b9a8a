//! What goes to Discord. Nothing here asks anybody.

use channel_protocol::{Amend, Button, Command, Send};
use serde_json::{Value, json};

/// The longest label of a button, characters.
const LABEL: usize = 80;
/// The longest words about a command, characters, and how many commands are listed.
const ABOUT: usize = 100;
const MOST_COMMANDS: usize = 100;
/// A message that nobody's device rings for.
const SILENT: u64 = 1 << 12;

/// A message as Discord takes it. It names nobody, so it pings nobody, and the same key makes it once.
pub(super) fn message(send: &Send, files: &[String]) -> Value {
    let mut body = json!({
        "content": send.text, "nonce": send.key, "enforce_nonce": true, "allowed_mentions": nobody(),
    });
    if let Some(to) = &send.reply_to {
        body["message_reference"] = json!({"message_id": to, "fail_if_not_exists": false});
    }
    if !send.buttons.is_empty() {
        body["components"] = components(&send.buttons);
    }
    if send.silent {
        body["flags"] = SILENT.into();
    }
    if !files.is_empty() {
        let named = files.iter().enumerate().map(|(n, name)| json!({"id": n, "filename": name}));
        body["attachments"] = named.collect();
    }
    body
}

/// A changed message. Buttons that are not named go.
pub(super) fn edit(amend: &Amend) -> Value {
    let mut body = json!({"allowed_mentions": nobody(), "components": components(&amend.buttons)});
    if let Some(text) = &amend.text {
        body["content"] = text.as_str().into();
    }
    body
}

/// What only the person sees who pressed a button.
pub(super) fn whisper(text: &str) -> Value {
    let text: String = text.chars().take(super::LONGEST).collect();
    json!({"content": text, "flags": 1 << 6, "allowed_mentions": nobody()})
}

/// The commands that Discord lists: everywhere, and for everybody.
pub(super) fn commands(all: &[Command]) -> Value {
    let command = |command: &Command| {
        let about = |text: &str| text.chars().take(ABOUT).collect::<String>();
        let option =
            |name: &String| json!({"type": 3, "name": name, "description": about(name), "required": false});
        let options: Vec<Value> = command.takes.iter().map(option).collect();
        json!({"type": 1, "name": command.name, "description": about(&command.does), "options": options})
    };
    all.iter().take(MOST_COMMANDS).map(command).collect()
}

fn nobody() -> Value {
    json!({"parse": [], "replied_user": false})
}

fn components(rows: &[Vec<Button>]) -> Value {
    let button = |button: &Button| {
        let label: String = button.label.chars().take(LABEL).collect();
        json!({"type": 2, "style": 2, "label": label, "custom_id": button.press})
    };
    rows.iter()
        .filter(|row| !row.is_empty())
        .map(|row| json!({"type": 1, "components": row.iter().map(button).collect::<Value>()}))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_sent_pings_and_the_same_key_makes_it_once() {
        let button = |press: &str| Button { label: "é".repeat(100), press: press.into() };
        let send = Send {
            key: "k.1.2".into(),
            text: "@everyone <@1>".into(),
            reply_to: Some("5".into()),
            buttons: vec![vec![button("a"), button("b")], vec![]],
            silent: true,
            ..Send::default()
        };
        let body = message(&send, &["a.png".into()]);
        assert_eq!(body["allowed_mentions"], json!({"parse": [], "replied_user": false}));
        assert_eq!((&body["nonce"], &body["enforce_nonce"]), (&json!("k.1.2"), &json!(true)));
        assert_eq!(body["message_reference"], json!({"message_id": "5", "fail_if_not_exists": false}));
        assert_eq!(body["components"].as_array().unwrap().len(), 1);
        assert_eq!(body["components"][0]["components"][1]["custom_id"], "b");
        assert_eq!(body["components"][0]["components"][0]["label"].as_str().unwrap().chars().count(), LABEL);
        assert_eq!((&body["attachments"][0]["filename"], &body["flags"]), (&json!("a.png"), &json!(4096)));
        for body in [edit(&Amend { text: Some("x".into()), ..Amend::default() }), whisper("x")] {
            assert_eq!(body["allowed_mentions"]["parse"], json!([]));
        }
    }
}
