//! A rehearsal: the newest messages of a source, judged by its rules and by those here. Nothing is taken in.

use std::collections::VecDeque;

use anyhow::{Result, bail};

use super::{Source, addresses};
use crate::domain::{
    heard::{chat_commands::Words, js_regex::MAX_TEXT_CHARS, sender_list::SenderList},
    moved::{
        rehearsal::{LOOKED_AT, Rehearsal, here::Here, rehearse as judge},
        rows::{Message, Part, Row},
    },
};

/// A source with more groups, chats, wirings, people and conversations is not rehearsed: they are all held in memory.
const MOST: usize = 500_000;

/// Reads a source through and judges its newest messages. `words`: the commands in chats here; `senders`: the sender list that is in
/// force here.
///
/// # Errors
/// The source can't be read, or is too large to be held.
pub fn rehearse(source: &mut dyn Source, words: Words, senders: SenderList) -> Result<Rehearsal> {
    let mut here = Here::new(words, senders, addresses::known().clone());
    let mut newest = VecDeque::with_capacity(LOOKED_AT + 1);
    let mut held = 0;
    let parts = [Part::Settings, Part::Groups, Part::People, Part::Messages, Part::Sessions];
    while let Some(batch) = source.next(&parts)? {
        for keyed in batch.rows {
            match keyed.row {
                Row::Message(message) => {
                    newest.push_back(short(*message));
                    if newest.len() > LOOKED_AT {
                        newest.pop_front();
                    }
                }
                row => {
                    held += usize::from(here.take(&row));
                    if held > MOST {
                        bail!("it has more than {MOST} groups, chats, wirings and people");
                    }
                }
            }
        }
    }
    Ok(judge(newest.make_contiguous(), &source.rules(), &mut here))
}

/// A message with as much of its text as a rule looks at, and without what no rule asks for.
fn short(message: Message) -> Message {
    let text = match message.text.char_indices().nth(MAX_TEXT_CHARS) {
        Some((end, _)) => message.text[..end].to_owned(),
        None => message.text,
    };
    Message { text, files: Vec::new(), reply: None, comment: None, ..message }
}

#[cfg(test)]
mod tests {
    use ipc_handlers::Folder;
    use serde_json::json;

    use super::*;
    use crate::{
        domain::moved::{
            rehearsal::there::{Dialect, Registrations, There},
            rows::Keyed,
        },
        moving::{Batch, Tree},
    };

    /// A source of NanoClaw's kind: a group, and many messages of which each tenth has its trigger.
    struct Many {
        batches: i64,
    }

    fn keyed(row: &serde_json::Value) -> Keyed {
        serde_json::from_value(row.clone()).unwrap()
    }

    impl Source for Many {
        fn name(&self) -> &str {
            "many"
        }

        fn about(&self) -> String {
            "many messages".into()
        }

        fn weight(&self) -> u64 {
            0
        }

        fn next(&mut self, parts: &[Part]) -> Result<Option<Batch>> {
            assert!(!parts.contains(&Part::Tasks) && !parts.contains(&Part::Files));
            self.batches += 1;
            let at = "2026-01-01T00:00:00.000Z";
            let rows = match self.batches {
                1 => vec![
                    keyed(&json!({"key": "a", "row": "group", "folder": "a", "name": "A", "trigger": "@Andy", "created_at": at})),
                    keyed(&json!({"key": "c", "row": "chat", "jid": "tg:-5", "channel": "telegram", "name": "C", "kind": "group",
                        "unknown_senders": "strict", "created_at": at})),
                    keyed(&json!({"key": "w", "row": "wiring", "group": "a", "chat": "tg:-5", "engage_mode": "mention",
                        "sender_scope": "all", "ignored_messages": "accumulate", "created_at": at})),
                ],
                2..=100 => (0..50)
                    .map(|n| {
                        let text = if n % 10 == 0 { "@Andy hi" } else { "hi" };
                        let id = (self.batches * 50 + n).to_string();
                        keyed(&json!({"key": id, "row": "message", "chat": "tg:-5", "replay_key": id, "id": id, "sender": "tg:7",
                            "sender_name": "Ada", "text": text.repeat(5_000), "received_at": at}))
                    })
                    .collect(),
                _ => return Ok(None),
            };
            Ok(Some(Batch { rows, findings: Vec::new() }))
        }

        fn trees(&self) -> Vec<Tree> {
            Vec::new()
        }

        fn rules(&self) -> There {
            let mut all = Registrations::new(Dialect::Name, "Andy", SenderList::Absent);
            all.register("tg:-5", Folder::parse("a").unwrap(), "@Andy", true);
            There::Registered(all)
        }
    }

    #[test]
    fn the_newest_two_hundred_messages_are_judged() {
        let mut source = Many { batches: 0 };
        let found = rehearse(&mut source, Words::default(), SenderList::Absent).unwrap();
        assert_eq!((found.messages, found.woke_there, found.wakes_here, found.differ), (200, 20, 0, 20));
        assert!(found.differences[0].here.why.contains("the chat's policy is strict"), "{found:#?}");
        assert_eq!(found.differences[0].fix.as_deref(), Some("g2 members add --group a tg:7"));
    }
}
