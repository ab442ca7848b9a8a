//! The root: where it is, in what state, and its own files, which no container can write.
#![expect(clippy::disallowed_methods, reason = "this folder is the door to the root's own files")]

use std::path::{Path, PathBuf};

use rustix::{
    fs::{Access, access},
    io::Errno,
};

use crate::{config::Environment, domain::problems::RootFault, system::process::own_ids};

mod adapters;
mod black_box;
mod changes;
mod daemon_log;
mod drafts;
mod folders;
mod incoming;
mod kept;
mod key;
mod memories;
mod pair;
mod parts;
mod private;
mod runs;
mod settings;
mod starts;
mod typed;
mod web;

pub use adapters::{read_adapter_log_end, read_pair};
pub use black_box::{BlackBox, HeardRecord, Sample, put_black_box, read_black_box};
pub use changes::{append_change, noted_changes};
pub use daemon_log::{LogEnd, open_daemon_log, turn_daemon_log};
pub use drafts::{drafts, remove_draft};
pub use folders::{make_agent_folders, make_folder, make_group_folder, make_private_folder, read_script};
pub use incoming::{INCOMING, Receiving, clear_incoming, put_incoming};
pub use kept::{read_kept_bytes, read_kept_command};
pub use key::token_key;
pub use memories::{keep_memory, kept_memories, kept_memory};
pub use pair::{Pair, noted_pair};
pub use parts::HeldParts;
pub use private::{keep_private, make_private, make_private_file, open_mode, open_to_others};
pub use runs::{
    folders_of_runs, put_result, read_run_log, read_run_log_end, read_run_prompt, remove_files_of_run,
    remove_run_folder, run_folders,
};
pub use settings::put_variable;
pub use starts::{read_starts, write_starts};
pub use typed::{append_typed, read_typed};
pub use web::{remove_web_token, web_token};

/// Where everything lies: the root, found as the design says.
///
/// `--root`, otherwise `$G2_ROOT`, otherwise the working directory if it holds `groups/` and `data/`, otherwise the nearest folder around
/// it that does and is ours, otherwise `$XDG_DATA_HOME/g2`.
#[must_use]
pub fn find_root(flag: Option<PathBuf>, environment: &Environment) -> PathBuf {
    if let Some(root) = flag.or_else(|| environment.get("G2_ROOT").map(PathBuf::from)) {
        return std::path::absolute(&root).unwrap_or(root);
    }
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
    if let Some(root) = here.ancestors().find(|at| looks_like_a_root(at) && (*at == here || is_ours(at))) {
        return root.to_owned();
    }
    let home = environment.get("HOME").unwrap_or("/root");
    environment
        .get("XDG_DATA_HOME")
        .map_or_else(|| Path::new(home).join(".local/share"), PathBuf::from)
        .join("g2")
}

fn looks_like_a_root(at: &Path) -> bool {
    at.join("groups").is_dir() && at.join("data").is_dir()
}

/// Whether this user owns it. Settings name programs that are run: what somebody else put around us is not followed.
fn is_ours(at: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(at).is_ok_and(|meta| meta.uid() == own_ids().0)
}

/// The state of a place where a root should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// A root with its store.
    Root,
    /// Nothing was kept here yet.
    Nothing,
    /// A restore was begun and has not ended.
    Restoring,
    /// Files that belong to a store, such as `trace`, but no store: it was lost, or its disk is not mounted.
    WithoutStore { trace: PathBuf },
    /// The store was replaced, and the log of the earlier one lies beside it.
    LogOfAnother,
}

/// The folder in a root in which a restore makes it.
pub const RESTORING: &str = ".restoring";

/// Returns the state of `root`. A part that this user may not look at counts as there: opening it tells why it can't be.
#[must_use]
pub fn standing(root: &Path) -> Standing {
    let data = root.join("data");
    match std::fs::metadata(data.join("g2.sqlite")) {
        // One without a byte was never written to.
        Ok(_) if pair::is_log_of_another(root) => return Standing::LogOfAnother,
        Ok(meta) if meta.len() > 0 => return Standing::Root,
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => return Standing::Root,
        Ok(_) | Err(_) => {}
    }
    if root.join(RESTORING).is_dir() {
        return Standing::Restoring;
    }
    let below = |folder: PathBuf| entries(&folder).into_iter();
    let of_the_store = below(data.clone()).filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_log = name == "g2.sqlite-wal" && std::fs::metadata(path).is_ok_and(|meta| meta.len() > 0);
        is_log || name.starts_with("g2.sqlite.before-")
    });
    let of_runs = ["claimed", "sessions", "runs"].into_iter().flat_map(|part| below(data.join(part)));
    let of_commands = ["done", "dead"].into_iter().flat_map(|part| below(data.join(part)).flat_map(below));
    let of_groups = below(root.join("groups")).flat_map(|group| below(group.join("conversations")));
    let trace = of_runs.chain(of_commands).chain(of_groups).chain(of_the_store).next();
    trace.map_or(Standing::Nothing, |trace| Standing::WithoutStore { trace })
}

/// The parts of every root.
const PARTS: [&str; 3] = ["groups", "data", "data/g2.sqlite"];

/// Returns why a root can't be served as it stands: it is not laid out, or not ours to read and write.
#[must_use]
pub fn fault(root: &Path) -> Option<RootFault> {
    let shown = root.display().to_string();
    let at = |part: &str| if part.is_empty() { root.to_owned() } else { root.join(part) };
    let name = |path: PathBuf| path.display().to_string();
    let look = |part: &str| access(at(part), Access::EXISTS);
    let closed = |part: &str| Some(RootFault::Closed { root: shown.clone(), path: name(at(part)) });
    if look("") == Err(Errno::ACCESS) || access(root, Access::EXEC_OK) == Err(Errno::ACCESS) {
        return closed("");
    }
    let mut parts = Vec::new();
    for part in PARTS {
        match look(part) {
            Ok(()) => {}
            Err(Errno::ACCESS) => return closed(part),
            Err(_) => parts.push(part),
        }
    }
    match standing(root) {
        Standing::WithoutStore { trace } => {
            return Some(RootFault::WithoutStore { root: shown, trace: name(trace) });
        }
        Standing::Restoring => return Some(RootFault::Restoring { root: shown }),
        Standing::LogOfAnother => return Some(RootFault::LogOfAnother { root: shown }),
        Standing::Nothing if parts.is_empty() => parts.push("the contents of data/g2.sqlite"),
        Standing::Nothing | Standing::Root => {}
    }
    if !parts.is_empty() {
        return Some(RootFault::Missing { root: shown, parts });
    }
    if let Some(part) = ["groups", "data"].into_iter().find(|part| !root.join(part).is_dir()) {
        return Some(RootFault::NoFolder { root: shown, path: name(at(part)) });
    }
    ["", "groups", "data", "data/g2.sqlite"].into_iter().find_map(|part| {
        let errno = access(at(part), Access::WRITE_OK).err()?;
        let (path, why) = (name(at(part)), std::io::Error::from(errno).to_string());
        Some(match errno {
            Errno::ROFS => RootFault::ReadOnly { path, why },
            _ => RootFault::Unwritable { root: shown.clone(), path, why },
        })
    })
}

/// Returns the paths of a folder's entries; none if there is no folder.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    entries.flatten().map(|entry| entry.path()).collect()
}

/// Moves the contents of `data/` into `data/<aside>/`, because a new store numbers its runs and commands from 1 again.
///
/// # Errors
/// The operating system's.
pub fn move_aside(data: &Path, aside: &str) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    let place = data.join(aside);
    std::fs::DirBuilder::new().mode(0o700).create(&place)?;
    for path in entries(data) {
        let name = path.file_name().unwrap_or_default();
        // The file that this process holds, the page that git knows, and files that were moved earlier.
        let stays = name == "lock" || name == "README.md" || name.to_string_lossy().starts_with("before-");
        if !stays {
            std::fs::rename(&path, place.join(name))?;
        }
    }
    Ok(())
}
