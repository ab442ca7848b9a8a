//! Letting keys of a loop go on that were set aside, or that rest after a failure.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{By, Done, OpError, Operation, Site};
use crate::domain::host::loops::LoopName;

/// Which keys of which loop: one, or all.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    #[serde(rename = "loop")]
    pub name: LoopName,
    /// A chat, a group, a run, an account: as `g2 loops list` names it.
    #[serde(default)]
    pub key: Option<String>,
    /// All keys of the loop.
    #[serde(default)]
    pub all: bool,
}

/// The keys that go on.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Released {
    #[serde(rename = "loop")]
    pub name: LoopName,
    /// `null`: all of the loop.
    pub key: Option<String>,
    /// How many they are.
    pub released: usize,
}

impl Operation for Args {
    type Row = Released;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<Released>, OpError> {
        let Self { name, key, all } = self;
        if all == key.is_some() {
            return Err(OpError::invalid("name a key, or say that all are meant"));
        }
        let released = site.keeper.release_keys(name, key.as_deref()).await?;
        let says = match (&key, released) {
            (Some(key), 0) => {
                let none = format!("no key {key} of the loop {name} is set aside or rests after a failure");
                return Err(OpError::refused(none).hint("`g2 loops list` shows how each loop stands"));
            }
            (Some(key), _) => format!("{key} of the loop {name} goes on"),
            (None, 0) => format!("no key of the loop {name} is set aside or rests after a failure"),
            (None, _) => format!("keys of the loop {name} that go on: {released}"),
        };
        Ok(Done::new(Released { name, key, released }, says))
    }
}
