//! Settings and secrets that move in: what is set here stays as it is.

use super::super::{OpCode, OpError, Site, config::SettingsFile};
use crate::{
    config::{Config, dotenv, edit::with_setting},
    domain::{
        moved::{
            findings::{Finding, NotTaken},
            rows::{Kind, Secret, Setting},
        },
        platforms::accounts::check_name,
    },
    moving::Imported,
    root::put_variable,
};

/// Takes in the settings and secrets of an import, and notes that they were.
pub(super) async fn take(site: &Site<'_>, source: &str, imported: &mut Imported) -> Result<(), OpError> {
    for setting in std::mem::take(&mut imported.settings) {
        match put(site, &setting).await? {
            Ok(()) => *imported.new.entry(Kind::Setting).or_default() += 1,
            Err(why) => imported.findings.add(Finding::left(Kind::Setting, setting.name.clone(), why)),
        }
        site.store.note_moved(source, Kind::Setting, &setting.name, &setting.name).await?;
    }
    for secret in std::mem::take(&mut imported.secrets) {
        match put_secret(site, &secret)? {
            Ok(()) => *imported.new.entry(Kind::Secret).or_default() += 1,
            Err(why) => imported.findings.add(Finding::left(Kind::Secret, secret.name.clone(), why)),
        }
        site.store.note_moved(source, Kind::Secret, &secret.name, &secret.name).await?;
    }
    Ok(())
}

/// Writes a setting that is at its default; or says why not.
async fn put(site: &Site<'_>, setting: &Setting) -> Result<Result<(), NotTaken>, OpError> {
    let file = SettingsFile::of(site.root).await;
    let before = file.read()?;
    let check = |text: &str| Config::check(site.root, text);
    if let Some(account) = setting.name.strip_prefix("channels.") {
        return put_account(site, &file, &before, account, &setting.value);
    }
    let is_set = check(&before)
        .is_ok_and(|config| config.written.changed().iter().any(|(name, _)| *name == setting.name));
    if is_set {
        return Ok(Err("it is set here, and stays".into()));
    }
    let value = match &setting.value {
        serde_json::Value::String(text) => toml::Value::String(text.clone()).to_string(),
        value => value.to_string(),
    };
    let changed = with_setting(&before, &setting.name, &value).map_err(|error| error.to_string());
    let checked = changed.and_then(|text| match check(&text) {
        Ok(_) => Ok(text),
        Err(error) => Err(error.to_string()),
    });
    Ok(match checked {
        Ok(text) => {
            file.replace(&text)?;
            Ok(())
        }
        Err(why) => Err(why.into()),
    })
}

/// Writes the table of an account whose token is a variable of `.env`; or says why not. A table that names more, such as a
/// program, is written by a person alone.
fn put_account(
    site: &Site<'_>,
    file: &SettingsFile,
    before: &str,
    account: &str,
    value: &serde_json::Value,
) -> Result<Result<(), NotTaken>, OpError> {
    if let Err(error) = check_name(account) {
        return Ok(Err(error.to_string().into()));
    }
    let table = value.as_object().filter(|table| table.len() == 1);
    let Some(variable) = table.and_then(|table| table.get("token_env")?.as_str()) else {
        return Ok(Err("it is another table than one with a token: `g2 channels add`".into()));
    };
    let accounts = Config::check(site.root, before).map(|config| config.channels).unwrap_or_default();
    if accounts.iter().any(|known| known.name == account) {
        return Ok(Err("it is set here, and stays".into()));
    }
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let gap = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
    let text = format!("{before}{gap}\n[channels.{}]\ntoken_env = {}\n", quoted(account), quoted(variable));
    Ok(match Config::check(site.root, &text) {
        Ok(_) => {
            file.replace(&text)?;
            Ok(())
        }
        Err(error) => Err(error.to_string().into()),
    })
}

/// Writes a secret that `.env` does not have; or says why not.
fn put_secret(site: &Site<'_>, secret: &Secret) -> Result<Result<(), NotTaken>, OpError> {
    let Some(value) = &secret.value.0 else {
        return Ok(Err("its value is in no export: give it anew, in .env or by `g2 channels add`".into()));
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if secret.name.is_empty() || !secret.name.chars().all(is_name) || value.contains(['\n', '\r', '\0']) {
        return Ok(Err("it is no variable that .env could hold".into()));
    }
    if dotenv::value(&dotenv::text(site.root), &secret.name).is_some() {
        return Ok(Err(".env has it, and that one stays".into()));
    }
    put_variable(site.root, &secret.name, value)
        .map_err(|error| OpError::new(OpCode::Failed, format!("writing .env: {error}")))?;
    Ok(Ok(()))
}
