//! Groups: whether each can be launched, and scripts that agents follow.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ipc_handlers::Folder;
use jiff::tz::TimeZone;
use tokio::time::timeout;

use super::{super::heartbeat, View};
use crate::{
    allowlists::mounts,
    config::{Config, dotenv},
    domain::{
        kept::folders::{Stands, There, stands},
        problems::Problem,
        rows::Group,
        runs::{
            mounts::MountRequest,
            run_settings::{Credentials as Where, Provider, RunSettings},
        },
        shown::errors::chain,
    },
    gateway::{CredentialError, Credentials},
    ipc::look_at_folder,
    store::Store,
};

/// Whether each group can be launched, as far as its own settings, its folder and its key go; and whether one is main.
pub(super) fn launchable(view: &View<'_>, groups: &[Group], found: &mut Vec<Problem>) {
    let main: Vec<Folder> = groups.iter().filter(|g| g.is_main).map(|g| g.folder.clone()).collect();
    if main.len() != 1 {
        found.push(Problem::MainGroups { folders: main });
    }
    let everybodys = view.config.run_settings();
    let filled = match view.store.map_or_else(|| Ok(BTreeSet::new()), Store::filled_folders) {
        Ok(filled) => filled,
        Err(error) => {
            found.push(Problem::Unreadable { what: "which groups' folders had files", why: chain(&error) });
            // As if none had files: then none is taken for lost that may be new.
            BTreeSet::new()
        }
    };
    let (mut of_gateway, mut given) = (Vec::new(), Vec::new());
    for group in groups {
        let path = view.root.join("groups").join(group.folder.as_str());
        let there = look_at_folder(view.root, &group.folder);
        let (group_of, shown) = (group.folder.clone(), path.display().to_string());
        match there.map(|there| (stands(filled.contains(&group.folder), there), there)) {
            Ok((_, There::NoFolder)) => found.push(Problem::GroupFolder { group: group_of, path: shown }),
            Ok((Stands::Lost, _)) => found.push(Problem::FolderLost { group: group_of, path: shown }),
            Ok(_) => {}
            Err(error) => found.push(Problem::Unreadable { what: "a group's folder", why: chain(&error) }),
        }
        match everybodys.clone().for_group(group) {
            Ok((RunSettings { provider: Provider::Claude, credentials, .. }, _)) => match credentials {
                Where::Gateway => of_gateway.push(group.folder.clone()),
                Where::Stdin => given.push(group.folder.clone()),
            },
            Ok(_) => {}
            Err(error) => {
                found.push(Problem::GroupSettings { group: group.folder.clone(), why: chain(&error) });
            }
        }
    }
    if !of_gateway.is_empty() {
        let keys = Credentials::new(view.root.join(".env"), view.config.gateway.token_file.clone());
        if let Err(error) = keys.current(view.now) {
            found.push(Problem::NoModelKey {
                why: chain(&error),
                remedy: remedy(&error),
                groups: of_gateway,
            });
        }
    }
    if !given.is_empty() {
        let path = view.root.join(".env").display().to_string();
        match dotenv::secrets(view.root) {
            Err(error) => {
                found.push(Problem::NoKey { path, why: Some(error.to_string()), groups: given });
            }
            Ok(secrets) if dotenv::key(&secrets).is_none() => {
                found.push(Problem::NoKey { path, why: None, groups: given });
            }
            Ok(_) => {}
        }
    }
}

/// The `HEARTBEAT.md` files. The daemon has read them; otherwise they are read here.
pub(super) fn heartbeats(view: &View<'_>, groups: &[Group], found: &mut Vec<Problem>) {
    let faults_of = |group: &Folder| match view.daemon {
        Some(daemon) => daemon.machine.heartbeats().get(group).cloned().unwrap_or_default(),
        None => {
            match heartbeat::read(&view.root.join("groups").join(group.as_str()), &TimeZone::UTC, view.now) {
                Ok(read) => read.faults,
                Err(unread) => vec![unread.into()],
            }
        }
    };
    for group in groups {
        let faults = faults_of(&group.folder);
        let count = faults.len();
        let first = faults.into_iter().next();
        found.extend(first.map(|fault| Problem::Heartbeat { group: group.folder.clone(), fault, count }));
    }
}

/// How long folders of the host may take to be looked at: one may be on a disk far away.
const FOLDERS: Duration = Duration::from_secs(2);

/// Folders of the host that groups ask for and go without. Those whose settings can't be used have a problem of their own.
pub(super) async fn mounts(view: &View<'_>, groups: &[Group], found: &mut Vec<Problem>) {
    let asked: Vec<(Folder, Vec<MountRequest>, bool)> = groups
        .iter()
        .filter_map(|group| {
            let (_, own) = view.config.run_settings().for_group(group).ok()?;
            (!own.mounts.is_empty()).then(|| (group.folder.clone(), own.mounts, group.is_main))
        })
        .collect();
    if asked.is_empty() {
        return;
    }
    let (config, root) = (view.config.clone(), view.root.to_owned());
    let look = move || no_mounts(&config, &root, &asked);
    // Who asks on the command line waits in any case.
    let Some(daemon) = view.daemon else { return found.extend(look()) };
    let unread = |why| Problem::Unreadable { what: "folders that groups ask for", why };
    // A look that hangs is not begun again beside itself.
    let Some(one) = OneLook::begin(&daemon.looks_at_mounts) else {
        return found.push(unread("an earlier look has not ended".into()));
    };
    let looking = daemon.machine.world.blocking(move || {
        let _one = one;
        look()
    });
    match timeout(FOLDERS, looking).await {
        Ok(Ok(refused)) => found.extend(refused),
        Ok(Err(panicked)) => found.push(unread(panicked.to_string())),
        Err(_) => found.push(unread(format!("no answer within {} s", FOLDERS.as_secs()))),
    }
}

/// Returns what is refused to groups, of what each asks for.
fn no_mounts(config: &Config, root: &Path, asked: &[(Folder, Vec<MountRequest>, bool)]) -> Vec<Problem> {
    let list = mounts::list_path(config).unwrap_or_default().display().to_string();
    let of_group = |(group, requests, is_main): &(Folder, Vec<MountRequest>, bool)| {
        let refused = mounts::extra(config, root, requests, *is_main).refused;
        let problem = |(request, why): (MountRequest, String)| Problem::NoMount {
            group: group.clone(),
            path: request.host_path,
            why,
            list: list.clone(),
        };
        refused.into_iter().map(problem).collect::<Vec<_>>()
    };
    asked.iter().flat_map(of_group).collect()
}

/// A look that is the only one of its kind until it is dropped.
struct OneLook(Arc<AtomicBool>);

impl OneLook {
    fn begin(goes_on: &Arc<AtomicBool>) -> Option<Self> {
        (!goes_on.swap(true, Ordering::AcqRel)).then(|| Self(Arc::clone(goes_on)))
    }
}

impl Drop for OneLook {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Says how a key comes to be there.
#[must_use]
pub fn remedy(error: &CredentialError) -> &'static str {
    match error {
        CredentialError::None(_) => "put the key there and `chmod 600` the file; G2 reads it at once",
        CredentialError::Ended { .. } => "log in again, or use an API key",
        CredentialError::Read { .. } | CredentialError::Unusable { .. } => {
            "correct the file, or the path in gateway.token_file"
        }
    }
}

/// Returns the scripts that are set: who names each, and the groups that follow it.
#[must_use]
pub fn scripts_set(config: &Config, groups: &[Group]) -> BTreeMap<String, (Vec<String>, Vec<Folder>)> {
    let mut set: BTreeMap<String, (Vec<String>, Vec<Folder>)> = BTreeMap::new();
    if let Some(script) = &config.agent.script {
        let (of, followers) = set.entry(script.display().to_string()).or_default();
        of.push("[agent] script".into());
        followers.extend(groups.iter().filter(|g| g.script.is_none()).map(|g| g.folder.clone()));
    }
    for group in groups {
        if let Some(script) = &group.script {
            let (of, followers) = set.entry(script.clone()).or_default();
            of.push(format!("group {}", group.folder));
            followers.push(group.folder.clone());
        }
    }
    set
}

/// Reads each script that is set, and checks it as the agent will.
pub(super) fn scripts(view: &View<'_>, groups: &[Group], found: &mut Vec<Problem>) {
    for (script, (of, groups)) in scripts_set(view.config, groups) {
        let path = view.root.join(script);
        let (why, is_read) = match crate::root::read_script(&path) {
            Err(error) => (error.to_string(), false),
            Ok(text) => match agent_runner::provider::check_script(&text) {
                Ok(()) => continue,
                Err(error) => (chain(&error), true),
            },
        };
        let path = path.display().to_string();
        found.push(Problem::Script { path, of: of.join(", "), groups, why, is_read });
    }
}
