//! `g2 wirings`.

use clap::Subcommand;
use ipc_handlers::Folder;

use super::{
    CliResult, Context,
    client::change,
    filter::{Rows, check_chat, check_group},
    show,
    word::{setting, value},
};
use crate::{
    domain::rows::WiringChanges,
    ops::{OpError, wirings},
};

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
        group: Option<Folder>,
        /// Only wirings of this chat, by its address such as local:family
        #[arg(long, value_name = "JID")]
        chat: Option<String>,
        #[command(flatten)]
        rows: Rows,
    },
    #[command(after_help = ADDED)]
    Add(wirings::add::Args),
    #[command(after_help = SETTINGS)]
    Set {
        #[command(flatten)]
        args: wirings::set::Args,
        /// Settings to change; either all are changed or none
        #[arg(required = true, value_name = "KEY=VALUE")]
        settings: Vec<String>,
    },
    #[command(after_help = "Examples:\n  g2 wirings unstick --group main --chat local:main")]
    Unstick(wirings::unstick::Args),
    #[command(after_help = "Examples:\n  g2 wirings remove --group work --chat local:team")]
    Remove(wirings::remove::Args),
}

impl Wirings {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        match self {
            Self::List { group, chat, rows } => {
                let store = context.store()?;
                let wirings = store.newest_wirings(None).await?;
                let wirings = rows.that(wirings, |wiring| {
                    group.as_ref().is_none_or(|group| wiring.group == *group)
                        && chat.as_ref().is_none_or(|chat| wiring.chat_jid == *chat)
                });
                check_group(&store, &wirings, group.as_ref()).await?;
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
            Self::Add(args) => change(context, args).await,
            Self::Set { mut args, settings } => {
                settings.iter().try_for_each(|text| set(&mut args.changes, text))?;
                change(context, args).await
            }
            Self::Unstick(args) => change(context, args).await,
            Self::Remove(args) => change(context, args).await,
        }
    }
}

/// Reads `KEY=VALUE` of a wiring. The last of several holds.
fn set(changes: &mut WiringChanges, text: &str) -> Result<(), OpError> {
    let (key, text) = setting(text)?;
    match key.as_str() {
        "engage" | "engage_mode" => changes.engage = Some(value(&key, &text)?),
        "pattern" | "engage_pattern" => changes.pattern = Some(text),
        "sender_scope" => changes.sender_scope = Some(value(&key, &text)?),
        "ignored" | "ignored_message_policy" => changes.ignored = Some(value(&key, &text)?),
        other => {
            let known = "there are engage, pattern, sender_scope and ignored";
            return Err(OpError::invalid(format!("a wiring has no setting {other:?}")).hint(known));
        }
    }
    Ok(())
}
