//! Ending a token of a program at the operator's page.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{By, Done, OpCode, OpError, Operation, Site};
use crate::{
    domain::{
        machine::web::{TOKEN_OF_FILE, WebToken},
        shown::{errors::chain, screen::quoted},
    },
    root,
};

/// End a token at once: its program is let in no more.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Name of the token, as `g2 web tokens list` shows it.
    pub name: String,
}

impl Operation for Args {
    type Row = WebToken;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<WebToken>, OpError> {
        let of_file = self.name == TOKEN_OF_FILE;
        if of_file {
            // Before the row: a file that stays would be let in again by the next start.
            root::remove_web_token(&site.root.join("data")).map_err(|error| {
                OpError::new(OpCode::Failed, format!("removing data/web.token: {}", chain(&error)))
            })?;
        }
        let ended = site.store.end_web_token(&self.name).await?.ok_or_else(|| {
            OpError::not_found(format!("token {} does not exist", quoted(&self.name)))
                .hint("`g2 web tokens list` shows them")
        })?;
        let says = format!("token {} is let in no more", ended.name);
        let again = of_file
            .then(|| "the next start of the daemon makes a new data/web.token, for metrics".to_owned());
        Ok(Done::new(ended, says).noting(again))
    }
}
