//! `g2 members`: whom groups know. It is read with each message, so a daemon that is up needs no telling.

use anyhow::Context as _;
use clap::Subcommand;
use ipc_handlers::Folder;

use super::{Context, Outcome, filter::check_group, show, user, users::BY_HAND};
use crate::clock;

#[derive(Debug, Subcommand)]
pub(super) enum Members {
    /// Whom groups know; owners and admins are known without being listed
    List {
        /// Of this group only
        #[arg(long, value_name = "FOLDER")]
        group: Option<String>,
        #[arg(long)]
        limit: Option<usize>,
    },
    /// Have a group know somebody
    Add {
        #[arg(long, value_name = "FOLDER")]
        group: String,
        /// CHANNEL:NAME as messages name their senders, such as local:ada or tg:12345
        #[arg(value_parser = user)]
        user: String,
    },
    /// Have a group know somebody no more
    Remove {
        #[arg(long, value_name = "FOLDER")]
        group: String,
        #[arg(value_parser = user)]
        user: String,
    },
}

impl Members {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let store = context.store()?;
        match self {
            Self::List { group, limit } => {
                let folder = group.as_deref().map(Folder::parse).transpose().context("listing members")?;
                let mut members = store.members(folder.as_ref())?;
                check_group(&store, &members, group.as_deref())?;
                members.truncate(limit.unwrap_or(usize::MAX));
                show::rows(context, &members, &["group", "user", "name", "added_by", "added_at"])
            }
            Self::Add { group, user } => {
                let group = Folder::parse(&group).context("adding a member")?;
                store.add_member(&user, group.clone(), BY_HAND, clock::now()).await?;
                show::done(context, &format!("group {group} knows {user}"))
            }
            Self::Remove { group, user } => {
                let group = Folder::parse(&group).context("removing a member")?;
                store.remove_member(&user, group.clone()).await?;
                show::done(context, &format!("group {group} does not know {user} any more"))
            }
        }
    }
}
