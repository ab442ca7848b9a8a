//! Ending a session of the operator's page, or all of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{By, Done, OpError, Operation, Site};
use crate::domain::machine::web::WebSession;

/// End a session: its browser is let in no more.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Number of the session, as `g2 web sessions list` shows it; left out: all of them.
    #[arg(required_unless_present = "all")]
    pub id: Option<i64>,
}

impl Operation for Args {
    type Row = Vec<WebSession>;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<Self::Row>, OpError> {
        let ended = site.store.end_web_sessions(self.id, site.world.now()).await?;
        let says = match (self.id, ended.len()) {
            (Some(id), 0) => {
                return Err(OpError::not_found(format!("session {id} of the page does not exist"))
                    .hint("`g2 web sessions list` shows them"));
            }
            (Some(id), _) => format!("session {id} of the page is ended"),
            (None, 1) => "1 session of the page is ended".to_owned(),
            (None, n) => format!("{n} sessions of the page are ended"),
        };
        Ok(Done::new(ended, says))
    }
}
