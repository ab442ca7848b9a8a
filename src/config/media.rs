//! `[media]`: files beside messages.

use std::{path::PathBuf, time::Duration};

use ipc_handlers::file::MediaKind;
use serde::Deserialize;

use super::units::mib;
use crate::domain::platforms::attachments::MediaLimits;

/// How many bytes of files there may be.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Media {
    #[serde(rename = "largest_mib", deserialize_with = "mib")]
    largest: u64,
    #[serde(rename = "chat_mib_per_hour", deserialize_with = "mib")]
    chat_hour: u64,
    #[serde(rename = "store_mib", deserialize_with = "mib")]
    all: u64,
    pub hooks: Hooks,
}

/// Programs that read files, by the kind of file: what a program says is what is in the file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hooks {
    voice: Vec<String>,
    audio: Vec<String>,
    image: Vec<String>,
    video: Vec<String>,
    document: Vec<String>,
    /// What they may read beside the system's own files.
    pub reads: Vec<PathBuf>,
    /// Whether they may use the network: to ask a transcription service, say.
    pub network: bool,
    /// How long one may take.
    #[serde(rename = "seconds", deserialize_with = "seconds")]
    pub within: Duration,
}

impl Hooks {
    /// Returns the program for a kind of file, with its arguments.
    #[must_use]
    pub fn of(&self, kind: MediaKind) -> Option<&[String]> {
        let command = match kind {
            MediaKind::Voice => &self.voice,
            MediaKind::Audio => &self.audio,
            MediaKind::Image => &self.image,
            MediaKind::Video => &self.video,
            MediaKind::Document => &self.document,
        };
        (!command.is_empty()).then_some(command)
    }
}

fn seconds<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    u64::deserialize(from).map(Duration::from_secs)
}

impl Media {
    /// Returns the bounds.
    #[must_use]
    pub fn limits(&self) -> MediaLimits {
        MediaLimits { largest: self.largest, chat_hour: self.chat_hour, all: self.all }
    }
}
