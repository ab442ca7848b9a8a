//! Changing a setting.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{By, Changed, Done, OpError, Operation, SettingsFile, Site, write};
use crate::config::edit::with_setting;

/// Change a setting in g2.toml.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Full name, such as limits.keep_days.
    #[arg(value_name = "KEY")]
    pub name: String,
    /// Value as in g2.toml; a text needs no quotes.
    #[arg(allow_hyphen_values = true)]
    pub value: String,
}

impl Operation for Args {
    type Row = Changed;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<Changed>, OpError> {
        let Self { name, value } = self;
        let file = SettingsFile::of(site.root).await;
        let text = with_setting(&file.read()?, &name, &value)?;
        write(site, file, &name, &text, Some(value)).await
    }
}
