//! Settings in `g2.toml`.
use schemars::JsonSchema;
use serde::Serialize;

use super::{By, Done, OpError, Operation, Site};
use crate::{
    config::{Config, Takes, edit::EditError, takes},
    domain::shown::errors::chain,
};

mod file;
pub mod set;
pub mod unset;

pub(super) use file::SettingsFile;

/// A setting that was changed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Changed {
    pub name: String,
    /// As it stands in `g2.toml` now; `None`: it has its default.
    pub value: Option<String>,
    pub takes: Takes,
    /// What wins over `g2.toml`, so that the change does not hold: a variable, and where it stands.
    pub overridden_by: Option<String>,
}

impl From<EditError> for OpError {
    fn from(error: EditError) -> Self {
        let hint = match &error {
            EditError::Unknown { meant, .. } if meant.is_empty() => {
                "`g2 config show --effective` lists every setting".to_owned()
            }
            EditError::Unknown { meant, .. } => format!("{meant} is one"),
            EditError::Place { .. } => "change it there".to_owned(),
            EditError::Section { .. } | EditError::Value { .. } | EditError::File(_) => String::new(),
        };
        Self::invalid(error.to_string()).hint(hint)
    }
}

/// Writes g2.toml anew, all of it or nothing, once it is sure that it can be used, and has a running daemon read it.
async fn write(
    site: &Site<'_>,
    file: SettingsFile,
    name: &str,
    text: &str,
    value: Option<String>,
) -> Result<Done<Changed>, OpError> {
    let config = Config::check(site.root, text).map_err(|error| OpError::invalid(chain(&error)))?;
    // A start with a zone that is none takes the next one that somebody named. Who sets it is told at once.
    let zone = config.zone.rejected.first().filter(|(zone, _)| Some(zone) == value.as_ref());
    if let Some((zone, meant)) = zone.filter(|_| name == "timezone") {
        let meant = meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
        return Err(OpError::invalid(format!("{zone:?} is not a time zone{meant}"))
            .hint("use a name such as Europe/Paris"));
    }
    file.replace(text)?;
    drop(file);
    site.keeper.settings().await;
    let is = value.as_ref().map_or_else(|| "has its default".to_owned(), |value| format!("is {value}"));
    let overridden_by = site.settings.ok().and_then(|config| config.wins_over(site.root, name));
    // The environment of a daemon is that of its start.
    let holds = if overridden_by.is_some() { Takes::Restart } else { takes(name) };
    let when = match (&overridden_by, holds) {
        (Some(by), _) => {
            format!(" in g2.toml, which does not hold: {by} wins. Take that away and start the daemon anew")
        }
        (None, Takes::Now) => "; it holds at once".to_owned(),
        (None, Takes::NextRun) => "; it holds for runs that begin from now on".to_owned(),
        (None, Takes::Restart) => "; a running daemon needs a restart for it".to_owned(),
    };
    let says = format!("{name} {is}{when}");
    Ok(Done::new(Changed { name: name.to_owned(), value, takes: holds, overridden_by }, says))
}
