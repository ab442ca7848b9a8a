//! Looks what a person has to mend. With the daemon up the daemon looks, otherwise the command that asks does; each look is
//! made anew, so a disk that has just filled up is told at once. [`crate::domain::host::problems`] has the words.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Machine;
use crate::{
    config::Config,
    domain::{
        host::{
            errors::chain,
            feed::EventKind,
            problems::{Finding, Problem, RootFault, compare, sort_out},
        },
        states::SandboxName,
    },
    store::Store,
};

mod engine;
mod groups;
mod machine;
mod rows;
mod settings;

pub use engine::look_at_image;
pub use groups::{remedy, scripts_set};
pub use machine::wanted_files;
pub use settings::secrets;

/// How often the daemon looks by itself, and how soon after something was finished at most.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
const SOONEST: Duration = Duration::from_secs(5);
/// What may bring a problem, or its end.
const FINISHED: [EventKind; 6] = [
    EventKind::Run,
    EventKind::Said,
    EventKind::Unsaid,
    EventKind::Command,
    EventKind::Judged,
    EventKind::Finished,
];

/// What is looked at.
pub struct View<'a> {
    pub config: &'a Config,
    pub root: &'a Path,
    /// `None`: it can't be opened.
    pub store: Option<&'a Store>,
    /// Why it can't be, where that is not looked into elsewhere.
    pub closed: Option<String>,
    /// What the daemon knows, where it is the one that looks.
    pub daemon: Option<&'a Problems>,
}

/// What a person has to mend, as the daemon sees it.
pub struct Problems {
    pub config: Arc<Config>,
    pub root: PathBuf,
    pub store: Store,
    pub sandbox: SandboxName,
    pub machine: Arc<Machine>,
    pub stop: CancellationToken,
    /// What was found at the last look.
    pub known: Mutex<Vec<Problem>>,
}

/// Tells the log what appears and what is gone, until the daemon stops.
pub async fn run(problems: Arc<Problems>) {
    let Ok(mut feed) = problems.store.follow().await else { return };
    loop {
        let _ = problems.look().await;
        let looked = Instant::now();
        tokio::select! {
            () = problems.stop.cancelled() => return,
            () = tokio::time::sleep(LOOK_AGAIN) => continue,
            () = async { while !feed.next().await.any(&FINISHED) {} } => {}
        }
        tokio::select! {
            () = problems.stop.cancelled() => return,
            () = tokio::time::sleep_until(looked + SOONEST) => {}
        }
    }
}

impl Problems {
    /// Looks what a person has to mend; what is new since the last look, or gone, is logged.
    pub async fn look(&self) -> Vec<Finding> {
        let view = View {
            config: &self.config,
            root: &self.root,
            store: Some(&self.store),
            closed: None,
            daemon: Some(self),
        };
        let found = gather(&view).await;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let compared = compare(&known, found);
        for Finding { code, about, text, fix, .. } in &compared.new {
            tracing::warn!(problem = %code, about, fix, "a problem: {text}");
        }
        for Finding { code, about, text, .. } in &compared.gone {
            tracing::info!(problem = %code, about, "a problem is gone: {text}");
        }
        *known = compared.known;
        compared.now
    }
}

/// Looks at everything.
pub async fn look(view: &View<'_>) -> Vec<Finding> {
    sort_out(gather(view).await)
}

/// Looks at everything, and leaves nothing out.
pub async fn gather(view: &View<'_>) -> Vec<Problem> {
    let mut found = Vec::new();
    let root = crate::root::fault(view.root);
    // What can't be opened as it is not there, or not ours, is told once.
    if matches!(root, None | Some(RootFault::ReadOnly { .. })) {
        found.extend(view.closed.clone().map(|why| Problem::StoreClosed { why }));
    }
    found.extend(root.map(Problem::Root));
    settings::upstream(view, &mut found);
    engine::sandbox(view, &mut found).await;
    machine::disk(view, &mut found);
    settings::mount_list(view, &mut found);
    settings::sender_list(view, &mut found);
    settings::zone(view, &mut found);
    settings::changed(view, &mut found);
    settings::environment(view, &mut found);
    let mut groups = Vec::new();
    if let Some(store) = view.store {
        match store.groups().await {
            Ok(all) => groups = all,
            Err(error) => found.push(Problem::Unreadable { what: "the groups", why: chain(&error) }),
        }
        groups::launchable(view, &groups, &mut found);
        groups::scripts(view, &groups, &mut found);
        rows::hearing(store, &mut found).await;
        rows::questions(store, &mut found).await;
        rows::connections(store, &mut found).await;
        rows::aside(store, &mut found);
        rows::ledger(store, &mut found);
    }
    machine::open_files(view, groups.len(), &mut found);
    found.extend(
        view.daemon
            .and_then(|daemon| daemon.machine.unwatched().clone())
            .map(|why| Problem::Unwatched { why }),
    );
    engine::answers(view, &groups, &mut found).await;
    found
}
