//! Saying once more what failed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::{By, Done, OpError, Operation, Site, missing};
use crate::{
    domain::{kept::prune::History, rows::OutboxRow},
    store::StoreError,
};

/// Send a text again that failed.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Number of the text, as `g2 outbox list` shows it.
    pub id: i64,
}

impl Operation for Args {
    type Row = OutboxRow;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<OutboxRow>, OpError> {
        let Self { id } = self;
        let gone = || missing(site.store, History::Outbox, id);
        let row = site.store.retry_outbox(id).await.map_err(|error| match error {
            StoreError::NotFound { .. } => gone(),
            other => other.into(),
        })?;
        site.keeper.changed(None).await?;
        Ok(Done::new(row, format!("outbox row {id} is sent again")))
    }
}
