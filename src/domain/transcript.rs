//! An agent's transcript as a page that people and a search can read.

use serde_json::Value;

/// The most that is kept of one thing said, characters, as v1 did.
const SAID: usize = 2000;
/// The most that is kept of a transcript, bytes; of a longer one its end.
const PAGE: usize = 1 << 20;

/// Returns what was said, oldest first, a paragraph each. Lines that are no JSON are passed over: one at the end may be
/// half written.
#[must_use]
pub fn page(transcript: &[u8]) -> String {
    let mut said: Vec<String> = Vec::new();
    let mut bytes = 0;
    for line in transcript.rsplit(|byte| *byte == b'\n') {
        let Some(paragraph) = serde_json::from_slice::<Value>(line).ok().and_then(|line| paragraph(&line))
        else {
            continue;
        };
        bytes += paragraph.len() + 2;
        if bytes > PAGE {
            break;
        }
        said.push(paragraph);
    }
    said.reverse();
    said.join("\n\n")
}

fn paragraph(line: &Value) -> Option<String> {
    let speaker = match line["type"].as_str() {
        Some("user") => "User",
        Some("assistant") => "Assistant",
        Some(_) | None => return None,
    };
    if line["isMeta"] == true || line["isSidechain"] == true {
        return None;
    }
    let text = match &line["message"]["content"] {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            blocks.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => return None,
    };
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    let mut kept: String = text.chars().take(SAID).collect();
    if kept.len() < text.len() {
        kept.push_str("...");
    }
    Some(format!("**{speaker}**: {kept}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_is_kept_and_nothing_else() {
        let transcript = concat!(
            r#"{"type":"summary","summary":"x"}"#,
            "\n",
            r#"{"type":"user","message":{"content":"hello"}}"#,
            "\n",
            r#"{"type":"assistant","message":{"content":[{"type":"text","text":"hi "},{"type":"tool_use"},{"type":"text","text":"there"}]}}"#,
            "\n",
            r#"{"type":"user","isMeta":true,"message":{"content":"no"}}"#,
            "\nnot json\n",
            r#"{"type":"user","message":{"content":"and no"#,
        );
        assert_eq!(page(transcript.as_bytes()), "**User**: hello\n\n**Assistant**: hi there");
        assert_eq!(page(b""), "");
        assert_eq!(page(b"\xff\xfe\n[]\n7"), "");
    }

    #[test]
    fn a_long_one_keeps_its_end_and_long_speeches_their_beginning() {
        let line = |text: &str| format!("{{\"type\":\"user\",\"message\":{{\"content\":\"{text}\"}}}}\n");
        let long = page(line(&"é".repeat(3000)).as_bytes());
        assert_eq!(long.chars().count(), "**User**: ".len() + SAID + 3);
        let many: String = (0..2000).map(|n| line(&format!("{n} {}", "x".repeat(1000)))).collect();
        let kept = page(many.as_bytes());
        assert!(kept.len() <= PAGE && kept.ends_with('x') && kept.contains("**User**: 1999 "));
        assert!(!kept.contains("**User**: 0 "));
    }
}
