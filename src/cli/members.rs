//! `g2 members`: people whom groups know.

use clap::Subcommand;
use ipc_handlers::Folder;

use super::{
    CliResult, Context,
    client::change,
    filter::{Rows, check_group},
    show,
};
use crate::ops::people::{add_member, remove_member};

const EXAMPLES: &str = "\
Examples:
  g2 members add --group work local:bob";

#[derive(Debug, Subcommand)]
pub(super) enum Members {
    /// List people whom groups know; owners and admins are known without being listed
    #[command(after_help = "Examples:\n  g2 members list --group main")]
    List {
        /// Only members of this group, by its folder
        #[arg(long)]
        group: Option<Folder>,
        #[command(flatten)]
        rows: Rows,
    },
    #[command(after_help = EXAMPLES)]
    Add(add_member::Args),
    #[command(after_help = "Examples:\n  g2 members remove --group work local:bob")]
    Remove(remove_member::Args),
}

impl Members {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        match self {
            Self::List { group, rows } => {
                let store = context.store()?;
                let members = store.newest_members(group.as_ref(), rows.enough()).await?;
                check_group(&store, &members, group.as_ref()).await?;
                show::rows(context, &rows.of(members), &["group", "user", "~name", "-added_by", "added_at"])
            }
            Self::Add(args) => change(context, args).await,
            Self::Remove(args) => change(context, args).await,
        }
    }
}
