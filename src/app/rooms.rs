//! The rooms of a daemon: which loops each has, and in which order they begin.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use anyhow::Result;
use ipc_handlers::Folder;
use tokio::{
    net::UnixListener,
    sync::{Notify, mpsc, oneshot, watch},
    task::{JoinError, JoinSet},
};
use tokio_util::sync::CancellationToken;

use super::{
    adapters::{self, Accounts},
    instance,
    parts::Parts,
    settings::{self, Following},
};
use crate::{
    channels::local::Local,
    domain::{
        runs::lanes::{Event, Holding},
        shown::errors::chain,
    },
    engine::{Drive, Loop},
    ipc::{LeftBox, Watch},
    loops::{
        self, Ask, Backups, Boxes, Budgets, Dispatch, Heartbeats, Keeping, Mailboxes,
        amends::Amends,
        approvers::Approvers,
        chats::Chats,
        control::{self, Desk, Leave},
        deliver::{Deliver, Post},
        ground::Ground,
        housekeeping::Weighing,
        problems,
        prune::{Prune, Trim},
        recovery::Recovery,
        schedule::{Schedule, Watched},
        snapshots,
        typing::Typing,
        usage::Usage,
    },
    store::{Names, Store},
    system::pictures::Pictures,
    web,
};

/// How many mailboxes of groups that are gone a start removes; the next one removes more.
const LEFT_BOXES: usize = 10_000;
/// How long a start may take, before what it needed is let go of.
const START: Duration = Duration::from_secs(20);

/// Loops that end together.
pub(super) struct Room {
    drive: Drive,
    tasks: JoinSet<()>,
}

impl Room {
    /// An empty one, whose loops end by `stop`.
    pub(super) fn new(parts: &Parts, stop: CancellationToken) -> Self {
        Self { drive: parts.drive(stop), tasks: JoinSet::new() }
    }

    /// Begins a loop.
    fn has<L: Loop>(&mut self, this: L) {
        self.tasks.spawn(self.drive.clone().run(this));
    }

    /// Has its loops end, and waits until they have.
    pub(super) async fn end(&mut self) {
        self.drive.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
    }

    /// Waits until one of its loops has ended. Safe to cancel.
    pub(super) async fn ended(&mut self) -> Result<(), JoinError> {
        match self.tasks.join_next().await {
            Some(ended) => ended,
            None => std::future::pending().await,
        }
    }
}

/// Begins to take in what agents write; done when the boxes are there, watched. Returns the groups that have lost their folder.
///
/// # Errors
/// The groups, or what was claimed, can't be read.
pub(super) async fn mailboxes(
    room: &mut Room,
    parts: &Parts,
    (mail, keeping): (&Arc<Mailboxes>, &Arc<Keeping>),
    (watch, asks): (Watch, mpsc::UnboundedReceiver<Ask>),
) -> Result<Vec<Folder>> {
    let Parts { root, store, boxes, machine, .. } = parts;
    let groups: Vec<_> = store.groups().await?.into_iter().map(|group| group.folder).collect();
    remove_left_boxes(boxes, store, &groups.iter().cloned().collect()).await;
    // Some were made by an answer, or a command, that the last daemon died over.
    let lost = loops::lost::begin(root, store, boxes, machine, groups).await?;
    // What the last daemon committed and did not show is shown before it is answered.
    parts.snapshots.want_all().await;
    // What was claimed before goes first: order within a group is that of the claims.
    let left = loops::ipc::recover(mail).await?;
    room.has(loops::ipc::Mailbox::new(Arc::clone(mail), watch, asks, left));
    // A client that is told that we are ready finds the boxes, watched.
    let (done, opened) = oneshot::channel();
    if parts.mailboxes.send(Ask::Groups(done)).is_ok() {
        // The loop has ended: its end is noticed elsewhere.
        let _ = opened.await;
    }
    loops::finish_removals(keeping).await;
    room.has(loops::Removals::new(Arc::clone(keeping)));
    Ok(lost)
}

/// Begins what follows from what agents write, once the runs are known.
pub(super) fn after_mailboxes(room: &mut Room, parts: &Parts, mail: Arc<Mailboxes>) {
    // Its searches are for runs, and end with them.
    room.tasks.spawn(parts.drive(parts.stop.clone()).run(loops::ipc::searches::Answering::new(mail)));
    room.has(loops::search::Search::new(parts.store.clone(), Arc::clone(&parts.machine)));
    room.has(snapshots::Writing::new(Arc::clone(&parts.snapshots)));
    room.has(Usage::new(parts.world.clone(), parts.store.clone(), Arc::clone(&parts.gateway)));
}

/// Begins to run agents; done when it is known which run.
///
/// # Errors
/// The budgets or the runs can't be read.
pub(super) async fn runs(
    room: &mut Room,
    parts: &Parts,
    lost: Vec<Folder>,
    (clocks, news): (Watched, mpsc::UnboundedReceiver<loops::ForLanes>),
    retire: CancellationToken,
) -> Result<()> {
    let Parts { world, store, config, .. } = parts;
    let runs = parts.of_runs();
    // Told before any group is let go on.
    let (gateway, lanes) = (Arc::clone(&parts.gateway), parts.lanes.clone());
    let mut budgets = Budgets::new(world.clone(), Arc::clone(config), store.clone(), gateway, lanes);
    let over = budgets.begin(world.now()).await?;
    let over = over.into_iter().map(|group| (group, Holding::Budget));
    for (group, reason) in over.chain(lost.into_iter().map(|group| (group, Holding::Folder))) {
        parts.lanes.tell(Event::Hold { group, reason });
    }
    let (recovery, recovering) = Recovery::new(Arc::clone(&runs), Arc::clone(&parts.held));
    room.has(recovery);
    recovering.wait(&runs).await?;
    let (owner, due) = (instance::owner(&parts.instance), Arc::new(Notify::new()));
    room.has(Dispatch::new(Arc::clone(&runs), owner, news, Arc::clone(&due), retire));
    room.has(loops::hindrances::Hindrances::new(Arc::clone(&runs)));
    room.has(Ground::new(runs));
    room.has(budgets);
    room.has(Schedule::new(clocks, due));
    Ok(())
}

/// Begins to talk to people: accounts, files, and all that is said and shown.
pub(super) fn talk(room: &mut Room, parts: &Parts, (post, is_recovered): (Post, bool)) {
    let Parts { world, store, media, channels, config, .. } = parts;
    let files = loops::files::Files {
        world: world.clone(),
        config: Arc::clone(config),
        work: parts.root.join("data/hooks"),
        program: adapters::own_program(),
        notes: parts.root.join(adapters::CHILDREN),
        store: store.clone(),
        media: Arc::clone(media),
        channels: Arc::clone(channels),
    };
    room.has(loops::files::Fetching::new(files));
    room.has(loops::media::Sweep::new(world.clone(), store.clone(), Arc::clone(media)));
    room.has(Deliver::new(post, is_recovered));
    room.has(loops::accounts::Accounts::new(world.clone(), store.clone(), Arc::clone(channels)));
    room.has(Chats::new(Arc::clone(&parts.listings)));
    room.has(Amends::new(store.clone(), Arc::clone(channels)));
    room.has(Approvers::new(world.clone(), store.clone(), Arc::clone(channels)));
    room.has(Typing::new(world.clone(), store.clone(), Arc::clone(channels)));
}

/// Begins to follow the settings and the accounts that they name.
pub(super) fn settings(
    room: &mut Room,
    parts: &Parts,
    (accounts, names): (Accounts, Names),
    asked: mpsc::UnboundedReceiver<oneshot::Sender<loops::Reread>>,
) {
    let hands = settings::Hands {
        config: Arc::clone(&parts.config),
        root: parts.root.clone(),
        store: parts.store.clone(),
        gateway: Arc::clone(&parts.gateway),
        lanes: parts.lanes.clone(),
        accounts: accounts.into(),
        names,
        asked: Default::default(),
        owed: Default::default(),
    };
    room.has(Following::new(hands, asked));
}

/// Begins what keeps the root in order, and sees what is wrong with it.
pub(super) fn upkeep(room: &mut Room, parts: &Parts, problems: Arc<problems::Problems>) {
    let Parts { world, root, store, config, .. } = parts;
    room.has(loops::heartbeat::Takes::new(Heartbeats {
        root: root.clone(),
        store: store.clone(),
        boxes: Arc::clone(&parts.boxes),
        machine: Arc::clone(&parts.machine),
        config: Arc::clone(config),
    }));
    room.has(Trim::new(world.clone(), store.clone()));
    let asks = Arc::clone(&parts.backups);
    room.has(Backups::new(world.clone(), root.clone(), store.clone(), Arc::clone(config), asks));
    let errands = loops::notify::Errands {
        world: world.clone(),
        store: store.clone(),
        config: Arc::clone(config),
        notes: root.join(adapters::CHILDREN),
        root: root.clone(),
    };
    room.has(loops::notify::Notify::new(errands, Arc::clone(&problems.pushes)));
    room.has(problems::Watch(problems));
    room.has(Prune::new(world.clone(), store.clone(), root.clone(), Arc::clone(config)));
    room.has(Weighing::new(world.clone(), store.clone(), root.clone(), Arc::clone(config)));
    let (world, stop) = (world.clone(), room.drive.stop.clone());
    room.tasks.spawn(async move {
        if tokio::time::timeout(START, stop.cancelled()).await.is_err() {
            let bytes = world.blocking(crate::system::memory::let_go_of_the_start).await.unwrap_or(0);
            tracing::debug!(bytes, "let go of what only the start needed");
        }
        stop.cancelled().await;
    });
}

/// Begins to answer clients: programs at the socket, people at the page.
pub(super) fn clients(room: &mut Room, parts: &Parts, desk: Arc<Desk>, listener: UnixListener) {
    if let Some(listen) = parts.config.now().web.listen {
        let (config, media, root) = (Arc::clone(&parts.config), Arc::clone(&parts.media), parts.root.clone());
        let (program, notes) = (adapters::own_program(), desk.notes.clone());
        let pictures = Pictures::new(parts.world.clone(), program, notes, &root.join("data"));
        let served = web::Served {
            world: parts.world.clone(),
            desk: Arc::clone(&desk),
            config,
            media,
            channels: Arc::clone(&parts.channels),
            pictures,
            root,
        };
        room.tasks.spawn(web::run(served, listen));
    }
    room.tasks.spawn(control::run(desk, listener));
}

/// Returns what clients are answered with.
pub(super) fn desk(
    parts: &Parts,
    (mail, keeping, problems): (&Mailboxes, Arc<Keeping>, Arc<problems::Problems>),
    local: Local,
    leave: watch::Sender<Option<Leave>>,
    closing: CancellationToken,
) -> Arc<Desk> {
    Arc::new(Desk {
        store: parts.store.clone(),
        keeping,
        problems,
        machine: Arc::clone(&parts.machine),
        local,
        sights: Arc::clone(&parts.sights),
        page: control::PageAddress::default(),
        notes: parts.root.join(adapters::CHILDREN),
        leave,
        instance: parts.instance.clone(),
        owner: instance::owner(&parts.instance),
        since: parts.since,
        commands: Arc::clone(&mail.times),
        closing,
    })
}

/// Removes the mailboxes of groups that are gone.
async fn remove_left_boxes(boxes: &Boxes, store: &Store, groups: &BTreeSet<Folder>) {
    match boxes.dirs.discard_boxes_but(groups, LEFT_BOXES) {
        Ok(gone) => {
            for LeftBox { group, removed } in gone {
                match removed {
                    Ok(()) => {
                        tracing::warn!(%group, "the mailbox of a group that is gone is removed");
                    }
                    Err(error) => {
                        tracing::error!(%group, error = %chain(&error), "the mailbox of a group that is gone can't be removed; no group of that name is made before it is");
                        if let Err(error) = store.leave(group.clone()).await {
                            tracing::error!(%group, error = %chain(&error), "storing that failed");
                        }
                    }
                }
            }
        }
        Err(error) => {
            tracing::error!(error = %chain(&error), "removing the mailboxes of groups that are gone failed");
        }
    }
}
