//! What is written in `g2.toml` and `.env`: which numbers can be used, what nobody reads, and what has changed since.

use std::collections::{BTreeMap, BTreeSet};

use super::{DEFAULT_TOML, dotenv};

const YEARS: i64 = 315_360_000_000;
const MANY: i64 = u32::MAX as i64;

/// Numbers, and the least and the most that each can be.
const RANGES: [(&str, i64, i64); 37] = [
    ("sandbox.memory_mib", 0, 1 << 24),
    ("sandbox.pids", 0, 1 << 22),
    ("sandbox.output_mib", 1, 1 << 20),
    // What of it can be used beside 0 is checked where it is read.
    ("sandbox.uid_base", 0, MANY),
    ("agent.claude.stall_timeout_ms", 0, YEARS),
    ("limits.max_concurrent_containers", 1, 10_000),
    ("limits.max_messages_per_prompt", 1, 1_000_000),
    ("limits.batch_messages", 1, 1_000_000),
    ("limits.batch_kib", 1, 1 << 20),
    ("limits.retry_base_ms", 1, 3_600_000),
    ("limits.poll_interval_ms", 10, 3_600_000),
    ("limits.min_free_mib", 0, 1 << 40),
    ("limits.commands_per_minute", 1, MANY),
    ("limits.messages_per_minute", 1, MANY),
    ("limits.commands_mib_per_minute", 1, 4_095),
    ("limits.stored_mib", 1, 1 << 30),
    ("limits.waiting_mib", 1, 1 << 30),
    ("limits.waiting_files", 1, MANY),
    ("limits.tasks", 1, 1_000_000),
    ("limits.tasks_mib", 1, 1 << 20),
    ("limits.task_prompt_kib", 1, 1 << 10),
    ("limits.task_script_kib", 1, 1 << 10),
    ("limits.replies_mib", 1, 1 << 20),
    ("limits.archives", 1, MANY),
    ("limits.archives_mib", 0, 1 << 30),
    ("limits.keep_days", 0, 36_500),
    ("limits.keep_first_minutes", 0, MANY),
    ("health.startup_ms", 1, YEARS),
    ("health.ceiling_ms", 1, YEARS),
    ("health.claim_ms", 1, YEARS),
    ("health.idle_ms", 1, YEARS),
    ("health.container_ms", 1, YEARS),
    ("health.close_grace_ms", 0, YEARS),
    ("approvals.deny_ttl_minutes", 0, MANY),
    ("POLL_INTERVAL", 10, 3_600_000),
    ("MAX_CONCURRENT_CONTAINERS", 1, 10_000),
    ("MAX_MESSAGES_PER_PROMPT", 1, 1_000_000),
];

/// The levels that a log has.
pub(super) const LEVELS: [&str; 6] = ["fatal", "error", "warn", "info", "debug", "trace"];

/// What a number can be, in words; `None` where this one is fine, or where nothing is known of the name.
pub(super) fn out_of_range(name: &str, value: i64) -> Option<String> {
    let (_, least, most) = RANGES.iter().find(|(known, ..)| *known == name)?;
    (value < *least || value > *most).then(|| format!("it is {least} at least and {most} at most"))
}

/// What is written, by the full name of each setting, as TOML.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written(BTreeMap<String, String>);

impl Written {
    /// Reads both files; what is not there is at its default.
    ///
    /// # Errors
    /// The reader's words.
    pub(super) fn of(toml: &str, dotenv: &str) -> Result<Self, String> {
        let defaults: String = DEFAULT_TOML
            .lines()
            .map(|line| line.strip_prefix("# ").filter(|l| l.contains(" = ")).unwrap_or(line))
            .map(|line| format!("{line}\n"))
            .collect();
        let mut found = BTreeMap::new();
        for text in [&defaults, toml] {
            let table: toml::Table = text.parse().map_err(|e: toml::de::Error| e.to_string())?;
            flatten("", &table, &mut found);
        }
        // The rest of `.env` is read whenever it is used.
        for name in ["TZ", "ANTHROPIC_BASE_URL"] {
            found.insert(format!("{name} in .env"), dotenv::value(dotenv, name).unwrap_or_default());
        }
        Ok(Self(found))
    }

    /// Returns the settings in which two differ.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let names: BTreeSet<&String> = self.0.keys().chain(other.0.keys()).collect();
        names.into_iter().filter(|name| self.0.get(*name) != other.0.get(*name)).cloned().collect()
    }
}

fn flatten(above: &str, table: &toml::Table, found: &mut BTreeMap<String, String>) {
    for (key, value) in table {
        let name = if above.is_empty() { key.clone() } else { format!("{above}.{key}") };
        match value {
            toml::Value::Table(inner) => flatten(&name, inner, found),
            other => drop(found.insert(name, other.to_string())),
        }
    }
}

/// Returns the first number that can't be used: its line, its name, its value, and what it can be.
pub(super) fn bad_number(toml: &str) -> Option<(usize, String, String, String)> {
    let mut found = BTreeMap::new();
    // One that can't be read is told by whoever reads all of it.
    flatten("", &toml.parse().ok()?, &mut found);
    found.into_iter().find_map(|(name, value)| {
        let allowed = out_of_range(&name, value.parse().ok()?)?;
        Some((line_of(toml, &name), name, value, allowed))
    })
}

/// The line on which a setting stands, from 1.
fn line_of(toml: &str, name: &str) -> usize {
    let mut section = String::new();
    let at = toml.lines().position(|line| {
        let line = line.trim();
        if let Some(head) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            section = format!("{}.", head.trim());
            return false;
        }
        line.split_once('=').is_some_and(|(key, _)| format!("{section}{}", key.trim()) == name)
    });
    at.map_or(1, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_named_in_full_and_a_default_that_is_written_out_is_none() {
        let of = |toml: &str, env: &str| Written::of(toml, env).unwrap();
        let (none, default) = (of("", ""), of("[limits]\nmessages_per_minute = 3000\n", "SECRET=1\n"));
        assert_eq!(none.differences(&default), Vec::<String>::new());
        let other = of("log_level = \"debug\"\n[limits]\nmessages_per_minute = 7\n", "TZ=UTC\n");
        assert_eq!(none.differences(&other), ["TZ in .env", "limits.messages_per_minute", "log_level"]);
    }

    #[test]
    fn every_number_of_the_defaults_is_in_its_range_and_is_listed() {
        let all = Written::of("", "").unwrap();
        for (name, value) in &all.0 {
            let Ok(value) = value.parse::<i64>() else { continue };
            assert!(RANGES.iter().any(|(known, ..)| known == name), "{name} has no range");
            assert_eq!(out_of_range(name, value), None, "{name}");
        }
    }

    #[test]
    fn a_number_out_of_its_range_is_told_with_its_line() {
        let text = "[health]\nidle_ms = 5\n[limits]\n# none\nmessages_per_minute = 0\n";
        let (line, name, value, allowed) = bad_number(text).unwrap();
        assert_eq!((line, name.as_str(), value.as_str()), (5, "limits.messages_per_minute", "0"));
        assert_eq!(allowed, "it is 1 at least and 4294967295 at most");
        assert!(bad_number("[limits]\nbatch_messages = -1\n").is_some());
    }
}
