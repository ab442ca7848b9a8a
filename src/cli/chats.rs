//! `g2 chats`: what is known of chats, and what becomes of strangers there.

use std::str::FromStr;

use anyhow::{anyhow, bail};
use clap::Subcommand;

use super::{Context, Outcome, client::perform, show, word::setting};
use crate::ops::{args::Jid, people::set_chat};

const SETTINGS: &str = "\
Keys:
  policy    what becomes of senders whom a group does not know: strict (not heard), request_approval (somebody is
            asked), public (heard)
  name      for people
  kind      direct or group
  threaded  whether the platform divides it into threads: true or false

What its channel says of name, kind and threads is taken in with the next message; a policy is yours alone.";

#[derive(Debug, Subcommand)]
pub(super) enum Chats {
    /// Every chat that somebody has spoken in or a group is wired to
    List {
        /// Show only the newest N
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
    },
    /// Change what is known of a chat, or what becomes of strangers there
    #[command(after_help = SETTINGS)]
    Set {
        chat: Jid,
        #[arg(required = true, value_name = "KEY=VALUE")]
        settings: Vec<String>,
    },
}

impl Chats {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        match self {
            Self::List { limit } => {
                let chats = context.store()?.chats(limit).await?;
                show::rows(
                    context,
                    &chats,
                    &["jid", "channel", "name", "kind", "threaded", "unknown_sender_policy"],
                )
            }
            Self::Set { chat, settings } => {
                let mut args = set_chat::Args { chat, policy: None, name: None, kind: None, threaded: None };
                settings.iter().try_for_each(|text| set(&mut args, text))?;
                show::answer(context, &perform(context, args).await?)
            }
        }
    }
}

/// Reads `KEY=VALUE` of a chat. The last of several holds.
fn set(args: &mut set_chat::Args, text: &str) -> anyhow::Result<()> {
    let (key, text) = setting(text)?;
    match key.as_str() {
        "policy" | "unknown_sender_policy" => {
            args.policy = Some(one_of(&key, &text, "strict, request_approval or public")?);
        }
        "name" => args.name = Some(text),
        "kind" => args.kind = Some(one_of(&key, &text, "direct or group")?),
        "threaded" => args.threaded = Some(one_of(&key, &text, "true or false")?),
        _ => bail!("a chat has no setting {key:?}; there are policy, kind, name and threaded"),
    }
    Ok(())
}

fn one_of<T: FromStr>(key: &str, text: &str, values: &str) -> anyhow::Result<T> {
    text.parse().map_err(|_| anyhow!("{key} can't be {text:?}: it is {values}"))
}
