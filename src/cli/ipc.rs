//! `g2 ipc`: the mailbox, from the folders and the store alone, with the daemon up or down.

use std::{collections::BTreeSet, time::Duration};

use anyhow::anyhow;
use clap::Subcommand;

use super::{Context, Outcome, out, show};
use crate::{clock, domain::rows::IpcRow, ipc::peek, store::Store};

#[derive(Debug, Subcommand)]
pub(super) enum Ipc {
    /// What waits, is claimed, applied, refused, dead
    List {
        #[arg(long)]
        group: Option<String>,
        /// Only this state: waiting, claimed, applied, refused, dead
        #[arg(long)]
        state: Option<String>,
        /// The newest so many only
        #[arg(long)]
        limit: Option<usize>,
    },
    /// One settled command: its file, its reply or why it was refused
    Show { id: i64 },
    /// Follow what happens, until interrupted
    Watch {
        /// End after so many changes
        #[arg(long)]
        count: Option<usize>,
    },
}

/// How often `watch` looks.
const LOOK_EVERY: Duration = Duration::from_millis(100);

impl Ipc {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let store = context.store()?;
        match self {
            Self::List { group, state, limit } => {
                let mut rows = rows(context, &store)?;
                rows.retain(|row| {
                    group.as_ref().is_none_or(|g| row.group == *g)
                        && state.as_ref().is_none_or(|s| row.state == *s)
                });
                if let Some(limit) = limit {
                    rows.drain(..rows.len().saturating_sub(limit));
                }
                show::rows(
                    context,
                    &rows,
                    &[
                        "id",
                        "group",
                        "box",
                        "name",
                        "type",
                        "request_id",
                        "state",
                        "age_ms",
                        "code",
                        "reason",
                    ],
                )
            }
            Self::Show { id } => {
                let row = rows(context, &store)?
                    .into_iter()
                    .find(|row| row.id == Some(id))
                    .ok_or_else(|| anyhow!("no command has the id {id}"))?;
                let receipt = store.receipt(id)?;
                let kept = crate::root::read_kept_command(&context.root, &row.group, id);
                let reply = receipt
                    .as_ref()
                    .and_then(|r| r.reply.as_deref())
                    .and_then(|r| serde_json::from_slice::<serde_json::Value>(r).ok());
                let mut whole = serde_json::to_value(&row).unwrap_or_default();
                whole["hint"] = receipt.and_then(|r| r.hint).into();
                whole["command"] = kept.into();
                whole["reply"] = reply.unwrap_or_default();
                show::object(context, &whole)
            }
            Self::Watch { count } => watch(context, &store, count).await,
        }
    }
}

/// Everything, oldest first: settled ones by their receipts, then what is claimed, then what waits.
fn rows(context: &Context, store: &Store) -> anyhow::Result<Vec<IpcRow>> {
    let now = clock::now();
    let data = context.root.join("data");
    // Files move on while we read, so they are looked for where they come from first: none is missed.
    let settled_before = store.last_claim()?;
    let mut waiting = Vec::new();
    for group in store.groups()? {
        waiting.extend(peek::waiting(&data, &group.folder)?);
    }
    let claimed = peek::claimed(&data)?;
    let mut rows = store.ipc_rows(usize::MAX >> 1, now)?;

    let lying = |lying: peek::Lying, state: &str| IpcRow {
        id: lying.claim,
        group: lying.group,
        box_name: lying.in_box.map_or_else(|| "-".into(), |b| b.to_string()),
        name: lying.name,
        kind: None,
        request_id: None,
        state: state.into(),
        age_ms: now.0.saturating_sub(lying.since_ms).max(0),
        code: None,
        reason: lying.is_directory.then(|| "a directory, which only its writer can remove".into()),
    };
    let settled: BTreeSet<i64> = rows.iter().filter_map(|row| row.id).collect();
    rows.extend(
        claimed
            .into_iter()
            .filter(|c| c.claim.is_none_or(|id| !settled.contains(&id)))
            .map(|c| lying(c, "claimed")),
    );
    let place = |row: &IpcRow| (row.group.clone(), row.box_name.clone(), row.name.clone());
    let moved_on: BTreeSet<_> =
        rows.iter().filter(|row| row.id.is_some_and(|id| id > settled_before)).map(place).collect();
    rows.extend(
        waiting.into_iter().map(|w| lying(w, "waiting")).filter(|row| !moved_on.contains(&place(row))),
    );
    Ok(rows)
}

/// Prints each command as it reaches a new state: a line each, as JSON with `--json`.
async fn watch(context: &Context, store: &Store, count: Option<usize>) -> Outcome {
    let mut known = BTreeSet::new();
    let key =
        |row: &IpcRow| (row.id, row.group.clone(), row.box_name.clone(), row.name.clone(), row.state.clone());
    for row in rows(context, store)? {
        known.insert(key(&row));
    }
    let mut left = count.unwrap_or(usize::MAX);
    while left > 0 {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => return Ok(()),
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        for row in rows(context, store)? {
            if left > 0 && known.insert(key(&row)) {
                left -= 1;
                if context.json {
                    out::line(serde_json::to_string(&row).unwrap_or_default())?;
                } else {
                    out::line(format!(
                        "{} {} {}/{} {} {}",
                        row.id.map_or_else(|| "-".into(), |id| id.to_string()),
                        row.group,
                        row.box_name,
                        row.name,
                        row.state,
                        row.reason.as_deref().or(row.kind.as_deref()).unwrap_or("")
                    ))?;
                }
            }
        }
    }
    Ok(())
}
