//! What all sources share: names, keys, and settings of groups.

use std::collections::BTreeSet;

use ipc_handlers::Folder;
use serde_json::{Map, Value};

use crate::{
    domain::{
        heard::approvals::name::check_seen,
        moved::{
            findings::Finding,
            rows::{Keyed, Kind, LONGEST_KEY, Row},
        },
        runs::group_config::GroupConfig,
    },
    moving::foreign::Page,
};

/// The longest address of a chat, bytes.
const LONGEST_JID: usize = 512;
/// The longest name, characters.
const LONGEST_NAME: usize = 200;

/// A row with its key.
pub(super) fn keyed(key: impl Into<String>, row: Row) -> Keyed {
    Keyed { key: key.into(), row }
}

/// A name for people: one line, without control characters; `fallback` where nothing is left.
pub(super) fn name(text: Option<String>, fallback: &str) -> String {
    let text = text.unwrap_or_default();
    let line: String =
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST_NAME).collect();
    let line = line.trim();
    if line.is_empty() { fallback.to_owned() } else { line.to_owned() }
}

/// The name of a group; one that can't be told by eye is that of its folder.
pub(super) fn group_name(text: Option<String>, folder: &Folder, findings: &mut Vec<Finding>) -> String {
    let called = name(text, folder.as_str());
    match check_seen(&called) {
        Ok(()) => called,
        Err(error) => {
            let why = format!("it is called by its folder here: {error}");
            findings.push(Finding::changed(Kind::Group, folder.as_str(), why));
            folder.to_string()
        }
    }
}

/// Checks the address of a chat.
pub(super) fn jid(text: Option<String>) -> Result<String, &'static str> {
    let jid = text.filter(|jid| !jid.is_empty()).ok_or("it has no address")?;
    if jid.len() > LONGEST_JID {
        return Err("its address is longer than one is");
    }
    if jid.chars().any(char::is_control) {
        return Err("its address has control characters in it");
    }
    Ok(jid)
}

/// Checks the key of a row.
pub(super) fn key(text: Option<String>) -> Result<String, &'static str> {
    let key = text.filter(|key| !key.is_empty()).ok_or("it has no id")?;
    if key.len() > LONGEST_KEY / 2 { Err("its id is longer than one is") } else { Ok(key) }
}

/// Checks the name of a folder, and tells of one that can't be taken.
pub(super) fn folder(text: &str, kind: Kind, key: &str, findings: &mut Vec<Finding>) -> Option<Folder> {
    match Folder::parse(text) {
        Ok(folder) => Some(folder),
        Err(invalid) => {
            findings.push(Finding::left(kind, key, invalid.why()));
            None
        }
    }
}

/// The settings of a group, put together one by one: what can't be set is told, and the rest is taken.
pub(super) struct Config<'a> {
    folder: &'a str,
    taken: Map<String, Value>,
}

impl<'a> Config<'a> {
    pub(super) fn of(folder: &'a str) -> Self {
        Self { folder, taken: Map::new() }
    }

    /// Sets a key; returns whether that can be.
    pub(super) fn set(&mut self, key: &str, value: Value, findings: &mut Vec<Finding>) -> bool {
        let mut with = self.taken.clone();
        with.insert(key.to_owned(), value);
        match GroupConfig::from_json(&Value::Object(with.clone()).to_string()) {
            Ok(_) => {
                self.taken = with;
                true
            }
            Err(error) => {
                let why = format!("its setting {key} is not taken: {error}");
                findings.push(Finding::changed(Kind::Group, self.folder, why));
                false
            }
        }
    }

    /// Takes v1's `containerConfig`: a JSON text.
    pub(super) fn container_config(&mut self, text: &str, findings: &mut Vec<Finding>) {
        let read = serde_json::from_str::<Map<String, Value>>(text);
        let Ok(read) = read else {
            findings.push(Finding::changed(
                Kind::Group,
                self.folder,
                "its container_config is no JSON object; it has the settings of all groups",
            ));
            return;
        };
        for (key, value) in read.into_iter().filter(|(_, value)| !value.is_null()) {
            match key.as_str() {
                "timeout" | "additionalMounts" => {
                    self.set(&key, value, findings);
                }
                other => findings.push(Finding::changed(
                    Kind::Group,
                    self.folder,
                    format!("{other} of its container_config is no setting here"),
                )),
            }
        }
    }

    pub(super) fn taken(self) -> Map<String, Value> {
        self.taken
    }
}

/// Names that must not stand twice.
#[derive(Debug, Default)]
pub(super) struct Names(BTreeSet<String>);

impl Names {
    /// Returns the name, with the folder behind it where another group has it already.
    pub(super) fn once(&mut self, name: String, folder: &Folder, findings: &mut Vec<Finding>) -> String {
        if self.0.insert(name.to_lowercase()) {
            return name;
        }
        let other = format!("{name} ({folder})");
        findings.push(Finding::changed(
            Kind::Group,
            folder.as_str(),
            format!("another group has its name too; it is called {other:?} here"),
        ));
        self.0.insert(other.to_lowercase());
        other
    }
}

/// Tells of rows of a page that can't be read, by their numbers.
pub(super) fn told(table: &str, page: &Page, kind: Kind, findings: &mut Vec<Finding>) {
    if let Some((from, to, why)) = &page.lost {
        let rows = match *to {
            i64::MAX => format!("{table} from row {from} on"),
            to => format!("{table} rows {from} to {to}"),
        };
        findings.push(Finding::left(kind, rows, format!("the store is damaged there: {why}")));
    }
}

/// Reads JSON in which halves of surrogate pairs may stand, which JavaScript leaves over where it cuts a text.
pub(super) fn read_json(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok().or_else(|| serde_json::from_str(&mend(text)).ok())
}

/// Puts U+FFFD in the place of escaped halves of surrogate pairs.
fn mend(text: &str) -> String {
    let unit = |at: usize| {
        let hex = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(hex, 16).ok()
    };
    let (mut out, mut at) = (String::with_capacity(text.len()), 0);
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let Some(found) = rest.find('\\') else {
            out.push_str(rest);
            break;
        };
        out.push_str(&rest[..found]);
        at += found;
        let is_high = |unit: &u16| (0xd800..0xdc00).contains(unit);
        let is_low = |unit: &u16| (0xdc00..0xe000).contains(unit);
        let (taken, written) = match unit(at) {
            Some(high) if is_high(&high) && unit(at + 6).as_ref().is_some_and(is_low) => (12, None),
            Some(half) if is_high(&half) || is_low(&half) => (6, Some("\\ufffd")),
            Some(_) => (6, None),
            // An escape of one character, which may be a backslash.
            None => (1 + rest[found + 1..].chars().next().map_or(0, char::len_utf8), None),
        };
        out.push_str(written.unwrap_or_else(|| text.get(at..at + taken).unwrap_or_default()));
        at += taken;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_surrogate_pairs_are_mended_and_whole_ones_stay() {
        for (json, read) in [
            (r#""a \ud83c\udfe1 b""#, "a \u{1F3E1} b"),
            (r#""a \ud83c b""#, "a \u{fffd} b"),
            (r#""\udfe1\ud83c""#, "\u{fffd}\u{fffd}"),
            (r#""\\ud83c""#, "\\ud83c"),
            (r#""ü\ud83c""#, "ü\u{fffd}"),
            (r#""\u00fc\n""#, "ü\n"),
        ] {
            assert_eq!(read_json(json), Some(Value::from(read)), "{json}");
        }
        assert_eq!(read_json("\\"), None);
        assert_eq!(read_json(r#""\ud83"#), None);
    }
}
