//! Taking up what a restore held back: texts are sent, messages are judged as if they came now.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{By, Decided, Done, HeldThen, OpError, Operation, Site, Which, decide};

/// Send texts and answer messages that are held back.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(transparent)]
pub struct Args {
    #[command(flatten)]
    pub which: Which,
}

impl Operation for Args {
    type Row = Decided;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<Decided>, OpError> {
        let decided = decide(site, self.which, HeldThen::Resume).await?;
        let says = format!("{} texts and messages are taken up", decided.count);
        Ok(Done::new(decided, says))
    }
}
