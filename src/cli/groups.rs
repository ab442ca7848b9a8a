//! `g2 groups`.

use std::{
    collections::btree_map::Entry,
    io::{self, Read as _},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use clap::Subcommand;
use ipc_handlers::Folder;
use serde::Serialize;

use super::{
    CliResult, Context, Failure,
    client::{change, perform},
    confirm::Yes,
    disk::Disk,
    edit,
    filter::Rows,
    out, show, usage,
    word::setting,
};
use crate::{
    domain::{
        rows::Group,
        runs::{
            budget::{Day, Share},
            group_config::{BadGroupConfig, Key},
            tool_servers,
        },
    },
    loops::housekeeping::weigh_group,
    ops::{Answer, Op, OpError, groups},
    root::{kept_memories, kept_memory},
};

/// What explains all budget settings together.
const BUDGETS: &str = "budget.requests, budget.tokens, budget.money, budget.minutes
               limit of a day: requests to the model, tokens, money by the prices of g2.toml,
               minutes of containers; 0: no limit. `g2 usage --budgets` shows the use";

const SERVERS: &str = "mcp.NAME     tool server (MCP) that the agent has: a command with its arguments, run in the container, or https://…; empty: none. NAME=VALUE before a command, or behind an address, is a variable or a header, and ${NAME} in it a secret of .env
  mcp          @FILE: all of them, as .mcp.json has them; empty: none";

/// Returns the help on settings: each key with its meaning.
fn settings_help() -> String {
    let mut keys = String::from("Keys:\n");
    for (word, key) in Key::CHOICES {
        let told = match key {
            Key::BudgetRequests => BUDGETS.to_owned(),
            Key::BudgetTokens | Key::BudgetMoney | Key::BudgetMinutes => continue,
            Key::Mcp => SERVERS.to_owned(),
            key if word.len() > 12 => format!("{word}\n               {}", key.help()),
            key => format!("{word:12} {}", key.help()),
        };
        keys.push_str(&format!("  {told}\n"));
    }
    format!("{keys}\n{SETTINGS}")
}

const SETTINGS: &str = "\
Changes of name, trigger, seen, bots, commands and budget hold at once. All others hold from the next
run, and a live run is asked to leave.

Examples:
  g2 groups set main name=Home trigger=@home
  g2 groups set main timezone=Europe/Paris memory_mib=4096
  g2 groups set main timezone=
  g2 groups set main budget.requests=500 budget.minutes=120
  g2 groups set main 'mcp.weather=python3 /workspace/group/weather.py'
  g2 groups set main 'mcp.docs=https://docs.example.com/mcp Authorization=\"Bearer ${DOCS_TOKEN}\"'
  g2 groups set main mcp=@.mcp.json
  g2 groups set main 'mounts=[{\"hostPath\": \"~/pics\", \"containerPath\": \"pics\", \"readonly\": true}]'";

const ADDED: &str = "\
Templates: assistant (helps with whatever comes up), researcher (finds things out, with sources),
family (lists and dates). A CLAUDE.md that is there stays as it is.

Examples:
  g2 groups add family --chat local:family
  g2 groups add reading --chat local:reading --from researcher
  g2 groups add work --chat local:work --name \"At work\" --trigger @work";

const EDITED: &str = "\
CLAUDE.md is what the agent is told of itself at the start of each run: its name, how it speaks,
what it remembers where. Saving an unchanged text, or an editor that fails, changes nothing. If
its agent or another person changed the file meanwhile, nothing is written, and your text is kept.
The text before is kept, too: `g2 groups history` lists the newest 20 of each.

Examples:
  g2 groups edit main
  g2 groups edit --global
  echo 'You are Bo. Be brief.' | g2 groups edit main --file -";

const KEPT: &str = "\
Kept are texts that `g2 groups edit` or the page replaced, and those that were not saved because the
file was another by then or could not be written; the newest 20 of each CLAUDE.md. No container sees
them.

Examples:
  g2 groups history main
  g2 groups history --global --show 3";

const BACK: &str = "\
The text that is there now is kept.

Examples:
  g2 groups back main --to 3
  g2 groups back --global --to 3";

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
members and mailbox of the group are removed. These stay: groups/FOLDER, data/sessions/FOLDER,
archived sessions and the earlier texts of its CLAUDE.md. A group that is added again under the same
folder has them again.

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
    #[command(after_help = ADDED)]
    Add(groups::add::Args),
    /// Show one group with its settings, and what it takes on the disk
    #[command(after_help = SHOWN)]
    Show {
        /// Folder of the group
        folder: Folder,
    },
    #[command(after_help = settings_help())]
    Set {
        #[command(flatten)]
        args: groups::set::Args,
        /// Settings to change; either all are changed or none
        #[arg(required = true, value_name = "KEY=VALUE")]
        settings: Vec<String>,
        #[command(flatten)]
        yes: Yes,
    },
    /// Change the CLAUDE.md of a group in $VISUAL or $EDITOR
    #[command(after_help = EDITED)]
    Edit {
        /// Folder of the group
        #[arg(required_unless_present = "global")]
        folder: Option<Folder>,
        /// The CLAUDE.md that all groups share
        #[arg(long, conflicts_with = "folder")]
        global: bool,
        /// Take the whole new text from this file instead of an editor; `-`: from stdin
        #[arg(long, value_name = "PATH")]
        file: Option<PathBuf>,
    },
    /// List the earlier texts of a CLAUDE.md that are kept, newest first
    #[command(after_help = KEPT)]
    History {
        /// Folder of the group
        #[arg(required_unless_present = "global")]
        folder: Option<Folder>,
        /// The CLAUDE.md that all groups share
        #[arg(long, conflicts_with = "folder")]
        global: bool,
        /// Print the text of this number
        #[arg(long, value_name = "VERSION")]
        show: Option<u64>,
    },
    #[command(after_help = BACK)]
    Back {
        #[command(flatten)]
        args: groups::back::Args,
        /// The CLAUDE.md that all groups share
        #[arg(long, required_unless_present = "folder", conflicts_with = "folder")]
        global: bool,
    },
    #[command(after_help = "Examples:\n  g2 groups restart main")]
    Restart(groups::restart::Args),
    #[command(after_help = RESTORED)]
    Restore(groups::restore::Args),
    #[command(after_help = RENEWED)]
    Renew(groups::renew::Args),
    #[command(after_help = REMOVED)]
    Remove {
        #[command(flatten)]
        args: groups::remove::Args,
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
            Self::Add(args) => change(context, args).await,
            Self::Show { folder } => {
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
            Self::Set { mut args, settings, yes } => {
                for text in &settings {
                    let (key, value) = setting(text)?;
                    let (key, value) = match server(&key, &value)? {
                        Some(lines) => (Key::Mcp, lines),
                        None => (Key::parse(&key).map_err(|unknown| of_key(&unknown))?, value),
                    };
                    match args.settings.entry(key) {
                        Entry::Occupied(mut known) if key == Key::Mcp => {
                            known.get_mut().push('\n');
                            known.get_mut().push_str(&value);
                        }
                        Entry::Occupied(mut known) => *known.get_mut() = value,
                        Entry::Vacant(free) => drop(free.insert(value)),
                    }
                }
                change(context, yes.to_do(context, store, args).await?).await
            }
            Self::Edit { folder, global: _, file } => {
                if let Some(folder) = &folder {
                    store.group(folder).await?.ok_or_else(|| none(folder))?;
                }
                drop(store);
                match file {
                    Some(file) => edit::from_file(context, folder, &file).await,
                    None => edit::run(context, folder).await,
                }
            }
            Self::History { folder, global: _, show } => {
                if let Some(folder) = &folder {
                    store.group(folder).await?.ok_or_else(|| none(folder))?;
                }
                history(context, folder.as_ref(), show)
            }
            Self::Back { args, global: _ } => change(context, args).await,
            Self::Restart(args) => change(context, args).await,
            Self::Restore(mut args) => {
                args.from = args.from.map(std::path::absolute).transpose().context("finding the backup")?;
                change(context, args).await
            }
            Self::Renew(args) => change(context, args).await,
            Self::Remove { args, yes } => {
                store.group(&args.folder).await?.ok_or_else(|| none(&args.folder))?;
                let folder = args.folder.clone();
                let op = yes.to_do(context, store, args).await?;
                show::answer(context, &removed(context, &folder, op).await?)
            }
        }
    }
}

/// Removes a group, and says what it waits for where that takes a while.
async fn removed(context: &Context, folder: &Folder, op: Op) -> Result<Answer, Failure> {
    let waits = format!("group {folder} is removed when its agent has left and its commands are settled");
    let removing = perform(context, op);
    tokio::pin!(removing);
    tokio::select! {
        biased;
        answer = &mut removing => return answer,
        () = tokio::time::sleep(SOON) => out::tell(format!("{waits}; an agent that does not leave is stopped")),
    }
    removing.await
}

/// Lists the texts that are kept of a memory, or prints one of them.
fn history(context: &Context, folder: Option<&Folder>, wanted: Option<u64>) -> CliResult {
    let Some(version) = wanted else {
        let kept = kept_memories(&context.root, folder).context("reading data/memories")?;
        return show::rows(context, &kept, &["version", "at", "is", "bytes"]);
    };
    let kept = kept_memory(&context.root, folder, version).context("reading data/memories")?;
    let (_, text) =
        kept.ok_or_else(|| OpError::not_found(format!("no CLAUDE.md is kept with the number {version}")))?;
    out::own_lines(&text)
}

fn of_key(unknown: &BadGroupConfig) -> OpError {
    OpError::invalid(unknown.to_string()).hint(unknown.hint())
}

/// Returns the lines of `mcp` that a setting stands for: `mcp.NAME=…` for one server, `mcp=@FILE` for all of a file.
fn server(key: &str, value: &str) -> Result<Option<String>, OpError> {
    if let Some(name) = key.strip_prefix("mcp.") {
        if name.contains([':', '\n']) || value.contains('\n') {
            return Err(OpError::invalid("mcp.NAME=VALUE is one line, and a name has no colon"));
        }
        return Ok(Some(format!("{name}: {value}")));
    }
    let Some(path) = value.strip_prefix('@').filter(|_| key == "mcp") else { return Ok(None) };
    let text = read_short(Path::new(path), tool_servers::LONGEST)
        .map_err(|error| OpError::invalid(format!("{path} can't be read: {error}")))?;
    Ok(Some(text))
}

/// Reads a file of the user's that has at most some bytes.
#[expect(clippy::disallowed_methods, reason = "a file that the user names")]
fn read_short(path: &Path, most: usize) -> io::Result<String> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    let mut text = String::new();
    let most = u64::try_from(most).unwrap_or(u64::MAX);
    if std::fs::File::open(path)?.take(most + 1).read_to_string(&mut text)? as u64 > most {
        return Err(io::Error::other(format!("it has more than {most} bytes")));
    }
    Ok(text)
}

fn none(folder: &Folder) -> OpError {
    OpError::not_found(format!("group {folder} does not exist"))
}
