//! Whether the disk has room, and who is stopped where it has not.

use std::{collections::BTreeMap, sync::Arc};

use ipc_handlers::{Folder, Time};
use tokio::task::spawn_blocking;

use super::{Host, ipc::chain};
use crate::{
    clock,
    domain::room::{self, A_NAME, Filler, Free, Room, Written},
    ipc::{Gap, Weight, weigh, weigh_held},
    store::ActiveRun,
};

/// How many names of one of a group's folders are weighed, and how many of the files that its processes hold.
const NAMES: usize = 500_000;

/// What is remembered from one look to the next.
#[derive(Default)]
pub(super) struct Watched {
    /// What the folders of groups that run took when they were first weighed since there was room, or since a group
    /// was stopped: what that one wrote stays, and is not its neighbours'.
    before: BTreeMap<Folder, u64>,
    /// When there was room last, as far as this daemon saw, and how much.
    room: Option<(Time, Free)>,
    /// What was free when there was room last, or when `before` was weighed, whichever is later.
    free: Option<Free>,
    /// Something else than a group fills the disk, and main's chat was told.
    from_outside: bool,
}

impl Watched {
    /// Whether something else than a group was found to fill the disk.
    pub(super) const fn is_filled_from_outside(&self) -> bool {
        self.from_outside
    }

    /// Looks at the disk, and has the group stopped that fills it where that is needed; returns how much room there is.
    pub(super) async fn look(&mut self, host: &Arc<Host>) -> Room {
        let data = host.root.join("data");
        let looked_at = clock::now();
        let (free, wanted) = (crate::root::free_bytes(&data), host.config.min_free_bytes);
        let (free_inodes, inodes) = crate::root::inodes(&data);
        let free_now = Free { bytes: free.unwrap_or(u64::MAX), inodes: free_inodes };
        let since = self.room;
        // What a group wrote since there was room is counted from then, whenever it is weighed for the first time.
        let wrote =
            |weight: &Weight| since.map(|(_, then)| room::wrote(weight.changed, room::lost(then, free_now)));
        let lost = self.free.map_or(0, |then| room::lost(then, free_now));
        let room = room::room(free.unwrap_or(u64::MAX), wanted, free_inodes, inodes);
        match room {
            Room::Enough => {
                self.before.clear();
                self.room = Some((looked_at, free_now));
                self.free = Some(free_now);
                self.from_outside = false;
                host.without_room().clear();
            }
            Room::Low if !self.before.is_empty() => {}
            Room::Low => {
                let before = |weight: Weight| weight.all - wrote(&weight).unwrap_or(0);
                let now = weigh_all(host, since.map(|(at, _)| at)).await;
                self.before = now.into_iter().map(|(group, weight)| (group, before(weight))).collect();
                self.free.get_or_insert(free_now);
            }
            Room::Short { missing } => {
                let now = weigh_all(host, since.map(|(at, _)| at)).await;
                let written = |(group, now): (&Folder, &Weight)| Written {
                    group: group.clone(),
                    now: now.all,
                    before: self.before.get(group).copied(),
                    wrote: wrote(now),
                    in_full: now.gap.is_none(),
                };
                let written: Vec<Written> = now.iter().map(written).collect();
                let free_mib = free.unwrap_or(0) >> 20;
                match room::filler(missing, lost, &written) {
                    Filler::Group(group, grown) => {
                        stop(host, group, free_mib, &format!("the group wrote {} MiB lately", grown >> 20))
                            .await;
                        self.weigh_anew();
                    }
                    Filler::Unweighed(groups, unseen) => {
                        for group in groups {
                            stop(host, group, free_mib, &unweighed(unseen, now[group].gap)).await;
                        }
                        self.weigh_anew();
                    }
                    Filler::Outside if !self.from_outside && host.without_room().is_empty() => {
                        self.from_outside = true;
                        tell_of_outside(host, free_mib).await;
                    }
                    Filler::Outside | Filler::NotKnown => {}
                }
                for (group, weight) in now {
                    self.before.entry(group).or_insert(weight.all);
                }
                self.free.get_or_insert(free_now);
            }
        }
        room
    }

    /// What who was stopped wrote stays, and everybody is weighed from here on.
    fn weigh_anew(&mut self) {
        self.before.clear();
        self.room = None;
        self.free = None;
    }
}

/// Weighs what the containers that run can write to, with the files that they hold without a name, and what of it was
/// changed since `since`.
async fn weigh_all(host: &Arc<Host>, since: Option<Time>) -> BTreeMap<Folder, Weight> {
    let running = match host.store.active_runs() {
        Ok(runs) => runs,
        Err(error) => {
            tracing::warn!(error = %chain(&error), "reading the active runs failed; nobody's folders are weighed");
            return BTreeMap::new();
        }
    };
    let host = Arc::clone(host);
    let since = since.unwrap_or(Time(i64::MAX));
    let weigh_one = move |run: ActiveRun| {
        let places = ["groups", "data/ipc", "data/sessions"];
        let folders = places.map(|place| host.root.join(place).join(run.group.as_str()));
        let mut whole = Weight::default();
        for folder in &folders {
            whole += weigh(folder, A_NAME, NAMES, since);
        }
        let processes = run.container.map_or_else(Vec::new, |id| host.sandbox.processes(&id));
        whole += weigh_held(&processes, &folders, A_NAME, NAMES, since);
        (run.group, whole)
    };
    let weigh_them = move || running.into_iter().map(weigh_one).collect();
    spawn_blocking(weigh_them).await.unwrap_or_default()
}

/// Why a group is stopped that can't be weighed in full.
fn unweighed(unseen: u64, gap: Option<Gap>) -> String {
    let has = gap.map_or_else(String::new, |gap| format!(": it has {gap}"));
    format!(
        "{} MiB were written lately that no group shows, and the group can't be weighed{has}",
        unseen >> 20
    )
}

/// Has a group's run killed, and main's chat told, once.
async fn stop(host: &Host, group: &Folder, free_mib: u64, why: &str) {
    let reason = format!("the disk is nearly full ({free_mib} MiB are free), and {why}");
    if host.without_room().insert(group.clone(), reason.clone()).is_some() {
        return;
    }
    tracing::error!(group = %group, reason, "stopping a group");
    let text = format!(
        "I stopped the group {group}: {reason}. Nothing is started until there is room again; look into groups/{group}, data/sessions/{group} and data/ipc/{group}."
    );
    tell_main(host, text, format!("notice: no room for {group}")).await;
}

/// Has main's chat told that no group is to blame.
async fn tell_of_outside(host: &Host, free_mib: u64) {
    tracing::error!(free_mib, "the disk is nearly full, and no group was seen filling it");
    let text = format!(
        "The disk is nearly full ({free_mib} MiB are free). No group was seen filling it, so it is something else, and I stopped nobody. Nothing is started until there is room again."
    );
    tell_main(host, text, "notice: no room".to_owned()).await;
}

async fn tell_main(host: &Host, text: String, cause: String) {
    let told = match host.store.chat_of_main() {
        Ok(Some(chat)) => host.store.tell(chat, text, cause, clock::now()).await,
        Ok(None) => return tracing::warn!("no chat is main's, so nobody is told"),
        Err(error) => Err(error),
    };
    match told {
        Ok(()) => host.nudges.deliver.notify_one(),
        Err(error) => tracing::error!(error = %chain(&error), "telling main of it failed"),
    }
}
