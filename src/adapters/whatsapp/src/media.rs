//! Files of messages: what is told of one, and how it is fetched later. Pure.

use channel_protocol::{Attached, Kind};
use serde::{Deserialize, Serialize};
use whatsapp_rust::{
    download::DownloadParams,
    prelude::wa::message::{AudioMessage, DocumentMessage, ImageMessage, StickerMessage, VideoMessage},
    wacore::download::MediaType,
};

/// The longest path of a file at WhatsApp, bytes.
const LONGEST_PATH: usize = 1500;

/// What fetches a file later. The daemon keeps it as a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Ticket {
    #[serde(rename = "p")]
    path: String,
    #[serde(rename = "k")]
    key: String,
    #[serde(rename = "s")]
    sha256: String,
    #[serde(rename = "e")]
    enc_sha256: String,
    #[serde(rename = "l")]
    length: u64,
    #[serde(rename = "t")]
    kind: TicketKind,
}

/// Which key opens it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum TicketKind {
    Image,
    Video,
    Audio,
    Document,
    Sticker,
}

/// Whether a text is a path at WhatsApp, and none of another host's.
fn is_path(path: &str) -> bool {
    let plain = |b: u8| b.is_ascii_graphic() && !matches!(b, b'"' | b'\\');
    path.starts_with('/') && !path.starts_with("//") && path.len() <= LONGEST_PATH && path.bytes().all(plain)
}

/// What a message says of its file.
struct Facts<'a> {
    path: &'a Option<String>,
    key: &'a Option<Vec<u8>>,
    sha256: &'a Option<Vec<u8>>,
    enc_sha256: &'a Option<Vec<u8>>,
    length: Option<u64>,
    mime: &'a Option<String>,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    (0..32).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()).collect()
}

fn attached(
    kind: Kind,
    opens: TicketKind,
    facts: &Facts<'_>,
    name: Option<String>,
    seconds: Option<u32>,
) -> Attached {
    let whole =
        |bytes: &Option<Vec<u8>>| bytes.as_ref().filter(|bytes| bytes.len() == 32).map(|bytes| hex(bytes));
    let path = facts.path.clone().filter(|path| is_path(path));
    let ticket = match (path, whole(facts.key), whole(facts.sha256), whole(facts.enc_sha256)) {
        (Some(path), Some(key), Some(sha256), Some(enc_sha256)) => {
            Some(Ticket { path, key, sha256, enc_sha256, length: facts.length.unwrap_or(0), kind: opens })
        }
        _ => None,
    };
    let fetch = ticket.and_then(|ticket| serde_json::to_string(&ticket).ok());
    let problem = fetch.is_none().then(|| "the message does not say where its file is".to_owned());
    Attached {
        fetch,
        problem,
        kind,
        mime: facts.mime.clone().unwrap_or_default().chars().take(128).collect(),
        name: name.map(|name| name.chars().take(200).collect()),
        bytes: facts.length,
        seconds: seconds.map(u64::from),
        ..Attached::default()
    }
}

macro_rules! facts {
    ($of:expr) => {
        &Facts {
            path: &$of.direct_path,
            key: &$of.media_key,
            sha256: &$of.file_sha256,
            enc_sha256: &$of.file_enc_sha256,
            length: $of.file_length,
            mime: &$of.mimetype,
        }
    };
}

pub(crate) fn image(image: &ImageMessage) -> Attached {
    attached(Kind::Image, TicketKind::Image, facts!(image), None, None)
}

pub(crate) fn video(video: &VideoMessage) -> Attached {
    attached(Kind::Video, TicketKind::Video, facts!(video), None, video.seconds)
}

pub(crate) fn audio(audio: &AudioMessage) -> Attached {
    let kind = if audio.ptt == Some(true) { Kind::Voice } else { Kind::Audio };
    attached(kind, TicketKind::Audio, facts!(audio), None, audio.seconds)
}

pub(crate) fn document(document: &DocumentMessage) -> Attached {
    let name = document.file_name.clone().or_else(|| document.title.clone());
    attached(Kind::Document, TicketKind::Document, facts!(document), name, None)
}

pub(crate) fn sticker(sticker: &StickerMessage) -> Attached {
    attached(Kind::Image, TicketKind::Sticker, facts!(sticker), None, None)
}

/// Reads what fetches a file.
///
/// # Errors
/// It is no such text, or the file is larger than `most` bytes.
pub(crate) fn ticket(what: &str, most: u64) -> Result<DownloadParams, String> {
    let bad = || "what names the file can't be read".to_owned();
    let ticket: Ticket = serde_json::from_str(what).map_err(|_| bad())?;
    if ticket.length > most {
        return Err(format!("it has {} bytes, and at most {most} are taken", ticket.length));
    }
    let kind = match ticket.kind {
        TicketKind::Image => MediaType::Image,
        TicketKind::Video => MediaType::Video,
        TicketKind::Audio => MediaType::Audio,
        TicketKind::Document => MediaType::Document,
        TicketKind::Sticker => MediaType::Sticker,
    };
    let (key, sha256) = (unhex(&ticket.key).ok_or_else(bad)?, unhex(&ticket.sha256).ok_or_else(bad)?);
    let enc = unhex(&ticket.enc_sha256).ok_or_else(bad)?;
    Ok(DownloadParams::encrypted(ticket.path, &key, &sha256, &enc, ticket.length, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn voice() -> AudioMessage {
        AudioMessage {
            direct_path: Some("/v/t62/x?ccb=1".into()),
            media_key: Some(vec![7; 32]),
            file_sha256: Some(vec![0xab; 32]),
            file_enc_sha256: Some(vec![9; 32]),
            file_length: Some(1000),
            mimetype: Some("audio/ogg; codecs=opus".into()),
            seconds: Some(3),
            ptt: Some(true),
            ..Default::default()
        }
    }

    #[test]
    fn what_is_told_of_a_file_fetches_it_later() {
        let told = audio(&voice());
        assert_eq!(
            (told.kind, told.bytes, told.seconds, &told.problem),
            (Kind::Voice, Some(1000), Some(3), &None)
        );
        let fetched = ticket(told.fetch.as_deref().unwrap(), 1000).unwrap();
        assert_eq!((&fetched.direct_path[..], fetched.file_length), ("/v/t62/x?ccb=1", 1000));
        assert_eq!((fetched.media_key, fetched.file_sha256), (Some(vec![7; 32]), vec![0xab; 32]));
        assert!(ticket(told.fetch.as_deref().unwrap(), 999).err().unwrap().contains("1000 bytes"));
        assert_eq!(audio(&AudioMessage { ptt: None, ..voice() }).kind, Kind::Audio);
    }

    #[test]
    fn a_file_that_can_not_be_fetched_says_so() {
        for broken in [
            AudioMessage { direct_path: None, ..voice() },
            AudioMessage { direct_path: Some("https://evil.example/x".into()), ..voice() },
            AudioMessage { direct_path: Some(format!("/{}", "x".repeat(1500))), ..voice() },
            AudioMessage { direct_path: Some("//evil.example/x".into()), ..voice() },
            AudioMessage { direct_path: Some("/x\"y".into()), ..voice() },
            AudioMessage { media_key: Some(vec![7; 31]), ..voice() },
            AudioMessage { file_enc_sha256: None, ..voice() },
        ] {
            let told = audio(&broken);
            assert!(told.fetch.is_none() && told.problem.is_some());
        }
        for bad in ["", "{}", "[1]", r#"{"p":"/x","k":"zz","s":"","e":"","l":1,"t":"image"}"#] {
            assert!(ticket(bad, 10).is_err(), "{bad}");
        }
        let wide = format!(r#"{{"p":"/x","k":"{}","s":"","e":"","l":1,"t":"image"}}"#, "ü".repeat(32));
        assert!(ticket(&wide, 10).is_err());
    }
}
