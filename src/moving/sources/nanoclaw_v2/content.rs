//! Contents of messages, which are JSON of several forms.

use ipc_handlers::file::MediaKind;
use serde_json::Value;

use super::{super::parts::name, sessions::Session};
use crate::domain::moved::rows::File;

/// The first text among these keys.
pub(super) fn text_of(value: &Value, keys: &[&str]) -> Option<String> {
    keys.iter().find_map(|key| match value.get(*key) {
        Some(Value::String(text)) if !text.is_empty() => Some(text.clone()),
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => None,
    })
}

/// The files beside a message: their paths are below the folder of all sessions.
pub(super) fn files(content: &Value, session: &Session) -> Vec<File> {
    let Some(files) = content.get("attachments").and_then(Value::as_array) else { return Vec::new() };
    let below = session.inner.trim_start_matches("data/v2-sessions/");
    let file = |file: &Value| {
        let mime =
            text_of(file, &["mimeType", "contentType"]).unwrap_or_else(|| "application/octet-stream".into());
        let path = text_of(file, &["localPath"]);
        let is_inner =
            |path: &String| path.starts_with("inbox/") && !path.split('/').any(|part| part == "..");
        let path = path.filter(is_inner).map(|path| format!("{below}/{path}"));
        File {
            name: name(text_of(file, &["name"]), "file"),
            kind: MediaKind::of_type(&mime),
            size: file.get("size").and_then(Value::as_u64).unwrap_or(0),
            problem: path.is_none().then(|| "its program did not keep it".to_owned()),
            caption: None,
            seconds: None,
            words: None,
            mime,
            path,
        }
    };
    files.iter().take(64).map(file).collect()
}
