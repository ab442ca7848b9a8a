//! Having a group know somebody.

use ipc_handlers::Folder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{By, Done, OpError, Operation, Site, args::UserId},
    BY_HAND,
};
use crate::domain::rows::Member;

/// Make a person known to a group, so that its agent hears them.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Group, by its folder.
    #[arg(long)]
    pub group: Folder,
    /// User id CHANNEL:NAME, as messages name their sender, such as local:ada or tg:12345.
    pub user: UserId,
}

impl Args {
    /// Returns the member's row.
    pub(super) async fn row(&self, site: &Site<'_>) -> Result<Option<Member>, OpError> {
        let mut all = site.store.members(Some(&self.group)).await?.into_iter();
        Ok(all.find(|member| member.user == self.user.as_str()))
    }

    /// There is no such member.
    pub(super) fn none(&self) -> OpError {
        OpError::not_found(format!("member {} of {} does not exist", self.user, self.group))
    }
}

impl Operation for Args {
    type Row = Member;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<Member>, OpError> {
        let (group, user) = (&self.group, self.user.as_str());
        site.store.add_member(user, group.clone(), BY_HAND, site.world.now()).await?;
        let member = self.row(site).await?.ok_or_else(|| self.none())?;
        Ok(Done::new(member, format!("group {group} knows {user}")))
    }
}
