//! `g2 groups`.

use anyhow::Context as _;
use clap::Subcommand;
use ipc_handlers::Folder;

use super::{Context, Outcome, client::perform, confirm::Yes, show, word::setting};
use crate::{
    domain::rows::Group,
    ops::{
        OpError,
        args::{Jid, Trigger},
        groups,
    },
    store::Store,
};

const SETTINGS: &str = "\
Keys:
  name, trigger  for people; what a message starts with to mention it. Both are seen whole
  provider       scripted or claude
  model          what the agent asks its provider for
  script         a file for the scripted agent
  image          the container's image
  timeout        how long a run may give no sign of life, ms
  memory_mib, cpus, pids
                 bounds on its container; 0 is none
  network        model (nothing but its model) or open
  egress         none, or model_fetch: its model's host may be asked to fetch pages, to search the web, to ask servers
                 of tools (with network model; with open it may anyway)
  credentials    gateway (keys stay on the host) or stdin
  timezone       where its people live, such as Europe/Paris: times in prompts, cron tasks, TZ in its container
  mounts         folders of the host below /workspace/extra, within ~/.config/g2/mount-allowlist.json:
                 [{\"hostPath\": \"~/photos\", \"containerPath\": \"photos\", \"readonly\": true}]

All but name and trigger hold from the next launch; a run that is under way is asked to leave.";

const REMOVED: &str = "\
What stays: groups/FOLDER, data/sessions/FOLDER and the sessions that were archived. A group that is added again under the
same folder finds them.";

#[derive(Debug, Subcommand)]
pub(super) enum Groups {
    /// Every group
    List {
        /// Show only the newest N
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
    },
    /// Add a group and wire a chat to it
    Add {
        /// Its folder under groups/, and its name in every command
        folder: String,
        /// The chat it answers in, such as local:family
        #[arg(long, value_name = "JID")]
        chat: Jid,
        /// A name for people, which no other group has; by default the folder
        #[arg(long)]
        name: Option<String>,
        /// What a message starts with to mention it; by default @ and the assistant's name
        #[arg(long)]
        trigger: Option<Trigger>,
        /// Make it the privileged group
        #[arg(long)]
        main: bool,
    },
    /// One group
    Show { folder: String },
    /// Change a group's own settings; an empty value makes one as for all groups again
    #[command(after_help = SETTINGS)]
    Set {
        folder: String,
        #[arg(required = true, value_name = "KEY=VALUE")]
        settings: Vec<String>,
    },
    /// Remove a group with its mailbox: its run leaves, its commands are settled first; its folder and archived sessions stay
    #[command(after_help = REMOVED)]
    Remove {
        folder: String,
        #[command(flatten)]
        yes: Yes,
    },
}

impl Groups {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let store = context.store()?;
        match self {
            Self::List { limit } => {
                let groups = store.newest_groups(limit).await?;
                show::rows(context, &groups, &["folder", "name", "is_main", "trigger", "provider", "chats"])
            }
            Self::Add { folder, chat, name, trigger, main } => {
                let folder = Folder::parse(&folder).context("adding a group")?;
                let args = groups::add::Args { folder, chat, name, trigger, main };
                show::answer(context, &perform(context, args).await?)
            }
            Self::Show { folder } => {
                let folder = Folder::parse(&folder).context("showing a group")?;
                let group = store.group(&folder).await?.ok_or_else(|| none(&folder))?;
                show::object(context, &group)
            }
            Self::Set { folder, settings } => {
                let folder = Folder::parse(&folder).context("changing a group")?;
                let settings = settings.iter().map(|text| setting(text)).collect::<anyhow::Result<_>>()?;
                show::answer(context, &perform(context, groups::set::Args { folder, settings }).await?)
            }
            Self::Remove { folder, yes } => {
                let folder = Folder::parse(&folder).context("removing a group")?;
                let group = store.group(&folder).await?.ok_or_else(|| none(&folder))?;
                yes.to(&loss(&store, &group)?)?;
                drop(store);
                show::answer(context, &perform(context, groups::remove::Args { folder }).await?)
            }
        }
    }
}

fn none(folder: &Folder) -> OpError {
    OpError::not_found(format!("group {folder} does not exist"))
}

/// What goes with a group.
fn loss(store: &Store, group: &Group) -> anyhow::Result<String> {
    let tasks = store.tasks(Some(&group.folder), None)?.len();
    let main = if group.is_main { "the main group " } else { "group " };
    Ok(format!(
        "{main}{} is removed for good, with {} and {} and its members and mailbox; groups/{0} and archived sessions stay",
        group.folder,
        counted(group.chats.len(), "wiring"),
        counted(tasks, "task"),
    ))
}

fn counted(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}
