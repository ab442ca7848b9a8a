//! A problem that the owner knows of and lets stand.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::{By, Done, OpError, Operation, Site};
use crate::domain::problems::checks::Check;

/// Note a problem that you know of: it counts no more, and nobody is told of it until it is gone and comes back.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Problem, as `g2 status` names it in brackets: CHECK, or CHECK/SUBJECT.
    pub id: String,
    /// Have it count again.
    #[arg(long)]
    #[serde(default)]
    pub undo: bool,
}

/// A problem that is noted, or not any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Noted {
    pub code: String,
    /// The group, chat or file that has it; empty: everything.
    pub about: String,
    pub noted: bool,
}

impl Operation for Args {
    type Row = Noted;

    async fn run(self, site: &Site<'_>, by: &By) -> Result<Done<Noted>, OpError> {
        let (code, about) = self.id.split_once('/').unwrap_or((&self.id, ""));
        if Check::from_name(code).is_none() {
            return Err(OpError::not_found(format!("there is no check {code:?}"))
                .hint("`g2 status` names each problem in brackets"));
        }
        let (code, about) = (code.to_owned(), about.to_owned());
        let is_done =
            site.store.note_problem(&code, &about, !self.undo, &by.short(), site.world.now()).await?;
        let what = self.id.as_str();
        let says = match (self.undo, is_done) {
            (false, true) => format!("{what} is noted: it counts no more until it is gone and comes back"),
            (false, false) => format!("{what} was noted before"),
            (true, true) => format!("{what} counts again"),
            (true, false) => {
                return Err(OpError::not_found(format!("{what} is not noted"))
                    .hint("`g2 status` names noted problems at its end"));
            }
        };
        Ok(Done::new(Noted { code, about, noted: !self.undo }, says))
    }
}
