//! Secrets that stand in `g2.toml` itself, where others look too: a backup, and the agent of the main group.

use std::{ops::Range, path::Path};

use toml::de::{DeTable, DeValue};

/// Words in the last part of a setting's name that tell of a secret.
const TELLS: [&str; 5] = ["token", "secret", "password", "key", "credential"];
/// Shorter secrets are looked for in their own place only, bytes.
const SHORT: usize = 8;

/// A setting whose value is a secret.
struct Secret {
    name: String,
    /// Where its value stands, in bytes.
    value: Range<usize>,
    /// The value, unless it is a list.
    text: Option<String>,
}

/// Whether the name of a setting tells of a secret: of an adapter, or in an agent's environment. A file or a variable that
/// has one is none.
pub(super) fn tells(name: &str) -> bool {
    let is_foreign = name.starts_with("channels.") || is_environment(name);
    let last = name.rsplit('.').next().unwrap_or_default();
    is_foreign && last_tells(last)
}

/// Whether it is a variable of an agent's own.
pub(super) fn is_environment(name: &str) -> bool {
    name.starts_with("agent.acp.env.")
}

fn last_tells(last: &str) -> bool {
    let last = last.to_lowercase();
    TELLS.iter().any(|word| last.contains(word)) && !last.ends_with("_file") && !last.ends_with("_env")
}

/// Returns the settings of a root's `g2.toml` whose values are secrets, by their full names; none where it can't be read.
#[must_use]
pub fn secrets_of(root: &Path) -> Vec<String> {
    super::text(&root.join("g2.toml")).map(|text| named(&text)).unwrap_or_default()
}

fn named(text: &str) -> Vec<String> {
    let secrets = DeTable::parse(text).map(|table| found(table.get_ref())).unwrap_or_default();
    secrets.into_iter().map(|secret| secret.name).collect()
}

/// Returns a `g2.toml` with empty values where its secrets stood, also where a comment has one. `None`: the text is no TOML, so
/// nobody can tell what is secret in it.
#[must_use]
pub fn without_secrets(text: &str) -> Option<String> {
    let mut secrets = found(DeTable::parse(text).ok()?.get_ref());
    secrets.sort_by_key(|secret| secret.value.start);
    let mut left = text.to_owned();
    for secret in secrets.iter().rev() {
        left.replace_range(secret.value.clone(), if secret.text.is_some() { "\"\"" } else { "[]" });
    }
    for text in secrets.iter().filter_map(|secret| secret.text.as_ref()).filter(|text| text.len() >= SHORT) {
        left = left.replace(text.as_str(), "…");
    }
    let mut lines: Vec<&str> = left.lines().map(bare).collect();
    lines.push("");
    Some(lines.join("\n"))
}

/// Returns a line; one that is a setting out of use, with a name that tells, without its value.
fn bare(line: &str) -> &str {
    let Some((name, _)) = line.trim_start().strip_prefix('#').and_then(|rest| rest.split_once('=')) else {
        return line;
    };
    let last = name.trim().rsplit(['.', ' ']).next().unwrap_or_default();
    if last_tells(last) { line.split_once('=').map_or(line, |(before, _)| before) } else { line }
}

/// Returns the secrets of the whole text.
fn found(table: &DeTable<'_>) -> Vec<Secret> {
    let mut secrets = Vec::new();
    gather("", table, &mut secrets);
    secrets
}

fn gather(above: &str, table: &DeTable<'_>, secrets: &mut Vec<Secret>) {
    for (key, value) in table {
        let name = format!("{above}{}", key.get_ref());
        let text = match value.get_ref() {
            DeValue::Table(inner) => {
                gather(&format!("{name}."), inner, secrets);
                continue;
            }
            DeValue::String(text) if text.is_empty() => continue,
            DeValue::String(text) => Some(text.to_string()),
            DeValue::Array(list) if list.is_empty() => continue,
            DeValue::Array(_) => None,
            DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) => continue,
        };
        let has_password = name == "network.proxy" && text.as_ref().is_some_and(|text| text.contains('@'));
        if tells(&name) || has_password {
            secrets.push(Secret { name, value: value.span(), text });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# token = \"111:commented\" of before\n\
        [limits]\nkeep_days = 3 # stays\n\
        [channels.telegram]\ntoken = \"123456:AA-secret\" # was 123456:AA-secret\ntoken_file = \"data/secrets/t\"\n\
        [channels.\"matrix.work\"]\n#access_token='sy-old'\naccess_token = '''sy-new-secret'''\nhomeserver = \"https://m\"\n\
        [channels.toy]\nlogin = { user = \"u\", password = \"hush-hush\" }\nkeys = [\"hush-a\", \"hush-b\"]\npassword = \"\"\ntoken_env = \"TOY\"\n\
        [agent.acp.env]\nAPI_KEY = \"hush\"\nLANG = \"C\"\n";

    #[test]
    fn secrets_are_named_and_none_is_left() {
        assert_eq!(
            named(TEXT),
            [
                "agent.acp.env.API_KEY",
                "channels.matrix.work.access_token",
                "channels.telegram.token",
                "channels.toy.keys",
                "channels.toy.login.password",
            ]
        );
        let left = without_secrets(TEXT).unwrap();
        for secret in ["secret\"", "AA-secret", "sy-", "hush", "commented"] {
            assert!(!left.contains(secret), "{secret}: {left}");
        }
        for stays in [
            "keep_days = 3 # stays",
            "token_file = \"data/secrets/t\"",
            "token_env = \"TOY\"",
            "LANG = \"C\"",
        ] {
            assert!(left.contains(stays), "{stays}: {left}");
        }
        let table: toml::Table = left.parse().unwrap();
        assert_eq!(table["channels"]["telegram"]["token"].as_str(), Some(""));
        assert!(named(&left).is_empty());
    }

    #[test]
    fn a_text_without_secrets_stays_as_it_is_and_one_that_is_no_toml_is_none() {
        let plain = "[limits]\n\nkeep_days = 3\n# a = 1\n";
        assert_eq!(without_secrets(plain).as_deref(), Some(plain));
        assert_eq!(without_secrets(""), Some(String::new()));
        for odd in ["[channels.telegram\ntoken = \"t\"\n", "token = ", "\u{0}"] {
            assert!(named(odd).is_empty() && without_secrets(odd).is_none(), "{odd:?}");
        }
    }
}
