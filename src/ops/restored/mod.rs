//! What a restore held back: taken up, or given up.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{By, Done, OpError, Operation, Site};
use crate::{
    domain::kept::held_back::HeldRow,
    store::{HeldThen, HeldWhich},
};

pub mod drop;
pub mod resume;

/// Which of what is held back.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Which {
    /// Text, by its number; may be given again.
    #[serde(default)]
    #[arg(long = "text", value_name = "ID")]
    pub texts: Vec<i64>,
    /// Message, by its number; may be given again.
    #[serde(default)]
    #[arg(long = "message", value_name = "SEQ")]
    pub messages: Vec<i64>,
    /// Everything that is held back.
    #[serde(default)]
    #[arg(long, conflicts_with_all = ["texts", "messages"], required_unless_present_any = ["texts", "messages"])]
    pub all: bool,
}

/// How much was decided about, and the first of it.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Decided {
    pub count: usize,
    /// At most 1000 rows.
    pub rows: Vec<HeldRow>,
}

/// How many rows are returned.
const SHOWN: usize = 1000;

/// Decides about these, all of them or none; about everything a bounded transaction at a time.
async fn decide(site: &Site<'_>, which: Which, then: HeldThen) -> Result<Decided, OpError> {
    let Which { texts, messages, all } = which;
    let named = texts.len() + messages.len();
    if all != (named == 0) {
        return Err(OpError::invalid("name texts or messages, or everything, and not both"));
    }
    if named > SHOWN {
        return Err(OpError::invalid(format!("at most {SHOWN} texts and messages go in one operation")));
    }
    let mut decided = Decided::default();
    loop {
        let which = match all {
            true => HeldWhich::Oldest,
            false => HeldWhich::These { texts: texts.clone(), messages: messages.clone() },
        };
        let rows = site.store.decide_held(which, then.clone()).await?;
        let is_last = !all || rows.is_empty();
        decided.count += rows.len();
        let room = SHOWN - decided.rows.len();
        decided.rows.extend(rows.into_iter().take(room));
        if is_last {
            break;
        }
    }
    site.keeper.changed(None).await?;
    Ok(decided)
}
