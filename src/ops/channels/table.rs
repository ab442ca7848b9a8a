//! The table of an account in `g2.toml`, its token, and its adapter's folders.
#![expect(clippy::disallowed_methods, reason = "secrets of accounts")]

use std::{collections::BTreeMap, path::Path};

use serde_json::Value;

use super::super::{OpCode, OpError, Site, config::SettingsFile};
use crate::{
    config::{Config, Environment},
    domain::shown::errors::chain,
    system::{process, tree},
};

/// The table of an account, as it is written.
pub struct Table<'a> {
    pub name: &'a str,
    pub has_token: bool,
    pub program: &'a [String],
    pub settings: &'a BTreeMap<String, Value>,
}

/// Where the secret of an account is kept, below the root.
fn secret_place(name: &str) -> String {
    format!("data/secrets/{name}.token")
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

impl Table<'_> {
    /// Returns it as text.
    ///
    /// # Errors
    /// A value that TOML does not have.
    pub fn text(&self) -> Result<String, OpError> {
        let mut text = format!("\n[channels.{}]\n", quoted(self.name));
        if self.has_token {
            text.push_str(&format!("token_file = {}\n", quoted(&secret_place(self.name))));
        }
        if !self.program.is_empty() {
            let words: Vec<String> = self.program.iter().map(|word| quoted(word)).collect();
            text.push_str(&format!("command = [{}]\n", words.join(", ")));
        }
        for (key, value) in self.settings {
            let value = toml::Value::try_from(value)
                .map_err(|error| OpError::invalid(format!("{key} can't be written to g2.toml: {error}")))?;
            text.push_str(&format!("{} = {value}\n", quoted(key)));
        }
        Ok(text)
    }
}

/// Returns the names of the accounts that the settings have now.
pub(in crate::ops) fn accounts(site: &Site<'_>) -> Result<Vec<String>, OpError> {
    let config = Config::load(site.root, &Environment::default())
        .map_err(|error| OpError::new(OpCode::Failed, chain(&error)).hint("correct g2.toml"))?;
    Ok(config.channels.into_iter().map(|account| account.name).collect())
}

/// Checks that the settings have this account.
pub(in crate::ops) fn known(site: &Site<'_>, name: &str) -> Result<(), OpError> {
    if accounts(site)?.iter().any(|account| account == name) {
        return Ok(());
    }
    Err(OpError::not_found(format!("the settings have no channel {name}"))
        .hint("`g2 channels list` shows every channel"))
}

/// Writes the table, and keeps the token. All of it or nothing; an account of this name that is there already stays as it is.
pub(super) async fn add(
    site: &Site<'_>,
    table: &str,
    name: &str,
    token: Option<&str>,
) -> Result<(), OpError> {
    let file = SettingsFile::of(site.root).await;
    if accounts(site)?.iter().any(|account| account == name) {
        return Err(OpError::refused(format!("there is a channel {name} already"))
            .hint(format!("`g2 channels remove {name}` first, or choose another name such as {name}.work")));
    }
    let before = file.read()?;
    let secret = site.root.join(secret_place(name));
    if let Some(token) = token {
        keep_secret(&secret, token).map_err(|error| {
            OpError::new(OpCode::Failed, format!("writing {}: {error}", secret.display()))
        })?;
    }
    let added = file.replace(&format!("{before}{table}")).and_then(|()| {
        known(site, name).or_else(|unknown| {
            file.replace(&before)?;
            Err(unknown)
        })
    });
    // A token that was kept there before by somebody else stays.
    if added.is_err() && token.is_some() {
        let _ = std::fs::remove_file(&secret);
    }
    added
}

/// Removes the table.
pub(super) fn remove(site: &Site<'_>, file: &SettingsFile, name: &str) -> Result<(), OpError> {
    let before = file.read()?;
    file.replace(&without(&before, name))?;
    if known(site, name).is_ok() {
        file.replace(&before)?;
        let why = format!("the table of {name} in g2.toml is not written as `g2 channels add` writes it");
        return Err(
            OpError::refused(why).hint("remove it there; the daemon takes that up within some seconds")
        );
    }
    Ok(())
}

/// Removes the token of an account, and what its adapter kept.
pub(super) fn discard(site: &Site<'_>, name: &str) {
    let _ = std::fs::remove_file(site.root.join(secret_place(name)));
    let _ = tree::remove(&site.root.join("data/channels").join(name));
}

/// Returns the settings without the table of an account.
fn without(text: &str, name: &str) -> String {
    let heads = [format!("[channels.{name}]"), format!("[channels.\"{name}\"]")];
    let mut inside = false;
    let mut kept = String::new();
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with('[') {
            inside = heads.iter().any(|head| line.trim() == head);
        }
        if !inside {
            kept.push_str(line);
        }
    }
    kept
}

/// Writes a token down for this user only.
fn keep_secret(path: &Path, token: &str) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    if let Some(folder) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let _ = std::fs::remove_file(path);
    process::write_private(path, token.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_was_added_is_removed_and_no_other() {
        let before = "log_level = \"info\"\n[channels.telegram]\ntoken_env = \"T\"\n";
        let settings = BTreeMap::from([
            ("homeserver".to_owned(), "https://a\"b".into()),
            ("invites_from".to_owned(), serde_json::json!(["@a:b"])),
        ]);
        let program = ["py\"x".to_owned()];
        let table = Table { name: "telegram.work", has_token: true, program: &program, settings: &settings };
        let after = format!("{before}{}", table.text().unwrap());
        assert!(
            after.contains(
                "[channels.\"telegram.work\"]\ntoken_file = \"data/secrets/telegram.work.token\"\n"
            )
        );
        let read: toml::Table = toml::from_str(&after).unwrap();
        let work = &read["channels"]["telegram.work"];
        assert_eq!(work["homeserver"].as_str(), Some("https://a\"b"));
        assert_eq!(work["invites_from"][0].as_str(), Some("@a:b"));
        assert_eq!(without(&after, "telegram.work").trim_end(), before.trim_end());
        assert!(!without(&after, "telegram").contains("token_env"));
    }
}
