//! `g2 schedule next`: when a schedule fires.

use clap::Subcommand;
use ipc_handlers::{Folder, Time};
use jiff::tz::TimeZone;
use serde_json::Value;

use super::{CliResult, Context, filter, show};
use crate::{domain::runs::when, ops::OpError};

/// The note beside a time that is over.
const PAST: &str = "in the past: a task of it is refused";

const EXAMPLES: &str = "\
Examples:
  g2 schedule next \"0 9 * * 1-5\"
  g2 schedule next \"*/15 * * * *\" --tz Europe/Paris --count 3
  g2 schedule next 1d12h
  g2 schedule next \"tomorrow 9:00\"";

#[derive(Debug, Subcommand)]
pub(super) enum Schedule {
    /// Show the next instants at which a schedule fires
    #[command(after_help = EXAMPLES)]
    Next {
        /// Cron expression such as "0 9 * * *", interval such as 2h, or date and time such as "tomorrow 9:00"
        expression: String,
        /// Time zone, such as Europe/Paris [default: the configured one]
        #[arg(long, value_name = "ZONE")]
        tz: Option<String>,
        /// Use the time zone of this group
        #[arg(long, conflicts_with = "tz")]
        group: Option<Folder>,
        /// Start after this time, written as in lists: 2h (ago), yesterday, 22:00, or an instant (RFC 3339) [default: now]
        #[arg(long, value_name = "WHEN")]
        after: Option<String>,
        /// Number of instants, 1 to 10000
        #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=10_000))]
        count: u16,
    },
}

impl Schedule {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        let Self::Next { expression, tz, group, after, count } = self;
        let config = context.config()?;
        let zone = match (tz, group) {
            (Some(name), _) => config.zones.get(&name).ok_or_else(|| {
                OpError::invalid(format!("{name:?} is no time zone")).hint("use a name such as Europe/Paris")
            })?,
            (None, Some(group)) => {
                let store = context.store()?;
                if store.group(&group).await?.is_none() {
                    return Err(OpError::not_found(format!("group {group} does not exist")).into());
                }
                store.zone_of(&group, &config.zones).await?.zone
            }
            (None, None) => config.zone.zone,
        };
        let after = match after {
            Some(text) => filter::when(&text, context.world.now(), &zone)?,
            None => context.world.now(),
        };
        let schedule = when::once(&expression, after, &zone)
            .and_then(|text| ipc_handlers::Schedule::guess(&text, &zone, after))
            .map_err(|refusal| OpError::invalid(refusal.message).hint(refusal.hint))?;
        let rows: Vec<Value> = schedule
            .instants(after, &zone)
            .take(count.into())
            .map(|at| row(&schedule, at, after, &zone))
            .collect();
        show::rows(context, &rows, &["local", "utc", "offset", "note"])
    }
}

fn row(schedule: &ipc_handlers::Schedule, at: Time, after: Time, zone: &TimeZone) -> Value {
    let local = at.to_jiff().to_zoned(zone.clone());
    let note = if at <= after { Some(PAST.to_owned()) } else { schedule.note(at, zone) };
    serde_json::json!({
        "local": local.strftime("%Y-%m-%dT%H:%M:%S").to_string(),
        "utc": at.to_string(),
        "offset": local.strftime("%:z").to_string(),
        "note": note,
    })
}
