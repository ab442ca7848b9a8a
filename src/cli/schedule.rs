//! `g2 schedule next`: when a cron expression fires.

use anyhow::Context as _;
use clap::Subcommand;
use ipc_handlers::{Folder, Time};

use super::{
    CliResult, Context, show,
    word::{instant, wrong},
};
use crate::{ops::OpError, system::clock};

const EXAMPLES: &str = "\
Examples:
  g2 schedule next \"0 9 * * 1-5\"
  g2 schedule next \"*/15 * * * *\" --tz Europe/Paris --count 3";

#[derive(Debug, Subcommand)]
pub(super) enum Schedule {
    /// Show the next instants at which a cron expression fires
    #[command(after_help = EXAMPLES)]
    Next {
        /// Cron expression, such as "0 9 * * *"
        expression: String,
        /// Time zone, such as Europe/Paris [default: the configured one]
        #[arg(long, value_name = "ZONE")]
        tz: Option<String>,
        /// Use the time zone of this group
        #[arg(long, conflicts_with = "tz", value_name = "GROUP")]
        group: Option<String>,
        /// Start after this instant (RFC 3339) [default: now]
        #[arg(long, value_name = "TIME")]
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
            (Some(name), _) => crate::config::zone_data()
                .get(&name)
                .ok_or_else(|| wrong(format!("{name:?} is no time zone; use a name such as Europe/Paris")))?,
            (None, Some(name)) => {
                let group = Folder::parse(&name).context("finding the group's time zone")?;
                let store = context.store()?;
                if store.group(&group).await?.is_none() {
                    return Err(OpError::not_found(format!("group {group} does not exist")).into());
                }
                store.zone_of(&group, &config.zones).await?.zone
            }
            (None, None) => config.zone.zone,
        };
        let after = match after {
            Some(text) => instant(&text)?,
            None => clock::now(),
        };
        let schedule = ipc_handlers::Schedule::parse("cron", &expression, &zone, after)
            .map_err(|refusal| OpError::invalid(refusal.message).hint(refusal.hint))?;
        let mut rows = Vec::new();
        let mut at = after;
        for _ in 0..count {
            let Some(next) = schedule.next_after(at, at, &zone) else { break };
            let local = next.to_jiff().to_zoned(zone.clone());
            let note = note(&zone, next);
            rows.push(serde_json::json!({
                "local": local.strftime("%Y-%m-%dT%H:%M:%S").to_string(),
                "utc": next.to_string(),
                "offset": local.strftime("%:z").to_string(),
                "note": note,
            }));
            at = next;
        }
        show::rows(context, &rows, &["local", "utc", "offset", "note"])
    }
}

/// Says when the clock was set within the hour before.
fn note(zone: &jiff::tz::TimeZone, at: Time) -> Option<&'static str> {
    let offset = |t: Time| zone.to_offset(t.to_jiff()).seconds();
    let (before, then) = (offset(at.plus_ms(-3_600_000)), offset(at));
    match then.cmp(&before) {
        std::cmp::Ordering::Greater => Some("clocks went forward within the hour before"),
        std::cmp::Ordering::Less => Some("clocks went back within the hour before"),
        std::cmp::Ordering::Equal => None,
    }
}
