//! Releasing a hold: of a group with all its files, or of one file.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{By, Done, OpError, Operation, Site},
    hold::{Held, Target},
};

/// Release a group or a command that is held, or a group that was set aside after crashes.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Group by its folder, or held command by its request id or file.
    #[arg(value_name = "GROUP|COMMAND")]
    pub what: String,
}

impl Operation for Args {
    type Row = Held;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<Held>, OpError> {
        let Self { what } = self;
        let target = Target::of(site, &what).await?;
        if site.store.release(target.group.clone(), target.file.clone()).await? == 0 {
            return Err(OpError::refused(format!("{what} is not held")));
        }
        site.keeper.changed(Some(&target.group)).await?;
        Ok(Done::new(target.row(false, None), format!("{what} is released")))
    }
}
