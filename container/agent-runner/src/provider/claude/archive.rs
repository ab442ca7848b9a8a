//! Keeping a transcript before the CLI shortens it: as a page in `conversations/`, and with the host.

use std::{ffi::OsStr, path::Path, time::Duration};

use ipc_handlers::Time;
use serde_json::{Value, json};

use crate::{
    clock,
    files::{Dir, FileError},
    ids,
    mailbox::{CommandBox, Mailbox, MailboxError, Reply},
    runner::chain,
    world::Folder as _,
};

/// The most that is read of a transcript, bytes.
const TRANSCRIPT_LIMIT: u64 = 256 << 20;
/// How long a transcript is left alone before it counts as whole, and how often it is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(300);
const LOOKS: u32 = 10;
/// The most that is kept of one thing said, characters.
const SAID_LIMIT: usize = 2000;
/// The longest page that is sent to the host, bytes: escaped it must fit into a command.
const SENT_LIMIT: usize = 400 << 10;

#[derive(Debug, thiserror::Error)]
pub(super) enum ArchiveError {
    #[error("the transcript {0} is in no folder")]
    Nowhere(String),
    #[error("keeping the transcript failed")]
    File(#[from] FileError),
    #[error("sending the transcript to the host failed")]
    Send(#[from] MailboxError),
}

/// Keeps the transcript at `transcript`; one without a word is not kept.
///
/// # Errors
/// [`ArchiveError`]; what could be kept is kept.
pub(super) fn keep(
    transcript: &str,
    session: &str,
    assistant: &str,
    group: &Path,
    mailbox: &Mailbox,
) -> Result<(), ArchiveError> {
    let path = Path::new(transcript);
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(ArchiveError::Nowhere(transcript.to_owned()));
    };
    let folder = Dir::open(folder)?;
    let bytes = settled(&folder, name)?;
    let said = said(&bytes);
    if said.is_empty() {
        return Ok(());
    }
    let index = folder.read(OsStr::new("sessions-index.json"), TRANSCRIPT_LIMIT).ok().flatten();
    let now = Time(clock::wall_ms()).to_string();
    let title = title(index.as_deref(), &bytes, session);
    let name = title.clone().unwrap_or_else(|| format!("conversation-{}{}", &now[11..13], &now[14..16]));
    let page = page(title.as_deref(), &now, assistant, &said);
    let written = Dir::open_or_make(&group.join("conversations"))
        .and_then(|folder| folder.publish(&format!("{}-{}.md", &now[..10], slug(&name)), page.as_bytes()));
    let command = json!({
        "type": "archive_session", "requestId": ids::request_id(), "sessionId": session, "name": name,
        "content": tail(&page, SENT_LIMIT),
    });
    if let Reply::Text(reply) = mailbox.send(CommandBox::Tasks, &command)?
        && serde_json::from_str::<Value>(&reply).is_ok_and(|reply| reply["ok"] != true)
    {
        eprintln!("the host did not take the transcript: {reply}");
    }
    Ok(written?)
}

/// Returns the transcript's bytes once it grows no more: the CLI writes what was said a moment after it was said.
fn settled(folder: &Dir, name: &OsStr) -> Result<Vec<u8>, FileError> {
    let mut bytes = folder.read(name, TRANSCRIPT_LIMIT)?.unwrap_or_default();
    for _ in 0..LOOKS {
        clock::pause(LOOK_AGAIN);
        let now = folder.read(name, TRANSCRIPT_LIMIT)?.unwrap_or_default();
        if now.len() == bytes.len() {
            break;
        }
        bytes = now;
    }
    Ok(bytes)
}

/// Says that a transcript was not kept; the turn goes on.
pub(super) fn note(e: &ArchiveError) {
    eprintln!("claude: {}", chain(e));
}

/// Who has said what.
type Said = (Speaker, String);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Speaker {
    User,
    Assistant,
}

/// Returns what was said, oldest first. Lines that are none, a half one at the end too, are passed over.
fn said(transcript: &[u8]) -> Vec<Said> {
    let lines =
        transcript.split(|&b| b == b'\n').filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let of = |line: Value| {
        let speaker = match line["type"].as_str() {
            Some("user") => Speaker::User,
            Some("assistant") => Speaker::Assistant,
            _ => return None,
        };
        if line["isMeta"] == true || line["isSidechain"] == true {
            return None;
        }
        let text = match &line["message"]["content"] {
            Value::String(text) => text.clone(),
            Value::Array(blocks) => blocks
                .iter()
                .filter(|block| block["type"] == "text")
                .filter_map(|block| block["text"].as_str())
                .filter(|text| *text != "(end of messages)")
                .collect(),
            _ => String::new(),
        };
        (!text.trim().is_empty()).then(|| (speaker, text.trim().to_owned()))
    };
    lines.filter_map(of).collect()
}

/// Returns the title that the CLI has given the session, from its index, otherwise from the transcript.
fn title(index: Option<&[u8]>, transcript: &[u8], session: &str) -> Option<String> {
    let index: Value = index.and_then(|index| serde_json::from_slice(index).ok()).unwrap_or_default();
    let entry =
        index["entries"].as_array().and_then(|all| all.iter().find(|e| e["sessionId"] == session).cloned());
    let of_lines = || {
        let lines =
            transcript.split(|&b| b == b'\n').filter_map(|line| serde_json::from_slice::<Value>(line).ok());
        lines.rev().find(|line| line["type"] == "summary")
    };
    let summary = entry.or_else(of_lines)?["summary"].as_str()?.trim().to_owned();
    (!summary.is_empty()).then(|| summary.chars().take(200).collect())
}

fn page(title: Option<&str>, now: &str, assistant: &str, said: &[Said]) -> String {
    let mut page = format!("# {}\n\nArchived: {now}\n\n---\n\n", title.unwrap_or("Conversation"));
    for (speaker, text) in said {
        let name = match speaker {
            Speaker::User => "User",
            Speaker::Assistant => assistant,
        };
        let cut: String = text.chars().take(SAID_LIMIT).collect();
        let more = if cut.len() < text.len() { "..." } else { "" };
        page.push_str(&format!("**{name}**: {cut}{more}\n\n"));
    }
    page
}

/// Returns a title as part of a file name: lower case, everything else a dash, 50 characters at most.
fn slug(title: &str) -> String {
    let dashed: String =
        title.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let words: Vec<&str> = dashed.split('-').filter(|word| !word.is_empty()).collect();
    let slug: String = words.join("-").chars().take(50).collect();
    if slug.is_empty() { "conversation".to_owned() } else { slug.trim_end_matches('-').to_owned() }
}

/// Returns the last of a text, `limit` bytes at most.
fn tail(text: &str, limit: usize) -> &str {
    let from = (text.len().saturating_sub(limit)..=text.len()).find(|&at| text.is_char_boundary(at));
    &text[from.unwrap_or(text.len())..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_people_and_the_agent_said_is_kept() {
        let lines = [
            r#"{"type":"user","message":{"content":"hello"}}"#,
            r#"{"type":"queue-operation","content":"x"}"#,
            r#"{"type":"assistant","message":{"content":[{"type":"thinking","thinking":"x"},{"type":"text","text":"hi "},{"type":"text","text":"there"}]}}"#,
            r#"{"type":"user","message":{"content":[{"type":"tool_result","content":"x"}]}}"#,
            r#"{"type":"user","isMeta":true,"message":{"content":"meta"}}"#,
            r#"{"type":"user","message":{"content":[{"type":"text","text":"<m>"},{"type":"text","text":"(end of messages)"}]}}"#,
            "no json",
            r#"{"type":"assistant","mess"#,
        ];
        let said = said(lines.join("\n").as_bytes());
        assert_eq!(
            said,
            [
                (Speaker::User, "hello".to_owned()),
                (Speaker::Assistant, "hi there".to_owned()),
                (Speaker::User, "<m>".to_owned())
            ]
        );
        let page = page(None, "2026-01-02T03:04:05.000Z", "G2", &said);
        assert!(page.starts_with("# Conversation\n\nArchived: 2026-01-02"), "{page}");
        assert!(page.ends_with("**User**: hello\n\n**G2**: hi there\n\n**User**: <m>\n\n"), "{page}");
    }

    #[test]
    fn long_words_are_cut_and_long_pages_keep_their_end() {
        let page = page(Some("T"), "", "G2", &[(Speaker::User, "é".repeat(3000))]);
        assert!(page.ends_with("é...\n\n") && page.chars().count() < 2100);
        assert_eq!((tail("aéb", 2), tail("aéb", 3), tail("ab", 9)), ("b", "éb", "ab"));
    }

    #[test]
    fn the_title_is_the_index_s_else_the_transcript_s() {
        let index = br#"{"entries":[{"sessionId":"a","summary":"Trip"},{"sessionId":"b","summary":""}]}"#;
        let transcript =
            b"{\"type\":\"summary\",\"summary\":\"Old\"}\n{\"type\":\"summary\",\"summary\":\"New\"}";
        assert_eq!(title(Some(index), transcript, "a").as_deref(), Some("Trip"));
        assert_eq!(title(Some(index), transcript, "b"), None);
        assert_eq!(title(Some(index), transcript, "c").as_deref(), Some("New"));
        assert_eq!(title(None, b"", "c"), None);
        for (title, name) in [("Trip to Rome!", "trip-to-rome"), ("../../x", "x"), ("é", "conversation")] {
            assert_eq!(slug(title), name);
        }
    }
}
