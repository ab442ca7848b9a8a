//! `sender-allowlist.json`, in v1's format: who may be heard at all, by chat.
//!
//! v1 hears everybody where it can't read its list. A person who wrote a list meant to keep somebody out: a list that
//! can't be read lets only the owner through, until it is corrected.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::access::Listed;

/// The list, as it was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SenderList {
    /// There is none: it keeps nobody out.
    #[default]
    Absent,
    Read(List),
    /// It can't be read: why.
    Broken(String),
}

/// What a list says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    default: Entry,
    /// A chat's own entry, or its fault.
    chats: BTreeMap<String, Result<Entry, &'static str>>,
    /// Whether it is logged when somebody is kept out.
    log_denied: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    /// `None`: everybody.
    allow: Option<Vec<String>>,
    /// What others are: context only, or nothing at all.
    others: Listed,
}

impl SenderList {
    /// Reads the file's bytes.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Self {
        let read = serde_json::from_slice::<Value>(bytes).map_err(|e| e.to_string());
        match read.and_then(|value| list(&value).map_err(str::to_owned)) {
            Ok(list) => Self::Read(list),
            Err(why) => Self::Broken(why),
        }
    }

    /// Returns what the list says of a sender in a chat. An entry names them by their whole id (`tg:42`) or by the part
    /// after its channel (`42`), exactly.
    #[must_use]
    pub fn listed(&self, chat: &str, sender: &str) -> Listed {
        match self {
            Self::Absent => Listed::Allowed,
            Self::Broken(_) => Listed::Unreadable,
            Self::Read(list) => match list.chats.get(chat) {
                Some(Ok(entry)) => entry.listed(sender),
                Some(Err(_)) => Listed::Unreadable,
                None => list.default.listed(sender),
            },
        }
    }

    /// Returns what the list says of a person with several ids: they are let in under any of them.
    #[must_use]
    pub fn listed_any<'a>(&self, chat: &str, senders: impl IntoIterator<Item = &'a str>) -> Listed {
        let mut all = senders.into_iter().map(|sender| self.listed(chat, sender));
        let first = all.next().unwrap_or_else(|| self.listed(chat, ""));
        if all.any(|listed| listed == Listed::Allowed) { Listed::Allowed } else { first }
    }

    /// Whether it is logged when somebody is kept out. It is counted in any case.
    #[must_use]
    pub fn logs_denied(&self) -> bool {
        match self {
            Self::Read(list) => list.log_denied,
            Self::Absent | Self::Broken(_) => true,
        }
    }

    /// Returns the faults of the list and their effects, a sentence each.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        match self {
            Self::Absent => Vec::new(),
            Self::Broken(why) => vec![format!("it can't be read, so only owners are heard: {why}")],
            Self::Read(list) => list
                .chats
                .iter()
                .filter_map(|(chat, entry)| {
                    let why = entry.as_ref().err()?;
                    Some(format!("its entry for {chat} can't be read, so only owners are heard there: {why}"))
                })
                .collect(),
        }
    }
}

impl Entry {
    fn listed(&self, sender: &str) -> Listed {
        let handle = sender.split_once(':').map_or(sender, |(_, handle)| handle);
        match &self.allow {
            None => Listed::Allowed,
            Some(names)
                if names.iter().any(|name| name == sender || name == handle) && !sender.is_empty() =>
            {
                Listed::Allowed
            }
            Some(_) => self.others,
        }
    }
}

fn list(value: &Value) -> Result<List, &'static str> {
    let whole = value.as_object().ok_or("it is no JSON object")?;
    let default = whole.get("default").ok_or("\"default\" is missing")?;
    let default = entry(default).map_err(
        |_| "\"default\" has to be {\"allow\": \"*\" or [\"…\"], \"mode\": \"trigger\" or \"drop\"}",
    )?;
    let none = Map::new();
    let chats = match whole.get("chats") {
        None => &none,
        Some(chats) => chats.as_object().ok_or("\"chats\" is no object of entries by chat")?,
    };
    Ok(List {
        default,
        chats: chats.iter().map(|(chat, value)| (chat.clone(), entry(value))).collect(),
        log_denied: whole.get("logDenied") != Some(&Value::Bool(false)),
    })
}

fn entry(value: &Value) -> Result<Entry, &'static str> {
    let allow = match value.get("allow") {
        Some(Value::String(all)) if all == "*" => None,
        Some(Value::Array(names)) => Some(
            names
                .iter()
                .map(|name| name.as_str().map(str::to_owned))
                .collect::<Option<_>>()
                .ok_or("\"allow\" has something that is no text")?,
        ),
        Some(_) | None => return Err("\"allow\" has to be \"*\" or a list of senders"),
    };
    let others = match value.get("mode").and_then(Value::as_str) {
        Some("trigger") => Listed::ContextOnly,
        Some("drop") => Listed::Drop,
        Some(_) | None => return Err("\"mode\" has to be \"trigger\" or \"drop\""),
    };
    Ok(Entry { allow, others })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: &Value) -> SenderList {
        SenderList::parse(value.to_string().as_bytes())
    }

    fn listed(value: &Value, chat: &str, sender: &str) -> Listed {
        read(value).listed(chat, sender)
    }

    fn only(allow: &Value, mode: &str) -> Value {
        json!({ "default": { "allow": allow, "mode": mode } })
    }

    #[test]
    fn without_a_file_everybody_is_listed_and_denials_are_logged() {
        let list = SenderList::default();
        assert_eq!((list.listed("g1", "tg:anyone"), list.logs_denied()), (Listed::Allowed, true));
        assert!(list.problems().is_empty());
    }

    #[test]
    fn a_star_lists_everybody_the_nameless_too() {
        for mode in ["trigger", "drop"] {
            for sender in ["tg:1", "x", ""] {
                assert_eq!(listed(&only(&json!("*"), mode), "g1", sender), Listed::Allowed);
            }
        }
    }

    #[test]
    fn an_empty_list_lists_nobody() {
        assert_eq!(listed(&only(&json!([]), "trigger"), "g1", "tg:1"), Listed::ContextOnly);
        assert_eq!(listed(&only(&json!([]), "drop"), "g1", "tg:1"), Listed::Drop);
        assert_eq!(listed(&only(&json!([""]), "drop"), "g1", ""), Listed::Drop, "no name is no name");
    }

    #[test]
    fn names_are_compared_exactly_with_the_whole_id_and_with_what_follows_its_channel() {
        let list = only(&json!(["tg:1", "ada", "49@s.whatsapp.net", "*"]), "drop");
        for sender in ["tg:1", "local:ada", "irc:ada", "whatsapp:49@s.whatsapp.net", "ada"] {
            assert_eq!(listed(&list, "g1", sender), Listed::Allowed, "{sender}");
        }
        for sender in ["tg:12", "dc:1", "1", "local:Ada", "local:ada ", "x:local:ada", "tg:ada:x", ""] {
            assert_eq!(listed(&list, "g1", sender), Listed::Drop, "{sender}");
        }
    }

    #[test]
    fn a_chat_s_own_entry_goes_before_the_default_with_its_own_mode() {
        let list = json!({
            "default": { "allow": ["tg:1"], "mode": "drop" },
            "chats": { "tg:-5": { "allow": ["tg:2"], "mode": "trigger" }, "tg:-6": { "allow": "*", "mode": "drop" } },
        });
        assert_eq!(listed(&list, "tg:-5", "tg:2"), Listed::Allowed);
        assert_eq!(listed(&list, "tg:-5", "tg:1"), Listed::ContextOnly, "the default is not asked");
        assert_eq!(listed(&list, "tg:-6", "tg:9"), Listed::Allowed);
        assert_eq!(listed(&list, "tg:-7", "tg:1"), Listed::Allowed);
        assert_eq!(listed(&list, "tg:-7", "tg:2"), Listed::Drop);
    }

    #[test]
    fn denials_are_logged_unless_the_list_says_false() {
        for (value, logs) in [
            (json!(false), false),
            (json!(true), true),
            (json!(null), true),
            (json!(0), true),
            (json!("false"), true),
        ] {
            let mut list = only(&json!([]), "drop");
            list["logDenied"] = value.clone();
            assert_eq!(read(&list).logs_denied(), logs, "{value}");
        }
        assert!(read(&only(&json!([]), "drop")).logs_denied());
    }

    #[test]
    fn a_file_that_can_not_be_read_closes_every_chat_and_says_why() {
        for bytes in [
            "",
            "{",
            "not json",
            "null",
            "[]",
            "\"*\"",
            "{}",
            r#"{"default": null}"#,
            r#"{"default": "*"}"#,
            r#"{"default": {"allow": "*"}}"#,
            r#"{"default": {"mode": "drop"}}"#,
            r#"{"default": {"allow": "everyone", "mode": "drop"}}"#,
            r#"{"default": {"allow": [1, "a"], "mode": "drop"}}"#,
            r#"{"default": {"allow": null, "mode": "drop"}}"#,
            r#"{"default": {"allow": "*", "mode": "Drop"}}"#,
            r#"{"default": {"allow": "*", "mode": "trigger"}, "chats": []}"#,
            r#"{"default": {"allow": "*", "mode": "trigger"}, "chats": null}"#,
            "{\"default\": {\"allow\": \"*\", \"mode\": \"trigger\"}} x",
        ] {
            let list = SenderList::parse(bytes.as_bytes());
            assert_eq!(list.listed("g1", "tg:1"), Listed::Unreadable, "{bytes}");
            assert!(list.logs_denied() && list.problems().len() == 1, "{bytes}: {list:?}");
        }
        assert_eq!(SenderList::parse(b"\xff\xfe").listed("g1", "tg:1"), Listed::Unreadable);
    }

    #[test]
    fn an_entry_that_can_not_be_read_closes_its_own_chat_and_no_other() {
        for bad in [
            json!({ "allow": 5, "mode": "drop" }),
            json!({ "allow": ["a", null], "mode": "drop" }),
            json!({ "allow": "*" }),
            json!(null),
            json!("*"),
        ] {
            let list = json!({
                "default": { "allow": "*", "mode": "trigger" },
                "chats": { "bad": bad, "good": { "allow": ["tg:1"], "mode": "drop" } },
            });
            assert_eq!(listed(&list, "bad", "tg:1"), Listed::Unreadable, "{bad}");
            assert_eq!(listed(&list, "good", "tg:1"), Listed::Allowed, "{bad}");
            assert_eq!(listed(&list, "good", "tg:2"), Listed::Drop, "{bad}");
            assert_eq!(listed(&list, "other", "tg:2"), Listed::Allowed, "{bad}");
            let problems = read(&list).problems();
            assert!(problems.len() == 1 && problems[0].contains("its entry for bad"), "{problems:?}");
        }
    }

    #[test]
    fn fields_that_are_not_known_are_no_harm() {
        let list = json!({ "default": { "allow": "*", "mode": "trigger", "note": 1 }, "version": 2 });
        assert_eq!(listed(&list, "g1", "tg:1"), Listed::Allowed);
    }
}
