//! What the entities of a text say: who is named, whom a command is for, what a link leads to. Pure.

use serde_json::Value;

use super::{read::Us, wire};
use crate::kit::{Links, command_behind};

/// How many entities of a text are looked at; Telegram has at most 100 in one.
const MOST: usize = 200;
/// Where a link to a person leads.
const PERSON: &str = "tg://user?id=";

/// A text, and what stands in it.
#[derive(Clone, Copy)]
pub(super) struct Marked<'a> {
    text: &'a str,
    entities: &'a [Value],
}

/// For whom the command is that a text begins with.
#[derive(Debug, PartialEq)]
pub(super) enum Command {
    /// For any bot that reads it, or there is none.
    Open,
    Ours,
    Others,
}

impl<'a> Marked<'a> {
    /// Returns the text of a message, or what stands beside its file.
    pub(super) fn of(message: &'a Value) -> Self {
        match message["text"].as_str() {
            Some(text) => Self::new(text, message, "entities"),
            None => Self::new(wire::text(message, "caption"), message, "caption_entities"),
        }
    }

    pub(super) fn new(text: &'a str, of: &'a Value, entities: &str) -> Self {
        let entities = wire::list(of, entities);
        Self { text, entities: &entities[..entities.len().min(MOST)] }
    }

    /// Whether a stretch of the text names us.
    pub(super) fn names(&self, us: &Us) -> bool {
        self.entities.iter().any(|entity| match wire::text(entity, "type") {
            "mention" => self.stretch(entity).strip_prefix('@').is_some_and(|name| us.is_called(name)),
            "bot_command" => self.addressee(entity).is_some_and(|name| us.is_called(name)),
            "text_mention" => wire::number(&entity["user"], "id") == Some(us.id),
            "text_link" => {
                let id = wire::text(entity, "url").strip_prefix(PERSON);
                id.and_then(|id| id.parse().ok()) == Some(us.id)
            }
            _ => false,
        })
    }

    pub(super) fn command(&self, us: &Us) -> Command {
        match self.first_command().and_then(|entity| self.addressee(entity)) {
            Some(name) if us.is_called(name) => Command::Ours,
            Some(_) if !us.handle.is_empty() => Command::Others,
            _ if self.command_behind_us(us).is_some() => Command::Ours,
            _ => Command::Open,
        }
    }

    /// Returns the text with the addresses behind its words; a command of ours stands without our name.
    pub(super) fn told(&self, command: &Command, us: &Us) -> String {
        if *command == Command::Ours
            && let Some(word) = self.command_behind_us(us)
        {
            return word.to_owned();
        }
        let mut links = Links::default();
        // What comes in place of a range, in bytes.
        let mut changes: Vec<(usize, usize, String)> = Vec::new();
        if *command == Command::Ours
            && let Some(entity) = self.first_command()
            && let Some((word, _)) = self.stretch(entity).split_once('@')
        {
            changes.push((word.len(), self.stretch(entity).len(), String::new()));
        }
        for entity in self.entities.iter().filter(|entity| wire::text(entity, "type") == "text_link") {
            let address = wire::text(entity, "url");
            let words = self.stretch(entity);
            if !words.is_empty()
                && !address.starts_with(PERSON)
                && let Some(behind) = links.behind(words, address)
            {
                let at = self.range(entity).0 + words.trim_end().len();
                changes.push((at, at, behind));
            }
        }
        changes.sort_by_key(|(from, ..)| *from);
        let (mut told, mut at) = (String::with_capacity(self.text.len()), 0);
        for (from, to, with) in changes {
            told.push_str(self.text.get(at..from).unwrap_or_default());
            told.push_str(&with);
            at = at.max(to);
        }
        told.push_str(&self.text[at..]);
        told
    }

    /// Returns the command of a text that is our handle and it: `@ada_g2_bot /stop`.
    fn command_behind_us(&self, us: &Us) -> Option<&'a str> {
        let is_first = |entity: &&Value| wire::text(entity, "type") == "mention" && entity["offset"] == 0;
        let handle = self.stretch(self.entities.iter().find(is_first)?);
        us.is_called(handle.strip_prefix('@')?).then(|| command_behind(&self.text[handle.len()..]))?
    }

    fn first_command(&self) -> Option<&'a Value> {
        self.entities.iter().find(|entity| {
            wire::text(entity, "type") == "bot_command" && entity["offset"].as_u64() == Some(0)
        })
    }

    /// Returns whom a command names.
    fn addressee(&self, entity: &Value) -> Option<&'a str> {
        let (_, name) = self.stretch(entity).strip_prefix('/')?.split_once('@')?;
        (!name.is_empty()).then_some(name)
    }

    /// Returns the stretch of an entity, as far as the text has it.
    fn stretch(&self, entity: &Value) -> &'a str {
        let (from, to) = self.range(entity);
        &self.text[from..to]
    }

    fn range(&self, entity: &Value) -> (usize, usize) {
        let units = |name| entity[name].as_u64().and_then(|units| usize::try_from(units).ok()).unwrap_or(0);
        let (from, length) = (units("offset"), units("length"));
        (self.byte(from), self.byte(from.saturating_add(length)))
    }

    /// Returns the byte at which a UTF-16 unit begins; within a character, that of the next one.
    fn byte(&self, units: usize) -> usize {
        let mut passed = 0;
        for (at, c) in self.text.char_indices() {
            if passed >= units {
                return at;
            }
            passed += c.len_utf16();
        }
        self.text.len()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn us() -> Us {
        Us { prefix: "tg".into(), id: 42, handle: "Andy_G2_Bot".into(), since: None }
    }

    fn entity(kind: &str, offset: usize, length: usize) -> Value {
        json!({"type": kind, "offset": offset, "length": length})
    }

    fn told(text: &str, entities: Value) -> (Command, String) {
        let message = json!({"text": text, "entities": entities});
        let marked = Marked::of(&message);
        let command = marked.command(&us());
        let told = marked.told(&command, &us());
        (command, told)
    }

    #[test]
    fn a_command_of_ours_stands_without_our_name_and_one_of_others_is_theirs() {
        for (text, entities, command, is) in [
            ("/stop@andy_g2_bot", json!([entity("bot_command", 0, 17)]), Command::Ours, "/stop"),
            ("/stop@ANDY_G2_BOT now", json!([entity("bot_command", 0, 17)]), Command::Ours, "/stop now"),
            ("/stop@other_bot", json!([entity("bot_command", 0, 15)]), Command::Others, "/stop@other_bot"),
            ("/stop", json!([entity("bot_command", 0, 5)]), Command::Open, "/stop"),
            (
                "say /stop@other_bot",
                json!([entity("bot_command", 4, 15)]),
                Command::Open,
                "say /stop@other_bot",
            ),
            (
                "say /stop@andy_g2_bot",
                json!([entity("bot_command", 4, 17)]),
                Command::Open,
                "say /stop@andy_g2_bot",
            ),
            ("/stop@andy_g2_bot", json!([]), Command::Open, "/stop@andy_g2_bot"),
            (
                "@andy_g2_bot /stop",
                json!([entity("mention", 0, 12), entity("bot_command", 13, 5)]),
                Command::Ours,
                "/stop",
            ),
            (
                "@andy_g2_bot /stop it",
                json!([entity("mention", 0, 12)]),
                Command::Open,
                "@andy_g2_bot /stop it",
            ),
            ("@other_bot /stop", json!([entity("mention", 0, 10)]), Command::Open, "@other_bot /stop"),
            ("/stop@", json!([entity("bot_command", 0, 6)]), Command::Open, "/stop@"),
            (
                "/read@andy_g2_bot this",
                json!([entity("bot_command", 0, 17),
                    {"type": "text_link", "offset": 18, "length": 4, "url": "https://a.example/b"}]),
                Command::Ours,
                "/read this (https://a.example/b)",
            ),
        ] {
            assert_eq!(told(text, entities), (command, is.to_owned()), "{text}");
        }
    }

    #[test]
    fn words_are_told_with_the_address_behind_them() {
        let link = |offset: usize, length: usize, url: &str| json!({"type": "text_link", "offset": offset, "length": length, "url": url});
        let url = "https://a.example/b";
        for (text, entities, is) in [
            (
                "Summarise this article please",
                json!([link(10, 12, url)]),
                "Summarise this article (https://a.example/b) please",
            ),
            ("😀 read 😀 it", json!([link(8, 5, url)]), "😀 read 😀 it (https://a.example/b)"),
            (
                "a b",
                json!([link(2, 1, "https://2.example"), link(0, 1, "https://1.example")]),
                "a (https://1.example) b (https://2.example)",
            ),
            (
                "bold link",
                json!([entity("bold", 0, 9), link(5, 4, url), entity("italic", 5, 2)]),
                "bold link (https://a.example/b)",
            ),
            (
                "two on one",
                json!([link(0, 10, "https://1.example"), link(7, 3, "https://2.example")]),
                "two on one (https://1.example) (https://2.example)",
            ),
            ("with a space ", json!([link(5, 8, url)]), "with a space (https://a.example/b) "),
            ("\u{200b}look", json!([link(0, 1, url)]), "\u{200b} (https://a.example/b)look"),
            ("a.example/b", json!([link(0, 11, url)]), "a.example/b"),
            ("https://A.example", json!([link(0, 17, "https://a.example/")]), "https://A.example"),
            ("Bob", json!([link(0, 3, "tg://user?id=7")]), "Bob"),
            (
                "beyond",
                json!([link(90, 5, url), link(0, 0, url), link(3, 900, url)]),
                "beyond (https://a.example/b)",
            ),
            ("half 😀", json!([link(0, 6, url)]), "half 😀 (https://a.example/b)"),
            ("none", json!([{"type": "text_link", "offset": "0", "length": -4, "url": 5}, 7, null]), "none"),
        ] {
            assert_eq!(told(text, entities).1, is, "{text}");
        }
    }

    #[test]
    fn addresses_add_no_more_to_a_text_than_their_bound() {
        let long = format!("https://a.example/{}", "x".repeat(5000));
        let link = |at: usize| json!({"type": "text_link", "offset": at, "length": 1, "url": long});
        let all: Vec<Value> = (0..5000).map(link).collect();
        let (_, told) = told(&"a".repeat(5000), json!(all));
        assert!(told.contains("…)") && told.len() < 5000 + (16 << 10) + 100, "{}", told.len());
    }

    #[test]
    fn whatever_the_entities_are_no_word_of_a_text_is_lost() {
        let text = "ä😀/x@andy_g2_bot\u{200b}é";
        for offset in 0..22 {
            for length in 0..22 {
                for kind in ["text_link", "bot_command", "mention"] {
                    let mut one = entity(kind, offset, length);
                    one["url"] = "https://a.example".into();
                    let (command, told) = told(text, json!([one]));
                    assert_eq!(command, Command::Open);
                    assert_eq!(told.replace(" (https://a.example)", ""), text, "{offset} {length} {kind}");
                }
            }
        }
    }
}
