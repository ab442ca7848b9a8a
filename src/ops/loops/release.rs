//! Letting keys of a loop go on that were set aside, or that rest after a failure.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{By, Done, OpError, Operation, Site};
use crate::{domain::machine::loops::LoopName, ops::args::word};

/// Let work go on that was set aside, or that rests after a failure.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Loop, by its name.
    #[serde(rename = "loop")]
    #[arg(id = "loop", value_name = "LOOP", value_parser = word::<LoopName>(), hide_possible_values = true)]
    pub name: LoopName,
    /// Key, as `g2 loops list` and `g2 status` name it, such as local:main.
    #[arg(required_unless_present = "all")]
    pub key: Option<String>,
    /// All keys of the loop.
    #[serde(default)]
    #[arg(long, conflicts_with = "key")]
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
