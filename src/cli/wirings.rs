//! `g2 wirings`.

use anyhow::{Context as _, anyhow, bail};
use clap::{Args, Subcommand};
use ipc_handlers::{
    Folder,
    effect::{EngageMode, IgnoredMessages, SenderScope},
};

use super::{
    Context, Outcome, client::tell_changed, filter::tell_unserved, groups::default_mode, jid, out, show,
    word::word,
};
use crate::{
    clock,
    domain::{engage::takes_everything, js_regex::Pattern},
    store::{NewWiring, Store, StoreError},
};

#[derive(Debug, Subcommand)]
pub(super) enum Wirings {
    /// Every wiring
    List {
        #[arg(long)]
        limit: Option<usize>,
    },
    /// Wire a chat to a group
    Add(Add),
    /// Change engage, pattern, sender_scope or ignored
    Set {
        #[command(flatten)]
        which: Which,
        #[arg(required = true, value_name = "KEY=VALUE")]
        settings: Vec<String>,
    },
    /// Have a `mention-sticky` agent wait until it is addressed again
    Unstick {
        #[command(flatten)]
        which: Which,
        /// In this thread only
        #[arg(long)]
        thread: Option<String>,
    },
    /// Remove a wiring
    Remove {
        #[command(flatten)]
        which: Which,
    },
}

#[derive(Debug, Args)]
pub(super) struct Which {
    #[arg(long)]
    group: String,
    #[arg(long, value_name = "JID", value_parser = jid)]
    chat: String,
}

#[derive(Debug, Args)]
pub(super) struct Add {
    #[command(flatten)]
    which: Which,
    /// When it engages; by default as fits the kind of the chat
    #[arg(long, value_name = "MODE", value_parser = word::<EngageMode>())]
    engage: Option<EngageMode>,
    /// With `--engage pattern`: a JavaScript regular expression; `.` is every message
    #[arg(long)]
    pattern: Option<String>,
    #[arg(long, value_parser = word::<SenderScope>(), default_value_t = SenderScope::All)]
    sender_scope: SenderScope,
    /// What happens to messages that don't engage
    #[arg(long, value_parser = word::<IgnoredMessages>(), default_value_t = IgnoredMessages::Drop)]
    ignored: IgnoredMessages,
}

impl Wirings {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let store = context.store()?;
        match self {
            Self::List { limit } => {
                let mut wirings = store.wirings()?;
                wirings.truncate(limit.unwrap_or(usize::MAX));
                show::rows(
                    context,
                    &wirings,
                    &[
                        "group",
                        "chat_jid",
                        "engage_mode",
                        "engage_pattern",
                        "sender_scope",
                        "ignored_message_policy",
                        "sticky",
                    ],
                )
            }
            Self::Add(add) => {
                let wiring = new_wiring(&store, add)?;
                let said = format!("group {} is wired to {}", wiring.group, wiring.chat_jid);
                check_pattern(wiring.engage_pattern.as_deref())?;
                let (group, chat) = (wiring.group.clone(), wiring.chat_jid.clone());
                store.add_wiring(wiring, clock::now()).await?;
                warn_of_two(&store, &group, &chat)?;
                tell_unserved(&chat);
                tell_changed(context, Some(&group)).await;
                show::done(context, &said)
            }
            Self::Set { which, settings } => {
                let group = Folder::parse(&which.group).context("changing a wiring")?;
                let settings: Vec<(&str, &str)> = settings
                    .iter()
                    .map(|setting| {
                        setting.split_once('=').ok_or_else(|| anyhow!("{setting:?} is no KEY=VALUE"))
                    })
                    .collect::<anyhow::Result<_>>()?;
                let wirings = store.wirings()?;
                if let Some(now) = wirings.iter().find(|w| w.group == group && w.chat_jid == which.chat) {
                    needs_pattern_mode(now.engage_mode, &settings)?;
                }
                for (key, value) in &settings {
                    check_pattern(["pattern", "engage_pattern"].contains(key).then_some(*value))?;
                }
                let settings =
                    settings.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
                store.set_wiring(group.clone(), &which.chat, settings).await?;
                warn_of_two(&store, &group, &which.chat)?;
                tell_changed(context, Some(&group)).await;
                show::done(context, &format!("the wiring of {group} to {} is changed", which.chat))
            }
            Self::Unstick { which, thread } => {
                let group = Folder::parse(&which.group).context("changing a wiring")?;
                if !store.wirings()?.iter().any(|w| w.group == group && w.chat_jid == which.chat) {
                    return Err(anyhow!(
                        "group {group} is not wired to {}; see `g2 wirings list`",
                        which.chat
                    )
                    .into());
                }
                let marks = store.unstick(group.clone(), &which.chat, thread).await?;
                let said = match marks {
                    0 => format!("group {group} was waiting to be addressed already"),
                    _ => format!("group {group} waits until it is addressed again ({marks} threads)"),
                };
                show::done(context, &said)
            }
            Self::Remove { which } => {
                let group = Folder::parse(&which.group).context("removing a wiring")?;
                store.remove_wiring(group.clone(), &which.chat).await?;
                tell_changed(context, Some(&group)).await;
                show::done(context, &format!("group {group} is no longer wired to {}", which.chat))
            }
        }
    }
}

/// Refuses a pattern for a wiring that, with all of these settings, does not engage by one.
fn needs_pattern_mode(mode: EngageMode, settings: &[(&str, &str)]) -> anyhow::Result<()> {
    let last = |names: [&str; 2]| settings.iter().rev().find(|(key, _)| names.contains(key)).map(|(_, v)| *v);
    let mode = last(["engage", "engage_mode"]).unwrap_or(mode.as_str());
    if mode != EngageMode::Pattern.as_str() && last(["pattern", "engage_pattern"]).is_some() {
        bail!("a wiring with engage={mode} has no pattern; set both: engage=pattern pattern=P");
    }
    Ok(())
}

/// Refuses a pattern that can't be used. Only one that was stored by an older program engages all the same, on everything.
fn check_pattern(pattern: Option<&str>) -> anyhow::Result<()> {
    match pattern.map(Pattern::compile) {
        Some(Err(why)) => bail!("{why}; nothing is changed"),
        Some(Ok(_)) | None => Ok(()),
    }
}

/// Two groups that take every message of a chat answer each one twice.
pub(super) fn warn_of_two(store: &Store, group: &Folder, chat: &str) -> Result<(), StoreError> {
    let all: Vec<String> = store
        .wirings()?
        .into_iter()
        .filter(|w| w.chat_jid == chat && takes_everything(w.engage_pattern.as_deref()))
        .map(|w| w.group.to_string())
        .collect();
    if all.len() > 1 && all.iter().any(|g| g == group.as_str()) {
        out::tell(format!(
            "{} engage on every message of {chat}: each message is answered {} times; change one with `g2 wirings set … engage=mention`",
            all.join(" and "),
            all.len()
        ));
    }
    Ok(())
}

fn new_wiring(store: &Store, add: Add) -> anyhow::Result<NewWiring> {
    let (engage_mode, engage_pattern) = match (add.engage, add.pattern) {
        (Some(EngageMode::Pattern) | None, Some(pattern)) => (EngageMode::Pattern, Some(pattern)),
        (Some(EngageMode::Pattern), None) => (EngageMode::Pattern, Some(".".to_owned())),
        (Some(mode @ (EngageMode::Mention | EngageMode::MentionSticky)), None) => (mode, None),
        (Some(EngageMode::Mention | EngageMode::MentionSticky), Some(_)) => {
            bail!("--pattern goes with --engage pattern")
        }
        (None, None) => default_mode(&add.which.chat, store.chat(&add.which.chat)?.as_ref()).columns(),
    };
    Ok(NewWiring {
        group: Folder::parse(&add.which.group).context("adding a wiring")?,
        chat_jid: add.which.chat,
        engage_mode,
        engage_pattern,
        sender_scope: add.sender_scope,
        ignored_message_policy: add.ignored,
    })
}
