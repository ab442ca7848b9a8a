//! `[media]`: files beside messages.

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
}

impl Media {
    /// Returns the bounds.
    #[must_use]
    pub fn limits(&self) -> MediaLimits {
        MediaLimits { largest: self.largest, chat_hour: self.chat_hour, all: self.all }
    }
}
