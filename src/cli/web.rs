//! `g2 web`: the operator's page.

use clap::Subcommand;

use super::{
    CliResult, Context,
    client::{Client, change, perform},
    out, show,
};
use crate::ops::{
    OpError,
    web::{add_token, open, revoke, revoke_token},
};

const OPENED: &str = "\
The address is good once, for a minute. The browser that opens it is let in for 12 hours.

Examples:
  g2 web open";

const REVOKED: &str = "\
Examples:
  g2 web sessions revoke 3
  g2 web sessions revoke --all";

const TOKEN_ADDED: &str = "\
The token is printed once, and is nowhere to be read afterwards.

Purposes:
  metrics  reads the figures at /metrics, and nothing else
  operate  reads them, and asks at /api/op for operations that keep the work going: run, pause, resume, stop, retry,
           hold, release, give up, restart. It makes, connects and removes nothing, and changes no setting

`g2 ops schema` names the operations that a token may ask for.

Examples:
  (umask 077; g2 web tokens add prometheus --purpose metrics > prometheus.token)
  g2 web tokens add ci --purpose operate";

#[derive(Debug, Subcommand)]
pub(super) enum Web {
    /// Print an address that lets a browser in at the page
    #[command(after_help = OPENED)]
    Open,
    /// Sessions of the page: list, end
    #[command(subcommand)]
    Sessions(Sessions),
    /// Tokens of programs, each for one purpose: make, list, end
    #[command(subcommand)]
    Tokens(Tokens),
}

#[derive(Debug, Subcommand)]
pub(super) enum Sessions {
    /// List sessions and unused tickets
    #[command(after_help = "Examples:\n  g2 web sessions list")]
    List,
    #[command(after_help = REVOKED)]
    Revoke {
        #[command(flatten)]
        args: revoke::Args,
        /// End all sessions
        #[arg(long, conflicts_with = "id")]
        all: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum Tokens {
    #[command(after_help = TOKEN_ADDED)]
    Add(add_token::Args),
    /// List tokens: purpose, author, and when each was used last, to within 10 minutes
    #[command(
        after_help = "The token `web.token` is the one in data/web.token.\n\nExamples:\n  g2 web tokens list"
    )]
    List,
    #[command(after_help = "Examples:\n  g2 web tokens revoke ci")]
    Revoke(revoke_token::Args),
}

impl Web {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        match self {
            Self::Open => open(context).await,
            Self::Sessions(Sessions::List) => {
                let rows = context.store()?.web_sessions(context.world.now())?;
                show::rows(
                    context,
                    &rows,
                    &["id", "opened_by", "made_at", "entered_at", "ends_at", "browser"],
                )
            }
            Self::Sessions(Sessions::Revoke { args, all: _ }) => change(context, args).await,
            Self::Tokens(Tokens::Add(args)) => add(context, args).await,
            Self::Tokens(Tokens::List) => {
                let rows = context.store()?.web_tokens()?;
                show::rows(context, &rows, &["name", "purpose", "made_by", "made_at", "used_at"])
            }
            Self::Tokens(Tokens::Revoke(args)) => change(context, args).await,
        }
    }
}

/// Prints a new token alone, so that it can be led into a file; what else is to be said goes to stderr.
async fn add(context: &Context, args: add_token::Args) -> CliResult {
    let answer = perform(context, args).await?;
    for note in &answer.notes {
        out::tell(note);
    }
    match context.json {
        true => out::json(answer.row),
        false => out::line(answer.row["token"].as_str().unwrap_or_default()),
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
