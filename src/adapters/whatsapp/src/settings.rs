//! The account's table in the settings, read and checked. Pure.

use std::net::IpAddr;

use channel_protocol::Start;
use serde::Deserialize;
use serde_json::Value;

/// The longest name that texts of a shared number begin with, characters.
const LONGEST_NAME: usize = 60;

/// What the account's table says.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Settings {
    /// The number that is linked by a code that is typed into the phone; empty: by a picture that the phone scans.
    #[serde(deserialize_with = "digits")]
    pub(crate) phone: String,
    /// The agent's name, where it shares the number with a person: what it says begins with that. Empty: the number is its own.
    pub(crate) shared_as: String,
    /// Whether it writes to persons only who have written to it.
    pub(crate) answers_only: bool,
    /// Whether the first week after linking is slower.
    pub(crate) slow_start: bool,
    /// Whether a message is marked as read once the agent writes.
    pub(crate) read_receipts: bool,
    /// The version of WhatsApp Web that it calls itself; empty: the newest, which WhatsApp is asked for.
    pub(crate) web_version: String,
}

/// Reads a text that may be written as a number: `--set` writes digits as one.
fn digits<'de, D: serde::Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    match Value::deserialize(from)? {
        Value::String(text) => Ok(text),
        Value::Number(number) => Ok(number.to_string()),
        _ => Err(serde::de::Error::custom("phone is a number, or a text of digits")),
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            phone: String::new(),
            shared_as: String::new(),
            answers_only: true,
            slow_start: true,
            read_receipts: true,
            web_version: String::new(),
        }
    }
}

/// What is wrong with the settings, for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadSettings {
    #[error("the account's table can't be read: {0}")]
    Form(String),
    #[error("phone is a number with its country, such as \"4917012345678\"")]
    Phone,
    #[error("shared_as is a name of at most {LONGEST_NAME} characters in one line")]
    Name,
    #[error("web_version is three numbers, such as \"2.3000.1042742319\"")]
    Version,
    #[error("upstream is wss://…, or ws://… where it is this machine")]
    Upstream,
}

impl Settings {
    /// Reads them.
    ///
    /// # Errors
    /// [`BadSettings`].
    pub(crate) fn read(start: &Start) -> Result<Self, BadSettings> {
        let mut read: Self = serde_json::from_value(Value::Object(start.config.clone()))
            .map_err(|error| BadSettings::Form(error.to_string()))?;
        read.phone.retain(|c| !matches!(c, '+' | ' ' | '-' | '(' | ')'));
        if !read.phone.is_empty() && !is_number(&read.phone) {
            return Err(BadSettings::Phone);
        }
        read.shared_as = read.shared_as.trim().to_owned();
        let long = read.shared_as.chars().count() > LONGEST_NAME;
        if long || read.shared_as.chars().any(char::is_control) {
            return Err(BadSettings::Name);
        }
        if !read.web_version.is_empty() && read.version().is_none() {
            return Err(BadSettings::Version);
        }
        Ok(read)
    }

    /// Returns the version that it calls itself, if one is set.
    pub(crate) fn version(&self) -> Option<(u32, u32, u32)> {
        let mut parts = self.web_version.split('.').map(str::parse);
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(Ok(a)), Some(Ok(b)), Some(Ok(c)), None) => Some((a, b, c)),
            _ => None,
        }
    }

    /// Returns what a text begins with.
    pub(crate) fn mark(&self) -> String {
        if self.shared_as.is_empty() { String::new() } else { format!("{}: ", self.shared_as) }
    }
}

fn is_number(phone: &str) -> bool {
    (7..=15).contains(&phone.len()) && !phone.starts_with('0') && phone.bytes().all(|b| b.is_ascii_digit())
}

/// Checks where WhatsApp is reached instead of its own address: what is sent can be read on the way where it is not this machine.
///
/// # Errors
/// [`BadSettings::Upstream`].
pub(crate) fn upstream(url: Option<&str>) -> Result<Option<String>, BadSettings> {
    let Some(url) = url else { return Ok(None) };
    let authority = |rest: &str| rest.split('/').next().unwrap_or_default().to_owned();
    let fits = match (url.strip_prefix("wss://"), url.strip_prefix("ws://")) {
        (Some(rest), _) => !authority(rest).is_empty() && !authority(rest).contains('@'),
        (None, Some(rest)) => {
            let authority = authority(rest);
            let host = authority.rsplit_once(':').map_or(&authority[..], |(host, _)| host);
            let host = host.trim_matches(['[', ']']);
            host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
        }
        (None, None) => false,
    };
    if fits { Ok(Some(url.to_owned())) } else { Err(BadSettings::Upstream) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(config: Value) -> Result<Settings, BadSettings> {
        let config = config.as_object().cloned().unwrap_or_default();
        Settings::read(&Start { config, ..Start::default() })
    }

    #[test]
    fn what_is_not_said_is_the_careful_way_and_what_is_wrong_is_named() {
        let none = read(json!({})).unwrap();
        assert!(none.answers_only && none.slow_start && none.mark().is_empty() && none.version().is_none());
        let all =
            read(json!({"phone": "+49 (170) 123-4567", "shared_as": " Andy ", "web_version": "2.3000.7",
            "answers_only": false, "unknown": [1]}))
            .unwrap();
        assert_eq!(
            (&all.phone[..], all.mark(), all.version(), all.answers_only),
            ("491701234567", "Andy: ".into(), Some((2, 3000, 7)), false)
        );
        // As the command line writes it.
        assert_eq!(read(json!({"phone": 4917012345678_u64})).unwrap().phone, "4917012345678");
        assert!(matches!(read(json!({"phone": [49]})), Err(BadSettings::Form(_))));
        for (config, why) in [
            (json!({"phone": 170.5}), BadSettings::Phone),
            (json!({"phone": "0170"}), BadSettings::Phone),
            (json!({"phone": "49170x1234"}), BadSettings::Phone),
            (json!({"phone": "01701234567"}), BadSettings::Phone),
            (json!({"shared_as": "a\nb"}), BadSettings::Name),
            (json!({"shared_as": "x".repeat(61)}), BadSettings::Name),
            (json!({"web_version": "2.3000"}), BadSettings::Version),
            (json!({"web_version": "2.3000.1.1"}), BadSettings::Version),
        ] {
            assert_eq!(read(config.clone()), Err(why), "{config}");
        }
        assert!(matches!(read(json!({"answers_only": "yes"})), Err(BadSettings::Form(_))));
    }

    #[test]
    fn nothing_goes_unprotected_to_another_machine() {
        for (url, fits) in [
            ("ws://127.0.0.1:9/ws", true),
            ("ws://[::1]:9", true),
            ("ws://localhost:9/x", true),
            ("wss://relay.example.org/ws", true),
            ("ws://relay.example.org/ws", false),
            ("ws://127.0.0.1.example.org/", false),
            ("wss://user@relay.example.org/", false),
            ("http://127.0.0.1:9", false),
            ("wss://", false),
        ] {
            assert_eq!(upstream(Some(url)).is_ok(), fits, "{url}");
        }
        assert_eq!(upstream(None), Ok(None));
    }
}
