//! `g2 groups`.

use anyhow::{Context as _, anyhow};
use clap::Subcommand;
use ipc_handlers::Folder;

use super::{
    Context, Outcome,
    client::{Client, tell_changed, tell_to_relaunch},
    jid, show,
};
use crate::{
    app, clock,
    loops::control::Request,
    store::{NewGroup, NewWiring, channel_of},
};

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
        /// A name for people; by default the folder
        #[arg(long)]
        name: Option<String>,
        /// What a message starts with to mention it; by default @ and the assistant's name
        #[arg(long)]
        trigger: Option<String>,
        /// Make it the privileged group
        #[arg(long)]
        main: bool,
    },
    /// One group
    Show { folder: String },
    /// Change name, trigger, provider, script or image
    Set {
        folder: String,
        #[arg(required = true, value_name = "KEY=VALUE")]
        settings: Vec<String>,
    },
    /// Remove a group with its mailbox: its run leaves, its commands are settled first; its folder stays
    Remove { folder: String },
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
                let wiring = wiring_for(&folder, &chat, main);
                let trigger = trigger.unwrap_or_else(|| format!("@{}", config.assistant_name));
                let name = name.unwrap_or_else(|| folder.to_string());
                let group = NewGroup { folder: folder.clone(), name, is_main: main, trigger };
                store.add_group(group, vec![wiring], clock::now()).await?;
                crate::ipc::lay_out_group(&context.root, &folder, app::box_owner())
                    .context("making the group's folder")?;
                tell_changed(context, Some(&folder)).await;
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
                for (key, value) in &settings {
                    store.set_group(folder.clone(), key, value).await?;
                }
                // What a run is launched with can't be changed while it lives.
                if settings.iter().any(|(key, _)| ["provider", "script", "image"].contains(key)) {
                    tell_to_relaunch(context, &folder).await;
                } else {
                    tell_changed(context, Some(&folder)).await;
                }
                show::done(context, &format!("group {folder} is changed"))
            }
            Self::Remove { folder } => {
                let folder = Folder::parse(&folder).context("removing a group")?;
                if store.group(&folder)?.is_none() {
                    return Err(anyhow!("group {folder} does not exist").into());
                }
                drop(store);
                match Client::connect(&context.root).await {
                    Some(mut client) => {
                        drop(client.call(&Request::RemoveGroup { folder: folder.clone() }).await?)
                    }
                    None => app::remove_group(&context.root, &folder).await?,
                }
                show::done(context, &format!("group {folder} is removed; groups/{folder} stays"))
            }
        }
    }
}

/// Reads `KEY=VALUE` of a group.
fn setting(text: &str) -> anyhow::Result<(&str, &str)> {
    let (key, value) = text.split_once('=').ok_or_else(|| anyhow!("{text:?} is no KEY=VALUE"))?;
    match (key, value) {
        (unknown, _) if !["name", "trigger", "provider", "script", "image"].contains(&unknown) => {
            Err(anyhow!(
                "a group has no setting {unknown:?}; there are name, trigger, provider, script and image"
            ))
        }
        ("name" | "trigger", "") => Err(anyhow!("a group's {key} can't be empty")),
        ("provider", other) if !["", "scripted"].contains(&other) => {
            Err(anyhow!("provider can't be {other:?}: this build drives the scripted agent only"))
        }
        _ => Ok((key, value)),
    }
}

/// How a new group engages in its chat: in a direct one, and as the main group, on every message; else when mentioned.
fn wiring_for(folder: &Folder, chat: &str, main: bool) -> NewWiring {
    let always = main || channel_of(chat) == "local";
    NewWiring {
        group: folder.clone(),
        chat_jid: chat.to_owned(),
        engage_mode: if always { "pattern".into() } else { "mention".into() },
        engage_pattern: always.then(|| ".".into()),
        sender_scope: "all".into(),
        ignored_message_policy: if always { "drop".into() } else { "accumulate".into() },
    }
}
