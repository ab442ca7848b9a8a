//! The environment that the process was started with, and v1's names in it, which win over the file.
#![expect(clippy::disallowed_methods, reason = "this file is the door to the environment")]

use std::{
    collections::BTreeMap,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{declare::out_of_range, dotenv::Said, settings::File};
use crate::domain::runs::run_settings::{IMAGE_NAMES, may_be_an_image};

/// The levels that a log has.
pub(super) const LEVELS: [&str; 6] = ["fatal", "error", "warn", "info", "debug", "trace"];

/// Names of the environment that win over `.env`, where they win over `g2.toml`, with their settings. `TZ` in `.env` is behind
/// `g2.toml`.
pub(super) const OVER: [(&str, &str); 12] = [
    ("ASSISTANT_NAME", "assistant_name"),
    ("LOG_LEVEL", "log_level"),
    ("TZ", "timezone"),
    ("CONTAINER_IMAGE", "sandbox.image"),
    ("ANTHROPIC_BASE_URL", "gateway.upstream"),
    ("MAX_CONCURRENT_CONTAINERS", "limits.max_concurrent_containers"),
    ("MAX_MESSAGES_PER_PROMPT", "limits.max_messages_per_prompt"),
    ("POLL_INTERVAL", "limits.poll_interval_ms"),
    ("IDLE_TIMEOUT", "health.idle_ms"),
    ("CONTAINER_TIMEOUT", "health.container_ms"),
    ("HTTPS_PROXY", "network.proxy"),
    ("NO_PROXY", "network.no_proxy"),
];
/// Those of them that are written in small letters, too.
const IN_SMALL_LETTERS: [(&str, &str); 2] = [("HTTPS_PROXY", "https_proxy"), ("NO_PROXY", "no_proxy")];
/// Those of them that are numbers, with the least value of each. A value below 0 counts as the least (`true`), or not at all.
const NUMBERS: [(&str, u64, bool); 5] = [
    ("MAX_CONCURRENT_CONTAINERS", 1, true),
    ("MAX_MESSAGES_PER_PROMPT", 1, true),
    ("POLL_INTERVAL", 10, false),
    ("IDLE_TIMEOUT", 0, false),
    ("CONTAINER_TIMEOUT", 0, false),
];

/// Returns the setting that a variable wins over.
pub(super) fn setting_of(variable: &str) -> Option<&'static str> {
    OVER.iter().find(|(name, _)| *name == variable).map(|(_, setting)| *setting)
}

/// What the process was started with.
#[derive(Clone, Debug, Default)]
pub struct Environment(BTreeMap<String, String>);

/// The environment, and `.env` behind it.
#[derive(Clone, Copy)]
pub(super) struct Overs<'a> {
    pub(super) environment: &'a Environment,
    pub(super) dotenv: &'a Said,
}

/// Where a name stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Environment,
    Dotenv,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Environment => "in the environment",
            Self::Dotenv => "in .env",
        })
    }
}

impl Environment {
    /// Returns an environment of these variables alone.
    #[must_use]
    pub fn with(pairs: &[(&str, &str)]) -> Self {
        Self(pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect())
    }

    /// Reads the process's environment, once.
    #[must_use]
    pub fn of_process() -> Self {
        Self(std::env::vars().collect())
    }

    /// Returns a variable that is set and not empty.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }
}

impl Overs<'_> {
    /// Returns what a name of [`OVER`] comes to, and where it stands; `None`: `g2.toml` decides.
    pub(super) fn over(self, name: &str) -> Option<(String, Place)> {
        let (text, place) = self.said(name)?;
        if NUMBERS.iter().any(|(number, ..)| *number == name) {
            return Some((self.number(name)?.to_string(), place));
        }
        (name != "CONTAINER_IMAGE" || may_be_an_image(text)).then(|| (text.to_owned(), place))
    }

    /// Returns what a name of [`OVER`] says, and where.
    fn said(&self, name: &str) -> Option<(&str, Place)> {
        let small = IN_SMALL_LETTERS.iter().find(|(large, _)| *large == name);
        let of_process = self.environment.get(name).or_else(|| self.environment.get(small?.1));
        let of_process = of_process.map(|text| (text, Place::Environment));
        of_process.or_else(|| Some((self.dotenv.get(name)?, Place::Dotenv)))
    }

    fn number(&self, name: &str) -> Option<u64> {
        let (_, least, negative_counts) = NUMBERS.iter().find(|(number, ..)| *number == name)?;
        let said = leading_number(self.said(name)?.0)?;
        match u64::try_from(said) {
            Ok(said) => Some(said.max(*least)),
            Err(_) => negative_counts.then_some(*least),
        }
    }
}

/// Puts what v1's environment names say over what `g2.toml` says.
pub(super) fn put_over(file: &mut File, overs: Overs<'_>) {
    let text = |name: &str, over: &mut String| {
        if let Some((text, _)) = overs.over(name) {
            *over = text;
        }
    };
    text("ASSISTANT_NAME", &mut file.assistant_name);
    text("LOG_LEVEL", &mut file.log_level);
    text("CONTAINER_IMAGE", &mut file.sandbox.image);
    text("ANTHROPIC_BASE_URL", &mut file.gateway.upstream);
    text("HTTPS_PROXY", &mut file.network.proxy);
    text("NO_PROXY", &mut file.network.no_proxy);
    let count = |name: &str| overs.number(name).map(|most| usize::try_from(most).unwrap_or(usize::MAX));
    if let Some(most) = count("MAX_CONCURRENT_CONTAINERS").and_then(NonZeroUsize::new) {
        file.limits.max_containers = most;
    }
    if let Some(most) = count("MAX_MESSAGES_PER_PROMPT") {
        file.limits.max_context = most;
    }
    if let Some(ms) = overs.number("POLL_INTERVAL") {
        file.limits.scan_every = Duration::from_millis(ms);
    }
    if let Some(ms) = overs.number("IDLE_TIMEOUT") {
        file.health.idle_ms = ms;
    }
    if let Some(ms) = overs.number("CONTAINER_TIMEOUT") {
        file.health.container_ms = ms;
    }
}

/// What of v1's environment names can't be used as it stands.
pub(super) fn unusable(overs: Overs<'_>) -> Vec<String> {
    let number = |name: &str, least: u64| {
        let (text, place) = overs.said(name)?;
        let why = match leading_number(text) {
            None => "it is no number, and the setting is used instead".to_owned(),
            Some(value) if value < 0 => "it is below 0".to_owned(),
            Some(0) if least == 0 => return None,
            Some(value) => out_of_range(setting_of(name)?, value)?,
        };
        Some(format!("{name} {place} can't be {text:?}: {why}"))
    };
    let level = overs.said("LOG_LEVEL").filter(|(level, _)| !LEVELS.contains(level));
    let level = level.map(|(level, place)| {
        format!("LOG_LEVEL {place} can't be {level:?}: it is one of {}", LEVELS.join(", "))
    });
    let image = overs.said("CONTAINER_IMAGE").filter(|(image, _)| !may_be_an_image(image));
    let image = image.map(|(image, place)| {
        format!("CONTAINER_IMAGE {place} can't be {image:?}: {IMAGE_NAMES}; the setting is used instead")
    });
    NUMBERS.iter().filter_map(|(name, least, _)| number(name, *least)).chain(level).chain(image).collect()
}

/// Puts the user's home in the place of a leading `~`.
pub(super) fn at_home(path: PathBuf, environment: &Environment) -> PathBuf {
    match (path.strip_prefix("~"), environment.get("HOME")) {
        (Ok(rest), Some(home)) => Path::new(home).join(rest),
        _ => path,
    }
}

/// JavaScript's `parseInt`, as v1 read its numbers: leading digits, the rest ignored.
fn leading_number(text: &str) -> Option<i64> {
    let text = text.trim();
    let digits: String = text
        .char_indices()
        .take_while(|(i, c)| c.is_ascii_digit() || (*i == 0 && *c == '-'))
        .map(|(_, c)| c)
        .collect();
    digits.parse().ok()
}
