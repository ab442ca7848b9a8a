//! `g2 ipc`: the mailbox, from the folders and the store alone, with the daemon up or down.

use clap::Subcommand;
use ipc_handlers::Folder;

use super::{
    CliResult, Context,
    client::change,
    confirm::Yes,
    filter::{Rows, Span, check_group},
    out, show,
    word::word,
};
use crate::{
    domain::states::QueueState,
    ops::ipc::{self, hold, queue::Queue, release, retry},
};

mod send;
mod trace;
mod watch;

const COLUMNS: [&str; 10] =
    ["id", "group", "-box", "-name", "type", "-request_id", "state", "age_ms", "-code", "~reason"];

const STATES: &str = "\
States:
  waiting  lies in its box
  held     lies in its box and is not claimed until `g2 ipc release`
  claimed  is being worked on
  applied  was done
  refused  was not done; the reply says why
  dead     could not be read

Examples:
  g2 ipc list --state dead
  g2 ipc list --group main --limit 20
  g2 ipc list --state refused --since 1d";

const WATCHED: &str = "\
With --json each line is one object.

Examples:
  g2 ipc watch --group main
  g2 ipc watch --count 1";

const TRACED: &str = "\
Examples:
  g2 ipc trace 1
  g2 ipc trace main/tasks/1.json";

const HELD: &str = "\
Examples:
  g2 ipc hold main --reason \"too many messages\"";

#[derive(Debug, Subcommand)]
pub(super) enum Ipc {
    /// List commands with their states
    #[command(after_help = STATES)]
    List {
        /// Only commands of this group, by its folder
        #[arg(long)]
        group: Option<Folder>,
        /// Only commands in this state
        #[arg(long, value_parser = word::<QueueState>())]
        state: Option<QueueState>,
        #[command(flatten)]
        span: Span,
        #[command(flatten)]
        rows: Rows,
    },
    /// Show one command: its file, and its reply or the reason for its refusal
    #[command(after_help = "Examples:\n  g2 ipc show 1")]
    Show {
        /// Id, request id or file of the command: NAME, GROUP/NAME or GROUP/BOX/NAME, as `g2 ipc list` shows it
        #[arg(value_name = "COMMAND")]
        what: String,
    },
    /// Print each command when its state changes, until interrupted
    #[command(after_help = WATCHED)]
    Watch {
        /// Only commands of this group, by its folder
        #[arg(long)]
        group: Option<Folder>,
        /// End after N changes
        #[arg(long, value_name = "N")]
        count: Option<usize>,
    },
    /// Tell the whole story of one command: when it was written, claimed and decided, and its effects
    #[command(after_help = TRACED)]
    Trace {
        /// Id, request id or file of the command: NAME, GROUP/NAME or GROUP/BOX/NAME, as `g2 ipc list` shows it
        #[arg(value_name = "COMMAND")]
        what: String,
    },
    #[command(after_help = HELD)]
    Hold(hold::Args),
    #[command(after_help = "Examples:\n  g2 ipc release main")]
    Release(release::Args),
    #[command(after_help = "Examples:\n  g2 ipc retry 2")]
    Retry(retry::Args),
    #[command(
        after_help = "Examples:\n  g2 ipc drop 3 --yes\n  g2 ipc drop main/tasks/1.json --reason \"not needed\""
    )]
    Drop {
        #[command(flatten)]
        args: ipc::drop::Args,
        #[command(flatten)]
        yes: Yes,
    },
    Send(send::Send),
    /// Print the JSON Schema of every command, reply, record and snapshot
    #[command(after_help = "Examples:\n  g2 ipc schema > schema.json")]
    Schema,
}

impl Ipc {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        if matches!(self, Self::Schema) {
            let schema = serde_json::to_string_pretty(&ipc_handlers::schema::all()).unwrap_or_default();
            return out::json(schema);
        }
        let store = context.store()?;
        match self {
            Self::List { group, state, span, rows } => {
                let (since, until) = span.read(context)?;
                let queue = Queue {
                    group: group.as_ref().map(Folder::to_string),
                    state,
                    limit: rows.enough(),
                    from: 0,
                    since,
                    until,
                };
                let found = queue.rows(&context.root, &store, context.world.now()).await?;
                check_group(&store, &found.rows, group.as_ref()).await?;
                show::rows(context, &rows.of(found.rows), &COLUMNS)?;
                if let Some(unread) = found.unread.into_iter().next() {
                    return Err(anyhow::Error::from(unread).into());
                }
                match (found.cut, rows.limit) {
                    // A reader who takes the list for the whole one has to learn that it is not.
                    (Some(cut), None) => Err(cut.into()),
                    (Some(_), Some(_)) | (None, _) => Ok(()),
                }
            }
            Self::Show { what } => trace::show(context, &store, &what).await,
            Self::Watch { group, count } => {
                check_group::<()>(&store, &[], group.as_ref()).await?;
                watch::run(context, &store, group, count).await
            }
            Self::Trace { what } => trace::run(context, &store, &what).await,
            Self::Hold(args) => change(context, args).await,
            Self::Release(args) => change(context, args).await,
            Self::Retry(args) => change(context, args).await,
            Self::Drop { args, yes } => change(context, yes.to_do(context, store, args).await?).await,
            Self::Send(send) => send.run(context, &store).await,
            Self::Schema => Ok(()),
        }
    }
}
