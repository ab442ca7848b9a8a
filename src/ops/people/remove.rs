//! Removing a user.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{By, Done, OpError, Operation, World, args::UserId},
    none, row,
};
use crate::domain::rows::User;

/// Who.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    pub id: UserId,
}

impl Operation for Args {
    type Row = User;

    async fn run(self, world: &World<'_>, _: &By) -> Result<Done<User>, OpError> {
        let Self { id } = self;
        let was = row(world, &id).await?.ok_or_else(|| none(&id))?;
        world.store.remove_user(id.as_str()).await?;
        Ok(Done::new(was, format!("user {id} is removed, with their roles and memberships")))
    }
}
