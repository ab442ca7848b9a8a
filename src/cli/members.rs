//! `g2 members`: people whom groups know.

use anyhow::Context as _;
use clap::Subcommand;
use ipc_handlers::Folder;

use super::{
    CliResult, Context,
    client::perform,
    filter::{Rows, check_group},
    show,
};
use crate::ops::{
    args::UserId,
    people::{add_member, remove_member},
};

const EXAMPLES: &str = "\
Examples:
  g2 members add --group work local:bob";

#[derive(Debug, Subcommand)]
pub(super) enum Members {
    /// List people whom groups know; owners and admins are known without being listed
    #[command(after_help = "Examples:\n  g2 members list --group main")]
    List {
        /// Only members of this group, by its folder
        #[arg(long, value_name = "GROUP")]
        group: Option<String>,
        #[command(flatten)]
        rows: Rows,
    },
    /// Make a person known to a group, so that its agent hears them
    #[command(after_help = EXAMPLES)]
    Add {
        /// Group, by its folder
        #[arg(long, value_name = "GROUP")]
        group: String,
        /// User id CHANNEL:NAME, as messages name their sender, such as local:ada or tg:12345
        user: UserId,
    },
    /// Make a person a stranger to a group again
    #[command(after_help = "Examples:\n  g2 members remove --group work local:bob")]
    Remove {
        /// Group, by its folder
        #[arg(long, value_name = "GROUP")]
        group: String,
        /// User id CHANNEL:NAME, such as local:ada
        user: UserId,
    },
}

impl Members {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        match self {
            Self::List { group, rows } => {
                let store = context.store()?;
                let folder = group.as_deref().map(Folder::parse).transpose().context("listing members")?;
                let members = store.newest_members(folder.as_ref(), rows.enough()).await?;
                check_group(&store, &members, group.as_deref()).await?;
                show::rows(context, &rows.of(members), &["group", "user", "~name", "-added_by", "added_at"])
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
