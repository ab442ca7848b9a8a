//! Sees what kept groups' runs from their work put right: another key, an image that is there. Then what rests for it is tried
//! again at once. Without that it is tried again when its rest is over.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use ipc_handlers::{Folder, Time};
use tokio::{task::spawn_blocking, time::sleep};

use super::Runs;
use crate::{
    domain::{
        host::{errors::chain, feed::EventKind},
        runs::{
            hindrance::Hindrance,
            lanes::{Event, LaneId},
        },
    },
    sandbox::SandboxError,
    store::{HindranceRow, StoreError},
    system::clock,
};

/// How often it is looked while something rests, and at most, however many runs begin and end.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// Since when the image of a group was wanted and was not there, and whether it was still missing at the last look.
type Missing = BTreeMap<Folder, (Time, bool)>;

/// What is taken to be put right.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Right {
    /// Anything: nobody has looked since the last daemon.
    Perhaps,
    Seen,
}

/// Runs until the daemon stops.
pub async fn run(runs: Arc<Runs>) {
    let (mut right, mut has_failed) = (Right::Perhaps, false);
    let mut missing = Missing::new();
    let mut feed = runs.store.follow_kinds(&[EventKind::Run]).await;
    loop {
        let rests = match look(&runs, right, &mut missing).await {
            Ok(rests) => {
                (right, has_failed) = (Right::Seen, false);
                rests
            }
            Err(error) => {
                // Said once, however long the store is in the way.
                if !std::mem::replace(&mut has_failed, true) {
                    tracing::error!(error = %chain(&error), "looking for what keeps runs from their work failed; it is tried again");
                }
                true
            }
        };
        tokio::select! {
            () = runs.stop.cancelled() => return,
            () = sleep(LOOK_AGAIN) => {}
        }
        if !rests {
            tokio::select! {
                () = runs.stop.cancelled() => return,
                _ = feed.next() => {}
            }
        }
    }
}

/// Has what is put right tried again. Returns whether something rests still.
async fn look(runs: &Arc<Runs>, right: Right, missing: &mut Missing) -> Result<bool, StoreError> {
    let rows = runs.store.hindrances()?;
    let waiting: BTreeSet<&Folder> =
        rows.iter().filter(|row| row.what == Hindrance::NoImage).map(|row| &row.group).collect();
    missing.retain(|group, _| waiting.contains(group));
    let (mut rests, mut images) = (false, BTreeMap::new());
    for row in rows {
        if row.until <= clock::now() {
            if row.what.is_of_the_model() {
                match answered(runs, &row.group)? {
                    Some(true) => runs.store.hinders_no_more(&row.group).await?,
                    Some(false) => rests = true,
                    None => {}
                }
            }
            continue;
        }
        if right == Right::Perhaps || is_right(runs, &row, missing, &mut images).await? {
            tracing::info!(group = %row.group, what = %row.what, "what kept a group's runs from their work may be put right; it is tried again");
            for lane in runs.store.try_again(&row.group, clock::now()).await? {
                let _ = runs.lanes.send(Event::Woken { group: row.group.clone(), lane: LaneId(lane) });
            }
        } else {
            rests = true;
        }
    }
    Ok(rests)
}

/// Whether the model's host has answered a group's run that is being tried again, which may be long before its end; `None`: none is.
fn answered(runs: &Runs, group: &Folder) -> Result<Option<bool>, StoreError> {
    let active = runs.store.active_runs()?;
    Ok(active.iter().find(|run| run.group == *group).and_then(|run| runs.gateway.has_answered(run.id)))
}

/// Whether it is seen to be put right. `images`: those that were asked for in this look, and whether they are there.
async fn is_right(
    runs: &Arc<Runs>,
    row: &HindranceRow,
    missing: &mut Missing,
    images: &mut BTreeMap<String, Option<bool>>,
) -> Result<bool, StoreError> {
    match row.what {
        Hindrance::NoKey | Hindrance::Key | Hindrance::NotAllowed | Hindrance::NoCredit => {
            let gateway = Arc::clone(&runs.gateway);
            Ok(spawn_blocking(move || gateway.has_another_key()).await.unwrap_or(false))
        }
        Hindrance::NoImage => {
            let Some(group) = runs.store.group(&row.group).await? else { return Ok(false) };
            let settings = runs.config.now().run_settings().for_group(&group);
            let Ok((settings, _)) = settings else { return Ok(false) };
            let is_there = match images.get(&settings.image) {
                Some(is_there) => *is_there,
                None => {
                    let is_there = match runs.sandbox.check(&settings.image).await {
                        Ok(()) => Some(true),
                        Err(SandboxError::NoImage { .. }) => Some(false),
                        // The engine is away, say.
                        Err(_) => None,
                    };
                    images.insert(settings.image, is_there);
                    is_there
                }
            };
            Ok(is_back((&row.group, row.since), is_there, missing))
        }
        Hindrance::Engine => Ok(false),
    }
}

/// Whether a group's image is there that was missing before: the run that met its want saw that, or a look did. One that was
/// there all the time is not what the run missed: it would be tried again and again without a rest.
fn is_back((group, since): (&Folder, Time), is_there: Option<bool>, missing: &mut Missing) -> bool {
    let seen = missing.entry(group.clone()).or_insert((since, true));
    if seen.0 != since {
        *seen = (since, true);
    }
    match is_there {
        Some(true) => std::mem::replace(&mut seen.1, false),
        Some(false) => {
            seen.1 = true;
            false
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_back_once_after_it_was_seen_missing() {
        let (main, mut missing) = (Folder::parse("main").unwrap(), Missing::new());
        let mut look = |since, is_there| is_back((&main, Time(since)), is_there, &mut missing);
        let looks = [Some(true), Some(true), Some(false), None, Some(false), Some(true), Some(true)];
        assert_eq!(looks.map(|is_there| look(1, is_there)), [true, false, false, false, false, true, false]);
        // Another want of it, later.
        assert_eq!(
            [Some(false), Some(true), Some(true)].map(|is_there| look(2, is_there)),
            [false, true, false]
        );
    }
}
