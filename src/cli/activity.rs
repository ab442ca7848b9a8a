//! `g2 activity`: what happened, on one time line.

use anyhow::Context as _;
use clap::Args;
use ipc_handlers::{Folder, Time};
use jiff::tz::TimeZone;

use super::{CliResult, Context, events::age_ms, filter::check_group, show, word::wrong};
use crate::system::clock;

pub(super) const EXPLAINED: &str = "\
Kinds: asked (a message woke an agent), began and ended (a run, with its use of the model and its
error), tool (that an agent began to use; the newest 1000 of a run), command (of an agent), said (a
text for a chat).

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
    group: Option<String>,
    /// From this time of day (22:00), instant (RFC 3339) or age (90s, 15m, 2h, 1d) on [default: 1d]
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Show only the newest N
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

impl ActivityCommand {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        let group = self.group.as_deref().map(Folder::parse).transpose().context("showing what happened")?;
        let now = clock::now();
        let since = match &self.since {
            None => now.plus_ms(-DAY_MS),
            Some(text) => since(text, now, &context.config()?.zone.zone)?,
        };
        let store = context.store()?;
        let rows = store.activity(group.as_ref(), since, self.limit)?;
        check_group(&store, &rows, self.group.as_deref()).await?;
        show::rows(context, &rows, &["at", "what", "group", "chat_jid", "run", "text"])
    }
}

/// Reads a time of day, the last one that has passed; an instant; or an age.
fn since(text: &str, now: Time, zone: &TimeZone) -> anyhow::Result<Time> {
    if let Some(age) = age_ms(text) {
        return Ok(now.plus_ms(-age));
    }
    if let Ok(time) = text.parse::<jiff::civil::Time>() {
        let today = now.to_jiff().to_zoned(zone.clone()).date();
        let at = |date: jiff::civil::Date| date.to_datetime(time).to_zoned(zone.clone());
        let passed = at(today)?;
        let passed = if passed.timestamp() > now.to_jiff() { at(today.yesterday()?)? } else { passed };
        return Ok(Time::from_jiff(passed.timestamp()));
    }
    Ok(Time::from_jiff(text.parse().map_err(|_| {
        wrong(format!(
            "{text:?} is not a time of day (22:00), an instant (RFC 3339) or an age (90s, 15m, 2h, 1d)"
        ))
    })?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_day_is_the_last_one_that_has_passed_in_the_zone() {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        let now = Time::from_jiff("2024-05-05T10:00:00Z".parse().unwrap());
        for (text, expected) in [
            ("11:59", "2024-05-05T09:59:00Z"),
            ("12:01", "2024-05-04T10:01:00Z"),
            ("22:00", "2024-05-04T20:00:00Z"),
            ("2h", "2024-05-05T08:00:00Z"),
            ("2024-05-01T00:00:00Z", "2024-05-01T00:00:00Z"),
        ] {
            let at = since(text, now, &zone).unwrap();
            assert_eq!(at, Time::from_jiff(expected.parse().unwrap()), "{text}");
        }
        assert!(since("soon", now, &zone).is_err());
    }
}
