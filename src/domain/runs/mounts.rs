//! Which folders of the host a group's containers may see besides their own: v1's `mount-allowlist.json`.
//!
//! Every path here was resolved by the caller, links and all; nothing here looks at the disk.

use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

/// What no mount's path may contain, in whatever case, whatever the list says. v1's, and some of its kind.
pub const BLOCKED: [&str; 21] = [
    ".ssh",
    ".gnupg",
    ".gpg",
    ".aws",
    ".azure",
    ".gcloud",
    ".kube",
    ".docker",
    "credentials",
    ".env",
    ".netrc",
    ".npmrc",
    ".pypirc",
    "id_rsa",
    "id_ed25519",
    "private_key",
    ".secret",
    ".password-store",
    ".git-credentials",
    ".claude.json",
    "docker.sock",
];

/// What the name of a top-level entry of the project must not contain either, for the main group to see it.
const SECRET: [&str; 14] = [
    "secret", "password", "id_ecdsa", "id_dsa", ".pem", ".key", ".p12", ".pfx",
    // A backup has the texts of all groups in it, and perhaps the keys.
    "backup", ".tar", ".tgz", ".partial", ".sqlite",
    // The settings, and what editors leave of them: main sees a copy without what is secret in it.
    "g2.toml",
];

/// Where extra mounts are seen inside.
pub const EXTRA: &str = "/workspace/extra";

/// A mount that a group asks for, as v1's `additionalMounts` has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MountRequest {
    /// Absolute, or from `~`, or from the root.
    pub host_path: String,
    /// Below `/workspace/extra`; left out, the last part of the host's path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_path: Option<String>,
    /// Left out, it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readonly: Option<bool>,
}

/// `mount-allowlist.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Allowlist {
    pub allowed_roots: Vec<AllowedRoot>,
    /// More of what no path may contain, besides [`BLOCKED`].
    pub blocked_patterns: Vec<String>,
    /// Only the main group may write into extra mounts.
    pub non_main_read_only: bool,
}

/// A folder below which mounts may lie.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AllowedRoot {
    pub path: String,
    #[serde(default)]
    pub allow_read_write: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// What lies at a path, once every link on the way was followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub real: PathBuf,
    pub kind: FoundKind,
}

/// The kind of thing at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundKind {
    Folder,
    File,
    /// A socket, a device, a FIFO.
    Other,
}

/// A place that is nobody's, with what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffLimits {
    pub real: PathBuf,
    pub what: &'static str,
}

/// What a request is held against.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    pub list: &'a Allowlist,
    /// Where each of the list's roots really is; `None`: it is not there.
    pub roots: &'a [Option<PathBuf>],
    pub off_limits: &'a [OffLimits],
    pub is_main: bool,
}

/// A mount that may be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Granted {
    /// On the host, links resolved.
    pub host: PathBuf,
    /// In the container.
    pub inside: String,
    pub writable: bool,
}

/// Why it can't be told what lies at a path: the operating system's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotFound(pub String);

/// Why a mount is not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MountRefusal {
    #[error("the container path {0:?} is not one or more plain names below {EXTRA}")]
    ContainerPath(String),
    #[error("{EXTRA}/{0} is there already, or lies in or around a mount that is")]
    Taken(String),
    #[error("{path} can't be resolved")]
    NotThere { path: String, source: NotFound },
    #[error("{0} is neither a folder nor a file")]
    Kind(String),
    #[error("{0} is no UTF-8, which an engine can't be told")]
    Name(String),
    #[error("{path} contains {pattern:?}, which is blocked")]
    Blocked { path: String, pattern: String },
    #[error("{path} is, contains or lies in {what}")]
    OffLimits { path: String, what: &'static str },
    #[error("{0} lies below none of allowedRoots")]
    NotAllowed(String),
}

/// Decides on one request. `found` is what lies at its host path, or why that can't be told; `taken` are the mounts
/// that were granted before it.
///
/// # Errors
/// [`MountRefusal`]
pub fn decide(
    request: &MountRequest,
    found: Result<Found, NotFound>,
    rules: Rules<'_>,
    taken: &[Granted],
) -> Result<Granted, MountRefusal> {
    let name = container_path(request)?;
    let inside = format!("{EXTRA}/{name}");
    if taken.iter().any(|other| overlap(Path::new(&other.inside), Path::new(&inside))) {
        return Err(MountRefusal::Taken(name));
    }
    let found = found.map_err(|source| MountRefusal::NotThere { path: request.host_path.clone(), source })?;
    let path = found.real.display().to_string();
    match found.kind {
        FoundKind::Folder | FoundKind::File => {}
        FoundKind::Other => return Err(MountRefusal::Kind(path)),
    }
    let Some(text) = found.real.to_str() else { return Err(MountRefusal::Name(path)) };
    let blocked = BLOCKED.into_iter().chain(rules.list.blocked_patterns.iter().map(String::as_str));
    if let Some(pattern) = blocked.filter(|p| !p.is_empty()).find(|pattern| contains(text, pattern)) {
        return Err(MountRefusal::Blocked { path, pattern: pattern.to_owned() });
    }
    if let Some(off) = rules.off_limits.iter().find(|off| overlap(&off.real, &found.real)) {
        return Err(MountRefusal::OffLimits { path, what: off.what });
    }
    let mut roots = rules.list.allowed_roots.iter().zip(rules.roots);
    let root = roots.find(|(_, real)| real.as_ref().is_some_and(|real| found.real.starts_with(real)));
    let Some((root, _)) = root else { return Err(MountRefusal::NotAllowed(path)) };
    let may_write = root.allow_read_write && (rules.is_main || !rules.list.non_main_read_only);
    Ok(Granted { host: found.real, inside, writable: request.readonly == Some(false) && may_write })
}

/// Whether one of the top-level entries of the project is shown to the main group, with all that is in it: nothing whose
/// name sounds secret, nobody's memory, no state of ours. What a link leads to is not asked: links are not shown.
#[must_use]
pub fn is_shown(name: &str, real: &Path, kind: FoundKind, off_limits: &[OffLimits]) -> bool {
    kind != FoundKind::Other
        && !name.contains(|c: char| c.is_control() || c == ':')
        && !BLOCKED.iter().chain(&SECRET).any(|pattern| contains(name, pattern))
        && !off_limits.iter().any(|off| overlap(&off.real, real))
}

/// Returns where a path of the list or of a request is meant to lie: from `~`, from `base`, or absolute.
#[must_use]
pub fn expand(path: &str, home: Option<&Path>, base: &Path) -> PathBuf {
    match (path.strip_prefix('~'), home) {
        (Some(""), Some(home)) => home.to_owned(),
        (Some(rest), Some(home)) if rest.starts_with('/') => home.join(rest.trim_start_matches('/')),
        _ => base.join(path),
    }
}

/// The names below [`EXTRA`], checked: the request's own, else the last of the host's path.
fn container_path(request: &MountRequest) -> Result<String, MountRefusal> {
    let path = match &request.container_path {
        Some(path) => path.as_str(),
        None => request.host_path.trim_end_matches('/').rsplit('/').next().unwrap_or_default(),
    };
    let plain = |name: &str| {
        !name.trim().is_empty()
            && name.len() <= 255
            && !name.contains("..")
            && name != "."
            && !name.contains(|c: char| c.is_control() || c == ':' || c == '\\')
    };
    if path.len() <= 1024 && path.split('/').all(plain) {
        Ok(path.to_owned())
    } else {
        Err(MountRefusal::ContainerPath(path.to_owned()))
    }
}

/// Whether a path or name contains a pattern, in whatever case.
fn contains(text: &str, pattern: &str) -> bool {
    text.to_lowercase().contains(&pattern.to_lowercase())
}

/// Whether one of two paths is, or lies in, the other.
fn overlap(a: &Path, b: &Path) -> bool {
    debug_assert!(!a.components().chain(b.components()).any(|c| c == Component::ParentDir), "resolved");
    a.starts_with(b) || b.starts_with(a)
}

#[cfg(test)]
mod tests;
