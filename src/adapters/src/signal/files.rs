//! Files, both ways: out within an address, in by signal-cli's answer or out of its folder.

use std::path::Path;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use channel_protocol::{Fetch, File};
use serde_json::{Value, json};

use super::{FILE, LARGEST, Signal};
use crate::kit::Outcome;

impl Signal {
    /// Returns a file as an address that holds all of it: signal-cli may be another user, or on another machine.
    pub(super) async fn data(&self, file: &File) -> Result<String, Outcome> {
        let path = self.spool.join(&file.file);
        let read =
            tokio::task::spawn_blocking(move || std::fs::read(path).map(|bytes| STANDARD.encode(bytes)));
        let bytes = match read.await {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(error)) => return Err(Outcome::refused("no_file", error.to_string(), "")),
            Err(_) => return Err(Outcome::refused("no_file", "our own fault: reading it failed", "")),
        };
        Ok(format!("data:{};filename={};base64,{bytes}", mime(&file.mime), escaped(&file.name)))
    }

    /// Fetches a file into the spool; returns its place there.
    pub(super) async fn get(&self, what: &Fetch) -> Result<String, String> {
        // The name of a file of signal-cli's, as `events` read it.
        if what.what.is_empty() || what.what.starts_with('.') || what.what.contains(['/', '\\']) {
            return Err("it is no file of signal-cli's".into());
        }
        let most = what.most.min(LARGEST);
        let name = format!("in/{}", what.r);
        let path = self.spool.join(&name);
        let _place = self.files.acquire().await.map_err(|_| "we leave".to_owned())?;
        if let Some(folder) = &self.attachments {
            let (from, to) = (folder.join(&what.what), path.clone());
            let copied = tokio::task::spawn_blocking(move || copy(&from, &to, most)).await;
            match copied.map_err(|_| "our own fault: reading it failed".to_owned())? {
                Ok(()) => return Ok(name),
                Err(error) => eprintln!("a file is asked for by name, for it can't be copied: {error}"),
            }
        }
        let mut params = self.to(&what.chat).map_err(|_| "it is no chat of Signal".to_owned())?;
        params["id"] = what.what.as_str().into();
        // One person is named by a word here.
        if let Some(id) = params["recipient"][0].as_str().map(str::to_owned) {
            params["recipient"] = id.into();
        }
        if params["noteToSelf"] == true {
            params = json!({"id": what.what, "recipient": self.reader().people.us.id()});
        }
        let room = usize::try_from(most / 3 * 4 + 4096).unwrap_or(usize::MAX);
        let got: Value = self
            .rpc
            .call_within("getAttachment", params, FILE, room)
            .await
            .map_err(|error| error.to_string())?;
        let text = got["data"].as_str().or(got.as_str()).ok_or("signal-cli's answer has no file")?.to_owned();
        drop(got);
        let written = tokio::task::spawn_blocking(move || {
            let bytes = STANDARD.decode(text).map_err(std::io::Error::other)?;
            if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > most {
                return Err(std::io::Error::other("it is larger than was said"));
            }
            std::fs::write(path, bytes)
        });
        match written.await {
            Ok(Ok(())) => Ok(name),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("our own fault: writing it failed".into()),
        }
    }
}

/// Copies a file that is none of links, and no larger than it may be.
fn copy(from: &Path, to: &Path, most: u64) -> std::io::Result<()> {
    let meta = std::fs::symlink_metadata(from)?;
    if !meta.is_file() || meta.len() > most {
        return Err(std::io::Error::other("it is no file, or larger than was said"));
    }
    std::fs::copy(from, to).map(drop)
}

/// Returns a kind of file as an address takes it.
fn mime(kind: &str) -> &str {
    let is_part = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'+' | b'_'))
    };
    let fits = kind.split_once('/').is_some_and(|(of, is)| is_part(of) && is_part(is));
    if fits { kind } else { "application/octet-stream" }
}

/// Escapes a name so that nothing in it ends it.
fn escaped(name: &str) -> String {
    let name = if name.is_empty() { "file" } else { name };
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    name.bytes().map(|b| if keep(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_s_name_and_kind_never_end_the_address_that_holds_it() {
        assert_eq!(escaped("a b;base64,ü.png"), "a%20b%3Bbase64%2C%C3%BC.png");
        assert_eq!(escaped(""), "file");
        for (kind, is) in [
            ("image/svg+xml", "image/svg+xml"),
            ("text/plain; charset=utf-8", "application/octet-stream"),
            ("x", "application/octet-stream"),
            ("a/b,c", "application/octet-stream"),
        ] {
            assert_eq!(mime(kind), is);
        }
    }
}
