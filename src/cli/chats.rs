//! `g2 chats`: what is known of chats, and what becomes of strangers there.

use anyhow::anyhow;
use clap::Subcommand;

use super::{Context, Outcome, client::tell_changed, jid, show};

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
        #[arg(long)]
        limit: Option<usize>,
    },
    /// Change what is known of a chat, or what becomes of strangers there
    #[command(after_help = SETTINGS)]
    Set {
        #[arg(value_parser = jid)]
        chat: String,
        #[arg(required = true, value_name = "KEY=VALUE")]
        settings: Vec<String>,
    },
}

impl Chats {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let store = context.store()?;
        match self {
            Self::List { limit } => {
                let mut chats = store.chats()?;
                chats.truncate(limit.unwrap_or(usize::MAX));
                show::rows(
                    context,
                    &chats,
                    &["jid", "channel", "name", "kind", "threaded", "unknown_sender_policy"],
                )
            }
            Self::Set { chat, settings } => {
                let settings = settings.iter().map(|text| setting(text)).collect::<anyhow::Result<_>>()?;
                store.set_chat(&chat, settings).await?;
                // Agents are shown the names of chats.
                tell_changed(context, None).await;
                show::done(context, &format!("chat {chat} is changed"))
            }
        }
    }
}

fn setting(text: &str) -> anyhow::Result<(String, String)> {
    let (key, value) = text.split_once('=').ok_or_else(|| anyhow!("{text:?} is no KEY=VALUE"))?;
    Ok((key.to_owned(), value.to_owned()))
}
