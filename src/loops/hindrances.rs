//! Sees what kept groups' runs from their work put right: another key, an image that is there. Then what rests for it is tried
//! again at once. Without that it is tried again when its rest is over.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use ipc_handlers::Folder;
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
    store::StoreError,
    system::clock,
};

/// How often it is looked while something rests, and at most, however many runs begin and end.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

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
    let mut without_image = BTreeSet::new();
    let mut feed = runs.store.follow_kinds(&[EventKind::Run]).await;
    loop {
        let rests = match look(&runs, right, &mut without_image).await {
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

/// Has what is put right tried again. Returns whether something rests still. `without_image`: the groups whose image an earlier look
/// saw missing.
async fn look(
    runs: &Arc<Runs>,
    right: Right,
    without_image: &mut BTreeSet<Folder>,
) -> Result<bool, StoreError> {
    let rows = runs.store.hindrances()?;
    let waiting: BTreeSet<&Folder> =
        rows.iter().filter(|row| row.what == Hindrance::NoImage).map(|row| &row.group).collect();
    without_image.retain(|group| waiting.contains(group));
    let (mut rests, mut images) = (false, BTreeMap::new());
    for row in rows {
        if row.until <= clock::now() {
            continue;
        }
        if right == Right::Perhaps
            || is_right(runs, (&row.group, row.what), without_image, &mut images).await?
        {
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

/// Whether it is seen to be put right. `images`: those that were asked for in this look, and whether they are there.
async fn is_right(
    runs: &Arc<Runs>,
    (group, what): (&Folder, Hindrance),
    without_image: &mut BTreeSet<Folder>,
    images: &mut BTreeMap<String, Option<bool>>,
) -> Result<bool, StoreError> {
    match what {
        Hindrance::NoKey | Hindrance::Key | Hindrance::NotAllowed | Hindrance::NoCredit => {
            let gateway = Arc::clone(&runs.gateway);
            Ok(spawn_blocking(move || gateway.has_another_key()).await.unwrap_or(false))
        }
        Hindrance::NoImage => {
            let Some(row) = runs.store.group(group).await? else { return Ok(false) };
            let settings = runs.config.now().run_settings().for_group(&row);
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
            Ok(is_back(group, is_there, without_image))
        }
        Hindrance::Engine => Ok(false),
    }
}

/// Whether a group's image is there that an earlier look saw missing. One that was there all the time is not what the run missed: it
/// would be tried again and again without a rest.
fn is_back(group: &Folder, is_there: Option<bool>, without_image: &mut BTreeSet<Folder>) -> bool {
    match is_there {
        Some(true) => without_image.remove(group),
        Some(false) => {
            without_image.insert(group.clone());
            false
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_back_once_and_only_if_it_was_seen_missing() {
        let (main, mut without_image) = (Folder::parse("main").unwrap(), BTreeSet::new());
        let looks = [Some(true), Some(false), None, Some(false), Some(true), Some(true)];
        let back = looks.map(|is_there| is_back(&main, is_there, &mut without_image));
        assert_eq!(back, [false, false, false, false, true, false]);
    }
}
