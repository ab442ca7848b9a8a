//! What host and agent noted of each other's rows, in the other store of a session: looked up for a page of rows at a time.

use std::collections::BTreeMap;

use ipc_handlers::Time;
use jiff::tz::TimeZone;

use crate::moving::{
    foreign::{Foreign, Read},
    moment,
};

/// A store of a session.
pub(super) struct Opened {
    pub store: Foreign,
    /// Nothing was missing when it was opened, such as its log.
    pub is_whole: bool,
}

/// A text that was delivered, or was not.
pub(super) struct Delivered {
    pub failed: bool,
    pub at: Option<Time>,
    pub platform_id: Option<String>,
}

/// What was noted of some rows, by their ids.
pub(super) struct Noted<T> {
    pub by_id: BTreeMap<String, T>,
    /// Whether nothing was noted of the others. Otherwise nobody knows.
    pub is_all: bool,
}

/// Returns what the host noted of these texts.
pub(super) fn delivered(inbound: Option<&Opened>, texts: &[Read], zone: &TimeZone) -> Noted<Delivered> {
    let columns = &["message_out_id", "platform_message_id", "status", "delivered_at"];
    let (rows, is_all) = noted(inbound, "delivered", columns, "message_out_id", texts);
    let one = |row: Read| {
        let told = Delivered {
            failed: row.text("status").as_deref() == Some("failed"),
            at: row.text("delivered_at").and_then(|at| moment::read(&at, zone)),
            platform_id: row.text("platform_message_id"),
        };
        Some((row.text("message_out_id")?, told))
    };
    Noted { by_id: rows.into_iter().filter_map(one).collect(), is_all }
}

/// Returns which of these messages the agent has finished with.
pub(super) fn finished(outbound: Option<&Opened>, messages: &[Read]) -> Noted<bool> {
    let columns = &["message_id", "status"];
    let (rows, is_all) = noted(outbound, "processing_ack", columns, "message_id", messages);
    let one = |row: Read| {
        let done = matches!(row.text("status").as_deref(), Some("completed" | "failed"));
        Some((row.text("message_id")?, done))
    };
    Noted { by_id: rows.into_iter().filter_map(one).collect(), is_all }
}

fn noted(
    opened: Option<&Opened>,
    table: &str,
    columns: &[&'static str],
    key: &'static str,
    rows: &[Read],
) -> (Vec<Read>, bool) {
    let Some(opened) = opened else { return (Vec::new(), false) };
    let ids: Vec<String> = rows.iter().filter_map(|row| row.text("id")).collect();
    let (found, fault) = opened.store.with(table, columns, key, &ids);
    (found, fault.is_none() && opened.is_whole)
}
