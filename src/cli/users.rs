//! `g2 users`: people and their roles.

use clap::Subcommand;

use super::{CliResult, Context, claim, client::change, filter::Rows, show};
use crate::ops::people::{add, give_role, remove};

const ADDED: &str = "\
Examples:
  g2 users add local:ada --name Ada
  g2 users add local:ada --dm local:ada";

const ROLES: &str = "\
Agents hear owners and admins without a membership. Owners and admins also answer questions about
strangers and new chats.

Examples:
  g2 users role local:ada admin --group work
  g2 users role local:ada none";

#[derive(Debug, Subcommand)]
pub(super) enum Users {
    /// List people with their roles and the groups that know them
    #[command(after_help = "Examples:\n  g2 users list")]
    List {
        #[command(flatten)]
        rows: Rows,
    },
    #[command(after_help = ADDED)]
    Add(add::Args),
    #[command(after_help = ROLES)]
    Role(give_role::Args),
    /// Make a code by which you become an owner or an admin on a platform
    #[command(after_help = claim::EXPLAINED)]
    Claim(claim::Command),
    #[command(after_help = "Examples:\n  g2 users remove local:bob")]
    Remove(remove::Args),
}

impl Users {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        match self {
            Self::List { rows } => {
                let users = context.store()?.newest_users(rows.enough()).await?;
                show::rows(context, &rows.of(users), &["id", "~name", "roles", "~member_of", "-dm_chat"])
            }
            Self::Add(args) => change(context, args).await,
            Self::Role(args) => change(context, args).await,
            Self::Claim(command) => command.run(context).await,
            Self::Remove(args) => change(context, args).await,
        }
    }
}
