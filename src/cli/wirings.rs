//! `g2 wirings`.

use anyhow::Context as _;
use clap::{Args, Subcommand};
use ipc_handlers::{
    Folder,
    effect::{EngageMode, IgnoredMessages, SenderScope},
};

use super::{
    CliResult, Context,
    client::perform,
    filter::{Rows, check_chat, check_group},
    show,
    word::{setting, value, word},
};
use crate::ops::{OpError, args::Jid, wirings};

const ADDED: &str = "\
Examples:
  g2 wirings add --group work --chat local:team --engage mention
  g2 wirings add --group work --chat local:alerts --pattern \"^(error|down)\" --ignored accumulate";

const SETTINGS: &str = "\
Keys:
  engage        pattern, mention or mention-sticky
  pattern       with engage=pattern: a JavaScript regular expression; . matches every message
  sender_scope  all, or known: only people whom the group knows wake the agent
  ignored       drop, or accumulate: keep messages that do not wake the agent as context for the
                next one that does

Examples:
  g2 wirings set --group main --chat local:main engage=mention
  g2 wirings set --group main --chat local:main engage=pattern pattern=. sender_scope=known";

#[derive(Debug, Subcommand)]
pub(super) enum Wirings {
    /// List all wirings
    #[command(after_help = "Examples:\n  g2 wirings list")]
    List {
        /// Only wirings of this group, by its folder
        #[arg(long)]
        group: Option<String>,
        /// Only wirings of this chat, by its address such as local:family
        #[arg(long, value_name = "JID")]
        chat: Option<String>,
        #[command(flatten)]
        rows: Rows,
    },
    /// Wire a chat to a group
    #[command(after_help = ADDED)]
    Add(Add),
    /// Change when a wiring wakes its agent
    #[command(after_help = SETTINGS)]
    Set {
        #[command(flatten)]
        which: Which,
        /// Settings to change; either all are changed or none
        #[arg(required = true, value_name = "KEY=VALUE")]
        settings: Vec<String>,
    },
    /// Let a `mention-sticky` agent wait until it is mentioned again
    #[command(after_help = "Examples:\n  g2 wirings unstick --group main --chat local:main")]
    Unstick {
        #[command(flatten)]
        which: Which,
        /// Only this thread; empty: only the chat itself [default: the chat and all its threads]
        #[arg(long)]
        thread: Option<String>,
    },
    /// Remove a wiring
    #[command(after_help = "Examples:\n  g2 wirings remove --group work --chat local:team")]
    Remove {
        #[command(flatten)]
        which: Which,
    },
}

#[derive(Debug, Args)]
pub(super) struct Which {
    /// Group, by its folder
    #[arg(long)]
    group: String,
    /// Chat, by its address such as local:family
    #[arg(long, value_name = "JID")]
    chat: Jid,
}

#[derive(Debug, Args)]
pub(super) struct Add {
    #[command(flatten)]
    which: Which,
    /// Messages that wake the agent: those that match --pattern, those that mention it, or a mention and then the whole
    /// thread [default: depends on the kind of chat]
    #[arg(long, value_name = "MODE", value_parser = word::<EngageMode>())]
    engage: Option<EngageMode>,
    /// With --engage pattern: a JavaScript regular expression; `.` matches every message [default: .]
    #[arg(long)]
    pattern: Option<String>,
    /// Senders who may wake the agent: all as the chat's policy says, or only people whom the group knows
    #[arg(long, value_name = "SCOPE", value_parser = word::<SenderScope>(), default_value_t = SenderScope::All)]
    sender_scope: SenderScope,
    /// Messages that do not wake the agent: dropped, or kept as context for the next one that does
    #[arg(long, value_name = "POLICY", value_parser = word::<IgnoredMessages>(), default_value_t = IgnoredMessages::Drop)]
    ignored: IgnoredMessages,
}

impl Wirings {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        match self {
            Self::List { group, chat, rows } => {
                let store = context.store()?;
                let wirings = store.newest_wirings(None).await?;
                let is =
                    |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|wanted| wanted == is);
                let wirings = rows
                    .that(wirings, |wiring| is(&group, wiring.group.as_str()) && is(&chat, &wiring.chat_jid));
                check_group(&store, &wirings, group.as_deref()).await?;
                check_chat(&store, &wirings, chat.as_deref()).await?;
                show::rows(
                    context,
                    &wirings,
                    &[
                        "group",
                        "chat_jid",
                        "engage_mode",
                        "~engage_pattern",
                        "-sender_scope",
                        "-ignored_message_policy",
                        "-sticky",
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
fn set(args: &mut wirings::set::Args, text: &str) -> Result<(), OpError> {
    let (key, text) = setting(text)?;
    match key.as_str() {
        "engage" | "engage_mode" => args.engage = Some(value(&key, &text)?),
        "pattern" | "engage_pattern" => args.pattern = Some(text),
        "sender_scope" => args.sender_scope = Some(value(&key, &text)?),
        "ignored" | "ignored_message_policy" => args.ignored = Some(value(&key, &text)?),
        other => {
            let known = "there are engage, pattern, sender_scope and ignored";
            return Err(OpError::invalid(format!("a wiring has no setting {other:?}")).hint(known));
        }
    }
    Ok(())
}
