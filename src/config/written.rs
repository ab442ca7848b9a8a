//! What stands in `g2.toml` and `.env`, to tell later what has changed since.

use std::collections::{BTreeMap, BTreeSet};

use super::{dotenv, layers::defaults};

/// The written settings, by their full names, as TOML.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written(BTreeMap<String, String>);

impl Written {
    /// Reads both files; missing settings are at their defaults.
    ///
    /// # Errors
    /// The reader's words.
    pub(super) fn of(toml: &str, dotenv: &str) -> Result<Self, toml::de::Error> {
        let mut found = BTreeMap::new();
        for text in [defaults().as_str(), toml] {
            let table: toml::Table = text.parse()?;
            flatten("", &table, &mut found);
        }
        // The rest of `.env` is read whenever it is used.
        for name in ["TZ", "ANTHROPIC_BASE_URL"] {
            found.insert(format!("{name} in .env"), dotenv::value(dotenv, name).unwrap_or_default());
        }
        Ok(Self(found))
    }

    /// Returns the settings that are not at their defaults, with their values as TOML.
    #[must_use]
    pub fn changed(&self) -> Vec<(String, String)> {
        let defaults = Self::of("", "").unwrap_or_default();
        let changed = self.0.iter().filter(|(name, value)| defaults.0.get(*name) != Some(value));
        changed.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// Whether the files give a setting, named in full, a value that is not empty.
    #[must_use]
    pub fn says(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|value| !["", "\"\""].contains(&value.as_str()))
    }

    /// Returns the settings in which two differ.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let names: BTreeSet<&String> = self.0.keys().chain(other.0.keys()).collect();
        names.into_iter().filter(|name| self.0.get(*name) != other.0.get(*name)).cloned().collect()
    }
}

/// Writes down the names of all values below a table.
pub(super) fn names(above: &str, table: &toml::Table, found: &mut Vec<String>) {
    for (key, value) in table {
        let name = if above.is_empty() { key.clone() } else { format!("{above}.{key}") };
        match value {
            toml::Value::Table(inner) if !inner.is_empty() => names(&name, inner, found),
            _ => found.push(name),
        }
    }
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
        let of = |toml: &str, env: &str| Written::of(toml, env).unwrap();
        let (none, default) = (of("", ""), of("[limits]\nmessages_per_minute = 3000\n", "SECRET=1\n"));
        assert_eq!(none.differences(&default), Vec::<String>::new());
        let other = of("log_level = \"debug\"\n[limits]\nmessages_per_minute = 7\n", "TZ=UTC\n");
        assert_eq!(none.differences(&other), ["TZ in .env", "limits.messages_per_minute", "log_level"]);
    }
}
