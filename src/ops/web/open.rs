//! A ticket for the operator's page: it opens one session, within a minute.

use ipc_handlers::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{By, Done, OpCode, OpError, Operation, Site};
use crate::domain::{rows::rfc3339, shown::errors::chain};

/// Make a ticket for the operator's page, good once within a minute.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {}

/// A ticket. It is nowhere but here.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Ticket {
    /// The number of its session.
    pub id: i64,
    pub ticket: String,
    #[serde(serialize_with = "rfc3339")]
    #[schemars(with = "String")]
    pub ends_at: Time,
}

impl Operation for Args {
    type Row = Ticket;

    async fn run(self, site: &Site<'_>, by: &By) -> Result<Done<Ticket>, OpError> {
        if site.settings.is_ok_and(|settings| settings.web.listen.is_none()) {
            return Err(OpError::refused("the page is off")
                .hint("`g2 config set web.listen 127.0.0.1:4747`, then start the daemon anew"));
        }
        let ticket = site.world.id().map_err(|error| {
            OpError::new(
                OpCode::Failed,
                format!("reading a random number from the kernel: {}", chain(&error)),
            )
        })?;
        let row = site.store.add_web_ticket(&ticket, &by.short(), site.world.now()).await?;
        let says = format!("a ticket for session {} of the page, good once until {}", row.id, row.ends_at);
        Ok(Done::new(Ticket { id: row.id, ticket, ends_at: row.ends_at }, says))
    }
}
