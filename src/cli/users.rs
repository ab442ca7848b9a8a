//! `g2 users`: people and their roles.

use anyhow::Context as _;
use clap::Subcommand;
use ipc_handlers::Folder;

use super::{CliResult, Context, client::perform, filter::Rows, show, word::word};
use crate::ops::{
    args::{Jid, UserId},
    people::{add, give_role, remove},
};

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
    /// Add a person, or change their name or the chat in which they are asked
    #[command(after_help = ADDED)]
    Add {
        /// User id CHANNEL:NAME, as messages name their sender, such as local:ada or tg:12345
        id: UserId,
        /// Name for people [default: the part of the id after the channel]
        #[arg(long)]
        name: Option<String>,
        /// Chat to which questions for them go [default: the first direct chat that they write in, otherwise the chat
        /// that their id names]
        #[arg(long, value_name = "JID")]
        dm: Option<Jid>,
    },
    /// Make a person an owner or an admin, or take their roles away
    #[command(after_help = ROLES)]
    Role {
        /// User id CHANNEL:NAME, such as local:ada
        id: UserId,
        /// New role; `none` takes roles away
        #[arg(value_parser = word::<give_role::Given>())]
        role: give_role::Given,
        /// Only for this group, by its folder [default: all groups]
        #[arg(long, value_name = "GROUP")]
        group: Option<String>,
    },
    /// Remove a person with their roles and memberships
    #[command(after_help = "Examples:\n  g2 users remove local:bob")]
    Remove {
        /// User id CHANNEL:NAME, such as local:ada
        id: UserId,
    },
}

impl Users {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        match self {
            Self::List { rows } => {
                let users = context.store()?.newest_users(rows.enough()).await?;
                show::rows(context, &rows.of(users), &["id", "~name", "roles", "~member_of", "-dm_chat"])
            }
            Self::Add { id, name, dm } => {
                show::answer(context, &perform(context, add::Args { id, name, dm }).await?)
            }
            Self::Role { id, role, group } => {
                let group = group.as_deref().map(Folder::parse).transpose().context("giving a role")?;
                show::answer(context, &perform(context, give_role::Args { id, role, group }).await?)
            }
            Self::Remove { id } => show::answer(context, &perform(context, remove::Args { id }).await?),
        }
    }
}
