//! `[channels.NAME]`: the accounts on chat platforms. What the daemon does not know of a table is the adapter's.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};

use super::{ConfigError, Environment, adapters, dotenv};
use crate::domain::platforms::accounts::{Account, SecretPlace, check_name};

/// The program that has the adapters of G2 itself, but for those that are programs of their own.
pub const OWN_ADAPTERS: &str = "g2-channels";
/// The program of the adapter of WhatsApp.
pub const WHATSAPP: &str = "g2-whatsapp";

/// Returns the program that has an adapter of G2's.
fn program_of(adapter: &str) -> &'static str {
    if adapter == "whatsapp" { WHATSAPP } else { OWN_ADAPTERS }
}
/// The longest secret, bytes.
const LONGEST_SECRET: u64 = 64 << 10;

/// Reads the accounts.
pub(super) fn accounts(tables: BTreeMap<String, toml::Table>) -> Result<Vec<Account>, ConfigError> {
    tables.into_iter().map(|(name, table)| account(name, table)).collect()
}

/// Reads the one account of a table as it is written in the settings.
///
/// # Errors
/// It says something that it can't.
pub fn account_in(name: &str, written: &str) -> Result<Account, ConfigError> {
    let wrong = |why: String| ConfigError::Channel { name: name.to_owned(), why };
    let mut whole: toml::Table = toml::from_str(written).map_err(|error| wrong(error.to_string()))?;
    let table = whole.get_mut("channels").and_then(|all| all.as_table_mut()?.remove(name));
    match table {
        Some(toml::Value::Table(table)) => account(name.to_owned(), table),
        Some(_) | None => Err(wrong("it is no table".into())),
    }
}

fn account(name: String, table: toml::Table) -> Result<Account, ConfigError> {
    let wrong = |why: String| ConfigError::Channel { name: name.clone(), why };
    check_name(&name).map_err(|error| wrong(error.to_string()))?;
    let texts = |key: &str, value: &toml::Value| -> Result<Vec<String>, ConfigError> {
        let all = value
            .as_array()
            .and_then(|list| list.iter().map(|one| one.as_str().map(str::to_owned)).collect());
        all.ok_or_else(|| wrong(format!("{key} is a list of texts")))
    };
    let text = |key: &str, value: &toml::Value| {
        value.as_str().map(str::to_owned).ok_or_else(|| wrong(format!("{key} is a text")))
    };
    let mut account = Account { name: name.clone(), prefix: adapters::prefix(&name), ..Account::default() };
    let mut adapter = name.split('.').next().unwrap_or_default().to_owned();
    for (key, value) in &table {
        match key.as_str() {
            "adapter" => adapter = text(key, value)?,
            "command" => account.command = texts(key, value)?,
            "reads" => account.reads = texts(key, value)?.into_iter().map(PathBuf::from).collect(),
            "writes" => account.writes = texts(key, value)?.into_iter().map(PathBuf::from).collect(),
            "upstream" => account.upstream = Some(text(key, value)?),
            _ => {
                let file = key.strip_suffix("_file").map(|name| (name, true));
                match file.or_else(|| key.strip_suffix("_env").map(|name| (name, false))) {
                    Some((secret, is_file)) => {
                        let place = text(key, value)?;
                        let place = if is_file {
                            SecretPlace::File(place.into())
                        } else {
                            SecretPlace::Variable(place)
                        };
                        account.secrets.push((secret.to_owned(), place));
                    }
                    None => {
                        let value = serde_json::to_value(value).map_err(|error| wrong(error.to_string()))?;
                        account.config.insert(key.clone(), value);
                    }
                }
            }
        }
    }
    if account.command.is_empty() {
        account.command = vec![program_of(&adapter).into(), adapter];
    }
    Ok(account)
}

/// Why a secret can't be read, and what a person can do.
#[derive(Debug, thiserror::Error)]
pub enum NoSecret {
    #[error("the file {} that {name}_file names can't be read: {error}", path.display())]
    File { name: String, path: PathBuf, error: std::io::Error },
    #[error("the file {} that {name}_file names is empty, or longer than a secret is", path.display())]
    Empty { name: String, path: PathBuf },
    #[error(
        "the variable {variable} that {name}_env names is set neither in .env nor in the daemon's environment"
    )]
    Variable { name: String, variable: String },
}

/// Returns what an adapter is told of its account, with its secrets as they are now.
///
/// # Errors
/// [`NoSecret`].
pub fn with_secrets(
    account: &Account,
    root: &Path,
    environment: &Environment,
) -> Result<Map<String, Value>, NoSecret> {
    let mut config = account.config.clone();
    for (name, place) in &account.secrets {
        let name = name.clone();
        let secret = match place {
            SecretPlace::File(path) => {
                let path = root.join(path);
                let long = std::fs::metadata(&path).is_ok_and(|meta| meta.len() > LONGEST_SECRET);
                match std::fs::read_to_string(&path) {
                    Ok(text) if !long && !text.trim().is_empty() => text.trim().to_owned(),
                    Ok(_) => return Err(NoSecret::Empty { name, path }),
                    Err(error) => return Err(NoSecret::File { name, path, error }),
                }
            }
            SecretPlace::Variable(variable) => {
                let written = dotenv::value(&dotenv::text(root), variable);
                match written.or_else(|| environment.get(variable).map(str::to_owned)) {
                    Some(secret) => secret,
                    None => return Err(NoSecret::Variable { name, variable: variable.clone() }),
                }
            }
        };
        config.insert(name, Value::String(secret));
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(toml: &str) -> Result<Vec<Account>, ConfigError> {
        let tables: BTreeMap<String, BTreeMap<String, toml::Table>> = toml::from_str(toml).unwrap();
        accounts(tables.into_values().next().unwrap_or_default())
    }

    #[test]
    fn a_table_is_an_account_and_what_the_daemon_does_not_know_is_the_adapters() {
        let accounts = read(
            "[channels.telegram]\ntoken_file = \"data/secrets/t\"\nrich = true\n[channels.\"telegram.work\"]\ntoken_env = \"T\"\n[channels.toy]\ncommand = [\"/bin/toy\", \"x\"]\nwrites = [\"/tmp/toy\"]\nupstream = \"http://127.0.0.1:1\"\n",
        )
        .unwrap();
        assert_eq!(accounts[0].command, [OWN_ADAPTERS, "telegram"]);
        let second = read("[channels.\"whatsapp.work\"]\nphone = \"49170\"\n").unwrap();
        assert_eq!(second[0].command, [WHATSAPP, "whatsapp"]);
        let prefixes: Vec<&str> = accounts.iter().map(|account| account.prefix.as_str()).collect();
        assert_eq!(prefixes, ["tg", "tg.work", "toy"]);
        assert_eq!(accounts[0].secrets, [("token".into(), SecretPlace::File("data/secrets/t".into()))]);
        assert_eq!(accounts[0].config, serde_json::json!({"rich": true}).as_object().unwrap().clone());
        assert_eq!(
            (accounts[1].name.as_str(), &accounts[1].command[1]),
            ("telegram.work", &"telegram".to_owned())
        );
        assert_eq!(accounts[2].command, ["/bin/toy", "x"]);
        assert_eq!(accounts[2].upstream.as_deref(), Some("http://127.0.0.1:1"));
        for wrong in
            ["[channels.local]\n", "[channels.x]\ncommand = \"sh\"\n", "[channels.x]\ntoken_file = 1\n"]
        {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_secret_is_read_where_it_is_kept_and_its_absence_is_told_without_it() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("t"), " s3cret\n").unwrap();
        std::fs::write(dir.path().join(".env"), "A=one\n").unwrap();
        let account = |place| Account { secrets: vec![("token".into(), place)], ..Account::default() };
        let read = |place| with_secrets(&account(place), dir.path(), &Environment::with(&[("B", "two")]));
        let token = |place| read(place).unwrap()["token"].as_str().unwrap().to_owned();
        assert_eq!(token(SecretPlace::File("t".into())), "s3cret");
        assert_eq!(token(SecretPlace::Variable("A".into())), "one");
        assert_eq!(token(SecretPlace::Variable("B".into())), "two");
        assert!(read(SecretPlace::Variable("C".into())).unwrap_err().to_string().contains('C'));
        assert!(read(SecretPlace::File("none".into())).unwrap_err().to_string().contains("none"));
    }
}
