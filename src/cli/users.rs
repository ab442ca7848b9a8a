//! `g2 users`: who people are, and what they may decide. Roles and names are read with each message, so a daemon that is
//! up needs no telling.

use anyhow::Context as _;
use clap::{Subcommand, ValueEnum};
use ipc_handlers::Folder;

use super::{Context, Outcome, jid, show, user};
use crate::{clock, domain::people::Role};

/// Who gave a role or a membership that was set from here.
pub(super) const BY_HAND: &str = "command line";

#[derive(Debug, Subcommand)]
pub(super) enum Users {
    /// Everybody who is known, with what they may decide and which groups know them
    List {
        #[arg(long)]
        limit: Option<usize>,
    },
    /// Add somebody, or change their name or where they are asked
    Add {
        /// CHANNEL:NAME as messages name their senders, such as local:ada or tg:12345
        #[arg(value_parser = user)]
        id: String,
        /// A name for people; by default what follows the channel
        #[arg(long)]
        name: Option<String>,
        /// The chat in which they are asked; by default the first direct chat that they write in, or else the one that their id names
        #[arg(long, value_name = "JID", value_parser = jid)]
        dm: Option<String>,
    },
    /// Make somebody an owner, or an admin of everything or of one group; `none` takes roles away
    Role {
        #[arg(value_parser = user)]
        id: String,
        #[arg(value_enum)]
        role: Given,
        /// The group that an admin is one of; with `none`, the one they are none of any more
        #[arg(long, value_name = "FOLDER")]
        group: Option<String>,
    },
    /// Remove somebody with their roles and memberships
    Remove {
        #[arg(value_parser = user)]
        id: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Given {
    /// Decides everything
    Owner,
    /// Decides who is heard
    Admin,
    None,
}

impl Users {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let store = context.store()?;
        match self {
            Self::List { limit } => {
                let mut users = store.users()?;
                users.truncate(limit.unwrap_or(usize::MAX));
                show::rows(context, &users, &["id", "name", "roles", "member_of", "dm_chat"])
            }
            Self::Add { id, name, dm } => {
                let known = store.users()?.into_iter().find(|user| user.id == id).map(|user| user.name);
                let handle = id.split_once(':').map_or(id.as_str(), |(_, handle)| handle);
                let name = name.or(known).unwrap_or_else(|| handle.to_owned());
                store.put_user(&id, &name, dm, clock::now()).await?;
                show::done(context, &format!("user {id} is {name}"))
            }
            Self::Role { id, role, group } => {
                let group = group.as_deref().map(Folder::parse).transpose().context("giving a role")?;
                let whole = group.as_ref().map_or_else(String::new, |group| format!(" of {group}"));
                match role {
                    Given::Owner => store.grant_role(&id, Role::Owner, group, BY_HAND, clock::now()).await?,
                    Given::Admin => store.grant_role(&id, Role::Admin, group, BY_HAND, clock::now()).await?,
                    Given::None => store.revoke_roles(&id, group).await?,
                }
                let said = match role {
                    Given::Owner => "is an owner".to_owned(),
                    Given::Admin => format!("is an admin{whole}"),
                    Given::None => format!("has no role{whole}"),
                };
                show::done(context, &format!("user {id} {said}"))
            }
            Self::Remove { id } => {
                store.remove_user(&id).await?;
                show::done(context, &format!("user {id} is removed, with their roles and memberships"))
            }
        }
    }
}
