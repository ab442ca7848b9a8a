//! `g2 usage`.

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use ipc_handlers::{Folder, Time};

use super::{CliResult, Context, filter::check_group, show, word::instant};
use crate::domain::runs::usage::By;

const EXAMPLES: &str = "\
Examples:
  g2 usage --by day
  g2 usage --group main --since 2026-01-01T00:00:00Z --by model";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Usage {
    /// Only this group, by its folder
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// Only since this instant (RFC 3339), in steps of 15 minutes [default: the beginning]
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// One row for each run, group, model, or day in the configured time zone
    #[arg(long, value_enum, default_value_t = Each::Group)]
    by: Each,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Each {
    Run,
    Group,
    Model,
    Day,
}

impl Usage {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        let group = self.group.as_deref().map(Folder::parse).transpose().context("reading --group")?;
        let since = match self.since {
            Some(text) => instant(&text)?,
            None => Time(0),
        };
        let (by, columns): (_, &[&str]) = match self.by {
            Each::Run => (By::Run, &["run", "group"]),
            Each::Group => (By::Group, &["group"]),
            Each::Model => (By::Model, &["model"]),
            Each::Day => (By::Day, &["day"]),
        };
        let figures = [
            "requests",
            "errors",
            "refused",
            "input_tokens",
            "cache_creation_tokens",
            "cache_read_tokens",
            "output_tokens",
        ];
        let zone = context.config()?.zone.zone;
        let store = context.store()?;
        let rows = store.usage(by, group.as_ref(), since, &zone)?;
        check_group(&store, &rows, self.group.as_deref()).await?;
        show::rows(context, &rows, &[columns, &figures].concat())
    }
}
