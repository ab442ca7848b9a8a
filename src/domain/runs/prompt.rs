//! What an agent is given to read: v1's XML, bit for bit, and which messages are in it. A message that has what v1 does not tell
//! of (a forward, an edit, more of what it answers) has further attributes and elements.
//!
//! Characters that XML forbids are left in, as v1 leaves them. Nothing here knows which zone or batch to use.

mod select;

use std::collections::BTreeMap;

use ipc_handlers::Time;
use jiff::tz::TimeZone;

use crate::{platforms::attachments::Attachment, rows::Answered};

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
    /// Its sender's name; of the agent's own it does not count.
    pub reply_to_sender: Option<String>,
    /// What else is known of that message.
    pub answered: Answered,
    /// The file that stands there, if it is kept.
    pub answered_file: Option<PromptFile>,
    /// What it stands under: the subject of a mail, the title of a thread.
    pub title: Option<String>,
    /// The source of its text, if its sender forwarded that.
    pub forward: Option<Forward>,
    /// The message that it edits, if it is an edit of one that was read.
    pub edit: Option<EditOf>,
    /// The files beside it.
    pub files: Vec<PromptFile>,
}

/// Where a forwarded text comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forward {
    /// The name of its author; empty: nobody says.
    pub from: String,
    /// What its sender wrote beside it.
    pub comment: String,
}

/// The message that an edit is one of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EditOf {
    /// The platform's id of it.
    pub id: String,
    /// The beginning of its words, as they were read; `None`: it is not known.
    pub before: Option<String>,
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
        self.answered_file.take_if(|answered| missing.contains_key(&answered.path));
        for file in self.files.iter_mut().chain(&mut self.answered_file) {
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
    let reply_to = given(&message.reply_to_id).map(|id| format!(" reply_to=\"{id}\"")).unwrap_or_default();
    let quoted = quoted(message);
    let (sender, text) = (escape(&message.sender_name), escape(&message.text));
    let title = given(&message.title).map(|title| format!(" title=\"{title}\"")).unwrap_or_default();
    let time = local_time(message.at, zone);
    let (media, lines) = files(&message.files);
    let both = !text.is_empty() && !lines.is_empty();
    let text = format!("{text}{}{lines}", if both { "\n" } else { "" });
    let (edit_of, before) = match &message.edit {
        Some(EditOf { id, before }) => {
            let before = given(before).map(|text| format!("\n  <edited_message>{text}</edited_message>"));
            (format!(" edit_of=\"{}\"", escape(id)), before.unwrap_or_default())
        }
        None => Default::default(),
    };
    let (forwarded_from, text) = match &message.forward {
        Some(Forward { from, comment }) => (
            format!(" forwarded_from=\"{}\"", escape(from)),
            format!("\n  <forwarded_message>{text}</forwarded_message>{}", escape(comment)),
        ),
        None => (String::new(), text),
    };
    format!(
        "<message sender=\"{sender}\" time=\"{time}\"{reply_to}{edit_of}{forwarded_from}{title}{media}>{quoted}{before}{text}</message>"
    )
}

/// Returns a field, escaped. v1 takes an empty text for one that is not there.
fn given(field: &Option<String>) -> Option<String> {
    field.as_deref().filter(|text| !text.is_empty()).map(escape)
}

/// The author of a quoted message that is the agent's own.
const YOU: &str = "you";

/// Returns the name of somebody else as it is shown: in quotation marks where its letters are those of [`YOU`].
fn of_other(name: &str) -> String {
    let letters = name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase);
    if letters.eq(YOU.chars()) { escape(&format!("\"{name}\"")) } else { escape(name) }
}

/// Returns the element of the message that is answered.
fn quoted(message: &PromptMessage) -> String {
    let Answered { own, quote, kind, chat } = &message.answered;
    let other = message.reply_to_sender.as_deref().filter(|name| !name.is_empty());
    let from = if *own { Some(YOU.to_owned()) } else { other.map(of_other) };
    let text = given(&message.reply_to_text);
    let attributes = [
        (" kind", kind.map(|kind| kind.to_string())),
        (" path", message.answered_file.as_ref().map(|file| escape(&file.path))),
        (" chat", given(chat)),
        (" quote", given(quote)),
    ];
    let more: String = attributes
        .into_iter()
        .filter_map(|(name, value)| value.map(|value| format!("{name}=\"{value}\"")))
        .collect();
    match from {
        Some(from) if text.is_some() || !more.is_empty() => {
            let text = text.unwrap_or_default();
            format!("\n  <quoted_message from=\"{from}\"{more}>{text}</quoted_message>")
        }
        Some(_) | None => String::new(),
    }
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
