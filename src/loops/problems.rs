//! Looks for problems that a person has to fix. With the daemon up the daemon looks, otherwise the command that asks does.
//! No look uses an older one, so a disk that has just filled up is told at once. [`crate::domain::problems`] has the
//! words.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, atomic::AtomicBool},
    time::Duration,
};

use ipc_handlers::Time;
use tokio::sync::Notify as Wake;

use super::{Blind, Machine, Obstacle};
use crate::{
    config::{Config, Live, Standing},
    domain::{
        machine::loops::LoopName,
        problems::{Finding, Problem, RootFault, compare, notices::looked, sort_out},
        shown::{errors::chain, feed::EventKind},
        states::SandboxName,
    },
    engine::{Error, Loop, Plan, Sole, Why},
    root::HeldParts,
    store::{Noticed, PushWay, Store, Ways},
    system::locked::Locked as _,
};

mod counts;
mod engine;
mod groups;
mod machine;
mod rows;
mod settings;

pub use counts::{count, known};
pub use engine::{image_fault, look_at_image};
pub use groups::{remedy, scripts_set};
pub use machine::wanted_files;
pub use settings::{open_root, open_secrets, secrets};

/// How often the daemon looks by itself, and how soon after something was finished at most.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
const SOONEST: Duration = Duration::from_secs(5);
/// Changes after which a problem may have come or gone.
const FINISHED: [EventKind; 6] = [
    EventKind::Run,
    EventKind::Said,
    EventKind::Unsaid,
    EventKind::Command,
    EventKind::Judged,
    EventKind::Finished,
];

/// The place where problems are looked for.
pub struct View<'a> {
    pub config: &'a Config,
    pub root: &'a Path,
    /// `None`: it can't be opened.
    pub store: Option<&'a Store>,
    /// Why the store can't be opened. `None` if it is open, or if the caller tells of it.
    pub closed: Option<String>,
    /// The daemon that looks; `None`: a command does, with the daemon down.
    pub daemon: Option<&'a Problems>,
    pub now: Time,
}

/// The daemon's own search for problems.
pub struct Problems {
    pub config: Arc<Live>,
    pub root: PathBuf,
    pub held: HeldParts,
    pub store: Store,
    pub sandbox: SandboxName,
    pub machine: Arc<Machine>,
    /// The problems found at the last look.
    pub known: Mutex<Vec<Problem>>,
    /// The settings as they stand in the files.
    pub standing: Standing,
    /// Wakes who hands texts over.
    pub pushes: Arc<Wake>,
    /// Folders that groups ask for are being looked at.
    pub looks_at_mounts: Arc<AtomicBool>,
}

/// Looks for problems again and again, and tells the log what appears and what is gone.
pub struct Watch(pub Arc<Problems>);

impl Loop for Watch {
    const NAME: LoopName = LoopName::Problems;
    const FOLLOWS: &'static [EventKind] = &FINISHED;
    const NOT_SOONER: Duration = SOONEST;
    type Key = Sole;
    type Job = ();
    type Hands = ();

    fn hands(&self) -> Arc<()> {
        Arc::default()
    }

    /// A fact that can't be read is a problem that it finds, so it never fails.
    async fn look(&mut self, _: &Why<Sole>) -> Result<Plan<Sole, ()>, Error> {
        let found = self.0.look().await;
        let next = self.0.tell(found).await;
        Ok(Plan::again(next.map_or(LOOK_AGAIN, |next| next.clamp(SOONEST, LOOK_AGAIN))))
    }
}

impl Problems {
    /// Returns what the last look found, and whether changes can be stored now: nothing else brings about a look then.
    #[must_use]
    pub fn last(&self) -> Vec<Finding> {
        let mut known = self.known.locked().clone();
        known.retain(|problem| !matches!(problem, Problem::StoreWaits(_)));
        known.extend(self.store.held_up().map(Problem::StoreWaits));
        let mut findings = sort_out(known);
        self.store.mark_noted(&mut findings);
        findings
    }

    /// Has an owner told; returns when the next problem is due.
    async fn tell(&self, found: Vec<Finding>) -> Option<Duration> {
        let (config, now) = (self.config.now(), self.machine.world.now());
        if let Err(error) = self.store.forget_noted(&found, now).await {
            tracing::warn!(error = %chain(&error), "notes about problems that are gone can't be removed now");
        }
        let found = looked(found, config.notify.level);
        match self.store.notify(found, ways(&config, now), now).await {
            Ok(Noticed { next, pushed }) => {
                if pushed {
                    self.pushes.notify_one();
                }
                let ms = next.map(|next| next.ms_since(now).max(0))?;
                Some(Duration::from_millis(u64::try_from(ms).unwrap_or_default()))
            }
            // The next look tells it.
            Err(error) => {
                tracing::warn!(error = %chain(&error), "an owner can't be told of problems now");
                None
            }
        }
    }

    /// Looks for problems, and logs those that are new or gone since the last look.
    pub async fn look(&self) -> Vec<Finding> {
        let config = self.config.now();
        let view = View {
            config: &config,
            root: &self.root,
            store: Some(&self.store),
            closed: None,
            daemon: Some(self),
            now: self.machine.world.now(),
        };
        let found = gather(&view).await;
        let mut known = self.known.locked();
        let compared = compare(&known, found);
        for Finding { code, about, text, fix, .. } in &compared.new {
            tracing::warn!(problem = %code, about, fix, "a problem: {text}");
        }
        for Finding { code, about, text, .. } in &compared.gone {
            tracing::info!(problem = %code, about, "a problem is gone: {text}");
        }
        *known = compared.known;
        let mut now = compared.now;
        self.store.mark_noted(&mut now);
        self.machine.note_problems(now.iter().filter(|finding| !finding.noted).count());
        now
    }
}

/// How an owner is told, by the settings.
#[must_use]
pub fn ways(config: &Config, now: Time) -> Ways {
    let notify = &config.notify;
    let command = (!notify.command.is_empty()).then_some(PushWay::Command);
    let webhook = notify.webhook.is_some().then_some(PushWay::Webhook);
    Ways {
        chat: notify.chat.clone(),
        others: command.into_iter().chain(webhook).collect(),
        is_quiet: notify.quiet.is_some_and(|quiet| quiet.has(now, &config.zone.zone)),
    }
}

/// Looks at everything.
pub async fn look(view: &View<'_>) -> Vec<Finding> {
    sort_out(gather(view).await)
}

/// Looks at everything, and leaves nothing out.
pub async fn gather(view: &View<'_>) -> Vec<Problem> {
    let mut found = Vec::new();
    let replaced =
        |daemon: &Problems| Some(RootFault::Replaced { path: daemon.held.replaced()?.display().to_string() });
    let root = crate::root::fault(view.root).or_else(|| view.daemon.and_then(replaced));
    // A fault of the root says already why its store can't be opened.
    if matches!(root, None | Some(RootFault::ReadOnly { .. } | RootFault::Replaced { .. })) {
        found.extend(view.closed.clone().map(|why| Problem::StoreClosed { why }));
    }
    // A start closes what is open to others, so what keeps one from it comes first.
    found.extend(root.is_none().then(|| open_root(view.root)).flatten());
    found.extend(root.map(Problem::Root));
    settings::upstream(view, &mut found);
    engine::sandbox(view, &mut found).await;
    machine::disk(view, &mut found);
    settings::mount_list(view, &mut found);
    settings::sender_list(view, &mut found);
    settings::clocks(view, &mut found);
    settings::changed(view, &mut found);
    let mut groups = Vec::new();
    if let Some(store) = view.store {
        found.extend(store.held_up().map(Problem::StoreWaits));
        found.extend(store.our_fault(view.now).map(|why| Problem::StoreFault { why }));
        if let Some(all) = known(&mut found, "the groups", store.groups().await) {
            groups = all;
            groups::launchable(view, &groups, &mut found);
            groups::scripts(view, &groups, &mut found);
            groups::heartbeats(view, &groups, &mut found);
            groups::mounts(view, &groups, &mut found).await;
        }
        rows::backup(view, store, &mut found);
        rows::held_back(store, &mut found).await;
        rows::hearing(store, &mut found).await;
        rows::questions(store, &mut found).await;
        rows::connections(view, store, &mut found).await;
        rows::chats(view, store, &mut found).await;
        rows::aside(store, &mut found);
        rows::unowned(store, &mut found);
        rows::refused(view, store, &mut found);
        rows::other_models(view, store, &mut found);
        found.extend(store.index_fault().map(|why| Problem::Index {
            path: view.root.join("data/search.sqlite").display().to_string(),
            why,
        }));
        rows::ledger(view, store, &mut found);
        rows::dead(view, store, &mut found);
        found.extend(count(store, view.now).await.1);
    }
    settings::environment(view, &groups, &mut found);
    let unwatched = view.daemon.map(|daemon| daemon.machine.unwatched().clone()).unwrap_or_default();
    let unserved = unwatched.values().filter(|why| **why == Blind::NoFiles).count();
    machine::open_files(view, groups.len(), unserved, &mut found);
    found.extend(unwatched.into_values().filter_map(|why| match why {
        Blind::NoFiles => None,
        Blind::Why(why) => Some(Problem::Unwatched { why }),
    }));
    let remains = view.daemon.map(|daemon| daemon.machine.remains().clone()).unwrap_or_default();
    found.extend(remains.into_iter().map(|(group, why)| Problem::Remains { group, why }));
    found.extend(view.daemon.map(|daemon| daemon.machine.troubles.problems()).unwrap_or_default());
    found.extend(view.daemon.map(|daemon| daemon.machine.loops.problems()).unwrap_or_default());
    if let (Some(daemon), Some(listen)) = (view.daemon, view.config.web.listen) {
        let why = daemon.machine.page_fault();
        found.extend(why.map(|why| Problem::NoPage { listen: listen.to_string(), why }));
    }
    if let Some(Obstacle::RunsUnread(why)) = view.daemon.and_then(|daemon| daemon.machine.obstacle()) {
        found.push(Problem::Unreadable { what: "the work of an earlier daemon", why });
    }
    engine::answers(view, &groups, &mut found).await;
    found
}
