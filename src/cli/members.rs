//! `g2 members`: whom groups know.

use anyhow::Context as _;
use clap::Subcommand;
use ipc_handlers::Folder;

use super::{Context, Outcome, client::perform, filter::check_group, show};
use crate::ops::{
    args::UserId,
    people::{add_member, remove_member},
};

#[derive(Debug, Subcommand)]
pub(super) enum Members {
    /// Whom groups know; owners and admins are known without being listed
    List {
        /// Of this group only
        #[arg(long, value_name = "FOLDER")]
        group: Option<String>,
        /// Show only the newest N
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
    },
    /// Have a group know somebody
    Add {
        #[arg(long, value_name = "FOLDER")]
        group: String,
        /// CHANNEL:NAME as messages name their senders, such as local:ada or tg:12345
        user: UserId,
    },
    /// Have a group know somebody no more
    Remove {
        #[arg(long, value_name = "FOLDER")]
        group: String,
        user: UserId,
    },
}

impl Members {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        match self {
            Self::List { group, limit } => {
                let store = context.store()?;
                let folder = group.as_deref().map(Folder::parse).transpose().context("listing members")?;
                let members = store.newest_members(folder.as_ref(), limit).await?;
                check_group(&store, &members, group.as_deref()).await?;
                show::rows(context, &members, &["group", "user", "name", "added_by", "added_at"])
            }
            Self::Add { group, user } => {
                let group = Folder::parse(&group).context("adding a member")?;
                show::answer(context, &perform(context, add_member::Args { group, user }).await?)
            }
            Self::Remove { group, user } => {
                let group = Folder::parse(&group).context("removing a member")?;
                let which = remove_member::Args(add_member::Args { group, user });
                show::answer(context, &perform(context, which).await?)
            }
        }
    }
}
