//! Files that go out: their bytes first, then one message that shows them. Which files are of which key is noted before that message
//! is asked for, so that it can be looked for afterwards: a message with files takes no key of ours.

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use serde_json::Value;

use super::{
    api::{Api, ApiError},
    said::{all, text},
};
use crate::kit::Look;

/// How many keys are noted.
const MOST: usize = 200;
/// The longest note that is read, bytes.
const LONGEST: usize = 1 << 20;
/// How often Slack is asked for the message of a file, and the first wait between.
const TRIES: u32 = 5;
const WAIT: Duration = Duration::from_millis(200);

/// A file to send.
pub(super) struct Upload {
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
}

/// Which files are of which key.
pub(super) struct Notes {
    path: PathBuf,
    all: Mutex<VecDeque<(String, Vec<String>)>>,
}

impl Notes {
    /// Reads what an earlier life noted; what can't be read is none.
    pub(super) fn read(state_dir: &str) -> Self {
        let path = Path::new(state_dir).join("uploads.json");
        let kept = std::fs::read(&path).ok().filter(|kept| kept.len() <= LONGEST);
        let all = kept.and_then(|kept| serde_json::from_slice(&kept).ok()).unwrap_or_default();
        Self { path, all: Mutex::new(all) }
    }

    /// Notes the files of a key.
    fn note(&self, key: &str, files: &[String]) -> std::io::Result<()> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(of, _)| of != key);
        all.push_back((key.to_owned(), files.to_vec()));
        while all.len() > MOST {
            all.pop_front();
        }
        let new = self.path.with_extension("new");
        std::fs::write(&new, serde_json::json!(*all).to_string())?;
        std::fs::rename(new, &self.path)
    }

    /// Returns the files of a key.
    pub(super) fn files(&self, key: &str) -> Option<Vec<String>> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().find(|(of, _)| of == key).map(|(_, files)| files.clone())
    }
}

/// Where files are shown.
pub(super) struct Shown<'a> {
    pub(super) key: &'a str,
    pub(super) channel: &'a str,
    pub(super) thread: &'a str,
    pub(super) text: &'a str,
}

/// Why files are not known to be shown.
pub(super) enum Unsent {
    /// Nothing is shown: it failed before.
    Before(ApiError),
    /// Slack was asked to show them.
    Asked(ApiError),
    /// Our own note of it can't be kept.
    Note(std::io::Error),
}

/// Sends files, and returns the ids of what shows them.
pub(super) async fn send(
    api: &Api,
    notes: &Notes,
    shown: &Shown<'_>,
    files: Vec<Upload>,
) -> Result<Vec<String>, Unsent> {
    let mut ids = Vec::new();
    for Upload { name, bytes } in files {
        let length = bytes.len().to_string();
        let given = [("filename", &name[..]), ("length", &length)];
        let place = api.call("files.getUploadURLExternal", &given).await.map_err(Unsent::Before)?;
        api.upload(text(&place, "upload_url"), bytes).await.map_err(Unsent::Before)?;
        ids.push((text(&place, "file_id").to_owned(), name));
    }
    let keys: Vec<String> = ids.iter().map(|(id, _)| id.clone()).collect();
    notes.note(shown.key, &keys).map_err(Unsent::Note)?;
    let named: Vec<Value> =
        ids.iter().map(|(id, name)| serde_json::json!({"id": id, "title": name})).collect();
    let named = serde_json::json!(named).to_string();
    let mut given = vec![("files", &named[..]), ("channel_id", shown.channel)];
    if !shown.thread.is_empty() {
        given.push(("thread_ts", shown.thread));
    }
    if !shown.text.is_empty() {
        given.push(("initial_comment", shown.text));
    }
    let answer = api.call("files.completeUploadExternal", &given).await.map_err(Unsent::Asked)?;
    let told = all(&answer, "files").first().and_then(|file| message_of(file, shown.channel, shown.thread));
    let found = match told {
        Some(ts) => Some(ts),
        None => message(api, &keys, shown.channel, shown.thread).await.ok().flatten(),
    };
    // Slack has them. Where it does not say in time which message shows them, they go by their own ids.
    Ok(found.map_or(keys, |ts| vec![ts]))
}

/// Asks for the message that shows files. `None`: Slack has the files, and does not say where it shows them.
async fn message(
    api: &Api,
    files: &[String],
    channel: &str,
    thread: &str,
) -> Result<Option<String>, ApiError> {
    let Some(first) = files.first() else { return Ok(None) };
    for n in 0..TRIES {
        let answer = api.call("files.info", &[("file", first)]).await?;
        if let Some(ts) = message_of(&answer["file"], channel, thread) {
            return Ok(Some(ts));
        }
        tokio::time::sleep(WAIT * 2_u32.pow(n)).await;
    }
    Ok(None)
}

/// Returns the message that shows a file in a channel, as far as the file says so.
fn message_of(file: &Value, channel: &str, thread: &str) -> Option<String> {
    let shares = ["public", "private"].map(|kind| &file["shares"][kind]);
    let here = || shares.iter().flat_map(|kind| all(kind, channel));
    let inside = here().find(|share| text(share, "thread_ts") == thread || thread.is_empty());
    // Of a thread that went it is shown in the channel itself.
    let found = inside.or_else(|| here().find(|share| text(share, "thread_ts").is_empty()));
    found.map(|share| text(share, "ts").to_owned()).filter(|ts| !ts.is_empty())
}

/// Looks for the message that shows the files of a key.
pub(super) async fn look(api: &Api, files: &[String], channel: &str, thread: &str) -> Result<Look, ApiError> {
    match message(api, files, channel, thread).await {
        Ok(Some(ts)) => Ok(Look::Has(vec![ts])),
        Ok(None) => Ok(Look::CannotTell("Slack has the files, and does not say where it shows them".into())),
        // A file that was never shown is none.
        Err(error) if error.is("file_not_found") => Ok(Look::HasNot),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn notes_are_kept_over_a_start_and_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().to_str().unwrap();
        let notes = Notes::read(state);
        for n in 0..MOST + 5 {
            notes.note(&format!("k{n}"), &[format!("F{n}")]).unwrap();
        }
        notes.note("k9", &["F9B".into()]).unwrap();
        let again = Notes::read(state);
        assert_eq!((again.files("k9"), again.files("k1")), (Some(vec!["F9B".into()]), None));
        assert_eq!(again.all.lock().unwrap().len(), MOST);
        std::fs::write(dir.path().join("uploads.json"), "{").unwrap();
        assert_eq!(Notes::read(state).files("k9"), None);
    }

    #[test]
    fn a_file_says_which_message_shows_it() {
        let file = json!({"shares": {"public": {"C1": [{"ts": "1.5"}, {"ts": "2.5", "thread_ts": "1.0"}]},
            "private": {"D1": [{"ts": "3.5"}]}, "other": 5}});
        for (channel, thread, ts) in [
            ("C1", "", Some("1.5")),
            ("C1", "1.0", Some("2.5")),
            ("D1", "", Some("3.5")),
            ("D1", "1.0", Some("3.5")),
            ("C2", "", None),
        ] {
            assert_eq!(message_of(&file, channel, thread).as_deref(), ts, "{channel} {thread}");
        }
        assert_eq!(message_of(&json!({"shares": 7}), "C1", ""), None);
    }
}
