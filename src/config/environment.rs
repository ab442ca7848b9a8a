//! The environment that the process was started with, and v1's names in it, which win over the file.
#![expect(clippy::disallowed_methods, reason = "this file is the door to the environment")]

use std::{
    collections::BTreeMap,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{declare::out_of_range, settings::File};
use crate::domain::runs::run_settings::{IMAGE_NAMES, may_be_an_image};

/// The levels that a log has.
pub(super) const LEVELS: [&str; 6] = ["fatal", "error", "warn", "info", "debug", "trace"];

/// Names of the environment that win over the files, with their settings.
pub(super) const OVER: [(&str, &str); 10] = [
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
];
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

    /// Returns what a name of [`OVER`] comes to; `None`: the files decide.
    pub(super) fn over(&self, name: &str) -> Option<String> {
        if NUMBERS.iter().any(|(number, ..)| *number == name) {
            return self.number(name).map(|number| number.to_string());
        }
        self.get(name).filter(|text| name != "CONTAINER_IMAGE" || may_be_an_image(text)).map(str::to_owned)
    }

    fn number(&self, name: &str) -> Option<u64> {
        let (_, least, negative_counts) = NUMBERS.iter().find(|(number, ..)| *number == name)?;
        let said = self.get(name).and_then(leading_number)?;
        match u64::try_from(said) {
            Ok(said) => Some(said.max(*least)),
            Err(_) => negative_counts.then_some(*least),
        }
    }
}

/// Puts what v1's environment names say over what the files say.
pub(super) fn put_over(file: &mut File, environment: &Environment) {
    let text = |name: &str, over: &mut String| {
        if let Some(text) = environment.get(name) {
            *over = text.to_owned();
        }
    };
    text("ASSISTANT_NAME", &mut file.assistant_name);
    text("LOG_LEVEL", &mut file.log_level);
    if let Some(image) = environment.over("CONTAINER_IMAGE") {
        file.sandbox.image = image;
    }
    text("ANTHROPIC_BASE_URL", &mut file.gateway.upstream);
    let count = |name: &str| environment.number(name).map(|most| usize::try_from(most).unwrap_or(usize::MAX));
    if let Some(most) = count("MAX_CONCURRENT_CONTAINERS").and_then(NonZeroUsize::new) {
        file.limits.max_containers = most;
    }
    if let Some(most) = count("MAX_MESSAGES_PER_PROMPT") {
        file.limits.max_context = most;
    }
    if let Some(ms) = environment.number("POLL_INTERVAL") {
        file.limits.scan_every = Duration::from_millis(ms);
    }
    if let Some(ms) = environment.number("IDLE_TIMEOUT") {
        file.health.idle_ms = ms;
    }
    if let Some(ms) = environment.number("CONTAINER_TIMEOUT") {
        file.health.container_ms = ms;
    }
}

/// What of v1's environment names can't be used as it stands.
pub(super) fn unusable(environment: &Environment) -> Vec<String> {
    let number = |name: &str, least: u64| {
        let text = environment.get(name)?;
        let why = match leading_number(text) {
            None => "it is no number, and the setting is used instead".to_owned(),
            Some(value) if value < 0 => "it is below 0".to_owned(),
            Some(0) if least == 0 => return None,
            Some(value) => out_of_range(setting_of(name)?, value)?,
        };
        Some(format!("{name} in the environment can't be {text:?}: {why}"))
    };
    let level = environment.get("LOG_LEVEL").filter(|level| !LEVELS.contains(level));
    let level = level.map(|level| {
        format!("LOG_LEVEL in the environment can't be {level:?}: it is one of {}", LEVELS.join(", "))
    });
    let image = environment.get("CONTAINER_IMAGE").filter(|image| !may_be_an_image(image));
    let image = image.map(|image| {
        format!(
            "CONTAINER_IMAGE in the environment can't be {image:?}: {IMAGE_NAMES}; the setting is used instead"
        )
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
