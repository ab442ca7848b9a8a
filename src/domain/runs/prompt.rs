//! What an agent is given to read: v1's XML, bit for bit, and which messages are in it.
//!
//! Characters that XML forbids are left in, as v1 leaves them. Nothing here knows which zone or batch to use.

mod select;

use std::collections::BTreeMap;

use ipc_handlers::Time;
use jiff::tz::TimeZone;

use crate::platforms::attachments::Attachment;

pub use select::{Limits, Row, Selection, Waking, select};

/// A message as the prompt shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PromptMessage {
    pub sender_name: String,
    pub text: String,
    /// When it was written; `None` when that can't be told, shown as `Invalid Date`.
    pub at: Option<Time>,
    /// The platform's id of the message that this one answers.
    pub reply_to_id: Option<String>,
    /// The text of that message; quoted only when its sender is known too.
    pub reply_to_text: Option<String>,
    pub reply_to_sender: Option<String>,
    /// The files beside it.
    pub files: Vec<PromptFile>,
}

/// A file as the prompt shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PromptFile {
    pub file: Attachment,
    /// Where the agent finds it; below the folder of its group's media until [`PromptMessage::seen_at`] says where that is.
    pub path: String,
}

impl PromptMessage {
    /// Says where the agent sees the folder of its group's media, and which files are not there, for a reason.
    pub fn seen_at(&mut self, folder: &str, missing: &BTreeMap<String, String>) {
        for file in &mut self.files {
            if let Some(why) = missing.get(&file.path) {
                file.file = Attachment { digest: None, problem: Some(why.clone()), ..file.file.clone() };
            }
            file.path = format!("{folder}/{}", file.path);
        }
    }
}

/// Returns the messages as one prompt: a header with the zone's name, then a `<messages>` element.
///
/// `zone_name` is printed as it is, so that a name the user spelt in lower case stays so, as in v1. An empty list
/// gives an empty element.
#[must_use]
pub fn format(messages: &[PromptMessage], zone_name: &str, zone: &TimeZone) -> String {
    assemble(messages, "", zone_name, zone)
}

/// Returns the prompt for a selection.
///
/// It is that of [`format()`], bit for bit, unless context was left out: then one line between header and messages
/// says how much, `<left_out count="37">older messages, not addressed to you</left_out>`.
#[must_use]
pub fn format_selection(selection: &Selection<'_>, zone_name: &str, zone: &TimeZone) -> String {
    let note = match selection.left_out {
        0 => String::new(),
        count => format!("<left_out count=\"{count}\">older messages, not addressed to you</left_out>\n"),
    };
    assemble(selection.rows.iter().map(|row| &row.message), &note, zone_name, zone)
}

/// Returns the instant as v1 shows it: `Jan 1, 2024, 1:30 PM`, in the zone, with plain spaces.
#[must_use]
pub fn local_time(at: Option<Time>, zone: &TimeZone) -> String {
    let Some(at) = at else { return "Invalid Date".to_owned() };
    let local = at.to_jiff().to_zoned(zone.clone());
    // JavaScript counts the years before 1 backwards and does not say so.
    let year = if local.year() < 1 { 1 - local.year() } else { local.year() };
    let (hour, half) = match local.hour() {
        0 => (12, "AM"),
        hour @ 1..=11 => (hour, "AM"),
        12 => (12, "PM"),
        hour => (hour - 12, "PM"),
    };
    format!("{} {}, {year}, {hour}:{:02} {half}", local.strftime("%b"), local.day(), local.minute())
}

fn assemble<'m>(
    messages: impl IntoIterator<Item = &'m PromptMessage>,
    note: &str,
    zone_name: &str,
    zone: &TimeZone,
) -> String {
    let lines: Vec<String> = messages.into_iter().map(|message| element(message, zone)).collect();
    let zone_name = escape(zone_name);
    format!("<context timezone=\"{zone_name}\" />\n{note}<messages>\n{}\n</messages>", lines.join("\n"))
}

/// One `<message>`; what it quotes stands on a line of its own, and the text follows it directly.
fn element(message: &PromptMessage, zone: &TimeZone) -> String {
    // v1 takes an empty text for one that is not there.
    let given = |field: &Option<String>| field.as_deref().filter(|text| !text.is_empty()).map(escape);
    let reply_to = given(&message.reply_to_id).map(|id| format!(" reply_to=\"{id}\"")).unwrap_or_default();
    let quoted = match (given(&message.reply_to_sender), given(&message.reply_to_text)) {
        (Some(from), Some(text)) => format!("\n  <quoted_message from=\"{from}\">{text}</quoted_message>"),
        (_, _) => String::new(),
    };
    let (sender, text) = (escape(&message.sender_name), escape(&message.text));
    let time = local_time(message.at, zone);
    let (media, lines) = files(&message.files);
    let both = !text.is_empty() && !lines.is_empty();
    let text = format!("{text}{}{lines}", if both { "\n" } else { "" });
    format!("<message sender=\"{sender}\" time=\"{time}\"{reply_to}{media}>{quoted}{text}</message>")
}

/// Returns v1's attributes for the first file that is there, and a line for each file.
fn files(files: &[PromptFile]) -> (String, String) {
    let first = files.iter().find(|file| file.file.problem.is_none());
    let attributes = first.map(|PromptFile { file, path }| {
        let (path, mime) = (escape(path), escape(&file.mime));
        format!(" media_type=\"{}\" media_path=\"{path}\" media_mimetype=\"{mime}\"", file.kind)
    });
    let line = |file: &PromptFile| [Some(file.file.line(&file.path)), file.file.read()];
    let lines: Vec<String> = files.iter().flat_map(line).flatten().map(|line| escape(&line)).collect();
    (attributes.unwrap_or_default(), lines.join("\n"))
}

/// Returns the text with `&`, `<`, `>` and `"` escaped, and nothing else.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            _ => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests;
