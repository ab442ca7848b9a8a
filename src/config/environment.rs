//! The environment that the process was started with, and v1's names in it, which win over the file.
#![expect(clippy::disallowed_methods, reason = "this file is the door to the environment")]

use std::{
    collections::BTreeMap,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{File, layers::out_of_range};

/// The levels that a log has.
pub(super) const LEVELS: [&str; 6] = ["fatal", "error", "warn", "info", "debug", "trace"];

/// What the process was started with.
#[derive(Clone, Debug, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    #[cfg(test)]
    pub(crate) fn with(pairs: &[(&str, &str)]) -> Self {
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

/// Puts what v1's environment names say over what the files say.
pub(super) fn put_over(file: &mut File, environment: &Environment) {
    let text = |name: &str, over: &mut String| {
        if let Some(text) = environment.get(name) {
            *over = text.to_owned();
        }
    };
    text("ASSISTANT_NAME", &mut file.assistant_name);
    text("LOG_LEVEL", &mut file.log_level);
    text("CONTAINER_IMAGE", &mut file.sandbox.image);
    text("ANTHROPIC_BASE_URL", &mut file.gateway.upstream);
    let number = |name: &str| environment.get(name).and_then(leading_number);
    if let Some(most) = number("MAX_CONCURRENT_CONTAINERS") {
        let most = usize::try_from(most).ok().and_then(NonZeroUsize::new);
        file.limits.max_containers = most.unwrap_or(NonZeroUsize::MIN);
    }
    if let Some(most) = number("MAX_MESSAGES_PER_PROMPT") {
        file.limits.max_context = usize::try_from(most).unwrap_or(1).max(1);
    }
    // A value below 0 is reported, and changes nothing.
    let millis = |name: &str| number(name).and_then(|ms| u64::try_from(ms).ok());
    if let Some(ms) = millis("POLL_INTERVAL") {
        file.limits.scan_every = Duration::from_millis(ms.max(10));
    }
    if let Some(ms) = millis("IDLE_TIMEOUT") {
        file.health.idle_ms = ms;
    }
    if let Some(ms) = millis("CONTAINER_TIMEOUT") {
        file.health.container_ms = ms;
    }
}

/// What of v1's environment names can't be used as it stands.
pub(super) fn unusable(environment: &Environment) -> Vec<String> {
    const NUMBERS: [&str; 5] = [
        "MAX_CONCURRENT_CONTAINERS",
        "MAX_MESSAGES_PER_PROMPT",
        "POLL_INTERVAL",
        "IDLE_TIMEOUT",
        "CONTAINER_TIMEOUT",
    ];
    let number = |name: &str| {
        let text = environment.get(name)?;
        let why = match leading_number(text) {
            None => "it is no number, and the setting is used instead".to_owned(),
            Some(value) if value < 0 => "it is below 0".to_owned(),
            Some(value) => out_of_range(name, value)?,
        };
        Some(format!("{name} in the environment can't be {text:?}: {why}"))
    };
    let level = environment.get("LOG_LEVEL").filter(|level| !LEVELS.contains(level));
    let level = level.map(|level| {
        format!("LOG_LEVEL in the environment can't be {level:?}: it is one of {}", LEVELS.join(", "))
    });
    NUMBERS.into_iter().filter_map(number).chain(level).collect()
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
