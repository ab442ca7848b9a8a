//! `g2 wirings`.

use anyhow::{Context as _, anyhow, bail};
use clap::{Args, Subcommand, ValueEnum};
use ipc_handlers::Folder;

use super::{Context, Outcome, client::tell_changed, jid, show};
use crate::{clock, domain::js_regex::Pattern, store::NewWiring};

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
    /// When it engages
    #[arg(long, value_enum)]
    engage: Mode,
    /// With `--engage pattern`: a JavaScript regular expression; `.` is every message
    #[arg(long)]
    pattern: Option<String>,
    #[arg(long, value_enum, default_value_t = Scope::All)]
    sender_scope: Scope,
    /// What happens to messages that don't engage
    #[arg(long, value_enum, default_value_t = Ignored::Drop)]
    ignored: Ignored,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    Pattern,
    Mention,
    MentionSticky,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Scope {
    All,
    Known,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Ignored {
    Drop,
    Accumulate,
}

fn name<T: ValueEnum>(value: T) -> String {
    value.to_possible_value().map(|v| v.get_name().to_owned()).unwrap_or_default()
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
                    ],
                )
            }
            Self::Add(add) => {
                let wiring = new_wiring(add)?;
                let said = format!("group {} is wired to {}", wiring.group, wiring.chat_jid);
                warn_of_pattern(wiring.engage_pattern.as_deref());
                let (chat, catches_all) =
                    (wiring.chat_jid.clone(), wiring.engage_pattern.as_deref() == Some("."));
                let group = wiring.group.clone();
                store.add_wiring(wiring, clock::now()).await?;
                let others = store
                    .wirings()?
                    .iter()
                    .filter(|w| w.chat_jid == chat && w.engage_pattern.as_deref() == Some("."))
                    .count();
                if catches_all && others > 1 {
                    eprintln!(
                        "g2: {others} groups engage on every message of {chat}: each message is answered {others} times"
                    );
                }
                tell_changed(context, Some(&group)).await;
                show::done(context, &said)
            }
            Self::Set { which, settings } => {
                let group = Folder::parse(&which.group).context("changing a wiring")?;
                for setting in settings {
                    let (key, value) =
                        setting.split_once('=').ok_or_else(|| anyhow!("{setting:?} is no KEY=VALUE"))?;
                    warn_of_pattern(["pattern", "engage_pattern"].contains(&key).then_some(value));
                    store.set_wiring(group.clone(), &which.chat, key, value).await?;
                }
                tell_changed(context, Some(&group)).await;
                show::done(context, &format!("the wiring of {group} to {} is changed", which.chat))
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

/// A pattern that can't be used is taken all the same, as it was in v1: it engages on everything.
fn warn_of_pattern(pattern: Option<&str>) {
    if let Some(Err(why)) = pattern.map(Pattern::compile) {
        eprintln!("g2: every message engages: {why}; set another one with `g2 wirings set … pattern=P`");
    }
}

fn new_wiring(add: Add) -> anyhow::Result<NewWiring> {
    let pattern = match (add.engage, add.pattern) {
        (Mode::Pattern, pattern) => Some(pattern.unwrap_or_else(|| ".".into())),
        (Mode::Mention | Mode::MentionSticky, None) => None,
        (Mode::Mention | Mode::MentionSticky, Some(_)) => bail!("--pattern goes with --engage pattern"),
    };
    Ok(NewWiring {
        group: Folder::parse(&add.which.group).context("adding a wiring")?,
        chat_jid: add.which.chat,
        engage_mode: name(add.engage),
        engage_pattern: pattern,
        sender_scope: name(add.sender_scope),
        ignored_message_policy: name(add.ignored),
    })
}
