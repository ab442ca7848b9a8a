//! `g2 users`: who people are, and what they may decide.

use anyhow::Context as _;
use clap::Subcommand;
use ipc_handlers::Folder;

use super::{Context, Outcome, client::perform, show, word::word};
use crate::ops::{
    args::{Jid, UserId},
    people::{add, give_role, remove},
};

#[derive(Debug, Subcommand)]
pub(super) enum Users {
    /// Everybody who is known, with what they may decide and which groups know them
    List {
        /// Show only the newest N
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
    },
    /// Add somebody, or change their name or where they are asked
    Add {
        /// CHANNEL:NAME as messages name their senders, such as local:ada or tg:12345
        id: UserId,
        /// A name for people; by default what follows the channel
        #[arg(long)]
        name: Option<String>,
        /// The chat in which they are asked; by default the first direct chat that they write in, or else the one that their id names
        #[arg(long, value_name = "JID")]
        dm: Option<Jid>,
    },
    /// Make somebody an owner, or an admin of everything or of one group; `none` takes roles away
    Role {
        id: UserId,
        #[arg(value_parser = word::<give_role::Given>())]
        role: give_role::Given,
        /// The group that an admin is one of; with `none`, the one they are none of any more
        #[arg(long, value_name = "FOLDER")]
        group: Option<String>,
    },
    /// Remove somebody with their roles and memberships
    Remove { id: UserId },
}

impl Users {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        match self {
            Self::List { limit } => {
                let users = context.store()?.newest_users(limit).await?;
                show::rows(context, &users, &["id", "name", "roles", "member_of", "dm_chat"])
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
