//! What stands in `g2.toml` and `.env`, to tell later what has changed since.

use std::collections::{BTreeMap, BTreeSet};

use super::{Takes, declare::defaults, dotenv::Said, environment::OVER, takes};

/// Returns the name under which a variable of `.env` counts as a setting does.
fn in_dotenv(variable: &str) -> String {
    format!("{variable} in .env")
}

/// The written settings. Its `Debug` has none of them: some are secrets.
#[derive(Clone, Default, PartialEq)]
pub struct Written {
    /// By their full names, as TOML; missing ones are at their defaults.
    values: BTreeMap<String, String>,
    /// What stands in `g2.toml` itself.
    table: toml::Table,
    dotenv: Said,
}

impl std::fmt::Debug for Written {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Written").finish_non_exhaustive()
    }
}

impl Written {
    /// Reads both files; missing settings are at their defaults.
    ///
    /// # Errors
    /// The reader's words.
    pub(super) fn of(toml: &str, dotenv: Said) -> Result<Self, toml::de::Error> {
        let (mut values, table) = (BTreeMap::new(), toml.parse()?);
        for table in [&defaults().parse()?, &table] {
            flatten("", table, &mut values);
        }
        let said = |(name, _)| (in_dotenv(name), dotenv.get(name).unwrap_or_default().to_owned());
        values.extend(OVER.map(said));
        Ok(Self { values, table, dotenv })
    }

    /// Returns what holds of other files while nothing is restarted that began with these: a `g2.toml`, and what counts of
    /// `.env`.
    pub(super) fn kept(&self, now: &Self) -> (String, Said) {
        let dotenv = Said::choose(|name| match takes(&in_dotenv(name)) {
            Takes::Restart => &self.dotenv,
            Takes::Now | Takes::NextRun => &now.dotenv,
        });
        (kept("", &self.table, &now.table).to_string(), dotenv)
    }

    /// Returns the settings that are not at their defaults, with their values as TOML.
    #[must_use]
    pub fn changed(&self) -> Vec<(String, String)> {
        let defaults = Self::of("", Said::default()).unwrap_or_default();
        let changed = self.values.iter().filter(|(name, value)| defaults.values.get(*name) != Some(value));
        changed.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// Whether the files give a setting, named in full, a value that is not empty.
    #[must_use]
    pub fn says(&self, name: &str) -> bool {
        self.values.get(name).is_some_and(|value| !["", "\"\""].contains(&value.as_str()))
    }

    /// Returns the settings in which two differ.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let names: BTreeSet<&String> = self.values.keys().chain(other.values.keys()).collect();
        names.into_iter().filter(|name| self.values.get(*name) != other.values.get(*name)).cloned().collect()
    }
}

/// Puts together a table of what holds: of the settings that need a restart those of the start, of the others those of now.
fn kept(above: &str, start: &toml::Table, now: &toml::Table) -> toml::Table {
    let empty = toml::Table::new();
    let mut all = toml::Table::new();
    let keys: BTreeSet<&String> = start.keys().chain(now.keys()).collect();
    for key in keys {
        let name = if above.is_empty() { key.clone() } else { format!("{above}.{key}") };
        let (then, is) = (start.get(key), now.get(key));
        if then.or(is).is_some_and(toml::Value::is_table) {
            let [then, is] = [then, is].map(|value| value.and_then(toml::Value::as_table).unwrap_or(&empty));
            all.insert(key.clone(), kept(&name, then, is).into());
        } else if let Some(value) = if takes(&name) == Takes::Restart { then } else { is } {
            all.insert(key.clone(), value.clone());
        }
    }
    all
}

/// Writes down all values below a table.
pub(super) fn flatten(above: &str, table: &toml::Table, found: &mut BTreeMap<String, String>) {
    for (key, value) in table {
        let name = if above.is_empty() { key.clone() } else { format!("{above}.{key}") };
        match value {
            toml::Value::Table(inner) => flatten(&name, inner, found),
            other => drop(found.insert(name, other.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_named_in_full_and_a_default_that_is_written_out_is_none() {
        let of = |toml: &str, env: &str| Written::of(toml, Said::of(env)).unwrap();
        let (none, default) = (of("", ""), of("[limits]\nmessages_per_minute = 3000\n", "SECRET=1\n"));
        assert_eq!(none.differences(&default), Vec::<String>::new());
        let other =
            of("log_level = \"debug\"\n[limits]\nmessages_per_minute = 7\n", "TZ=UTC\nASSISTANT_NAME=A\n");
        let all = ["ASSISTANT_NAME in .env", "TZ in .env", "limits.messages_per_minute", "log_level"];
        assert_eq!(none.differences(&other), all);
    }
}
