//! `g2 chats`: facts about chats, and their policy for strangers.

use std::str::FromStr;

use clap::Subcommand;

use super::{CliResult, Context, client::change, filter::Rows, show, word::setting};
use crate::{
    domain::rows::ChatChanges,
    ops::{OpError, chats::refresh, people::set_chat},
};

const SETTINGS: &str = "\
Keys:
  policy    senders whom the group does not know are: strict (not heard), request_approval (not
            heard until an owner or admin says yes), public (heard)
  name      name for people
  kind      direct or group
  threaded  true if the platform divides the chat into threads, otherwise false

The channel overwrites name, kind and threaded with the next message or list of chats. It never
changes the policy.

Examples:
  g2 chats set local:main policy=strict
  g2 chats set local:main policy=public name=Home";

const REFRESH: &str = "\
Each account is asked once a day by itself, and at most once a minute. A chat that is not listed any
more stays. Telegram has no list of chats.

Examples:
  g2 chats refresh
  g2 chats refresh discord";

#[derive(Debug, Subcommand)]
pub(super) enum Chats {
    /// List chats from which a message came, to which a group is wired, or of which a platform told
    #[command(after_help = "Examples:\n  g2 chats list")]
    List {
        #[command(flatten)]
        rows: Rows,
    },
    #[command(after_help = REFRESH)]
    Refresh(refresh::Args),
    #[command(after_help = SETTINGS)]
    Set {
        #[command(flatten)]
        args: set_chat::Args,
        /// Settings to change; either all are changed or none
        #[arg(required = true, value_name = "KEY=VALUE")]
        settings: Vec<String>,
    },
}

impl Chats {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        match self {
            Self::List { rows } => {
                let chats = context.store()?.chats(rows.enough()).await?;
                show::rows(
                    context,
                    &rows.of(chats),
                    &["jid", "-channel", "~name", "kind", "-threaded", "unknown_sender_policy"],
                )
            }
            Self::Refresh(args) => change(context, args).await,
            Self::Set { mut args, settings } => {
                settings.iter().try_for_each(|text| set(&mut args.changes, text))?;
                change(context, args).await
            }
        }
    }
}

/// Reads `KEY=VALUE` of a chat. The last of several holds.
fn set(changes: &mut ChatChanges, text: &str) -> Result<(), OpError> {
    let (key, text) = setting(text)?;
    match key.as_str() {
        "policy" | "unknown_sender_policy" => {
            changes.policy = Some(one_of(&key, &text, "strict, request_approval or public")?);
        }
        "name" => changes.name = Some(text),
        "kind" => changes.kind = Some(one_of(&key, &text, "direct or group")?),
        "threaded" => changes.threaded = Some(one_of(&key, &text, "true or false")?),
        _ => {
            let known = "there are policy, kind, name and threaded";
            return Err(OpError::invalid(format!("a chat has no setting {key:?}")).hint(known));
        }
    }
    Ok(())
}

fn one_of<T: FromStr>(key: &str, text: &str, values: &str) -> Result<T, OpError> {
    text.parse().map_err(|_| OpError::invalid(format!("{key} can't be {text:?}: it is {values}")))
}
