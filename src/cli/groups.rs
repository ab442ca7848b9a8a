//! `g2 groups`.

use std::{path::PathBuf, time::Duration};

use anyhow::Context as _;
use clap::Subcommand;
use ipc_handlers::Folder;
use serde::Serialize;

use super::{
    CliResult, Context, Failure, client::perform, confirm::Yes, disk::Disk, filter::Rows, out, show, usage,
    word::setting,
};
use crate::{
    domain::{
        host::screen::counted,
        rows::Group,
        runs::budget::{Day, Share},
    },
    loops::housekeeping::weigh_group,
    ops::{
        Answer, OpError,
        args::{Jid, Trigger},
        groups,
    },
    store::Store,
};

const SETTINGS: &str = "\
Keys:
  name         name for people
  trigger      word at the start of a message that mentions the agent, such as @G2
  provider     scripted, claude or acp
  model        name of the model that the agent asks for
  script       JSON file that the scripted agent follows
  image        container image
  timeout      ms that a run may give no sign of life, 1000 to 604800000 (a week)
  memory_mib   memory of the container, MiB, 6 to 16777216; 0: no limit
  cpus         processors of the container, 0.01 to 1024; 0: no limit
  pids         processes in the container, 8 to 4194304; 0: no limit
  network      model (the container reaches its model only), allowlist (and the hosts of
               `g2 egress`) or open
  egress       none, or model_fetch: the model's host may fetch pages, search the web and call
               tool servers. This does not matter with network=open
  credentials  gateway (keys stay on the host) or stdin (the agent gets them; needs
               network=open)
  timezone     zone name such as Europe/Paris, for times in prompts, cron tasks and TZ in the
               container
  say          final (an answer is said when it is whole) or stream (texts between tools are
               said at once, and a text grows where the platform can change it)
  seen         emoji that a message has while the agent works on it, such as 👀
  bots         ignored (messages of other bots are nothing to it) or heard (as messages of
               people, up to 8 of one bot in 10 minutes)
  budget.requests, budget.tokens, budget.money, budget.minutes
               limit of a day: requests to the model, tokens, money by the prices of g2.toml,
               minutes of containers; 0: no limit. `g2 usage --budgets` shows the use
  mounts       JSON list of at most 64 host folders, shown below /workspace/extra; each must be
               allowed in ~/.config/g2/mount-allowlist.json

Changes of name, trigger, seen, bots and budget hold at once. All others hold from the next run, and
a live run is asked to leave.

Examples:
  g2 groups set main name=Home trigger=@home
  g2 groups set main timezone=Europe/Paris memory_mib=4096
  g2 groups set main timezone=
  g2 groups set main budget.requests=500 budget.minutes=120
  g2 groups set main 'mounts=[{\"hostPath\": \"~/pics\", \"containerPath\": \"pics\", \"readonly\": true}]'";

const ADDED: &str = "\
Examples:
  g2 groups add family --chat local:family
  g2 groups add work --chat local:work --name \"At work\" --trigger @work";

const SHOWN: &str = "\
budget: today's use of each limit, those of all groups included.

disk is weighed now, in bytes with --json: working_folder (groups/FOLDER), sessions (what its agent
keeps of them), runs (logs and prompts of runs that have ended), media (files it can see), mailbox
(its boxes and kept commands). partial: not all of it could be weighed, so there may be more.

Examples:
  g2 groups show main";

/// How long a removal goes on without a word.
const SOON: Duration = Duration::from_secs(1);

const RESTORED: &str = "\
A group has lost its folder if groups/FOLDER had files and is missing or empty now: it was removed,
or its disk is not mounted. Nothing is launched for the group then, and its messages and tasks wait.
Once the folder is back with its files, the group goes on by itself.

The whole backup is read and compared before the folder gets its place.

Examples:
  g2 groups restore family
  g2 groups restore family --from /srv/backups/monday.tar";

const RENEWED: &str = "\
The new folder has what groups/_template has. The lost one, if it turns up again, is not looked at
any more.

Examples:
  g2 groups renew family";

const REMOVED: &str = "\
The main group can't be removed.

The agent leaves and the commands of the group are settled first. If some that are claimed can't be
settled, the group is not removed. Those that its limits keep waiting go unread, and are counted.
An agent that does not leave is stopped after health.close_grace_ms (30 s). Wirings, tasks,
members and mailbox of the group are removed. These stay: groups/FOLDER, data/sessions/FOLDER and
archived sessions. A group that is added again under the same folder has them again.

Examples:
  g2 groups remove family --yes";

#[derive(Debug, Subcommand)]
pub(super) enum Groups {
    /// List all groups
    #[command(after_help = "Examples:\n  g2 groups list")]
    List {
        #[command(flatten)]
        rows: Rows,
    },
    /// Add a group and wire a chat to it
    #[command(after_help = ADDED)]
    Add {
        /// Name of its folder under groups/; every command names the group by it
        folder: String,
        /// Chat that it answers in, such as local:family
        #[arg(long, value_name = "JID")]
        chat: Jid,
        /// Name for people, unlike that of any other group [default: FOLDER]
        #[arg(long)]
        name: Option<String>,
        /// Word at the start of a message that mentions the agent, such as @bo [default: from the assistant's name]
        #[arg(long)]
        trigger: Option<Trigger>,
        /// Make it the main group, whose agent may act for all groups; there is only one
        #[arg(long)]
        main: bool,
    },
    /// Show one group with its settings, and what it takes on the disk
    #[command(after_help = SHOWN)]
    Show {
        /// Folder of the group
        folder: String,
    },
    /// Change settings of one group; an empty value restores the default of all groups
    #[command(after_help = SETTINGS)]
    Set {
        /// Folder of the group
        folder: String,
        /// Settings to change; either all are changed or none
        #[arg(required = true, value_name = "KEY=VALUE")]
        settings: Vec<String>,
    },
    /// Have the group's container finish its work and leave: the next message starts a new one
    #[command(after_help = "Examples:\n  g2 groups restart main")]
    Restart {
        /// Folder of the group
        folder: String,
    },
    /// Give a group that has lost its folder the one of a backup
    #[command(after_help = RESTORED)]
    Restore {
        /// Folder of the group
        folder: String,
        /// Backup to take it from [default: the newest in backup.to that has it]
        #[arg(long, value_name = "FILE")]
        from: Option<PathBuf>,
    },
    /// Give a group that has lost its folder a new one
    #[command(after_help = RENEWED)]
    Renew {
        /// Folder of the group
        folder: String,
    },
    /// Remove a group with its mailbox; its folder and archived sessions stay
    #[command(after_help = REMOVED)]
    Remove {
        /// Folder of the group
        folder: String,
        #[command(flatten)]
        yes: Yes,
    },
}

/// A group, with its budget and what it takes on the disk.
#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    group: Group,
    /// Today's use of each part that is bounded: by its own limits, or those of all groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    budget: Vec<Share>,
    disk: Disk,
}

impl Groups {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        let store = context.store()?;
        match self {
            Self::List { rows } => {
                let groups = store.newest_groups(rows.enough()).await?;
                let columns = ["folder", "~name", "is_main", "-trigger", "-provider", "~chats"];
                show::rows(context, &rows.of(groups), &columns)
            }
            Self::Add { folder, chat, name, trigger, main } => {
                let folder = Folder::parse(&folder).context("adding a group")?;
                let args = groups::add::Args { folder, chat, name, trigger, main };
                show::answer(context, &perform(context, args).await?)
            }
            Self::Show { folder } => {
                let folder = Folder::parse(&folder).context("showing a group")?;
                let group = store.group(&folder).await?.ok_or_else(|| none(&folder))?;
                let (config, now) = (context.config()?, context.world.now());
                let day = Day::of(now, &config.zone.zone);
                let budget = usage::budget_today(&config, &store, &group, day, now)?;
                let (of, root) = (store.clone(), context.root.clone());
                let disk = context
                    .world
                    .blocking(move || weigh_group(&of, &root, &folder))
                    .await
                    .context("weighing the folders of a group")??;
                let shown = Shown { group, budget, disk: Disk::of(&disk) };
                if context.json {
                    return show::object(context, &shown);
                }
                let mut fields = serde_json::to_value(&shown).unwrap_or_default();
                fields.as_object_mut().and_then(|fields| fields.remove("disk"));
                show::object(context, &fields)?;
                out::line("disk:")?;
                shown.disk.lines().into_iter().try_for_each(out::line)
            }
            Self::Set { folder, settings } => {
                let folder = Folder::parse(&folder).context("changing a group")?;
                let settings = settings.iter().map(|text| setting(text)).collect::<Result<_, OpError>>()?;
                show::answer(context, &perform(context, groups::set::Args { folder, settings }).await?)
            }
            Self::Restart { folder } => {
                let folder = Folder::parse(&folder).context("restarting a group")?;
                show::answer(context, &perform(context, groups::restart::Args { folder }).await?)
            }
            Self::Restore { folder, from } => {
                let folder = Folder::parse(&folder).context("restoring a group's folder")?;
                let from = from.map(std::path::absolute).transpose().context("finding the backup")?;
                show::answer(context, &perform(context, groups::restore::Args { folder, from }).await?)
            }
            Self::Renew { folder } => {
                let folder = Folder::parse(&folder).context("renewing a group's folder")?;
                show::answer(context, &perform(context, groups::renew::Args { folder }).await?)
            }
            Self::Remove { folder, yes } => {
                let folder = Folder::parse(&folder).context("removing a group")?;
                let group = store.group(&folder).await?.ok_or_else(|| none(&folder))?;
                // The main group is refused without a question.
                if !group.is_main {
                    yes.to(&loss(&store, &group)?)?;
                }
                drop(store);
                show::answer(context, &removed(context, folder).await?)
            }
        }
    }
}

/// Removes a group, and says what it waits for where that takes a while.
async fn removed(context: &Context, folder: Folder) -> Result<Answer, Failure> {
    let waits = format!("group {folder} is removed when its agent has left and its commands are settled");
    let removing = perform(context, groups::remove::Args { folder });
    tokio::pin!(removing);
    tokio::select! {
        biased;
        answer = &mut removing => return answer,
        () = tokio::time::sleep(SOON) => out::tell(format!("{waits}; an agent that does not leave is stopped")),
    }
    removing.await
}

fn none(folder: &Folder) -> OpError {
    OpError::not_found(format!("group {folder} does not exist"))
}

/// What goes with a group.
fn loss(store: &Store, group: &Group) -> anyhow::Result<String> {
    let tasks = store.tasks(Some(&group.folder), None)?.len();
    Ok(format!(
        "group {} is removed for good, with {} and {} and its members and mailbox; groups/{0} and archived sessions stay",
        group.folder,
        counted(group.chats.len(), "wiring"),
        counted(tasks, "task"),
    ))
}
