//! Removing a user.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{By, Done, OpError, Operation, Site, args::UserId},
    none, row,
};
use crate::domain::rows::User;

/// Remove a person with their roles and memberships.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// User id CHANNEL:NAME, such as local:ada.
    pub id: UserId,
}

impl Operation for Args {
    type Row = User;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<User>, OpError> {
        let Self { id } = self;
        let was = row(site, &id).await?.ok_or_else(|| none(&id))?;
        site.store.remove_user(id.as_str()).await?;
        Ok(Done::new(was, format!("user {id} is removed, with their roles and memberships")))
    }
}
