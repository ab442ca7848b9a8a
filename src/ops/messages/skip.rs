//! Passing over a message that waits: no agent is given it.

use ipc_handlers::Folder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{By, Done, OpError, Operation, Site, missing};
use crate::{domain::kept::prune::History, store::StoreError};

/// Have a message passed over that waits: no agent is given it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Number of the message, as `g2 messages list` shows it.
    pub seq: i64,
    /// Why; `g2 why` shows it.
    #[arg(long)]
    pub reason: String,
    /// Only for this group, by its folder.
    #[arg(long)]
    pub group: Option<Folder>,
}

/// The message, and the groups whose agents are not given it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Skipped {
    pub seq: i64,
    pub groups: Vec<Folder>,
    pub reason: String,
}

/// At most this many characters of a reason are kept.
const LONGEST_REASON: usize = 500;

impl Operation for Args {
    type Row = Skipped;

    async fn run(self, site: &Site<'_>, by: &By) -> Result<Done<Skipped>, OpError> {
        let Self { seq, reason, group } = self;
        let reason: String = reason.trim().chars().take(LONGEST_REASON).collect();
        if reason.is_empty() {
            return Err(OpError::invalid("a message is passed over for a reason, and none is given"));
        }
        if let Some(group) = &group {
            site.group(group).await?;
        }
        let noted = format!("{} had it passed over: {reason}", by.short());
        let skipped = site.store.skip_message(seq, group.as_ref(), &noted, site.world.now()).await;
        let lanes = skipped.map_err(|error| match error {
            StoreError::NotFound { .. } => missing(site.store, History::Messages, seq),
            other => other.into(),
        })?;
        lanes.iter().for_each(|(group, lane)| site.keeper.wake(group, &[*lane]));
        let mut groups: Vec<Folder> = lanes.into_iter().map(|(group, _)| group).collect();
        groups.dedup();
        let named = groups.iter().map(Folder::as_str).collect::<Vec<_>>().join(", ");
        Ok(Done::new(Skipped { seq, groups, reason }, format!("message {seq} is passed over for {named}")))
    }
}
