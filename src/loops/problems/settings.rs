//! Settings, the environment, and the lists that users keep.

use std::path::{Path, PathBuf};

use super::View;
use crate::{
    allowlists::{
        mounts::{self, NoList},
        senders,
    },
    config::{Config, Takes, dotenv, takes},
    domain::{problems::Problem, rows::Group, runs::tool_servers, shown::errors::chain},
    gateway::Upstream,
};

/// Whether the gateway can be opened.
pub(super) fn upstream(view: &View<'_>, found: &mut Vec<Problem>) {
    let text = &view.config.gateway.upstream;
    if let Err(error) = Upstream::of(view.config) {
        found.push(Problem::Upstream { text: text.clone(), why: chain(&error) });
    }
}

/// Values of the environment and `.env` that can't be used, and files of secrets that others can read.
pub(super) fn environment(view: &View<'_>, groups: &[Group], found: &mut Vec<Problem>) {
    // A `.env` that can't be read gives no key, and that is told.
    let servers = groups.iter().filter_map(|group| group.config().ok()).flat_map(|own| own.mcp.into_values());
    let given =
        servers.flat_map(|server| tool_servers::secrets(&server).map(str::to_owned).collect::<Vec<_>>());
    let odd = dotenv::odd_lines(&dotenv::text(view.root), &view.config.channels, &given.collect());
    let unusable = view.config.unusable.iter().cloned().chain(odd);
    found.extend(unusable.map(|why| Problem::Unusable { why }));
    found.extend(secrets(view.config, view.root).iter().filter_map(|path| open_secrets(path)));
}

/// Returns the problem of a file of secrets that others can read.
#[must_use]
pub fn open_secrets(path: &Path) -> Option<Problem> {
    // One that can't be looked at can't be read by others either, as far as we can tell.
    let mode = crate::root::open_mode(path).filter(|mode| mode & 0o077 != 0)?;
    Some(Problem::Secrets { path: path.display().to_string(), mode })
}

/// Returns the problem of parts of the root that others can read; of `.env` [`open_secrets`] says so.
#[must_use]
pub fn open_root(root: &Path) -> Option<Problem> {
    let mut open = crate::root::open_to_others(root);
    open.retain(|(path, _)| !path.ends_with(".env"));
    let open: Vec<(String, u32)> =
        open.into_iter().map(|(path, mode)| (path.display().to_string(), mode)).collect();
    (!open.is_empty()).then_some(Problem::OpenRoot { open })
}

/// Returns the files that secrets lie in.
#[must_use]
pub fn secrets(config: &Config, root: &Path) -> Vec<PathBuf> {
    [root.join(".env")].into_iter().chain(config.gateway.token_file.clone()).collect()
}

pub(super) fn mount_list(view: &View<'_>, found: &mut Vec<Problem>) {
    if let Err(error @ NoList::Broken { .. }) = mounts::read_list(view.config) {
        found.push(Problem::MountList { why: error.to_string() });
    }
}

pub(super) fn sender_list(view: &View<'_>, found: &mut Vec<Problem>) {
    let list = senders::read(view.config);
    found.extend(senders::problems(view.config, &list).into_iter().map(|why| Problem::SenderList { why }));
}

/// What was changed since the daemon read its settings.
pub(super) fn changed(view: &View<'_>, found: &mut Vec<Problem>) {
    let Some(daemon) = view.daemon else { return };
    match daemon.standing.differences(view.root, &view.config.written) {
        Ok(mut settings) => {
            settings.retain(|name| takes(name) == Takes::Restart);
            found.extend((!settings.is_empty()).then_some(Problem::Restart { settings }));
        }
        Err(error) => found.push(Problem::Settings { why: chain(&*error) }),
    }
}

/// By which time tasks run.
pub(super) fn clocks(view: &View<'_>, found: &mut Vec<Problem>) {
    let now = view.now;
    found.extend((now >= ipc_handlers::CRON_ENDS).then_some(Problem::Clock { now }));
    let zone = &view.config.zone;
    found.extend(zone.rejected.iter().map(|(name, meant)| Problem::Zone {
        name: name.clone(),
        meant: *meant,
        used: zone.name.clone(),
    }));
}
