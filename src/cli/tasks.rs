//! `g2 tasks`.

use anyhow::{Context as _, anyhow};
use clap::Subcommand;
use ipc_handlers::Folder;

use super::{Context, Outcome, client::tell_changed, show};

#[derive(Debug, Subcommand)]
pub(super) enum Tasks {
    /// Every task
    List {
        #[arg(long)]
        group: Option<String>,
        #[arg(long)]
        limit: Option<usize>,
    },
    /// One task
    Show { id: String },
    /// Delete a task; a run of it that is under way goes on
    Cancel { id: String },
}

impl Tasks {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let store = context.store()?;
        match self {
            Self::List { group, limit } => {
                let group = group.map(|g| Folder::parse(&g)).transpose().context("listing tasks")?;
                let mut tasks = store.tasks(group.as_ref())?;
                tasks.truncate(limit.unwrap_or(usize::MAX));
                show::rows(
                    context,
                    &tasks,
                    &[
                        "id",
                        "group",
                        "chat_jid",
                        "schedule_type",
                        "schedule_value",
                        "status",
                        "next_run",
                        "prompt",
                    ],
                )
            }
            Self::Show { id } => {
                let task = store.task(&id)?.ok_or_else(|| anyhow!("task {id} does not exist"))?;
                show::object(context, &task)
            }
            Self::Cancel { id } => {
                let group = store.task(&id)?.map(|task| task.group);
                store.cancel_task(&id).await?;
                tell_changed(context, group.as_ref()).await;
                show::done(context, &format!("task {id} is cancelled"))
            }
        }
    }
}
