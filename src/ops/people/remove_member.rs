//! Having a group know somebody no more.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{By, Done, OpError, Operation, Site},
    add_member,
};
use crate::domain::rows::Member;

/// Make a person a stranger to a group again.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(transparent)]
#[group(skip)]
pub struct Args {
    #[command(flatten)]
    pub which: add_member::Args,
}

impl Operation for Args {
    type Row = Member;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<Member>, OpError> {
        let Self { which } = self;
        let was = which.row(site).await?.ok_or_else(|| which.none())?;
        site.store.remove_member(which.user.as_str(), which.group.clone()).await?;
        Ok(Done::new(was, format!("group {} does not know {} any more", which.group, which.user)))
    }
}
