//! Changing a setting.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{By, Changed, Done, OpError, Operation, Site, read, write};
use crate::config::edit::with_setting;

/// Which setting, and its value.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Its full name, such as `limits.keep_days`.
    pub name: String,
    /// As in `g2.toml`; a text needs no quotes.
    pub value: String,
}

impl Operation for Args {
    type Row = Changed;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<Changed>, OpError> {
        let Self { name, value } = self;
        let text = with_setting(&read(site.root)?, &name, &value)?;
        write(site, &name, &text, Some(value)).await
    }
}
