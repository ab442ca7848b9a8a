//! Asking accounts for their chats.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::{By, Done, OpError, Operation, Site, channels::table};
use crate::domain::platforms::chats::Listed;

/// Ask an account on a platform, or all of them, for their chats.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Channel, such as telegram or telegram.work; otherwise all.
    #[serde(default)]
    pub account: Option<String>,
}

/// The accounts that were asked.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Refreshed {
    pub accounts: Vec<Row>,
}

/// What came of asking one account.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Row {
    pub account: String,
    /// The number of chats that it told of; `null`: it told of none, for the reason in `problem`.
    pub chats: Option<usize>,
    /// How many of them were not known before.
    pub new: usize,
    /// How many more can't be used, or are too many. `g2 channels log` has the reason.
    pub passed_over: usize,
    pub problem: Option<String>,
}

impl Row {
    fn of(account: String, listed: Option<Listed>) -> Self {
        let row = Self { account, chats: None, new: 0, passed_over: 0, problem: None };
        match listed {
            Some(Listed::Told { chats, new, passed_over }) => {
                Self { chats: Some(chats), new, passed_over, ..row }
            }
            Some(Listed::Not(why)) => Self { problem: Some(why.to_string()), ..row },
            None => Self {
                problem: Some("it has not answered yet; what it tells is kept when it does".into()),
                ..row
            },
        }
    }

    fn note(&self) -> String {
        let Self { account, chats, new, passed_over, problem } = self;
        match (chats, problem) {
            (_, Some(why)) => format!("{account}: {why}"),
            (Some(1), None) if *passed_over == 0 => format!("{account}: 1 chat, {new} new"),
            (Some(chats), None) if *passed_over == 0 => format!("{account}: {chats} chats, {new} new"),
            (chats, None) => {
                format!("{account}: {} chats, {new} new, {passed_over} passed over", chats.unwrap_or(0))
            }
        }
    }
}

impl Operation for Args {
    type Row = Refreshed;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<Refreshed>, OpError> {
        let accounts = match self.account {
            Some(account) => {
                table::known(site, &account)?;
                vec![account]
            }
            None => table::accounts(site)?,
        };
        let mut listed = site.keeper.list_chats(&accounts).await;
        let rows: Vec<Row> = accounts
            .into_iter()
            .map(|account| {
                let came = listed.remove(&account);
                Row::of(account, came)
            })
            .collect();
        let says = match rows.iter().filter(|row| row.chats.is_some()).count() {
            _ if rows.is_empty() => "there is no account on a platform".to_owned(),
            0 => "no account told of its chats".to_owned(),
            1 => "1 account told of its chats".to_owned(),
            told => format!("{told} accounts told of their chats"),
        };
        let notes: Vec<String> = rows.iter().map(Row::note).collect();
        Ok(Done::new(Refreshed { accounts: rows }, says).noting(notes))
    }
}
