//! `g2 wirings`.

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use ipc_handlers::{
    Folder,
    effect::{EngageMode, IgnoredMessages, SenderScope},
};

use super::{
    Context, Outcome,
    client::perform,
    show,
    word::{setting, value, word},
};
use crate::ops::{args::Jid, wirings};

#[derive(Debug, Subcommand)]
pub(super) enum Wirings {
    /// Every wiring
    List {
        /// Show only the newest N
        #[arg(long, value_name = "N")]
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
    #[arg(long, value_name = "JID")]
    chat: Jid,
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
        match self {
            Self::List { limit } => {
                let wirings = context.store()?.newest_wirings(limit).await?;
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
                let Add { which, engage, pattern, sender_scope, ignored } = add;
                let (group, chat) = which.named("adding a wiring")?;
                let args = wirings::add::Args { group, chat, engage, pattern, sender_scope, ignored };
                show::answer(context, &perform(context, args).await?)
            }
            Self::Set { which, settings } => {
                let (group, chat) = which.named("changing a wiring")?;
                let mut args = wirings::set::Args {
                    group,
                    chat,
                    engage: None,
                    pattern: None,
                    sender_scope: None,
                    ignored: None,
                };
                settings.iter().try_for_each(|text| set(&mut args, text))?;
                show::answer(context, &perform(context, args).await?)
            }
            Self::Unstick { which, thread } => {
                let (group, chat) = which.named("changing a wiring")?;
                let args = wirings::unstick::Args { group, chat, thread };
                show::answer(context, &perform(context, args).await?)
            }
            Self::Remove { which } => {
                let (group, chat) = which.named("removing a wiring")?;
                show::answer(context, &perform(context, wirings::remove::Args { group, chat }).await?)
            }
        }
    }
}

impl Which {
    fn named(self, doing: &'static str) -> anyhow::Result<(Folder, Jid)> {
        Ok((Folder::parse(&self.group).context(doing)?, self.chat))
    }
}

/// Reads `KEY=VALUE` of a wiring. The last of several holds.
fn set(args: &mut wirings::set::Args, text: &str) -> anyhow::Result<()> {
    let (key, text) = setting(text)?;
    match key.as_str() {
        "engage" | "engage_mode" => args.engage = Some(value(&key, &text)?),
        "pattern" | "engage_pattern" => args.pattern = Some(text),
        "sender_scope" => args.sender_scope = Some(value(&key, &text)?),
        "ignored" | "ignored_message_policy" => args.ignored = Some(value(&key, &text)?),
        other => {
            bail!("a wiring has no setting {other:?}; there are engage, pattern, sender_scope and ignored")
        }
    }
    Ok(())
}
