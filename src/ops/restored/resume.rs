//! Taking up what a restore held back: texts are sent, messages are judged as if they came now.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{By, Decided, Done, HeldThen, OpError, Operation, Site, Which, decide};

/// Which of it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Args(pub Which);

impl Operation for Args {
    type Row = Decided;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<Decided>, OpError> {
        let decided = decide(site, self.0, HeldThen::Resume).await?;
        let says = format!("{} texts and messages are taken up", decided.count);
        Ok(Done::new(decided, says))
    }
}
