//! A code by which a person becomes an owner or an admin on a platform.

use ipc_handlers::{Folder, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::{By, Done, OpCode, OpError, Operation, Site, args::word};
use crate::domain::{
    heard::{
        claims::{Code, Door, door, group_of, is_now},
        people::Role,
    },
    rows::rfc3339,
    shown::errors::chain,
};

/// Make a code by which a person becomes an owner or an admin on a platform: good once, for 10 minutes.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Role of the person who writes the code.
    #[arg(long, value_parser = word::<Role>(), default_value = "owner")]
    #[serde(default = "owner")]
    pub role: Role,
    /// Only for this group, by its folder [default: all groups].
    #[arg(long)]
    pub group: Option<Folder>,
}

fn owner() -> Role {
    Role::Owner
}

/// A code. It is nowhere but here.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Made {
    pub id: i64,
    pub code: String,
    pub role: Role,
    pub group: Option<Folder>,
    #[serde(serialize_with = "rfc3339")]
    #[schemars(with = "String")]
    pub expires_at: Time,
    /// The accounts to which it can be written.
    pub doors: Vec<Way>,
}

/// An account to which a code can be written.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Way {
    pub channel: String,
    /// What the account is called on its platform.
    pub who: String,
    /// An address that opens a chat with it.
    pub link: Option<String>,
}

impl From<Door> for Way {
    fn from(Door { channel, who, link }: Door) -> Self {
        Self { channel, who, link }
    }
}

impl Operation for Args {
    type Row = Made;

    async fn run(self, site: &Site<'_>, by: &By) -> Result<Done<Made>, OpError> {
        let Self { role, group } = self;
        let group = group_of(role, group).map_err(|why| OpError::refused(why).hint("leave the group out"))?;
        let accounts: Vec<String> =
            site.config()?.channels.iter().map(|account| account.name.clone()).collect();
        if accounts.is_empty() {
            return Err(OpError::refused(
                "no account on a platform is there to which a code could be written",
            )
            .hint("`g2 channels add telegram` adds one"));
        }
        let random = site.world.id().map_err(|error| {
            OpError::new(
                OpCode::Failed,
                format!("reading a random number from the kernel: {}", chain(&error)),
            )
        })?;
        let code = Code::of_id(&random);
        let claim = site.store.add_claim(&code, role, group, &by.short(), site.world.now()).await?;
        let mut known = site.store.accounts_known().await?;
        known.retain(|(channel, _)| accounts.contains(channel));
        let mut doors: Vec<Way> =
            known.iter().map(|(channel, myself)| door(channel, myself, &code).into()).collect();
        // One that never connected may do so within the time.
        let others = accounts.into_iter().filter(|name| known.iter().all(|(channel, _)| channel != name));
        doors.extend(others.map(|name| Way { who: name.clone(), channel: name, link: None }));
        let says = format!(
            "code {} makes its author {}, once, if it is written in a direct chat until {}",
            claim.id,
            is_now(&claim),
            claim.expires_at
        );
        let made = Made {
            id: claim.id,
            code: code.shown(),
            role: claim.role,
            group: claim.group,
            expires_at: claim.expires_at,
            doors,
        };
        Ok(Done::new(made, says))
    }
}
