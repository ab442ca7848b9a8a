//! `g2 usage`.

use clap::{Args, ValueEnum};
use ipc_handlers::{Folder, Time};
use serde::Serialize;

use super::{
    CliResult, Context,
    filter::{Span, check_group},
    show,
};
use crate::{
    config::Config,
    domain::{
        rows::{Group, rfc3339},
        runs::{
            budget::{Day, Share, shares},
            usage::By,
        },
    },
    store::{Store, StoreError},
};

const EXAMPLES: &str = "\
Use is counted in steps of 15 minutes. money: by the prices under [budget] in g2.toml; there is
none without prices.

With --budgets: used, budget, percent: of today, requests and tokens as counts, money in the
currency of the prices, minutes of containers; state: enough, near (80 % and more) or out (used up:
work waits until ends, or until there is more).

Examples:
  g2 usage --by day
  g2 usage --group main --since 2026-01-01 --by model
  g2 usage --budgets";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Usage {
    /// Only this group, by its folder
    #[arg(long)]
    group: Option<Folder>,
    #[command(flatten)]
    span: Span,
    /// One row for each run, group, model, or day in the configured time zone
    #[arg(long, value_enum, default_value_t = Each::Group)]
    by: Each,
    /// Show today's use against the budgets of groups instead
    #[arg(long, conflicts_with_all = ["since", "by"])]
    budgets: bool,
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
        if self.budgets {
            return budgets(context, self.group.as_ref()).await;
        }
        let (since, until) = self.span.read(context)?;
        let span = (since.unwrap_or(Time(0)), until.unwrap_or(Time::MAX));
        let (by, columns): (_, &[&str]) = match self.by {
            Each::Run => (By::Run, &["run", "group"]),
            Each::Group => (By::Group, &["group"]),
            Each::Model => (By::Model, &["model"]),
            Each::Day => (By::Day, &["day"]),
        };
        let figures = [
            "requests",
            "errors",
            "-refused",
            "input_tokens",
            "-cache_creation_tokens",
            "-cache_read_tokens",
            "output_tokens",
        ];
        let config = context.config()?;
        let prices = &config.budget.prices;
        let store = context.store()?;
        let rows = store.usage(by, self.group.as_ref(), span, (&config.zone.zone, prices))?;
        check_group(&store, &rows, self.group.as_ref()).await?;
        let money: &[&str] = if prices.is_empty() { &[] } else { &["money"] };
        show::rows(context, &rows, &[columns, &figures, money].concat())
    }
}

/// One part of a group's budget.
#[derive(Serialize)]
struct BudgetRow<'a> {
    group: &'a Folder,
    #[serde(flatten)]
    share: Share,
    /// The end of the day.
    #[serde(serialize_with = "rfc3339")]
    ends: Time,
}

/// Shows today's use against the budgets of one group or all.
async fn budgets(context: &Context, only: Option<&Folder>) -> CliResult {
    let (config, store, now) = (context.config()?, context.store()?, context.world.now());
    let day = Day::of(now, &config.zone.zone);
    let groups = store.groups().await?;
    let mut rows = Vec::new();
    for group in groups.iter().filter(|group| only.is_none_or(|only| group.folder == *only)) {
        let shares = budget_today(&config, &store, group, day, now)?;
        rows.extend(shares.into_iter().map(|share| BudgetRow { group: &group.folder, share, ends: day.end }));
    }
    check_group(&store, &rows, only).await?;
    show::rows(context, &rows, &["group", "part", "used", "budget", "percent", "state", "ends"])
}

/// Returns how much of each part of its budget a group has used today.
pub(super) fn budget_today(
    config: &Config,
    store: &Store,
    group: &Group,
    day: Day,
    now: Time,
) -> Result<Vec<Share>, StoreError> {
    let budget = config.budget.of(group);
    if !budget.is_bounded() {
        return Ok(Vec::new());
    }
    Ok(shares(&budget, &store.used_of_day(&group.folder, day, &config.budget.prices, now)?))
}
