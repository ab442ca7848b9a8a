//! Giving a setting its default again.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{By, Changed, Done, OpError, Operation, SettingsFile, Site, write};
use crate::config::edit::without_setting;

/// Give a setting its default again.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Full name, such as limits.keep_days.
    #[arg(value_name = "KEY")]
    pub name: String,
}

impl Operation for Args {
    type Row = Changed;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<Changed>, OpError> {
        let Self { name } = self;
        let file = SettingsFile::of(site.root).await;
        match without_setting(&file.read()?, &name)? {
            Some(text) => write(site, file, &name, &text, None).await,
            None => {
                Err(OpError::not_found(format!("{name} does not stand in g2.toml, so it has its default")))
            }
        }
    }
}
