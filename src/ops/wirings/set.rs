//! Changing a wiring.

use ipc_handlers::{
    Folder,
    effect::{EngageMode, IgnoredMessages, SenderScope},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{By, Done, OpError, Operation, Site, args::Jid},
    check_pattern, none, row, two_answer,
};
use crate::domain::rows::Wiring;

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
    /// Messages that wake the agent.
    #[arg(skip)]
    pub engage: Option<EngageMode>,
    /// A JavaScript regular expression; only with engage=pattern.
    #[arg(skip)]
    pub pattern: Option<String>,
    #[arg(skip)]
    pub sender_scope: Option<SenderScope>,
    /// Messages that do not wake the agent: dropped, or kept as context.
    #[arg(skip)]
    pub ignored: Option<IgnoredMessages>,
}

impl Operation for Args {
    type Row = Wiring;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<Wiring>, OpError> {
        let Self { group, chat, engage, pattern, sender_scope, ignored } = self;
        let now = row(site, &group, &chat).await?.ok_or_else(|| none(&group, &chat))?;
        let mode = engage.unwrap_or(now.engage_mode);
        if mode != EngageMode::Pattern && pattern.is_some() {
            return Err(OpError::invalid(format!("a wiring with engage={mode} has no pattern"))
                .hint("set both: engage=pattern pattern=P"));
        }
        check_pattern(pattern.as_deref())?;
        let settings = [
            ("engage", engage.map(|mode| mode.to_string())),
            ("pattern", pattern),
            ("sender_scope", sender_scope.map(|scope| scope.to_string())),
            ("ignored", ignored.map(|policy| policy.to_string())),
        ];
        let settings = settings.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
        site.store.set_wiring(group.clone(), chat.as_str(), settings.collect()).await?;
        site.keeper.changed(Some(&group)).await?;
        let notes = two_answer(site.store, &group, &chat).await?;
        let changed = row(site, &group, &chat).await?.ok_or_else(|| none(&group, &chat))?;
        Ok(Done::new(changed, format!("the wiring of {group} to {chat} is changed")).noting(notes))
    }
}
