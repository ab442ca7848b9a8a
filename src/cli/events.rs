//! `g2 events`: the feed of changes, for people and scripts. It reads the store, so it works with the daemon down too.

use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use ipc_handlers::{Folder, Time};

use super::{CliResult, Context, filter::check_group, out, show, word::wrong};
use crate::{
    domain::host::feed::FeedEvent,
    store::{News, Store},
    system::clock,
};

/// How soon a change is shown that the daemon, or another process, commits.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How many events are read at a time.
const PAGE: usize = 1000;

pub(super) const KINDS: &str = "\
Each line is one change: number, time, kind, group, chat, and the id of the changed thing.
Numbers only grow, so a script goes on with --since and the last number that it has seen. Events
are kept for one day, at most 200 000 of them.

Kinds:
  message     a message came in
  inbox       a wiring got the message and will judge it
  judged      the wiring has decided whether it wakes the agent
  handed      messages were given to an agent
  finished    the agent is done with messages that it was given
  cleared     a lane has a new session
  run         a run changed
  say         a text for a chat waits to be sent
  said        the text was sent
  unsaid      the text could not be sent
  command     a command was settled
  session     a session was archived

The kinds task, group, wiring, chat, person, question and hold say that such a thing was added,
changed or removed.

Examples:
  g2 events --since 15m
  g2 events --follow --json --group main | jq -c 'select(.kind == \"said\")'";

#[derive(Debug, Args)]
#[command(after_help = KINDS)]
pub(super) struct Events {
    /// Only changes of this group, by its folder
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// Only changes after this: the number of an event, an instant (RFC 3339), or an age (90s, 15m, 2h, 1d)
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Show only the newest N
    #[arg(long, value_name = "N", conflicts_with = "follow")]
    limit: Option<usize>,
    /// Print each new change as it happens; with --json one object a line
    #[arg(long)]
    follow: bool,
}

impl Events {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        let group = self.group.as_deref().map(Folder::parse).transpose().context("reading --group")?;
        let store = context.store()?;
        let is_shown = |event: &FeedEvent| group.is_none() || event.group == group;
        let cursor = match self.since.as_deref() {
            Some(text) => since(&store, text, clock::now()).await?,
            None if self.follow => store.newest_event().await?,
            None => 0,
        };
        if self.follow {
            check_group::<()>(&store, &[], self.group.as_deref()).await?;
            return follow(context, &store, cursor, is_shown).await;
        }
        let (mut cursor, mut rows) = (cursor, Vec::new());
        loop {
            let page = store.events_after(cursor, PAGE).await?;
            let Some(last) = page.last() else { break };
            cursor = last.seq;
            rows.extend(page.into_iter().filter(|event| is_shown(event)));
            if let Some(limit) = self.limit {
                rows.drain(..rows.len().saturating_sub(limit));
            }
        }
        check_group(&store, &rows, self.group.as_deref()).await?;
        show::rows(context, &rows, &["seq", "at", "kind", "group", "chat", "subject"])
    }
}

async fn follow(
    context: &Context,
    store: &Store,
    cursor: i64,
    is_shown: impl Fn(&FeedEvent) -> bool,
) -> CliResult {
    store.watch_others_every(LOOK_EVERY);
    let mut feed = store.follow_from(cursor);
    store.look_at_feed().await?;
    loop {
        let News { events, missed } = tokio::select! {
            _ = tokio::signal::ctrl_c() => return Ok(()),
            news = feed.next() => news,
        };
        if missed {
            out::tell("older events are no longer kept");
        }
        for event in events.iter().filter(|event| is_shown(event)) {
            if context.json {
                out::json(serde_json::to_string(event.as_ref()).unwrap_or_default())?;
                continue;
            }
            let of = |name: Option<&str>| name.unwrap_or("-").to_owned();
            out::line(format!(
                "{} {} {} {} {} {}",
                event.seq,
                event.at,
                event.kind,
                of(event.group.as_ref().map(Folder::as_str)),
                of(event.chat.as_deref()),
                event.subject
            ))?;
        }
    }
}

/// Returns the number of the last event that is not wanted.
async fn since(store: &Store, text: &str, now: Time) -> anyhow::Result<i64> {
    if let Ok(number) = text.parse::<i64>() {
        return Ok(number);
    }
    let at = match age_ms(text) {
        Some(age) => now.plus_ms(-age),
        None => Time::from_jiff(text.parse().map_err(|_| {
            wrong(format!(
                "{text:?} is not the number of an event, an instant (RFC 3339) or an age (90s, 15m, 2h, 1d)"
            ))
        })?),
    };
    Ok(store.event_before(at).await?)
}

/// Reads an age of one unit, ms.
pub(super) fn age_ms(text: &str) -> Option<i64> {
    let unit = match text.chars().last()? {
        's' => 1000,
        'm' => 60_000,
        'h' => 3_600_000,
        'd' => 24 * 3_600_000,
        _ => return None,
    };
    text[..text.len() - 1].parse::<u32>().ok().map(|count| i64::from(count).saturating_mul(unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_has_one_unit() {
        for (text, ms) in
            [("90s", Some(90_000)), ("15m", Some(900_000)), ("2h", Some(7_200_000)), ("1d", Some(86_400_000))]
        {
            assert_eq!(age_ms(text), ms);
        }
        for bad in ["", "s", "-1s", "1", "1h30m", "1w", "1é", "99999999999d"] {
            assert_eq!(age_ms(bad), None, "{bad}");
        }
    }
}
