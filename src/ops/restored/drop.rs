//! Giving up what a restore held back: texts are not sent, messages wake nobody.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{By, Decided, Done, HeldThen, OpError, Operation, Site, Which, decide};

/// Give up texts and messages that are held back.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(transparent)]
pub struct Args {
    #[command(flatten)]
    pub which: Which,
}

impl Operation for Args {
    type Row = Decided;

    async fn run(self, site: &Site<'_>, by: &By) -> Result<Done<Decided>, OpError> {
        let why = format!("held back by a restore, then given up by {}", by.short());
        let decided = decide(site, self.which, HeldThen::Drop(why)).await?;
        let says = format!("{} texts and messages are given up", decided.count);
        Ok(Done::new(decided, says))
    }
}
