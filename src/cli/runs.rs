//! `g2 runs`.

use std::time::Duration;

use anyhow::anyhow;
use clap::Subcommand;
use ipc_handlers::Folder;
use serde::Serialize;
use serde_json::Value;

use super::{
    CliResult, Context, Failure, attach,
    client::change,
    filter::{Rows, Span, check_group},
    out,
    show::{self, Sheet},
    speaker,
    word::word,
};
use crate::{
    domain::{
        kept::prune::History,
        rows::Run,
        runs::{
            output::Lines,
            usage::{RefusalRow, Total},
        },
        states::RunStatus,
    },
    ops::{OpCode, OpError, missing, runs::stop},
    store::Which,
};

mod told;

const EXAMPLES: &str = "\
Of a run the first 1 MiB of output is kept.

Examples:
  g2 runs logs 1
  g2 runs logs 1 --follow
  g2 runs logs 1 --raw";

const LISTED: &str = "\
Runs of a time are those that were at work then.

Examples:
  g2 runs list --limit 5
  g2 runs list --state failed --since yesterday";

const STOPPED: &str = "\
The run has health.close_grace_ms (30 seconds) to finish. Its chat is told that it was stopped. Of
a task the occurrence is given up, or begins again with --retry.

Examples:
  g2 runs stop 7
  g2 runs stop 7 --now --retry";

const ATTACHED: &str = "\
Ctrl-C or Ctrl-D leaves, and the run goes on. A line goes to the agent of this run alone, even if a
message in its chat would not wake it; what the agent says goes to its chat, too. A run that works
on a task takes no lines. Without a terminal the lines come from stdin.

Examples:
  g2 runs attach 7
  echo \"stop after this file\" | g2 runs attach 7";

#[derive(Debug, Subcommand)]
pub(super) enum Runs {
    /// List runs, oldest first
    #[command(after_help = LISTED)]
    List {
        /// Only runs of this group, by its folder
        #[arg(long)]
        group: Option<Folder>,
        /// Only runs in this state
        #[arg(long, value_parser = word::<RunStatus>())]
        state: Option<RunStatus>,
        #[command(flatten)]
        span: Span,
        #[command(flatten)]
        rows: Rows,
    },
    /// Show one run, with its use of the model and its newest refused requests
    #[command(after_help = "Examples:\n  g2 runs show 1")]
    Show {
        /// Number of the run, as `g2 runs list` shows it
        id: i64,
    },
    #[command(after_help = STOPPED)]
    Stop {
        #[command(flatten)]
        args: stop::Args,
        /// Give up the messages that it has in hand, as is done without --retry
        #[arg(long, conflicts_with = "retry")]
        give_up: bool,
    },
    /// Look on while a run works, and write to its agent: each line that you type is a message
    #[command(after_help = ATTACHED)]
    Attach {
        /// Number of the run, as `g2 ps` shows it
        id: i64,
        /// Name of the person who writes
        #[arg(long = "as", default_value = "me", value_name = "NAME", value_parser = speaker)]
        sender: String,
    },
    /// Print the output of a run's container: what it said, in plain lines
    #[command(after_help = EXAMPLES)]
    Logs {
        /// Number of the run, as `g2 runs list` shows it
        id: i64,
        /// Go on until the run has ended
        #[arg(long, short)]
        follow: bool,
        /// Print the bytes as they were written, with the records as JSON
        #[arg(long)]
        raw: bool,
    },
}

/// A run, with what it used of the model.
#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    run: Run,
    #[serde(flatten)]
    used: Total,
    refusals: Vec<RefusalRow>,
    /// What was known of it when it was ended against its will.
    #[serde(skip_serializing_if = "Option::is_none")]
    black_box: Option<Value>,
}

/// How often it is looked whether a run has written more.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Prints a piece of output: in lines for people, or as it is.
fn print(lines: &mut Option<Lines>, piece: &[u8]) -> CliResult {
    match lines {
        Some(lines) => lines.push(piece).into_iter().try_for_each(out::line),
        None => out::own_lines(&String::from_utf8_lossy(piece)),
    }
}

/// Says why a run has no log.
fn no_log(run: &Run, error: &std::io::Error) -> anyhow::Error {
    let id = run.id;
    match (error.kind(), run.ended_at) {
        (std::io::ErrorKind::NotFound, Some(_)) => anyhow!(
            "nothing is kept of the output of run {id}: G2 removes the files of old runs (housekeeping.runs_days and housekeeping.runs_mib in g2.toml)"
        ),
        (std::io::ErrorKind::NotFound, None) => {
            OpError::new(OpCode::Failed, format!("run {id} has not begun yet"))
                .hint(format!("`g2 runs logs {id} --follow` a moment later shows its output"))
                .into()
        }
        _ => anyhow!("the output of run {id} can't be read: {error}"),
    }
}

impl Runs {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        let store = context.store()?;
        let one = |id: i64| -> Result<_, Failure> {
            Ok(store.run(id)?.ok_or_else(|| missing(&store, History::Runs, id))?)
        };
        match self {
            Self::List { group, state, span, rows } => {
                let (since, until) = span.read(context)?;
                let which = Which {
                    group: group.clone(),
                    state: state.map(RunStatus::as_str),
                    since,
                    until,
                    text: rows.text(),
                    limit: rows.limit,
                    ..Which::default()
                };
                let rows = store.runs_of(&which)?;
                check_group(&store, &rows, group.as_ref()).await?;
                let columns = [
                    "id",
                    "group",
                    "lane",
                    "-kind",
                    "status",
                    "started_at",
                    "-ended_at",
                    "-records",
                    "~error",
                ];
                show::rows(context, &rows, &columns)
            }
            Self::Show { id } => {
                let prices = context.config().map(|config| config.budget.prices).unwrap_or_default();
                let (used, refusals) = store.usage_of_run(id, &prices)?;
                let black_box = crate::root::read_black_box(&context.root, id);
                let mut shown = Shown { run: one(id)?, used, refusals, black_box };
                if context.json {
                    return show::object(context, &shown);
                }
                told::told(&Sheet::stdout(context), &shown).into_iter().try_for_each(out::line)?;
                match shown.black_box.take() {
                    Some(black_box) => {
                        out::line("black_box:")?;
                        show::object(context, &black_box)
                    }
                    None => Ok(()),
                }
            }
            Self::Stop { args, give_up: _ } => change(context, args).await,
            Self::Attach { id, sender } => attach::run(context, &store, one(id)?, sender).await,
            Self::Logs { id, follow, raw } => {
                let run = one(id)?;
                let log = match crate::root::read_run_log(&context.root, id) {
                    Ok(log) => log,
                    // It is about to begin.
                    Err(error)
                        if follow
                            && run.ended_at.is_none()
                            && error.kind() == std::io::ErrorKind::NotFound =>
                    {
                        Vec::new()
                    }
                    Err(error) => return Err(no_log(&run, &error).into()),
                };
                if context.json {
                    let log = String::from_utf8_lossy(&log);
                    return show::object(context, &serde_json::json!({ "id": id, "log": log }));
                }
                let mut lines = (!raw).then(Lines::default);
                print(&mut lines, &log)?;
                let mut printed = log.len();
                if follow {
                    loop {
                        let is_over = one(id)?.ended_at.is_some();
                        let log = crate::root::read_run_log(&context.root, id).unwrap_or_default();
                        print(&mut lines, &log[printed.min(log.len())..])?;
                        printed = printed.max(log.len());
                        if is_over {
                            break;
                        }
                        tokio::time::sleep(LOOK_AGAIN).await;
                    }
                }
                lines.and_then(Lines::last).map_or(Ok(()), out::line)
            }
        }
    }
}
