//! Filters of lists, which mean the same everywhere: a time, a text, how many; and a group or a chat, where an empty list of
//! something that is not there is a mistake, and said to be one.

use clap::Args;
use ipc_handlers::{Folder, Time};
use jiff::tz::TimeZone;
use serde::Serialize;
use serde_json::Value;

use crate::{
    domain::time::times,
    ops::OpError,
    store::{Store, Text},
};

/// Rows of a time.
#[derive(Debug, Default, Args)]
pub(super) struct Span {
    /// Only from this time on: an age (15m, 2h, 1d), a time of day (22:00), a day (yesterday, monday, 2026-01-02), a day and a
    /// time, or an instant (RFC 3339)
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Only before this time, written in the same way
    #[arg(long, value_name = "WHEN")]
    until: Option<String>,
}

impl Span {
    /// Returns the times, read on the clocks that people here use.
    ///
    /// # Errors
    /// One of them is written in no form that is known.
    pub(super) fn read(&self, context: &super::Context) -> anyhow::Result<(Option<Time>, Option<Time>)> {
        if self.since.is_none() && self.until.is_none() {
            return Ok((None, None));
        }
        let (now, zone) = (context.world.now(), context.config()?.zone.zone);
        let read = |text: &Option<String>| text.as_deref().map(|text| when(text, now, &zone)).transpose();
        Ok((read(&self.since)?, read(&self.until)?))
    }
}

/// Reads a moment that has passed.
///
/// # Errors
/// It is written in no form that is known.
pub(super) fn when(text: &str, now: Time, zone: &TimeZone) -> Result<Time, OpError> {
    times::past(text, now, zone)
        .ok_or_else(|| OpError::invalid(format!("{text:?} is no time")).hint(times::FORMS))
}

/// Rows that contain a text, and how many of them.
#[derive(Debug, Default, Args)]
pub(super) struct Rows {
    /// Only rows that contain this text, in capitals or not
    #[arg(long, value_name = "TEXT")]
    grep: Option<String>,
    /// Show only the newest N
    #[arg(long, value_name = "N")]
    pub(super) limit: Option<usize>,
}

impl Rows {
    /// Returns the text that is looked for.
    pub(super) fn text(&self) -> Option<Text> {
        self.grep.as_deref().map(Text::of)
    }

    /// Returns how many rows are enough before a text is looked for in them.
    pub(super) fn enough(&self) -> Option<usize> {
        self.limit.filter(|_| self.grep.is_none())
    }

    /// Returns the newest of the rows that contain the text.
    pub(super) fn of<T: Serialize>(&self, rows: Vec<T>) -> Vec<T> {
        self.that(rows, |_| true)
    }

    /// Returns the same of those rows that are wanted for another reason too.
    pub(super) fn that<T: Serialize>(&self, mut rows: Vec<T>, is_wanted: impl Fn(&T) -> bool) -> Vec<T> {
        let text = self.text();
        let has = |row: &T| {
            text.as_ref().is_none_or(|text| serde_json::to_value(row).is_ok_and(|value| holds(&value, text)))
        };
        rows.retain(|row| is_wanted(row) && has(row));
        if let Some(limit) = self.limit {
            rows.drain(..rows.len().saturating_sub(limit));
        }
        rows
    }
}

/// Whether a text stands in one of the values of a row.
pub(super) fn holds(value: &Value, text: &Text) -> bool {
    match value {
        Value::String(found) => text.is_in(found),
        Value::Number(_) | Value::Bool(_) => text.is_in(&value.to_string()),
        Value::Array(items) => items.iter().any(|item| holds(item, text)),
        Value::Object(fields) => fields.values().any(|field| holds(field, text)),
        Value::Null => false,
    }
}

/// Refuses an empty list of a group that is not there. A group that was removed may still have rows.
///
/// # Errors
/// No group has this name.
pub(super) async fn check_group<T>(store: &Store, rows: &[T], group: Option<&Folder>) -> anyhow::Result<()> {
    let Some(folder) = group.filter(|_| rows.is_empty()) else { return Ok(()) };
    match store.group(folder).await? {
        Some(_) => Ok(()),
        None => Err(OpError::not_found(format!("there is no group {folder}"))
            .hint("`g2 groups list` shows all")
            .into()),
    }
}

/// Refuses an empty list of a chat of which nothing is known.
///
/// # Errors
/// No message came from the chat, and no group is wired to it.
pub(super) async fn check_chat<T>(store: &Store, rows: &[T], chat: Option<&str>) -> anyhow::Result<()> {
    let Some(jid) = chat.filter(|_| rows.is_empty()) else { return Ok(()) };
    match store.chat(jid).await? {
        Some(_) => Ok(()),
        None => Err(OpError::not_found(format!("there is no chat {jid}"))
            .hint("`g2 chats list` shows all")
            .into()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rows_are_found_by_any_of_their_values_and_the_newest_are_left() {
        let rows = || {
            vec![
                json!({"id": 1, "text": "Äpfel"}),
                json!({"id": 2, "tags": ["äpfel"]}),
                json!({"id": 3, "text": null}),
            ]
        };
        let found = |grep: Option<&str>, limit| {
            let wanted = Rows { grep: grep.map(str::to_owned), limit };
            wanted.of(rows()).iter().map(|row| row["id"].as_i64().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(found(None, None), [1, 2, 3]);
        assert_eq!(found(Some("ÄPFEL"), None), [1, 2]);
        assert_eq!(found(Some("äpfel"), Some(1)), [2]);
        assert_eq!(found(Some("3"), Some(5)), [3]);
        assert_eq!(found(Some("id"), None), [0; 0]);
    }
}
