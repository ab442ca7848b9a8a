//! Lines of the protocol, within bounds.

use schemars::generate::SchemaSettings;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{Down, Up, json::read_json};

/// The longest line, bytes, without its end.
pub const LONGEST_LINE: usize = 1 << 20;

/// Why a line was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    #[error("a line is longer than {LONGEST_LINE} bytes")]
    TooLong,
    #[error("a line is not of the protocol: {why}")]
    Unreadable {
        why: String,
        /// The number of the event that it tells, where that can be read: it is to be answered nevertheless.
        event: Option<u64>,
    },
}

/// What of an event can be read in any case.
#[derive(Deserialize)]
struct Numbered {
    is: String,
    n: u64,
}

impl Numbered {
    fn event(self) -> Option<u64> {
        matches!(&self.is[..], "event" | "chat_moved" | "person_is").then_some(self.n)
    }
}

/// Writes a line, with its end. `None`: it would be longer than [`LONGEST_LINE`].
#[must_use]
pub fn line(what: &impl Serialize) -> Option<Vec<u8>> {
    let mut line = serde_json::to_vec(what).ok()?;
    (line.len() <= LONGEST_LINE).then(|| {
        line.push(b'\n');
        line
    })
}

/// Finds lines in bytes as they come, and holds at most one line of them.
#[derive(Debug, Default)]
pub struct Lines {
    held: Vec<u8>,
    /// How many bytes at the beginning were given out.
    taken: usize,
    /// How far no end of a line was found.
    searched: usize,
}

impl Lines {
    /// Takes in what was read. Call [`Lines::next_line`] until it returns `None` before the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.held.drain(..self.taken);
        self.searched -= self.taken;
        self.taken = 0;
        self.held.extend_from_slice(bytes);
    }

    /// Returns the next line; an empty one is passed over. After [`LineError::TooLong`] nothing more can be read.
    pub fn next_line<T: DeserializeOwned>(&mut self) -> Option<Result<T, LineError>> {
        loop {
            let end = self.held[self.searched..].iter().position(|byte| *byte == b'\n');
            let Some(end) = end.map(|end| self.searched + end) else {
                self.searched = self.held.len();
                return (self.searched - self.taken > LONGEST_LINE).then_some(Err(LineError::TooLong));
            };
            let line = &self.held[self.taken..end];
            (self.taken, self.searched) = (end + 1, end + 1);
            if line.len() > LONGEST_LINE {
                return Some(Err(LineError::TooLong));
            }
            if !line.trim_ascii().is_empty() {
                let read = read_json(line);
                return Some(read.map_err(|error| LineError::Unreadable {
                    why: error.to_string(),
                    event: read_json::<Numbered>(line).ok().and_then(Numbered::event),
                }));
            }
        }
    }
}

/// Returns the JSON Schema of both sides' lines.
#[must_use]
pub fn schema() -> Value {
    let mut all = SchemaSettings::draft2020_12().into_generator();
    let (down, up) = (all.subschema_for::<Down>(), all.subschema_for::<Up>());
    let defs = all.take_definitions(true);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The channel protocol of G2, version 1",
        "description": "Lines from G2 are `down`, lines from an adapter are `up`.",
        "properties": {"down": down, "up": up},
        "$defs": defs,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Done, Event, Hello, NotSent, SentTwice};

    fn all(lines: &mut Lines) -> Vec<Result<Up, LineError>> {
        std::iter::from_fn(|| lines.next_line()).collect()
    }

    #[test]
    fn lines_are_found_in_pieces_of_any_size_and_a_wrong_one_spoils_no_other() {
        let text = b"{\"is\":\"pong\",\"r\":1}\n\n  \nnonsense\n{\"is\":\"new\",\"x\":[1]}\n{\"is\":\"pong\",\"r\":2,\"more\":{}}\n";
        for size in [1, 2, 7, 1000] {
            let mut lines = Lines::default();
            let mut found = Vec::new();
            for piece in text.chunks(size) {
                lines.push(piece);
                found.append(&mut all(&mut lines));
            }
            assert!(matches!(
                &found[..],
                [
                    Ok(Up::Pong { r: 1 }),
                    Err(LineError::Unreadable { event: None, .. }),
                    Ok(Up::Unknown),
                    Ok(Up::Pong { r: 2 })
                ]
            ));
        }
    }

    #[test]
    fn an_event_that_can_not_be_read_has_its_number_and_half_a_character_spoils_none() {
        let mut lines = Lines::default();
        lines.push(b"{\"is\":\"event\",\"n\":3,\"text\":7}\n{\"is\":\"pong\",\"r\":\"x\",\"n\":4}\n");
        lines.push(b"{\"is\":\"event\",\"n\":5,\"text\":\"a\\ud800b\"}\n");
        let read = all(&mut lines);
        let [
            Err(LineError::Unreadable { event: Some(3), .. }),
            Err(LineError::Unreadable { event: None, .. }),
            Ok(Up::Event(event)),
        ] = &read[..]
        else {
            panic!("{read:?}")
        };
        assert_eq!(event.text, "a\u{fffd}b");
    }

    #[test]
    fn a_line_without_an_end_is_refused_before_it_is_held() {
        let mut lines = Lines::default();
        for _ in 0..LONGEST_LINE / 4096 {
            lines.push(&[b'x'; 4096]);
            assert!(lines.next_line::<Up>().is_none());
        }
        lines.push(b"x");
        assert_eq!(lines.next_line::<Up>(), Some(Err(LineError::TooLong)));
        assert!(line(&"x".repeat(LONGEST_LINE)).is_none());
    }

    #[test]
    fn what_is_not_said_has_a_meaning_and_words_from_later_versions_are_ignored() {
        let read = |text: &str| serde_json::from_str::<Up>(text).unwrap();
        assert_eq!(read(r#"{"is":"hello"}"#), Up::Hello(Box::default()));
        let Up::Hello(hello) = read(
            r#"{"is":"hello","can":["typing","levitate"],"sent_twice":{"how":"prayer"},"text":{"format":"runes","max":9}}"#,
        ) else {
            panic!()
        };
        assert_eq!(hello.can, [crate::Can::Typing, crate::Can::Unknown]);
        assert_eq!((hello.sent_twice, hello.text.format), (SentTwice::Never, crate::Format::Plain));
        let done = Done { r: 1, not: Some(NotSent::Offline), ..Done::default() };
        assert_eq!(read(r#"{"is":"done","r":1,"not":{"why":"offline"}}"#), Up::Done(done));
        let Up::Event(event) = read(r#"{"is":"event","n":1,"kind":"dance","chat":"a:1"}"#) else { panic!() };
        assert_eq!(event.kind, crate::EventKind::Nothing);
        assert_eq!(Event::default().kind, crate::EventKind::Message);
        assert_eq!(Hello::default().v, 0);
        let Up::Hello(hello) = read(r#"{"is":"hello","addresses":{"endings":["@g.us"],"direct":"D.*"}}"#)
        else {
            panic!()
        };
        let told = hello.addresses.unwrap();
        assert_eq!(
            (&told.endings[..], &*told.direct, &*told.main_thread),
            (&["@g.us".to_owned()][..], "D.*", "")
        );
        let Up::Event(event) =
            read(r#"{"is":"event","from":{"id":"1","also":["2"]},"title":"x","references":["3"]}"#)
        else {
            panic!()
        };
        assert_eq!((&event.from.also[0][..], &*event.title, &event.references[0][..]), ("2", "x", "3"));
        let person = Up::PersonIs { n: 4, id: "1".into(), also: vec!["2".into()] };
        assert_eq!(read(r#"{"is":"person_is","n":4,"id":"1","also":["2"]}"#), person);
    }

    #[test]
    fn the_schema_names_each_line() {
        let schema = schema().to_string();
        for word in ["look_for", "chat_moved", "event", "cannot_tell", "person_is", "main_thread"] {
            assert!(schema.contains(word), "{word}");
        }
    }
}
