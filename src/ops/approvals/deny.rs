//! Saying no: what waits is not heard.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{By, Done, OpError, Operation, Site},
    decide, us,
};
use crate::{domain::heard::approvals::Approval, store::Pick};

/// Say no: messages that waited are not heard.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Number of the question, as `g2 approvals list` shows it.
    pub id: i64,
    /// User who decides: an owner, or an admin of the group.
    #[serde(default = "us")]
    #[arg(long = "as", default_value_t = us(), value_name = "USER")]
    pub user: String,
}

impl Operation for Args {
    type Row = Approval;

    async fn run(self, site: &Site<'_>, by: &By) -> Result<Done<Approval>, OpError> {
        decide(site, by, self.id, Pick::No, &self.user).await
    }
}
