//! A token for a program at the operator's page, for one purpose.

use ipc_handlers::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{By, Done, OpCode, OpError, Operation, Site};
use crate::{
    domain::{machine::web::Purpose, rows::rfc3339, shown::errors::chain},
    ops::args::{TokenName, word},
};

/// Make a token for a program.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Name for the token: a-z, 0-9, `.`, `-`, `_`.
    pub name: TokenName,
    /// What the token is good for.
    #[arg(long, value_parser = word::<Purpose>())]
    pub purpose: Purpose,
}

/// A new token. It is nowhere but here.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct NewToken {
    pub name: String,
    pub purpose: Purpose,
    pub token: String,
    #[serde(serialize_with = "rfc3339")]
    #[schemars(with = "String")]
    pub made_at: Time,
}

impl Operation for Args {
    type Row = NewToken;

    async fn run(self, site: &Site<'_>, by: &By) -> Result<Done<NewToken>, OpError> {
        let token = site.world.secret().map_err(|error| {
            OpError::new(
                OpCode::Failed,
                format!("reading a random number from the kernel: {}", chain(&error)),
            )
        })?;
        let Self { name, purpose } = self;
        let row =
            site.store.add_web_token(name.as_str(), purpose, &token, &by.short(), site.world.now()).await?;
        let says = format!("token {} for {purpose} is made; it is shown this once", row.name);
        let off = site.settings.is_ok_and(|settings| settings.web.listen.is_none()).then(|| {
            "the page is off, which tokens are for: `g2 config set web.listen 127.0.0.1:4747`, then start the daemon anew".to_owned()
        });
        Ok(Done::new(NewToken { name: row.name, purpose, token, made_at: row.made_at }, says).noting(off))
    }
}
