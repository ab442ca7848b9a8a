//! Adding an account.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    super::{By, Done, OpError, Operation, Site},
    table::{self, Table},
};
use crate::{
    config::adapters::{OWN_PLATFORMS, prefix},
    domain::platforms::accounts::{check_adapter, check_name},
};

/// Add an account on a platform: keep its token, and write its table to g2.toml.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Platform, or platform and account: telegram, telegram.work.
    pub name: String,
    /// The account's token; it is kept in `data/secrets`, and in no log.
    #[arg(skip)]
    pub token: Option<String>,
    /// Adapter's program, then each of its arguments [default: the adapter of G2 for this platform].
    #[serde(default)]
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    pub program: Vec<String>,
    /// More settings of its table, such as `homeserver`.
    #[serde(default)]
    #[arg(skip)]
    pub settings: BTreeMap<String, Value>,
}

/// Refuses an account without an adapter.
///
/// # Errors
/// It names no program, and G2 has none for its platform.
pub fn has_adapter(
    name: &str,
    program: &[String],
    settings: &BTreeMap<String, Value>,
) -> Result<(), OpError> {
    if !program.is_empty() || settings.contains_key("command") {
        return Ok(());
    }
    check_adapter(&OWN_PLATFORMS, name, settings.get("adapter").and_then(Value::as_str)).map_err(|none| {
        OpError::refused(format!("{name} is not added: {none}"))
            .hint("an adapter of your own is named by `--program` (docs/channel-protocol.md)")
    })
}

/// The account that was added.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Added {
    pub name: String,
    /// What the addresses of its chats begin with, without the colon.
    pub prefix: String,
}

impl Operation for Args {
    type Row = Added;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<Added>, OpError> {
        let Self { name, token, program, settings } = self;
        check_name(&name).map_err(|error| OpError::invalid(error.to_string()))?;
        has_adapter(&name, &program, &settings)?;
        let written =
            Table { name: &name, has_token: token.is_some(), program: &program, settings: &settings };
        table::add(site, &written.text()?, &name, token.as_deref()).await?;
        site.keeper.settings().await;
        let prefix = prefix(&name);
        Ok(Done::new(Added { name: name.clone(), prefix }, format!("{name} is added")))
    }
}
