//! `g2 activity`: what happened, on one time line.

use std::collections::BTreeMap;

use clap::Args;
use ipc_handlers::{Folder, Time};
use jiff::tz::TimeZone;
use serde::Serialize;

use super::{
    CliResult, Context,
    filter::{Rows, Span, check_group},
    out, show,
};
use crate::store::Activity;

pub(super) const EXPLAINED: &str = "\
Kinds: asked (a message woke an agent), began and ended (a run, with its use of the model and its
error), tool (that an agent uses, with its first argument, its outcome and how long it took; the
newest 1000 of a run), command (of an agent), refused
(a place outside, at the last time that it was asked for; a rule about it ends that), said (a text
for a chat). Without --since, of the last day. A terminal shows the time of day too, on the clocks
of the group.

Examples:
  g2 activity
  g2 activity main --since 22:00
  g2 activity --since 2h --json";

/// A day: how far back is looked without --since, ms.
const DAY_MS: i64 = 24 * 3_600_000;

/// Show what happened, on one time line
#[derive(Debug, Args)]
pub(super) struct ActivityCommand {
    /// Only of this group, by its folder
    group: Option<Folder>,
    #[command(flatten)]
    span: Span,
    #[command(flatten)]
    rows: Rows,
}

impl ActivityCommand {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        let (since, until) = self.span.read(context)?;
        let until = until.unwrap_or(Time::MAX);
        let since = since.unwrap_or_else(|| context.world.now().min(until).plus_ms(-DAY_MS));
        let store = context.store()?;
        let rows = store.activity(self.group.as_ref(), (since, until), self.rows.enough())?;
        check_group(&store, &rows, self.group.as_ref()).await?;
        let rows = self.rows.of(rows);
        if context.json {
            return show::rows(context, &rows, &[]);
        }
        let config = context.config()?;
        let mut clocks = BTreeMap::new();
        for group in store.groups().await? {
            let own = group.config().ok().and_then(|own| own.timezone);
            clocks.extend(own.map(|own| (group.folder.to_string(), config.zones.of(Some(&own)).zone)));
        }
        let shown: Vec<Shown> =
            rows.into_iter().map(|row| Shown::of(row, &clocks, &config.zone.zone)).collect();
        // Elsewhere the instant says it.
        let clock = out::is_terminal().then_some("clock");
        let columns = ["at", "what", "group", "-chat_jid", "-run", "~text"];
        show::rows(context, &shown, &clock.into_iter().chain(columns).collect::<Vec<_>>())
    }
}

/// A thing that happened, for people.
#[derive(Serialize)]
struct Shown {
    /// The time of day, on the clocks of its group.
    clock: String,
    #[serde(flatten)]
    row: Activity,
}

impl Shown {
    /// `clocks`: those of groups that have their own; `usual`: those of all others.
    fn of(mut row: Activity, clocks: &BTreeMap<String, TimeZone>, usual: &TimeZone) -> Self {
        let zone = row.group.as_ref().and_then(|group| clocks.get(group)).unwrap_or(usual);
        let clock = row.at.to_jiff().to_zoned(zone.clone()).strftime("%H:%M:%S").to_string();
        row.text = row.shown().into_owned();
        Self { clock, row }
    }
}
