//! Changing a wiring.

use ipc_handlers::{Folder, effect::EngageMode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{By, Done, OpError, Operation, Site, args::Jid},
    check_pattern, none, row, two_answer,
};
use crate::domain::rows::{Wiring, WiringChanges};

/// Change when a wiring wakes its agent.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Group, by its folder.
    #[arg(long)]
    pub group: Folder,
    /// Chat, by its address such as local:family.
    #[arg(long, value_name = "JID")]
    pub chat: Jid,
    #[serde(flatten)]
    #[arg(skip)]
    pub changes: WiringChanges,
}

impl Operation for Args {
    type Row = Wiring;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<Wiring>, OpError> {
        let Self { group, chat, changes } = self;
        let now = row(site, &group, &chat).await?.ok_or_else(|| none(&group, &chat))?;
        let mode = changes.engage.unwrap_or(now.engage_mode);
        if mode != EngageMode::Pattern && changes.pattern.is_some() {
            return Err(OpError::invalid(format!("a wiring with engage={mode} has no pattern"))
                .hint("set both: engage=pattern pattern=P"));
        }
        check_pattern(changes.pattern.as_deref())?;
        site.store.set_wiring(group.clone(), chat.as_str(), changes).await?;
        site.keeper.changed(Some(&group)).await?;
        let notes = two_answer(site.store, &group, &chat).await?;
        let changed = row(site, &group, &chat).await?.ok_or_else(|| none(&group, &chat))?;
        Ok(Done::new(changed, format!("the wiring of {group} to {chat} is changed")).noting(notes))
    }
}
