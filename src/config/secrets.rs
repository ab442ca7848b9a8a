//! Secrets that stand in settings: what tells of one, and how it is left out where others look too: a log, a screen, a backup, and
//! the agent of the main group.

use std::{ops::Range, path::Path};

use serde_json::Value;

mod copy;

pub use copy::without_secrets;

/// Words in a setting's name that tell of a secret, one or several of it.
const TELLS: [&str; 16] = [
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "pass",
    "pwd",
    "key",
    "apikey",
    "credential",
    "auth",
    "authorization",
    "cookie",
    "bearer",
    "pat",
];
/// The last words of names whose values tell where a secret is.
const PLACES: [&str; 3] = ["file", "path", "env"];
/// Settings of an account that are no adapter's, so no file can have them.
const OURS: [&str; 5] = ["adapter", "command", "reads", "writes", "upstream"];

/// A setting of `g2.toml` that is a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InTheOpen {
    /// Its full name.
    pub name: String,
    /// The account and the name in its table, where a setting that ends in `_file` can stand instead.
    pub twin: Option<(String, String)>,
}

/// Returns the settings of a root's `g2.toml` that are secrets; none where it can't be read.
#[must_use]
pub fn secrets_of(root: &Path) -> Vec<InTheOpen> {
    super::text(&root.join("g2.toml")).map(|text| copy::named(&text)).unwrap_or_default()
}

/// Whether the full name of a setting tells of a secret: of an adapter, or in an agent's environment. A file or a variable that
/// has one is none.
pub(super) fn tells(name: &str) -> bool {
    tells_of(&name.split('.').collect::<Vec<_>>())
}

fn tells_of(path: &[&str]) -> bool {
    match path {
        ["channels", _, names @ ..] => {
            names.iter().any(|name| name_tells(name)) && !names.last().is_some_and(|name| is_place(name))
        }
        ["agent", "acp", "env", _, ..] => true,
        // Services know their users by such an address alone.
        ["notify", "webhook"] => true,
        _ => false,
    }
}

/// Whether one part of a setting's name tells of a secret.
fn name_tells(name: &str) -> bool {
    let is =
        |word: &str| TELLS.contains(&word) || word.strip_suffix('s').is_some_and(|one| TELLS.contains(&one));
    words(name).iter().any(|word| is(word)) && !is_place(name)
}

fn is_place(name: &str) -> bool {
    let words = words(name);
    words.len() > 1 && words.last().is_some_and(|last| PLACES.contains(&last.as_str()))
}

/// Returns the words of a name, in small letters.
fn words(name: &str) -> Vec<String> {
    let (mut words, mut was_small) = (vec![String::new()], false);
    for c in name.chars() {
        if !c.is_alphanumeric() || was_small && c.is_uppercase() {
            words.push(String::new());
        }
        if c.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
        was_small = c.is_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

/// What a text is among others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Among {
    /// It stands by itself.
    Alone,
    /// A word of a command.
    Words,
    /// The word behind an option whose name tells of a secret.
    Behind,
}

impl Among {
    /// Returns what the word behind this one is.
    fn next(word: &str) -> Self {
        let is_option = word.starts_with('-') && !word.contains('=') && name_tells(word);
        if is_option { Self::Behind } else { Self::Words }
    }
}

/// Returns the part of a text that is a secret, if any is; `told`: its name says so.
fn secret_in(text: &str, told: bool, among: Among) -> Option<Range<usize>> {
    let is_whole = told || among == Among::Behind && !text.starts_with('-');
    if is_whole && !text.is_empty() {
        return Some(0..text.len());
    }
    let given = (among != Among::Alone).then(|| behind_name(text)).flatten();
    given.map(|start| start..text.len()).or_else(|| user_in(text))
}

/// Returns where the value of `NAME=VALUE` begins, whose name tells of a secret.
fn behind_name(text: &str) -> Option<usize> {
    let mut from = 0;
    for (at, _) in text.match_indices('=') {
        if name_tells(&text[from..at]) && at + 1 < text.len() {
            return Some(at + 1);
        }
        from = at + 1;
    }
    None
}

/// Returns where the users and passwords of the addresses in a text stand, with all that is between them.
fn user_in(text: &str) -> Option<Range<usize>> {
    let mut found: Option<Range<usize>> = None;
    for (at, scheme) in text.match_indices("://") {
        let start = at + scheme.len();
        let rest = &text[start..];
        let word =
            &rest[..rest.find(|c: char| c.is_whitespace() || "\"'<>,".contains(c)).unwrap_or(rest.len())];
        let host = &word[..word.find(['/', '?', '#']).unwrap_or(word.len())];
        // A password may have a slash in it, so what is before it is no port.
        let is_cut = host.rsplit_once(':').is_some_and(|(_, port)| !port.chars().all(|c| c.is_ascii_digit()));
        let user = if host.contains('@') { host.rfind('@') } else { word.rfind('@').filter(|_| is_cut) };
        if let Some(end) = user {
            let first = found.as_ref().map_or(start, |found| found.start);
            found = Some(first..start + end + 1);
        }
    }
    found
}

/// Puts `…` in the place of each secret in settings, or in the words of a command; returns them.
pub fn hide_secrets(settings: &mut Value) -> Vec<String> {
    let mut secrets = Vec::new();
    hide(settings, false, Among::Alone, &mut secrets);
    secrets
}

fn hide(value: &mut Value, told: bool, among: Among, secrets: &mut Vec<String>) {
    match value {
        Value::Object(table) => {
            for (name, value) in table {
                hide(value, !is_place(name) && (told || name_tells(name)), Among::Alone, secrets);
            }
        }
        Value::Array(list) => {
            let mut among = Among::Words;
            for one in list {
                let next = one.as_str().map_or(Among::Words, Among::next);
                hide(one, told, among, secrets);
                among = next;
            }
        }
        Value::String(text) => {
            if let Some(part) = secret_in(text, told, among) {
                secrets.push(text[part.clone()].to_owned());
                text.replace_range(part, "…");
            }
        }
        Value::Number(number) if told => {
            secrets.push(number.to_string());
            *value = "…".into();
        }
        Value::Number(_) | Value::Bool(_) | Value::Null => {}
    }
}

/// Returns the secrets in the value of a setting, as it is typed.
#[must_use]
pub fn secrets_in(name: &str, value: &str) -> Vec<String> {
    if tells(name) || name == "agent.acp.env" {
        let escaped = format!("{value:?}");
        let mut secrets = vec![value.to_owned(), escaped.trim_matches('"').to_owned()];
        if let Some(mut read) = read(value) {
            hide(&mut read, true, Among::Alone, &mut secrets);
        }
        secrets.retain(|secret| !secret.is_empty());
        return secrets;
    }
    let part = if name == "network.proxy" { user_of_proxy(value) } else { user_in(value) };
    part.map(|part| value[part].to_owned()).into_iter().collect()
}

/// Returns where the user and the password of a proxy stand, which needs no scheme.
fn user_of_proxy(text: &str) -> Option<Range<usize>> {
    user_in(text).or_else(|| text.rfind('@').map(|at| 0..at + 1))
}

/// Returns a value as TOML without the secrets in it; `None`: it has none.
pub(super) fn value_without(value: &str) -> Option<String> {
    let mut read = read(value)?;
    if hide_secrets(&mut read).is_empty() {
        return None;
    }
    toml::Value::try_from(&read).ok().map(|value| value.to_string())
}

/// Reads a value of TOML.
fn read(value: &str) -> Option<Value> {
    let mut table: toml::Table = format!("value = {value}").parse().ok()?;
    serde_json::to_value(table.remove("value")?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_by_whole_words() {
        for name in [
            "token",
            "tokens",
            "API_KEY",
            "bot-token",
            "accessToken",
            "pass",
            "passwd",
            "pwd",
            "auth",
            "Cookie",
            "pat",
            "keys",
            "passwords",
            "credentials",
        ] {
            assert!(name_tells(name) && tells(&format!("channels.toy.{name}.more")), "{name}");
        }
        for name in [
            "keyword",
            "keyboard",
            "hotkeys",
            "key_path",
            "token_file",
            "pass_env",
            "path",
            "patience",
            "author",
        ] {
            assert!(!name_tells(name) && !tells(&format!("channels.toy.{name}")), "{name}");
        }
        assert!(tells("channels.toy.tokens.work") && !tells("channels.toy.tokens.work_file"));
        assert!(tells("agent.acp.env.LANG") && !tells("limits.key") && !tells("channels.token.homeserver"));
    }

    #[test]
    fn secrets_in_settings_and_commands_are_hidden_and_returned() {
        for (mut settings, hidden, secrets) in [
            (
                serde_json::json!({"homeserver": "https://m", "password": "hush", "tokens": {"a": "b", "c_file": "d"}}),
                serde_json::json!({"homeserver": "https://m", "password": "…", "tokens": {"a": "…", "c_file": "d"}}),
                &["hush", "b"][..],
            ),
            (
                serde_json::json!({"accounts": [{"token": 12}], "on": "https://u:pw@host/x", "auth": true}),
                serde_json::json!({"accounts": [{"token": "…"}], "on": "https://…host/x", "auth": true}),
                &["12", "u:pw@"],
            ),
            (
                serde_json::json!([
                    "adapter",
                    "--token",
                    "hush",
                    "--api-key=k",
                    "--token-file",
                    "t",
                    "TOKEN=x",
                    "--token",
                    "-v"
                ]),
                serde_json::json!([
                    "adapter",
                    "--token",
                    "…",
                    "--api-key=…",
                    "--token-file",
                    "t",
                    "TOKEN=…",
                    "--token",
                    "-v"
                ]),
                &["hush", "k", "x"],
            ),
        ] {
            let mut found = hide_secrets(&mut settings);
            found.sort();
            let mut secrets = secrets.to_vec();
            secrets.sort_unstable();
            assert_eq!((settings, found.iter().map(String::as_str).collect::<Vec<_>>()), (hidden, secrets));
        }
    }

    #[test]
    fn users_of_addresses_are_found_and_other_signs_are_none() {
        for (text, part) in [
            ("https://user:pw@host", Some("user:pw@")),
            ("https://ada:p/w@host", Some("ada:p/w@")),
            ("a https://t@h b http://u:v@i", Some("t@h b http://u:v@")),
            ("https://host/@ada", None),
            ("https://host:80/#/@ada:host", None),
            ("ada@host", None),
        ] {
            assert_eq!(user_in(text).map(|part| &text[part]), part, "{text}");
        }
        assert_eq!(secrets_in("network.proxy", "ada:hush@p:1"), ["ada:hush@"]);
        assert!(secrets_in("agent.acp.env", "{ API_KEY = \"sk-1\" }").contains(&"sk-1".to_owned()));
        assert!(secrets_in("limits.tasks", "3").is_empty());
        assert_eq!(value_without("[{ token = \"hush\" }]").as_deref(), Some("[{ token = \"…\" }]"));
        assert_eq!(value_without("[1, 2]"), None);
    }
}
