//! Counting anew what would have woken an agent and was not heard.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::{By, Done, OpError, Operation, Site};

/// Set all counts to zero.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {}

/// How much was forgotten.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Cleared {
    /// Rows that are removed.
    pub removed: usize,
}

impl Operation for Args {
    type Row = Cleared;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<Cleared>, OpError> {
        let removed = site.store.clear_dropped().await?;
        Ok(Done::new(Cleared { removed }, format!("{removed} rows are removed; the messages stay")))
    }
}
