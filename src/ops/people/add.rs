//! Adding a user, or changing their name or where they are asked.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{
        By, Done, OpError, Operation, Site,
        args::{Jid, UserId},
    },
    none, row,
};
use crate::domain::rows::User;

/// Add a person, or change their name or the chat in which they are asked.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// User id CHANNEL:NAME, as messages name their sender, such as local:ada or tg:12345.
    pub id: UserId,
    /// Name for people [default: the part of the id after the channel].
    #[arg(long)]
    pub name: Option<String>,
    /// Chat to which questions for them go [default: the first direct chat that they write in, otherwise the chat that their id
    /// names].
    #[arg(long, value_name = "JID")]
    pub dm: Option<Jid>,
}

impl Operation for Args {
    type Row = User;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<User>, OpError> {
        let Self { id, name, dm } = self;
        let known = row(site, &id).await?.map(|user| user.name);
        let handle = id.as_str().split_once(':').map_or(id.as_str(), |(_, handle)| handle);
        let name = name.or(known).unwrap_or_else(|| handle.to_owned());
        site.store.put_user(id.as_str(), &name, dm.map(String::from), site.world.now()).await?;
        let user = row(site, &id).await?.ok_or_else(|| none(&id))?;
        Ok(Done::new(user, format!("user {id} is {name}")))
    }
}
