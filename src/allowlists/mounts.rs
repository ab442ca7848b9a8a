//! What lies at the paths that mounts are asked for, and at those that are nobody's; the decisions are
//! [`crate::domain::runs::mounts`]'. The allowlist is read anew each time, so a change needs no restart.
//!
//! Between the look here and the engine's own there is a moment. A process that can write to a folder above a mount can put a
//! link there in that moment: another container does only where one group's writable mount contains another's.
#![expect(
    clippy::disallowed_methods,
    reason = "this file is the door to the mount allowlist and to the user's folders, which are no container's"
)]

use std::path::{Path, PathBuf};

use crate::{
    config::{Config, without_secrets},
    domain::{
        runs::mounts::{
            Allowlist, Found, FoundKind, Granted, MountRequest, NotFound, OffLimits, Rules, decide, expand,
            is_shown,
        },
        shown::errors::chain,
    },
};

/// The most top-level entries of the project that are shown.
const MOST_SHOWN: usize = 128;
/// A longer list is none, bytes.
const LONGEST_LIST: u64 = 1 << 20;
/// Sockets of engines: a process that reaches one of these has the machine.
const ENGINES: [&str; 6] = [
    "/run/docker.sock",
    "/var/run/docker.sock",
    "/run/docker",
    "/run/containerd",
    "/run/podman",
    "/var/lib/docker",
];

/// Why there is no allowlist, and so no extra mount.
#[derive(Debug, thiserror::Error)]
pub enum NoList {
    #[error("$HOME is not set, so there is no place for a mount allowlist")]
    NoHome,
    #[error("{path} is not there, so no extra mount is allowed")]
    Missing { path: PathBuf },
    #[error("{path} can't be read, so no extra mount is allowed: {why}")]
    Broken { path: PathBuf, why: String },
}

/// The extra mounts of a group: those that are made, and those that are not, with why.
#[derive(Debug, Default)]
pub struct Extra {
    pub granted: Vec<Granted>,
    pub refused: Vec<(MountRequest, String)>,
}

/// Returns where the mount allowlist is.
#[must_use]
pub fn list_path(config: &Config) -> Option<PathBuf> {
    Some(config.home.as_ref()?.join(".config/g2/mount-allowlist.json"))
}

/// Reads the allowlist.
///
/// # Errors
/// [`NoList`]; nothing is allowed then.
pub fn read_list(config: &Config) -> Result<Allowlist, NoList> {
    let path = list_path(config).ok_or(NoList::NoHome)?;
    match std::fs::metadata(&path) {
        Ok(meta) if !meta.is_file() => return Err(NoList::Broken { path, why: "it is no file".into() }),
        Ok(meta) if meta.len() > LONGEST_LIST => {
            return Err(NoList::Broken { path, why: format!("it has more than {LONGEST_LIST} bytes") });
        }
        Ok(_) | Err(_) => {}
    }
    match std::fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|e| NoList::Broken { path, why: e.to_string() }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(NoList::Missing { path }),
        Err(error) => Err(NoList::Broken { path, why: error.to_string() }),
    }
}

/// Decides on the extra mounts of a group.
#[must_use]
pub fn extra(config: &Config, root: &Path, requests: &[MountRequest], is_main: bool) -> Extra {
    let mut extra = Extra::default();
    if requests.is_empty() {
        return extra;
    }
    let home = config.home.as_deref();
    let list = match read_list(config) {
        Ok(list) => list,
        Err(error) => {
            extra.refused = requests.iter().map(|request| (request.clone(), error.to_string())).collect();
            return extra;
        }
    };
    let real = |path: &str| expand(path, home, root).canonicalize();
    let roots: Vec<Option<PathBuf>> = list.allowed_roots.iter().map(|r| real(&r.path).ok()).collect();
    let off_limits = off_limits(config, root);
    let rules = Rules { list: &list, roots: &roots, off_limits: &off_limits, is_main };
    for request in requests {
        let found = real(&request.host_path).and_then(look).map_err(|e| NotFound(e.to_string()));
        match decide(request, found, rules, &extra.granted) {
            Ok(granted) => extra.granted.push(granted),
            Err(refusal) => extra.refused.push((request.clone(), chain(&refusal))),
        }
    }
    extra
}

/// Lays out `base`, which is to be the project as the main group sees it: an empty file or folder for each top-level entry
/// that is shown, to be mounted over. Returns those entries: path and name.
///
/// A running container does not see files that are made at the top later, so no secret appears in it. Of `g2.toml` it sees
/// a copy of now, without the secrets.
///
/// # Errors
/// The operating system's.
pub fn project(config: &Config, root: &Path, base: &Path) -> std::io::Result<Vec<(PathBuf, String)>> {
    let off_limits = off_limits(config, root);
    crate::root::make_folder(base)?;
    let mut shown = Vec::new();
    for entry in std::fs::read_dir(root)? {
        let entry = entry?;
        // A link is not followed: it may lead out of the project.
        if entry.file_type()?.is_symlink() || shown.len() >= MOST_SHOWN {
            continue;
        }
        let (Ok(name), path) = (entry.file_name().into_string(), entry.path()) else { continue };
        let Ok(found) = path.canonicalize().and_then(look) else { continue };
        // An adapter's token may stand in it, and a mount would show what is written there later.
        if name == "g2.toml" {
            if let Some(text) = std::fs::read_to_string(&path).ok().and_then(|text| without_secrets(&text)) {
                std::fs::write(base.join(name), text)?;
            }
            continue;
        }
        if is_shown(&name, &found.real, found.kind, &off_limits) {
            match found.kind {
                FoundKind::Folder => std::fs::create_dir_all(base.join(&name))?,
                FoundKind::File | FoundKind::Other => std::fs::write(base.join(&name), "")?,
            }
            shown.push((path, name));
        }
    }
    Ok(shown)
}

/// Returns the places that no container sees by a mount of its choice.
fn off_limits(config: &Config, root: &Path) -> Vec<OffLimits> {
    let mut all = vec![
        (root.join("data"), "the state of G2"),
        (root.join("groups"), "the folders of the groups"),
        (root.join(".env"), "the file of secrets"),
        (root.join("g2.toml"), "the file of settings"),
        ("/proc".into(), "the kernel's view of this machine"),
        ("/sys".into(), "the kernel's view of this machine"),
        ("/dev".into(), "the devices of this machine"),
    ];
    all.extend(list_path(config).and_then(|list| Some((list.parent()?.to_owned(), "the mount allowlist"))));
    all.extend(config.gateway.token_file.clone().map(|file| (file, "the file of the model's key")));
    let backups = config.backup.to.as_ref().map(|to| root.join(to));
    all.extend(
        backups.filter(|to| to != root && to.starts_with(root)).map(|to| (to, "the folder of the backups")),
    );
    let own = config.docker_host.as_deref().and_then(|host| host.strip_prefix("unix://"));
    let engines = ENGINES.into_iter().chain(own).map(|path| (PathBuf::from(path), "the container engine"));
    all.extend(engines);
    // A missing folder may be made later.
    all.into_iter().map(|(path, what)| OffLimits { real: resolved(path), what }).collect()
}

/// Resolves as much of a path as is there.
fn resolved(path: PathBuf) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    match (path.parent(), path.file_name()) {
        (Some(above), Some(name)) => resolved(above.to_owned()).join(name),
        _ => path,
    }
}

fn look(real: PathBuf) -> std::io::Result<Found> {
    let is = std::fs::symlink_metadata(&real)?.file_type();
    let kind = if is.is_dir() {
        FoundKind::Folder
    } else if is.is_file() {
        FoundKind::File
    } else {
        FoundKind::Other
    };
    Ok(Found { real, kind })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Environment;

    #[test]
    fn the_file_of_settings_is_mounted_by_nobody_where_its_folder_is_allowed() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("projects/g2");
        for folder in [&root, &root.join("docs"), &home.path().join(".config/g2")] {
            std::fs::create_dir_all(folder).unwrap();
        }
        std::fs::write(root.join("g2.toml"), "").unwrap();
        std::fs::write(
            home.path().join(".config/g2/mount-allowlist.json"),
            r#"{"allowedRoots": [{"path": "~/projects", "allowReadWrite": true}], "blockedPatterns": [], "nonMainReadOnly": false}"#,
        )
        .unwrap();
        let home = home.path().display().to_string();
        let config = Config::defaults(&Environment::with(&[("HOME", &home)])).unwrap();
        let request = |path: &str| MountRequest { host_path: path.into(), ..MountRequest::default() };
        let writable = MountRequest { readonly: Some(false), ..request("~/projects/g2/g2.toml") };
        let requests = [request("~/projects/g2/g2.toml"), writable, request("~/projects/g2/docs")];
        let Extra { granted, refused } = extra(&config, &root, &requests, true);
        assert_eq!((granted.len(), refused.len()), (1, 2), "{granted:?} {refused:?}");
        assert!(refused.iter().all(|(_, why)| why.contains("the file of settings")), "{refused:?}");
    }
}
