//! A backup as the daily one, at once.

use ipc_handlers::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::{By, Done, OpError, Operation, Site};
use crate::{backup::WANTED, domain::rows::rfc3339};

/// Have the daemon make its daily backup now.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {}

/// A backup that is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Asked {
    /// The folder in which it will be, as the settings have it.
    pub to: String,
    #[serde(serialize_with = "rfc3339")]
    #[schemars(with = "String")]
    pub at: Time,
}

impl Operation for Args {
    type Row = Asked;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<Asked>, OpError> {
        let Some(to) = &site.config()?.backup.to else {
            return Err(OpError::refused("no folder is named for backups")
                .hint("`g2 config set backup.to DIR` names one; `g2 backup FILE` needs none"));
        };
        let (to, at) = (to.display().to_string(), site.world.now());
        // It stays asked for until it is made, over a restart too.
        site.store.set_meta(WANTED, &at.0.to_string()).await?;
        site.keeper.backs_up();
        let says = format!("a backup in {to} is asked for; the daemon makes it, or its next start does");
        Ok(Done::new(Asked { to, at }, says))
    }
}
