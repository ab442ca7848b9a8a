//! Saying no: what waits is not heard.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{By, Done, OpError, Operation, Site},
    decide, us,
};
use crate::{domain::heard::approvals::Approval, store::Pick};

/// Which question, and who says no.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    pub id: i64,
    /// Who says so: a user who may.
    #[serde(default = "us")]
    pub user: String,
}

impl Operation for Args {
    type Row = Approval;

    async fn run(self, site: &Site<'_>, by: &By) -> Result<Done<Approval>, OpError> {
        decide(site, by, self.id, Pick::No, &self.user).await
    }
}
