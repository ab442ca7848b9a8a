//! The layers of the settings: the embedded file with every default, and over it what the user's file says.

use toml::{
    Spanned,
    de::{DeInteger, DeTable, DeValue, Error},
};

use super::{ConfigError, DEFAULT_TOML, File};

const YEARS: i64 = 315_360_000_000;
const MANY: i64 = u32::MAX as i64;

/// Numbers, and the least and the most that each can be.
const RANGES: [(&str, i64, i64); 59] = [
    ("sandbox.memory_mib", 0, 1 << 24),
    ("sandbox.pids", 0, 1 << 22),
    ("sandbox.output_mib", 1, 1 << 20),
    // What of it can be used beside 0 is checked where it is read.
    ("sandbox.uid_base", 0, MANY),
    ("egress.connections", 1, 1_000),
    ("egress.connections_per_minute", 1, 1_000_000),
    ("egress.mib_per_hour", 1, 1 << 30),
    ("egress.connection_minutes", 1, 10_080),
    ("budget.requests", 0, 1_000_000_000_000),
    ("budget.tokens", 0, 1_000_000_000_000),
    ("budget.money", 0, 1_000_000),
    ("budget.minutes", 0, 1_440),
    ("agent.acp.stall_timeout_ms", 0, YEARS),
    ("agent.claude.stall_timeout_ms", 0, YEARS),
    ("limits.max_concurrent_containers", 1, 10_000),
    ("limits.max_messages_per_prompt", 1, 1_000_000),
    ("limits.batch_messages", 1, 1_000_000),
    ("limits.batch_kib", 1, 1 << 20),
    ("limits.retry_base_ms", 1, 3_600_000),
    ("limits.catch_up_spacing_ms", 0, 3_600_000),
    ("limits.poll_interval_ms", 10, 3_600_000),
    ("limits.min_free_mib", 0, 1 << 40),
    ("limits.commands_per_minute", 1, MANY),
    ("limits.messages_per_minute", 1, MANY),
    ("limits.commands_mib_per_minute", 1, 4_095),
    ("limits.stored_mib", 1, 1 << 30),
    ("limits.waiting_mib", 1, 1 << 30),
    ("limits.waiting_files", 1, MANY),
    ("limits.groups", 1, 100_000),
    ("limits.tasks", 1, 1_000_000),
    ("limits.tasks_mib", 1, 1 << 20),
    ("limits.task_prompt_kib", 1, 1 << 10),
    ("limits.task_script_kib", 1, 1 << 10),
    ("limits.replies_mib", 1, 1 << 20),
    ("limits.archives", 0, MANY),
    ("limits.archives_mib", 0, 1 << 30),
    ("limits.keep_days", 0, 36_500),
    ("limits.keep_first_minutes", 0, MANY),
    ("housekeeping.runs_days", 0, 36_500),
    ("housekeeping.runs_mib", 0, 1 << 30),
    ("housekeeping.sessions_days", 0, 36_500),
    ("housekeeping.sessions_mib", 0, 1 << 30),
    ("health.startup_ms", 1, YEARS),
    ("health.ceiling_ms", 1, YEARS),
    ("health.claim_ms", 1, YEARS),
    ("health.idle_ms", 1, YEARS),
    ("health.container_ms", 1, YEARS),
    ("health.close_grace_ms", 0, YEARS),
    ("health.fresh_after_hours", 0, 87_600),
    ("health.tell_retry_ms", 0, YEARS),
    ("approvals.deny_ttl_minutes", 0, MANY),
    ("backup.keep", 1, 10_000),
    ("media.largest_mib", 1, 1 << 20),
    ("media.hooks.seconds", 1, 240),
    ("media.chat_mib_per_hour", 1, 1 << 30),
    ("media.store_mib", 1, 1 << 30),
    ("POLL_INTERVAL", 10, 3_600_000),
    ("MAX_CONCURRENT_CONTAINERS", 1, 10_000),
    ("MAX_MESSAGES_PER_PROMPT", 1, 1_000_000),
];

/// Reads the settings in a user's file; missing settings are at their defaults.
pub(super) fn read(path: &std::path::Path, text: &str) -> Result<File, ConfigError> {
    let parse = |error: Error| ConfigError::Parse { path: path.to_owned(), why: words(&error) };
    let mut written = DeTable::parse(text).map_err(parse)?;
    if let Some((at, name, value, allowed)) = bad_number("", written.get_ref()) {
        let line = text[..at].matches('\n').count() + 1;
        return Err(ConfigError::Range { path: path.to_owned(), line, name, value, allowed });
    }
    let defaults = defaults();
    put_under(written.get_mut(), DeTable::parse(&defaults).map_err(parse)?.into_inner());
    let merged = toml::de::Deserializer::from(written);
    serde::Deserialize::deserialize(merged).map_err(|mut error: Error| {
        error.set_input(Some(text));
        parse(error)
    })
}

/// Returns the reader's words, and what to do where they do not tell.
fn words(error: &Error) -> String {
    let words = error.to_string();
    let words = words.trim_end();
    match error.message() {
        "duplicate key" => {
            format!(
                "{words}: it stands twice. Put the lines below the first one, or use `g2 config set`, which does"
            )
        }
        _ => words.to_owned(),
    }
}

/// Returns the embedded file with its settings said, not commented.
pub(super) fn defaults() -> String {
    let said = |line: &'static str| line.strip_prefix("# ").filter(|l| l.contains(" = ")).unwrap_or(line);
    DEFAULT_TOML.lines().flat_map(|line| [said(line), "\n"]).collect()
}

/// Puts what `below` says into a table that does not say it.
fn put_under<'t>(table: &mut DeTable<'t>, below: DeTable<'t>) {
    for (key, value) in below {
        match (table.get_mut(&key).map(Spanned::get_mut), value.get_ref()) {
            (None, _) => drop(table.insert(key, value)),
            (Some(DeValue::Table(over)), DeValue::Table(_)) => {
                if let DeValue::Table(under) = value.into_inner() {
                    put_under(over, under);
                }
            }
            (Some(_), _) => {}
        }
    }
}

/// Returns the first number that can't be used: where it stands, its name, its value, and what it can be.
fn bad_number(above: &str, table: &DeTable<'_>) -> Option<(usize, String, String, String)> {
    table.iter().find_map(|(key, value)| {
        let name = format!("{above}{}", key.get_ref());
        match value.get_ref() {
            DeValue::Table(inner) => bad_number(&format!("{name}."), inner),
            DeValue::Integer(number) => {
                let number = value_of(number)?;
                let allowed = out_of_range(&name, number)?;
                Some((value.span().start, name, number.to_string(), allowed))
            }
            DeValue::String(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_) => None,
        }
    })
}

fn value_of(number: &DeInteger<'_>) -> Option<i64> {
    i64::from_str_radix(number.as_str(), number.radix()).ok()
}

/// What a number can be, in words; `None` where this one is fine, or where nothing is known of the name.
pub(super) fn out_of_range(name: &str, value: i64) -> Option<String> {
    let (_, least, most) = RANGES.iter().find(|(known, ..)| *known == name)?;
    (value < *least || value > *most).then(|| format!("it is {least} at least and {most} at most"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn names(above: &str, table: &DeTable<'_>, found: &mut BTreeSet<String>) {
        for (key, value) in table {
            let name = format!("{above}{}", key.get_ref());
            match value.get_ref() {
                DeValue::Table(inner) => names(&format!("{name}."), inner, found),
                _ => drop(found.insert(name)),
            }
        }
    }

    fn numbers(above: &str, table: &DeTable<'_>, found: &mut Vec<(String, i64)>) {
        for (key, value) in table {
            let name = format!("{above}{}", key.get_ref());
            match value.get_ref() {
                DeValue::Table(inner) => numbers(&format!("{name}."), inner, found),
                DeValue::Integer(number) => found.push((name, value_of(number).unwrap())),
                _ => {}
            }
        }
    }

    fn error(text: &str) -> String {
        read("g2.toml".as_ref(), text).unwrap_err().to_string()
    }

    #[test]
    fn every_setting_of_the_embedded_file_is_known_and_every_known_one_is_in_it() {
        let text = defaults();
        let table = DeTable::parse(&text).unwrap().into_inner();
        read("g2.toml".as_ref(), "").unwrap();
        let mut all = BTreeSet::new();
        names("", &table, &mut all);
        assert!(all.len() > 50, "{all:?}");
        for name in &all {
            // A name that is not known is refused. One that is known and not there is missed, as nothing else has its default.
            let odd = match name.rsplit_once('.') {
                Some((section, _)) => format!("[{section}]\nodd = 1\n"),
                None => "odd = 1\n".to_owned(),
            };
            assert!(error(&odd).contains("unknown field `odd`"), "{name}");
            let line = text.lines().position(|line| {
                line.split_once(" = ").is_some_and(|(key, _)| name.rsplit('.').next() == Some(key))
            });
            let without: String = text
                .lines()
                .enumerate()
                .filter(|(n, _)| Some(*n) != line)
                .map(|(_, l)| format!("{l}\n"))
                .collect();
            let missing = toml::from_str::<File>(&without).unwrap_err().to_string();
            assert!(missing.contains("missing field"), "{name}: {missing}");
        }
    }

    #[test]
    fn every_number_of_the_defaults_is_in_its_range_and_is_listed() {
        let text = defaults();
        let mut all = Vec::new();
        numbers("", DeTable::parse(&text).unwrap().get_ref(), &mut all);
        assert!(all.len() > 30, "{all:?}");
        for (name, value) in all {
            assert!(RANGES.iter().any(|(known, ..)| *known == name), "{name} has no range");
            assert_eq!(out_of_range(&name, value), None, "{name}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let text = "[health]\nidle_ms = 5\n[limits]\n# none\nmessages_per_minute = 0\n";
        let said = error(text);
        assert!(said.contains("at line 5, limits.messages_per_minute can't be 0"), "{said}");
        assert!(said.contains("it is 1 at least and 4294967295 at most"), "{said}");
        assert!(error("[limits]\nbatch_messages = -1\n").contains("line 2"));
        assert!(error("[limits]\nbatch_messages = -0x1\n").contains("line 2"));
        let twice = error("[sandbox]\npids = 5\n\n[sandbox]\ncpus = 1.0\n");
        assert!(twice.contains("line 4") && twice.contains("sandbox"), "{twice}");
        let word = error("[sandbox]\n\nnetwork = \"some\"\n");
        assert!(word.contains("line 3") && word.contains("sandbox.network can't be \"some\""), "{word}");
        assert!(error("sandbox = 3\n").contains("line 1"));
    }
}
