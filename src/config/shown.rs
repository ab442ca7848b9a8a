//! The settings as they hold, and where each comes from.

use std::path::Path;

use ipc_handlers::words;
use serde::Serialize;

use super::{
    Environment, Takes,
    declare::defaults,
    dotenv,
    environment::{OVER, Overs, Place},
    secrets, takes,
    written::flatten,
};
use crate::domain::shown::screen;

words! {
    /// Where a setting's value comes from.
    pub enum Source: "source of a setting" {
        Default = "default",
        File = "g2.toml",
        Dotenv = ".env",
        Environment = "environment",
    }
}

/// A setting as it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    pub name: String,
    /// As TOML; what looks like a secret is not shown.
    pub value: String,
    pub source: Source,
    /// When a change of it holds.
    pub takes: Takes,
}

/// Returns every setting as it holds, by name. The file must be readable as TOML.
///
/// # Errors
/// The reader's words.
pub fn settings(root: &Path, text: &str, environment: &Environment) -> Result<Vec<Setting>, toml::de::Error> {
    let (mut all, mut written) = Default::default();
    flatten("", &defaults().parse()?, &mut all);
    flatten("", &text.parse()?, &mut written);
    let mut held: std::collections::BTreeMap<String, (String, Source)> =
        all.into_iter().map(|(name, value): (String, String)| (name, (value, Source::Default))).collect();
    held.extend(written.into_iter().map(|(name, value): (String, String)| (name, (value, Source::File))));
    let dotenv = dotenv::Said::of(&dotenv::text(root));
    let overs = Overs { environment, dotenv: &dotenv };
    for (variable, name) in OVER {
        // The setting wins over TZ in `.env`.
        let is_set = held.get(name).is_some_and(|(value, _)| value != "\"\"");
        let over = overs.over(variable);
        let over = over.filter(|(_, place)| variable != "TZ" || *place == Place::Environment || !is_set);
        if let Some((value, place)) = over {
            let source = match place {
                Place::Environment => Source::Environment,
                Place::Dotenv => Source::Dotenv,
            };
            let is_number = held.get(name).is_some_and(|(value, _)| value.parse::<i64>().is_ok());
            let value = if is_number { value } else { toml::Value::String(value).to_string() };
            held.insert(name.to_owned(), (value, source));
        }
    }
    Ok(held
        .into_iter()
        .map(|(name, (value, source))| {
            let value = if secrets::tells(&name) && value != "\"\"" {
                "\"…\"".to_owned()
            } else {
                shown(&name, &value)
            };
            let takes = if source == Source::Environment { Takes::Restart } else { takes(&name) };
            Setting { name, value, source, takes }
        })
        .collect())
}

/// Returns a value without the secrets that an address in it may hold.
fn shown(name: &str, value: &str) -> String {
    if let Some(left) = secrets::value_without(value)
        .filter(|_| name.starts_with("channels.") || name.starts_with("agent.acp."))
    {
        return left;
    }
    // That of the model's host without a scheme is wrong, and a secret all the same.
    let text = value.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    match text.filter(|_| name.ends_with("upstream")) {
        Some(text) => format!("\"{}\"", screen::address(text)),
        None => screen::addresses(value),
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test plays the user")]
mod tests {
    use super::*;

    #[test]
    fn each_setting_is_told_with_its_source_and_no_secret_is() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(
            dir.path().join(".env"),
            "TZ=UTC\nANTHROPIC_API_KEY=sk-hush\nANTHROPIC_BASE_URL=https://b\n",
        )
        .unwrap();
        let text = "log_level = \"warn\"\n[limits]\nkeep_days = 3\n[channels.tg]\ntoken = \"hush\"\ntoken_file = \"x\"\ncommand = [\"a\", \"--token\", \"hush\"]\naccounts = [{ token = \"hush\" }]\n[agent.acp.env]\nA = \"hush\"\n";
        let environment =
            Environment::with(&[("LOG_LEVEL", "debug"), ("POLL_INTERVAL", "500"), ("IDLE_TIMEOUT", "soon")]);
        let all = settings(dir.path(), text, &environment).unwrap();
        let of =
            |name: &str| all.iter().find(|one| one.name == name).map(|one| (one.value.as_str(), one.source));
        assert_eq!(of("limits.keep_days"), Some(("3", Source::File)));
        assert_eq!(of("limits.tasks"), Some(("1000", Source::Default)));
        assert_eq!(of("log_level"), Some(("\"debug\"", Source::Environment)));
        assert_eq!(of("limits.poll_interval_ms"), Some(("500", Source::Environment)));
        assert_eq!(of("health.idle_ms").map(|(_, source)| source), Some(Source::Default), "it is no number");
        assert_eq!(of("gateway.upstream"), Some(("\"https://b\"", Source::Dotenv)));
        assert_eq!(of("timezone"), Some(("\"UTC\"", Source::Dotenv)));
        assert_eq!(of("channels.tg.token"), Some(("\"…\"", Source::File)));
        assert_eq!(of("channels.tg.token_file"), Some(("\"x\"", Source::File)));
        assert_eq!(of("channels.tg.command"), Some(("[\"a\", \"--token\", \"…\"]", Source::File)));
        assert!(!format!("{all:?}").contains("hush"), "{all:?}");
    }
}
