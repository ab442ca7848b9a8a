//! `g2 groups`.

use anyhow::{Context as _, anyhow};
use clap::Subcommand;
use ipc_handlers::{
    Folder,
    effect::{IgnoredMessages, SenderScope},
    seen::is_seen,
};

use super::{
    Context, Outcome,
    client::{Client, lay_out, tell_changed, tell_to_relaunch},
    confirm::Yes,
    filter::tell_unserved,
    jid, show,
    wirings::warn_of_two,
};
use crate::{
    app, clock,
    domain::{
        addresses::kind_of,
        engage::{ChatKind, Engages, default_for},
        group_config::{BadGroupConfig, COLUMNS, KEYS},
        rows::{Chat, Group},
        run_settings::Provider,
        zone::suggestion,
    },
    loops::control::Request,
    store::{NewGroup, NewWiring, Store},
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
        #[arg(long)]
        limit: Option<usize>,
    },
    /// Add a group and wire a chat to it
    Add {
        /// Its folder under groups/, and its name in every command
        folder: String,
        /// The chat it answers in, such as local:family
        #[arg(long, value_name = "JID", value_parser = jid)]
        chat: String,
        /// A name for people, which no other group has; by default the folder
        #[arg(long)]
        name: Option<String>,
        /// What a message starts with to mention it; by default @ and the assistant's name
        #[arg(long, value_parser = trigger_text)]
        trigger: Option<String>,
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
                let mut groups = store.groups()?;
                groups.truncate(limit.unwrap_or(usize::MAX));
                show::rows(context, &groups, &["folder", "name", "is_main", "trigger", "provider", "chats"])
            }
            Self::Add { folder, chat, name, trigger, main } => {
                let config = context.config()?;
                let folder = Folder::parse(&folder).context("adding a group")?;
                let wiring = wiring_for(&folder, &chat, main, store.chat(&chat)?.as_ref());
                let trigger = trigger.unwrap_or_else(|| format!("@{}", config.assistant_name));
                let name = name.unwrap_or_else(|| folder.to_string());
                let group = NewGroup { folder: folder.clone(), name, is_main: main, trigger };
                store.add_group(group, vec![wiring], clock::now()).await?;
                warn_of_two(&store, &folder, &chat)?;
                tell_unserved(&chat);
                lay_out(context, &folder).await?;
                show::done(context, &format!("group {folder} answers in {chat}"))
            }
            Self::Show { folder } => {
                let folder = Folder::parse(&folder).context("showing a group")?;
                let group = store.group(&folder)?.ok_or_else(|| anyhow!("group {folder} does not exist"))?;
                show::object(context, &group)
            }
            Self::Set { folder, settings } => {
                let folder = Folder::parse(&folder).context("changing a group")?;
                let settings =
                    settings.iter().map(|text| setting(text)).collect::<anyhow::Result<Vec<_>>>()?;
                let group = store.group(&folder)?.ok_or_else(|| anyhow!("group {folder} does not exist"))?;
                fits(context, &group, &settings)?;
                let moves = settings.iter().any(|(key, _)| key == "timezone");
                let zones = moves.then(|| context.config().map(|config| config.zones)).transpose()?;
                let relaunch = settings.iter().any(|(key, _)| !["name", "trigger"].contains(&key.as_str()));
                store.set_group(folder.clone(), settings, zones, clock::now()).await?;
                // What a run is launched with can't be changed while it lives.
                if relaunch {
                    tell_to_relaunch(context, &folder).await;
                } else {
                    tell_changed(context, Some(&folder)).await;
                }
                show::done(context, &format!("group {folder} is changed"))
            }
            Self::Remove { folder, yes } => {
                let folder = Folder::parse(&folder).context("removing a group")?;
                let group = store.group(&folder)?.ok_or_else(|| anyhow!("group {folder} does not exist"))?;
                yes.to(&loss(&store, &group)?)?;
                drop(store);
                match Client::connect(&context.root).await {
                    Ok(mut client) => {
                        drop(client.call(&Request::RemoveGroup { folder: folder.clone() }).await?)
                    }
                    // Where a daemon holds the root all the same, this says so.
                    Err(_) => app::remove_group(&context.root, &folder).await?,
                }
                show::done(context, &format!("group {folder} is removed; groups/{folder} stays"))
            }
        }
    }
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

/// Reads what a message starts with to mention a group.
fn trigger_text(text: &str) -> Result<String, String> {
    match is_seen(text) {
        true => Ok(text.to_owned()),
        false => Err(format!("a trigger shows something, and holds nothing that is not seen: {text:?}")),
    }
}

/// Reads `KEY=VALUE` of a group.
fn setting(text: &str) -> anyhow::Result<(String, String)> {
    let (key, value) = text.split_once('=').ok_or_else(|| anyhow!("{text:?} is no KEY=VALUE"))?;
    match (key, value) {
        (unknown, _) if !KEYS.contains(&unknown) => {
            return Err(BadGroupConfig::UnknownKey(unknown.to_owned()).into());
        }
        ("name" | "trigger", "") => return Err(anyhow!("a group's {key} can't be empty")),
        ("trigger", text) => drop(trigger_text(text).map_err(|why| anyhow!(why))?),
        ("provider", name) if !name.is_empty() => {
            Provider::parse(name).map_err(|why| anyhow!("provider can't be {name:?}: {why}"))?;
        }
        ("timezone", name) if !name.is_empty() && crate::config::zone_data().get(name).is_none() => {
            let meant = suggestion(name).map(|zone| format!("; did you mean {zone}?")).unwrap_or_default();
            return Err(anyhow!("timezone can't be {name:?}: there is no such zone{meant}"));
        }
        _ => {}
    }
    Ok((key.to_owned(), value.to_owned()))
}

/// Whether the group can be launched with these settings on top of its own and of everybody's.
fn fits(context: &Context, group: &Group, settings: &[(String, String)]) -> anyhow::Result<()> {
    let config = settings
        .iter()
        .filter(|(key, _)| !COLUMNS.contains(&key.as_str()))
        .try_fold(group.config(), |config, (key, value)| {
            Ok::<_, BadGroupConfig>(config?.with(key, value))
        })??;
    // Settings that can't be read are told by whatever needs them.
    if let Ok(all) = context.config() {
        all.run_settings().of(None, None, &config)?;
    }
    Ok(())
}

/// How a new group engages in its chat: as the main group on every message, else as fits the kind of the chat.
fn wiring_for(folder: &Folder, chat: &str, main: bool, known: Option<&Chat>) -> NewWiring {
    let mode = if main { Engages::Pattern(".".into()) } else { default_mode(chat, known) };
    let (engage_mode, engage_pattern) = mode.columns();
    NewWiring {
        group: folder.clone(),
        chat_jid: chat.to_owned(),
        ignored_message_policy: if engage_pattern.is_some() {
            IgnoredMessages::Drop
        } else {
            IgnoredMessages::Accumulate
        },
        engage_mode,
        engage_pattern,
        sender_scope: SenderScope::All,
    }
}

/// When a wiring engages that was made without saying so.
pub(super) fn default_mode(chat: &str, known: Option<&Chat>) -> Engages {
    let kind = known.map_or(kind_of(chat), |chat| chat.kind);
    let kind = ChatKind::of_columns(kind, known.is_some_and(|chat| chat.threaded));
    default_for(kind).0
}
