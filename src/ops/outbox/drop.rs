//! Giving up a text that waits to be sent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::{By, Done, OpError, Operation, Site, missing};
use crate::{
    domain::{kept::prune::History, rows::OutboxRow},
    store::StoreError,
};

/// Give up a text that waits to be sent.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Number of the text, as `g2 outbox list` shows it.
    pub id: i64,
}

impl Operation for Args {
    type Row = OutboxRow;

    async fn run(self, site: &Site<'_>, by: &By) -> Result<Done<OutboxRow>, OpError> {
        let Self { id } = self;
        let why = format!("given up by {}", by.short());
        let row = site.store.drop_outbox(id, &why, site.world.now()).await.map_err(|error| match error {
            StoreError::NotFound { .. } => missing(site.store, History::Outbox, id),
            other => other.into(),
        })?;
        site.keeper.changed(None).await?;
        Ok(Done::new(row, format!("outbox row {id} is not sent")))
    }
}
