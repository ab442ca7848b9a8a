//! `g2 ipc watch`: a line for each command as it reaches a new state, by looking; so it works with the daemon down too.

use std::{collections::BTreeSet, time::Duration};

use super::{super::out, Context, Outcome};
use crate::{
    domain::{rows::IpcRow, states::QueueState},
    ops::ipc::look::Queue,
    store::Store,
};

/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_millis(100);

type Key = (Option<i64>, String, String, String, QueueState);

fn key(row: &IpcRow) -> Key {
    (row.id, row.group.clone(), row.box_name.clone(), row.name.clone(), row.state)
}

fn is_settled(row: &IpcRow) -> bool {
    row.state.outcome().is_some()
}

pub(super) async fn run(
    context: &Context,
    store: &Store,
    group: Option<String>,
    count: Option<usize>,
) -> Outcome {
    let mut known = BTreeSet::new();
    let from = store.last_claim()? + 1;
    let mut queue = Queue { group, state: Some(QueueState::Claimed), limit: None, from };
    let claimed = queue.rows(&context.root, store)?.rows.iter().filter_map(|row| row.id).min();
    queue = Queue { state: None, from: claimed.map_or(from, |id| id.min(from)), ..queue };
    let mut left = count.unwrap_or(usize::MAX);
    let mut first = true;
    while left > 0 {
        let rows = queue.rows(&context.root, store)?.rows;
        for row in &rows {
            if !first && left > 0 && !known.contains(&key(row)) {
                left -= 1;
                tell(context, row)?;
            }
        }
        // Whatever is claimed now, and comes after it, may be settled later; what came before is told.
        let open = rows.iter().filter(|row| !is_settled(row)).filter_map(|row| row.id).min();
        let settled = rows.iter().filter(|row| is_settled(row)).filter_map(|row| row.id).max();
        queue.from = open.unwrap_or(i64::MAX).min(settled.map_or(queue.from, |id| id + 1).max(queue.from));
        known = rows.iter().map(key).collect();
        first = false;
        tokio::select! {
            _ = tokio::signal::ctrl_c() => return Ok(()),
            () = tokio::time::sleep(if left > 0 { LOOK_EVERY } else { Duration::ZERO }) => {}
        }
    }
    Ok(())
}

fn tell(context: &Context, row: &IpcRow) -> Outcome {
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
