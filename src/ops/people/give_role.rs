//! Making somebody an owner or an admin, or taking roles away.

use ipc_handlers::{Folder, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{
        By, Done, OpError, Operation, Site,
        args::{UserId, word},
    },
    BY_HAND, none, row,
};
use crate::domain::{heard::people::Role, rows::User};

words! {
    /// What somebody is to be.
    #[derive(JsonSchema)]
    pub enum Given: "role that is given" {
        /// They decide everything.
        Owner = "owner",
        /// They decide which senders are heard.
        Admin = "admin",
        /// Roles are taken away.
        None = "none",
    }
}

/// Make a person an owner or an admin, or take their roles away.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// User id CHANNEL:NAME, such as local:ada.
    pub id: UserId,
    /// New role; `none` takes roles away.
    #[arg(value_parser = word::<Given>())]
    pub role: Given,
    /// Only for this group, by its folder [default: all groups].
    #[arg(long)]
    pub group: Option<Folder>,
}

impl Operation for Args {
    type Row = User;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<User>, OpError> {
        let Self { id, role, group } = self;
        let whole = group.as_ref().map_or_else(String::new, |group| format!(" of {group}"));
        let (user, now) = (id.as_str(), site.world.now());
        let says = match role {
            Given::Owner => {
                site.store.grant_role(user, Role::Owner, group, BY_HAND, now).await?;
                "is an owner".to_owned()
            }
            Given::Admin => {
                site.store.grant_role(user, Role::Admin, group, BY_HAND, now).await?;
                format!("is an admin{whole}")
            }
            Given::None => {
                site.store.revoke_roles(user, group).await?;
                format!("has no role{whole}")
            }
        };
        let row = row(site, &id).await?.ok_or_else(|| none(&id))?;
        Ok(Done::new(row, format!("user {id} {says}")))
    }
}
