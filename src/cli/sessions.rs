//! `g2 sessions`: the conversations of agents, live and archived.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use clap::Subcommand;
use ipc_handlers::{Folder, Refusal, commands::search_sessions::check_query};

use super::{
    CliResult, Context,
    client::change,
    confirm::Yes,
    filter::{Rows, Span, check_group},
    out, show,
    word::word,
};
use crate::{
    domain::states::SessionState,
    ops::{
        OpError,
        sessions::{adopt, archive, clear, delete, resume},
    },
    store::{Stop, Store},
};

const SEARCHED: &str = "\
With several groups, the best match of each group comes first, then the second of each. Of a
session with more than 1 MiB of text only the end is searched.

Examples:
  g2 sessions search \"train tickets\" --limit 3";

const ARCHIVED: &str = "\
Examples:
  g2 sessions archive main \"before the move\"";

const RESUMED: &str = "\
Examples:
  g2 sessions resume 1 --save-name \"before the move\"";

const CLEARED: &str = "\
Examples:
  g2 sessions clear main
  g2 sessions clear main --chat local:main
  g2 sessions clear main --name \"before the move\"";

const ADOPTED: &str = "\
The file is copied, and stays where it is. Claude Code keeps transcripts in
~/.claude/projects/FOLDER/ID.jsonl.

Examples:
  g2 sessions adopt main 0a1b2c3d.jsonl --chat local:main";
/// How long a person waits for what is not indexed yet.
const WAITS: Duration = Duration::from_secs(60);
/// How long a person waits at most, with that.
const LOOKS: Duration = Duration::from_secs(90);

#[derive(Debug, Subcommand)]
pub(super) enum Sessions {
    /// List archived sessions, oldest first, then live ones
    #[command(
        after_help = "--since and --until are about when a session was archived; a live one is of now.\n\nExamples:\n  g2 sessions list --group main"
    )]
    List {
        /// Only sessions of this group, by its folder
        #[arg(long)]
        group: Option<Folder>,
        /// Only sessions in this state
        #[arg(long, value_parser = word::<SessionState>())]
        state: Option<SessionState>,
        #[command(flatten)]
        span: Span,
        #[command(flatten)]
        rows: Rows,
    },
    /// Find archived sessions that contain all given words, best match first
    #[command(after_help = SEARCHED)]
    Search {
        /// Words to look for
        query: String,
        /// Only sessions of this group, by its folder
        #[arg(long)]
        group: Option<Folder>,
        /// Show only the best N, 1 to 100
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(i64).range(1..=100))]
        limit: i64,
    },
    /// Show one archived session with its text
    #[command(after_help = "Examples:\n  g2 sessions show 1")]
    Show {
        /// Number of the session, as `g2 sessions list` shows it
        id: i64,
    },
    #[command(after_help = ARCHIVED)]
    Archive(archive::Args),
    #[command(alias = "delete", after_help = "Examples:\n  g2 sessions remove 2 --yes")]
    Remove {
        #[command(flatten)]
        args: delete::Args,
        #[command(flatten)]
        yes: Yes,
    },
    #[command(after_help = RESUMED)]
    Resume(resume::Args),
    #[command(after_help = CLEARED)]
    Clear(clear::Args),
    #[command(after_help = ADOPTED)]
    Adopt(adopt::Args),
}

impl Sessions {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        let store = context.store()?;
        match self {
            Self::List { group, state, span, rows } => {
                let (since, until) = span.read(context)?;
                let all = store.sessions(group.as_ref(), state, None)?;
                check_group(&store, &all, group.as_ref()).await?;
                let rows = rows.that(all, |session| {
                    since.is_none_or(|since| session.archived_at.is_none_or(|at| at >= since))
                        && until.is_none_or(|until| session.archived_at.is_some_and(|at| at < until))
                });
                show::rows(
                    context,
                    &rows,
                    &["id", "group", "state", "~name", "-session_id", "chat_jid", "archived_at"],
                )
            }
            Self::Search { query, group, limit } => search(context, &store, &query, group, limit).await,
            Self::Show { id } => {
                let (found, content) = store
                    .archived_session(id, None)?
                    .ok_or_else(|| OpError::not_found(format!("no archived session has the number {id}")))?;
                let mut whole = serde_json::to_value(&found.session).unwrap_or_default();
                whole["group"] = found.group.to_string().into();
                whole["content"] = content.into();
                show::object(context, &whole)
            }
            Self::Archive(args) => change(context, args).await,
            Self::Remove { args, yes } => change(context, yes.to_do(context, store, args).await?).await,
            Self::Resume(args) => change(context, args).await,
            Self::Clear(args) => change(context, args).await,
            Self::Adopt(mut args) => {
                args.file = std::path::absolute(&args.file).context("finding the transcript")?;
                change(context, args).await
            }
        }
    }
}

async fn search(
    context: &Context,
    store: &Store,
    query: &str,
    group: Option<Folder>,
    limit: i64,
) -> CliResult {
    let groups = match group {
        Some(group) => {
            check_group::<()>(store, &[], Some(&group)).await?;
            vec![group]
        }
        None => store.groups().await?.into_iter().map(|group| group.folder).collect(),
    };
    check_query(query).map_err(|fault| OpError::invalid(format!("the query {fault}")))?;
    let mut rows = Vec::new();
    let (world, began) = (context.world.clone(), context.world.monotonic());
    let stop: Stop = Arc::new(move || world.monotonic().duration_since(began) >= LOOKS);
    // With the daemon up there is little to do, and with it down all.
    let mut indexer = store.indexer()?;
    let mut is_whole = false;
    while !is_whole && context.world.monotonic().duration_since(began) < WAITS {
        is_whole = !indexer.work()?;
    }
    for group in groups {
        let found = store.search(&group, query, limit, is_whole, &stop)?;
        if let Some(why) = found.unsearched {
            out::tell(format!("group {group}: {}", Refusal::from(why).message));
        }
        for (rank, session) in found.sessions.into_iter().enumerate() {
            let mut row = serde_json::to_value(&session).unwrap_or_default();
            row["group"] = group.to_string().into();
            rows.push((rank, row));
        }
    }
    // How well something fits is known within its group only: the best of each, then the second of each.
    rows.sort_by_key(|(rank, _)| *rank);
    let limit = usize::try_from(limit).unwrap_or(0);
    let rows: Vec<_> = rows.into_iter().take(limit).map(|(_, row)| row).collect();
    show::rows(context, &rows, &["id", "group", "~name", "archived_at", "~snippet"])
}
