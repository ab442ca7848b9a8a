//! `g2 web`: the operator's page.

use clap::Subcommand;

use super::{
    CliResult, Context,
    client::{Client, perform},
    out, show,
};
use crate::{
    ops::{
        OpError,
        web::{open, revoke},
    },
    system::clock,
};

const OPENED: &str = "\
The address is good once, for a minute. The browser that opens it is let in for 12 hours.

Examples:
  g2 web open";

const REVOKED: &str = "\
Examples:
  g2 web sessions revoke 3
  g2 web sessions revoke --all";

#[derive(Debug, Subcommand)]
pub(super) enum Web {
    /// Print an address that lets a browser in at the page
    #[command(after_help = OPENED)]
    Open,
    /// Sessions of the page: list, end
    #[command(subcommand)]
    Sessions(Sessions),
}

#[derive(Debug, Subcommand)]
pub(super) enum Sessions {
    /// List sessions and unused tickets
    #[command(after_help = "Examples:\n  g2 web sessions list")]
    List,
    /// End a session: its browser is let in no more
    #[command(after_help = REVOKED)]
    Revoke {
        /// Number of the session, as `g2 web sessions list` shows it
        #[arg(required_unless_present = "all")]
        id: Option<i64>,
        /// End all sessions
        #[arg(long, conflicts_with = "id")]
        all: bool,
    },
}

impl Web {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        match self {
            Self::Open => open(context).await,
            Self::Sessions(Sessions::List) => {
                let rows = context.store()?.web_sessions(clock::now())?;
                show::rows(
                    context,
                    &rows,
                    &["id", "opened_by", "made_at", "entered_at", "ends_at", "browser"],
                )
            }
            Self::Sessions(Sessions::Revoke { id, all: _ }) => {
                show::answer(context, &perform(context, revoke::Args { id }).await?)
            }
        }
    }
}

async fn open(context: &Context) -> CliResult {
    // Without a daemon there is no page.
    drop(Client::needed(context).await?);
    let page = Client::status(&context.root).await.ok().and_then(|status| status.page);
    let Some(address) = page else {
        let config = context.config()?;
        let (why, hint) = match config.web.listen {
            None => (
                "the page is off".to_owned(),
                "`g2 config set web.listen 127.0.0.1:4747`, then start the daemon anew",
            ),
            Some(at) => (
                format!("the daemon does not serve the page at {at}"),
                "start it anew if g2.toml was changed since its start; its log says why it can't listen there",
            ),
        };
        return Err(OpError::refused(why).hint(hint).into());
    };
    let answer = perform(context, open::Args {}).await?;
    let ticket = answer.row["ticket"].as_str().unwrap_or_default();
    let url = format!("{address}/enter/{ticket}");
    if context.json {
        return out::json(serde_json::json!({
            "id": answer.row["id"], "url": url, "ends_at": answer.row["ends_at"],
        }));
    }
    out::line(url)
}
