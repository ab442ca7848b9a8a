//! `g2 events`: the feed of changes, for people and scripts. It reads the store, so it works with the daemon down too.

use std::time::Duration;

use clap::Args;
use ipc_handlers::{Folder, Time};
use jiff::tz::TimeZone;

use super::{
    CliResult, Context,
    filter::{check_group, when},
    out, show,
    word::word,
};
use crate::{
    domain::shown::feed::{EventKind, FeedEvent},
    store::{News, Store, Text},
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
  g2 events --since yesterday --kind run
  g2 events --follow --json --group main | jq -c 'select(.kind == \"said\")'";

#[derive(Debug, Args)]
#[command(after_help = KINDS)]
pub(super) struct Events {
    /// Only changes of this group, by its folder
    #[arg(long)]
    group: Option<Folder>,
    /// Only changes of this kind
    #[arg(long, value_name = "KIND", value_parser = word::<EventKind>(), hide_possible_values = true)]
    kind: Option<EventKind>,
    /// Only changes after this: the number of an event, or a time: an age (15m, 2h, 1d), a time of day (22:00), a day
    /// (yesterday, 2026-01-02), a day and a time, or an instant (RFC 3339)
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Only before this time, written in the same way
    #[arg(long, value_name = "WHEN", conflicts_with = "follow")]
    until: Option<String>,
    /// Only changes that contain this text, in capitals or not
    #[arg(long, value_name = "TEXT")]
    grep: Option<String>,
    /// Show only the newest N
    #[arg(long, value_name = "N", conflicts_with = "follow")]
    limit: Option<usize>,
    /// Print each new change as it happens; with --json one object a line
    #[arg(long)]
    follow: bool,
}

impl Events {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        let store = context.store()?;
        let text = self.grep.as_deref().map(Text::of);
        let is_shown = |event: &FeedEvent| {
            let texts = [event.chat.as_deref().unwrap_or_default(), &event.subject, event.kind.as_str()];
            (self.group.is_none() || event.group == self.group)
                && self.kind.is_none_or(|kind| event.kind == kind)
                && text.as_ref().is_none_or(|text| texts.iter().any(|found| text.is_in(found)))
        };
        let (now, zone) =
            (context.world.now(), context.config().map_or(TimeZone::UTC, |config| config.zone.zone));
        let until = self.until.as_deref().map(|text| when(text, now, &zone)).transpose()?;
        let cursor = match self.since.as_deref() {
            Some(text) => since(&store, text, now, &zone).await?,
            None if self.follow => store.newest_event().await?,
            None => 0,
        };
        if self.follow {
            check_group::<()>(&store, &[], self.group.as_ref()).await?;
            return follow(context, &store, cursor, is_shown).await;
        }
        let (mut cursor, mut rows) = (cursor, Vec::new());
        loop {
            let page = store.events_after(cursor, PAGE).await?;
            let Some(last) = page.last() else { break };
            cursor = last.seq;
            rows.extend(
                page.into_iter()
                    .filter(|event| is_shown(event) && until.is_none_or(|until| event.at < until)),
            );
            if let Some(limit) = self.limit {
                rows.drain(..rows.len().saturating_sub(limit));
            }
        }
        check_group(&store, &rows, self.group.as_ref()).await?;
        show::rows(context, &rows, &["seq", "at", "kind", "group", "chat", "~subject"])
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
async fn since(store: &Store, text: &str, now: Time, zone: &TimeZone) -> anyhow::Result<i64> {
    match text.parse::<i64>() {
        Ok(number) => Ok(number),
        Err(_) => Ok(store.event_before(when(text, now, zone)?).await?),
    }
}
