//! `g2 notices`: what an owner is told of problems elsewhere.

use clap::Subcommand;
use ipc_handlers::Time;
use serde::Serialize;

use super::{CliResult, Context, client::change, filter::Rows, show, status};
use crate::{
    domain::{
        problems::notices::{Notice, NoticeState},
        rows::rfc3339,
    },
    ops::notices::{note, try_now},
};

const LISTED: &str = "\
States: found (it is told once it has stood for a while, and after quiet hours), told, gone (that is
told after a minute), over (told; within an hour the same problem is not told again).

`g2 status` lists the problems themselves. [notify] in g2.toml says where they are told.

Examples:
  g2 notices list";

#[derive(Debug, Subcommand)]
pub(super) enum Notices {
    /// List the problems that an owner was told of, or is to be
    #[command(after_help = LISTED)]
    List {
        #[command(flatten)]
        rows: Rows,
    },
    #[command(
        after_help = "`g2 status ack` does the same, and takes the check alone where it is the only one.\n\nExamples:\n  g2 notices note owners/telegram"
    )]
    Note(note::Args),
    #[command(after_help = "Examples:\n  g2 notices try")]
    Try(try_now::Args),
}

/// A problem as people see it.
#[derive(Serialize)]
struct Row {
    id: i64,
    state: NoticeState,
    check: String,
    about: String,
    text: String,
    #[serde(serialize_with = "rfc3339")]
    since: Time,
}

impl From<Notice> for Row {
    fn from(Notice { id, code, about, text, state, since, severity: _ }: Notice) -> Self {
        Self { id, state, check: code, about, text, since }
    }
}

impl Notices {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        match self {
            Self::List { rows } => {
                let all: Vec<Row> = context.store()?.notices().await?.into_iter().map(Row::from).collect();
                show::rows(context, &rows.of(all), &["id", "state", "since", "check", "~about", "~text"])
            }
            Self::Note(args) => status::ack(context, args).await,
            Self::Try(args) => change(context, args).await,
        }
    }
}
