//! Settings in `g2.toml`.
#![expect(clippy::disallowed_methods, reason = "the user's own g2.toml")]

use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use super::{By, Done, OpCode, OpError, Operation, World};
use crate::{
    config::{Config, Takes, edit::EditError, takes},
    domain::host::errors::chain,
    system::process,
};

pub mod set;
pub mod unset;

/// A setting that was changed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Changed {
    pub name: String,
    /// As it stands in `g2.toml` now; `None`: it has its default.
    pub value: Option<String>,
    pub takes: Takes,
}

impl From<EditError> for OpError {
    fn from(error: EditError) -> Self {
        let failure = Self::of_sentence(OpCode::Invalid, &error.to_string());
        match error {
            EditError::Unknown { meant, .. } if meant.is_empty() => {
                failure.hint("`g2 config show --effective` lists every setting")
            }
            _ => failure,
        }
    }
}

fn read(root: &Path) -> Result<String, OpError> {
    let path = root.join("g2.toml");
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(OpError::new(OpCode::Failed, format!("reading {}: {error}", path.display()))),
    }
}

/// Writes g2.toml anew, all of it or nothing, once it is sure that it can be used, and has a running daemon read it.
async fn write(
    world: &World<'_>,
    name: &str,
    text: &str,
    value: Option<String>,
) -> Result<Done<Changed>, OpError> {
    let path = world.root.join("g2.toml");
    Config::check(world.root, text).map_err(|error| OpError::invalid(chain(&error)))?;
    let new = path.with_extension("toml.new");
    let _ = std::fs::remove_file(&new);
    process::write_private(&new, text.as_bytes())
        .and_then(|()| std::fs::rename(&new, &path))
        .map_err(|error| OpError::new(OpCode::Failed, format!("writing {}: {error}", path.display())))?;
    world.keeper.settings().await;
    let holds = takes(name);
    let is = value.as_ref().map_or_else(|| "has its default".to_owned(), |value| format!("is {value}"));
    let when = match holds {
        Takes::Now => "; it holds at once",
        Takes::NextRun => "; it holds for runs that begin from now on",
        Takes::Restart => "; a running daemon needs a restart for it",
    };
    let says = format!("{name} {is}{when}");
    Ok(Done::new(Changed { name: name.to_owned(), value, takes: holds }, says))
}
