//! `g2 ipc`: the mailbox, from the folders and the store alone, with the daemon up or down.

use clap::Subcommand;

use super::{Context, Outcome, client::perform, confirm::Yes, filter::check_group, out, show, word::word};
use crate::{
    domain::states::{CommandOutcome, QueueState},
    ops::{
        Op,
        ipc::{
            self, hold,
            look::{Found, Queue, find},
            release, retry,
        },
    },
    root,
    store::Store,
};

mod send;
mod trace;
mod watch;

const COLUMNS: [&str; 10] =
    ["id", "group", "box", "name", "type", "request_id", "state", "age_ms", "code", "reason"];

#[derive(Debug, Subcommand)]
pub(super) enum Ipc {
    /// What waits, is held, claimed, applied, refused, dead
    List {
        #[arg(long)]
        group: Option<String>,
        /// Only this state
        #[arg(long, value_parser = word::<QueueState>())]
        state: Option<QueueState>,
        /// Show only the newest N
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
    },
    /// One command: its file, its reply or why it was refused
    Show {
        /// Its id, its request id, or its file: NAME, GROUP/NAME or GROUP/BOX/NAME, as `list` shows it
        #[arg(value_name = "COMMAND")]
        what: String,
    },
    /// Follow what happens, until interrupted
    Watch {
        #[arg(long)]
        group: Option<String>,
        /// End after so many changes
        #[arg(long)]
        count: Option<usize>,
    },
    /// The whole story of one command
    Trace {
        /// Its id, its request id, or its file: NAME, GROUP/NAME or GROUP/BOX/NAME, as `list` shows it
        #[arg(value_name = "COMMAND")]
        what: String,
    },
    /// Keep a group's commands, or one that waits, from being claimed
    Hold {
        /// A group, or the file of a waiting command
        #[arg(value_name = "GROUP|COMMAND")]
        what: String,
        /// Why, for those who look
        #[arg(long)]
        reason: Option<String>,
    },
    /// Let go of what is held: of a group with all its files, or of one file
    Release {
        #[arg(value_name = "GROUP|COMMAND")]
        what: String,
    },
    /// Decide a refused or dead command once more, as a new one
    Retry {
        #[arg(value_name = "COMMAND")]
        what: String,
    },
    /// Set one aside that waits or is claimed, answered as refused; remove what is kept of a dead one
    Drop {
        #[arg(value_name = "COMMAND")]
        what: String,
        /// Why; its agent is told
        #[arg(long, default_value = "no reason was given")]
        reason: String,
        #[command(flatten)]
        yes: Yes,
    },
    /// Put a command into a group's box as its agent would
    Send(send::Send),
    /// JSON Schema of every command, reply, record and snapshot
    Schema,
}

impl Ipc {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        if matches!(self, Self::Schema) {
            let schema = serde_json::to_string_pretty(&ipc_handlers::schema::all()).unwrap_or_default();
            return out::json(schema);
        }
        let store = context.store()?;
        match self {
            Self::List { group, state, limit } => {
                let rows =
                    Queue { group: group.clone(), state, limit, from: 0 }.rows(&context.root, &store).await?;
                check_group(&store, &rows.rows, group.as_deref()).await?;
                show::rows(context, &rows.rows, &COLUMNS)?;
                match (rows.cut, limit) {
                    // Who takes the list for the whole one has to learn that it is not.
                    (Some(cut), None) => Err(anyhow::anyhow!(cut).into()),
                    (Some(_), Some(_)) | (None, _) => Ok(()),
                }
            }
            Self::Show { what } => trace::show(context, &store, &what).await,
            Self::Watch { group, count } => {
                check_group::<()>(&store, &[], group.as_deref()).await?;
                watch::run(context, &store, group, count).await
            }
            Self::Trace { what } => trace::run(context, &store, &what).await,
            Self::Hold { what, reason } => change(context, hold::Args { what, reason }).await,
            Self::Release { what } => change(context, release::Args { what }).await,
            Self::Retry { what } => change(context, retry::Args { what }).await,
            Self::Drop { what, reason, yes } => {
                confirm_loss(context, &store, &what, &yes).await?;
                drop(store);
                change(context, ipc::drop::Args { what, reason }).await
            }
            Self::Send(send) => send.run(context, &store).await,
            Self::Schema => Ok(()),
        }
    }
}

async fn change(context: &Context, op: impl Into<Op>) -> Outcome {
    show::answer(context, &perform(context, op).await?)
}

/// Asks before what is kept of a dead command is removed. Anything else that is dropped is kept, and can be tried again.
async fn confirm_loss(context: &Context, store: &Store, what: &str, yes: &Yes) -> Outcome {
    if let Found::Settled(id) = find(&context.root, store, what).await?
        && let Some(file) = store.settled_file(id)?
        && file.outcome == CommandOutcome::Malformed
        && root::read_kept_bytes(&context.root.join("data"), &file.group, id, true).is_some()
    {
        yes.to(&format!("what is kept of dead command {id} is removed for good"))?;
    }
    Ok(())
}
