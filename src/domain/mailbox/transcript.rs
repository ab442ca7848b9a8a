//! An agent's transcript as a page that people and a search can read. A container writes transcripts: memory
//! for one is bounded by the page, and by its longest line while that is read, for any content.

use std::{collections::VecDeque, fmt};

use serde::{
    Deserialize,
    de::{Deserializer, SeqAccess, Visitor},
};

/// The most that is kept of one thing said, characters, as v1 did.
const SAID: usize = 2000;
/// The most that is kept of a transcript, bytes; of a longer one its end.
pub const PAGE: usize = 1 << 20;

/// What was said, oldest first, a paragraph each; made line by line.
pub struct Page {
    most: usize,
    said: VecDeque<String>,
    bytes: usize,
}

impl Page {
    /// An empty page of at most `most` bytes.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { most, said: VecDeque::new(), bytes: 0 }
    }

    /// Adds what one line of a transcript says. Lines that are no JSON, or no such JSON, are passed over: one at the end
    /// may be half written.
    pub fn add(&mut self, line: &[u8]) {
        let Some(paragraph) = serde_json::from_slice::<Line>(line).ok().and_then(Line::paragraph) else {
            return;
        };
        self.bytes += paragraph.len() + 2;
        self.said.push_back(paragraph);
        while self.bytes > self.most
            && let Some(oldest) = self.said.pop_front()
        {
            self.bytes -= oldest.len() + 2;
        }
    }

    /// Returns the page.
    #[must_use]
    pub fn text(self) -> String {
        self.said.into_iter().collect::<Vec<_>>().join("\n\n")
    }
}

/// The fields of a line that are read. The rest is dropped.
#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    speaker: Speaker,
    #[serde(rename = "isMeta", default)]
    meta: Option<bool>,
    #[serde(rename = "isSidechain", default)]
    sidechain: Option<bool>,
    message: Message,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Speaker {
    User,
    Assistant,
}

#[derive(Deserialize)]
struct Message {
    content: Said,
}

impl Line {
    fn paragraph(self) -> Option<String> {
        if self.meta == Some(true) || self.sidechain == Some(true) {
            return None;
        }
        let speaker = match self.speaker {
            Speaker::User => "User",
            Speaker::Assistant => "Assistant",
        };
        let text = self.message.content.text();
        (!text.is_empty()).then(|| format!("**{speaker}**: {text}"))
    }
}

/// The beginning of a text, without the blanks around it.
#[derive(Default)]
struct Said {
    kept: String,
    chars: usize,
    /// Whether something follows that is not kept.
    more: bool,
}

impl Said {
    fn push(&mut self, text: &str) {
        let text = if self.chars == 0 { text.trim_start() } else { text };
        let end = text.char_indices().nth(SAID - self.chars).map_or(text.len(), |(at, _)| at);
        let (kept, rest) = text.split_at(end);
        self.kept.push_str(kept);
        self.chars += kept.chars().count();
        self.more = self.more || !rest.trim_end().is_empty();
    }

    fn text(mut self) -> String {
        if self.more {
            self.kept.push_str("...");
            return self.kept;
        }
        self.kept.truncate(self.kept.trim_end().len());
        self.kept
    }
}

/// A text, or blocks of which some have one.
impl<'de> Deserialize<'de> for Said {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Content;

        impl<'de> Visitor<'de> for Content {
            type Value = Said;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or blocks")
            }

            fn visit_str<E>(self, text: &str) -> Result<Said, E> {
                let mut said = Said::default();
                said.push(text);
                Ok(said)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut blocks: A) -> Result<Said, A::Error> {
                let mut said = Said::default();
                while let Some(block) = blocks.next_element::<Block>()? {
                    said.push(block.text.as_deref().unwrap_or_default());
                }
                Ok(said)
            }
        }

        deserializer.deserialize_any(Content)
    }
}

/// A block; one without a text is a call of a tool, or what came of it.
#[derive(Deserialize)]
struct Block {
    text: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(transcript: &[u8]) -> String {
        let mut page = Page::new(PAGE);
        transcript.split(|byte| *byte == b'\n').for_each(|line| page.add(line));
        page.text()
    }

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
        let odd = ["7", "null", "{}", r#"[{"text":7}]"#, r#"[{"text":null},{}]"#, r#"" \n ""#];
        for content in odd {
            let line = format!(r#"{{"type":"user","message":{{"content":{content}}}}}"#);
            assert_eq!(page(line.as_bytes()), "", "{content}");
        }
        let parts = r#"{"message":{"content":[{"text":"\n a"},{"text":" "},{"text":"b \n"},{"text":" "}]},"type":"user"}"#;
        assert_eq!(page(parts.as_bytes()), "**User**: a b");
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
