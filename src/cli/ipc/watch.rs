//! `g2 ipc watch`: a line for each command as it reaches a new state. Settled commands are read from the feed, in order. Waiting
//! and claimed commands are files, not rows, so the folders are looked at. Both work with the daemon down too.

use std::{collections::BTreeSet, time::Duration};

use ipc_handlers::{Folder, Time};

use super::{super::out, CliResult, Context};
use crate::{
    domain::{rows::IpcRow, shown::feed::EventKind, states::QueueState},
    ops::ipc::queue::Queue,
    store::{IpcFilter, News, Store},
};

/// How often the folders are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How many settled commands are remembered, whose files may lie there for a moment longer.
const SETTLED: usize = 4096;

type Key = (Option<i64>, String, String, String, QueueState);

fn key(row: &IpcRow) -> Key {
    (row.id, row.group.clone(), row.box_name.clone(), row.name.clone(), row.state)
}

pub(super) async fn run(
    context: &Context,
    store: &Store,
    group: Option<Folder>,
    count: Option<usize>,
) -> CliResult {
    store.watch_others_every(LOOK_EVERY);
    let mut feed = store.follow().await?;
    let queue = Queue { group: group.map(String::from), ..Queue::default() };
    let mut known: BTreeSet<Key> =
        queue.open_rows(&context.root, store, context.world.now()).await?.iter().map(key).collect();
    let mut settled = BTreeSet::new();
    let mut left = count.unwrap_or(usize::MAX);
    while left > 0 {
        // A command that is settled after this look was seen as open by it, or is never seen as open.
        let open = queue.open_rows(&context.root, store, context.world.now()).await?;
        store.look_at_feed().await?;
        let now_settled = settled_rows(store, &queue, &feed.look().await?, context.world.now())?;
        let still_open = open.iter().filter(|row| row.id.is_none_or(|id| !settled.contains(&id)));
        let new = still_open.filter(|row| !known.contains(&key(row)));
        for row in new.chain(&now_settled).take(left) {
            left -= 1;
            tell(context, row)?;
        }
        settled.extend(now_settled.iter().filter_map(|row| row.id));
        while settled.len() > SETTLED {
            settled.pop_first();
        }
        known = open.iter().map(key).collect();
        tokio::select! {
            _ = tokio::signal::ctrl_c() => return Ok(()),
            () = tokio::time::sleep(if left > 0 { LOOK_EVERY } else { Duration::ZERO }) => {}
        }
    }
    Ok(())
}

/// Returns the commands that were settled, in the order in which they were.
fn settled_rows(
    store: &Store,
    queue: &Queue,
    news: &News,
    now: Time,
) -> Result<Vec<IpcRow>, crate::store::StoreError> {
    let of_commands = news.events.iter().filter(|event| event.kind == EventKind::Command);
    let claims: Vec<i64> = of_commands.filter_map(|event| event.subject.parse().ok()).collect();
    let Some(from) = claims.iter().min().copied() else { return Ok(Vec::new()) };
    let filter = IpcFilter { group: queue.group.clone(), from, ..IpcFilter::default() };
    let rows = store.ipc_rows(&filter, now)?;
    Ok(claims.iter().filter_map(|id| rows.iter().find(|row| row.id == Some(*id)).cloned()).collect())
}

fn tell(context: &Context, row: &IpcRow) -> CliResult {
    if context.json {
        return out::json(serde_json::to_string(row).unwrap_or_default());
    }
    out::line(format!(
        "{} {} {}/{} {} {}",
        row.id.map_or_else(|| "-".into(), |id| id.to_string()),
        row.group,
        row.box_name,
        row.name,
        row.state,
        row.reason.as_deref().or(row.kind.as_deref()).unwrap_or("")
    ))
}
