//! What goes to Slack. Nothing here asks anybody.

use channel_protocol::{Button, Send};
use serde_json::{Value, json};

/// The longest label of a button, characters, and how many buttons a row and how many rows a message has.
const LABEL: usize = 75;
const ROW: usize = 25;
const MOST_ROWS: usize = 40;
/// What our keys are called in a message's metadata.
const KEYED: &str = "g2_message";

/// A text in which nothing is a mark of Slack's own.
pub(super) fn plain(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A message as Slack takes it: what is named calls nobody, no page is shown for a link, and our key stands where only apps look.
pub(super) fn message(channel: &str, send: &Send) -> Vec<(&'static str, String)> {
    let mut given = vec![
        ("channel", channel.to_owned()),
        ("text", send.text.clone()),
        ("metadata", json!({"event_type": KEYED, "event_payload": {"key": send.key}}).to_string()),
        ("unfurl_links", "false".into()),
        ("unfurl_media", "false".into()),
    ];
    if !send.thread.is_empty() {
        given.push(("thread_ts", send.thread.clone()));
    }
    if send.buttons.iter().any(|row| !row.is_empty()) {
        given.push(("blocks", blocks(&send.text, &send.buttons).to_string()));
    }
    given
}

/// Returns our key of a message, where it has one.
pub(super) fn key_of(message: &Value) -> Option<&str> {
    let metadata = &message["metadata"];
    (metadata["event_type"] == KEYED).then(|| metadata["event_payload"]["key"].as_str())?
}

/// A text with buttons below it; without any there is nothing to lay out, and what was laid out before goes.
pub(super) fn blocks(text: &str, rows: &[Vec<Button>]) -> Value {
    let mut n = 0;
    let mut button = |button: &Button| {
        n += 1;
        let label: String = button.label.chars().take(LABEL).collect();
        let label = if label.trim().is_empty() { "…".to_owned() } else { label };
        json!({"type": "button", "action_id": format!("b{n}"), "value": button.press,
            "text": {"type": "plain_text", "text": label, "emoji": true}})
    };
    let rows: Vec<Value> = rows
        .iter()
        .filter(|row| !row.is_empty())
        .take(MOST_ROWS)
        .map(|row| {
            let buttons: Vec<Value> = row.iter().take(ROW).map(&mut button).collect();
            json!({"type": "actions", "elements": buttons})
        })
        .collect();
    if rows.is_empty() {
        return json!([]);
    }
    let section = json!({"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": true}});
    let section = Some(section).filter(|_| !text.trim().is_empty());
    section.into_iter().chain(rows).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field<'a>(given: &'a [(&str, String)], name: &str) -> Option<&'a str> {
        given.iter().find(|(of, _)| *of == name).map(|(_, value)| &value[..])
    }

    #[test]
    fn a_message_has_its_key_and_shows_no_pages() {
        let button = |press: &str| Button { label: "é".repeat(100), press: press.into() };
        let send = Send {
            key: "k.1.2".into(),
            text: "hi".into(),
            thread: "1.5".into(),
            buttons: vec![vec![button("a"), button("b")], vec![]],
            ..Send::default()
        };
        let given = message("C1", &send);
        assert_eq!((field(&given, "channel"), field(&given, "thread_ts")), (Some("C1"), Some("1.5")));
        assert_eq!((field(&given, "unfurl_links"), field(&given, "link_names")), (Some("false"), None));
        let metadata: Value = serde_json::from_str(field(&given, "metadata").unwrap()).unwrap();
        assert_eq!(key_of(&json!({"metadata": metadata})), Some("k.1.2"));
        let blocks: Value = serde_json::from_str(field(&given, "blocks").unwrap()).unwrap();
        assert_eq!((&blocks[0]["text"]["text"], blocks.as_array().unwrap().len()), (&json!("hi"), 2));
        let elements = &blocks[1]["elements"];
        assert_eq!((&elements[1]["value"], &elements[0]["action_id"]), (&json!("b"), &json!("b1")));
        assert_eq!(elements[0]["text"]["text"].as_str().unwrap().chars().count(), LABEL);
        let without = Send { buttons: vec![vec![]], thread: String::new(), ..send };
        let given = message("C1", &without);
        assert_eq!((field(&given, "blocks"), field(&given, "thread_ts")), (None, None));
    }

    #[test]
    fn buttons_that_are_none_go_and_keys_of_others_are_none_of_ours() {
        assert_eq!(super::blocks("x", &[vec![], vec![]]), json!([]));
        for metadata in
            [json!(null), json!({"event_type": "x", "event_payload": {"key": "k"}}), json!(["g2_message"])]
        {
            assert_eq!(key_of(&json!({"metadata": metadata})), None);
        }
        assert_eq!(plain("<!channel> & <@U1>"), "&lt;!channel&gt; &amp; &lt;@U1&gt;");
    }
}
