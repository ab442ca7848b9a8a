//! What a hostile container can put into its boxes, and what the host makes of it.
//!
//! The container is played by this process: it writes to the boxes by their paths. Tests that need to be root (devices,
//! owners, mounts) say so where they are not.
#![expect(clippy::disallowed_methods, reason = "plays the container, in temporary folders")]
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail by panicking too")]

use crate::support::skipped;
use ipc_handlers::Code;
use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{Seek as _, Write as _},
    os::unix::{
        ffi::OsStrExt as _,
        fs::{MetadataExt as _, PermissionsExt as _, symlink},
        net::UnixListener,
    },
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use g2::domain::runs::placed::Placed;
use g2::ipc::{
    BoxName, COMMAND_LIMIT, ClaimError, Claimed, Claims, CommandBox, Emptied, FileKind, GroupBoxes, HEAD,
    HostDirs, Identity, InputLeft, InputState, InsideError, PutError, ReadError, StateError, Swept, Why,
    WorldFault, Writer, read_inside,
};
use ipc_handlers::{Folder, Time};
use rustix::fs::{CWD, FileType, Mode, RenameFlags};

mod claims;
mod inside;
mod marks;
mod moves;
mod world;

struct World {
    root: tempfile::TempDir,
    host: Arc<HostDirs>,
    claims: Claims,
    boxes: GroupBoxes,
}

fn world() -> World {
    let root = tempfile::tempdir().unwrap();
    let host = HostDirs::open(&root.path().join("")).unwrap();
    let claims = Claims::open(&host, 0).unwrap();
    let boxes = GroupBoxes::open(&host, &folder("main"), None).unwrap();
    World { root, host, claims, boxes }
}

fn folder(name: &str) -> Folder {
    Folder::parse(name).unwrap()
}

/// No reply stays.
fn nobody() -> Result<Vec<String>, WorldFault> {
    Ok(Vec::new())
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skipped("not root");
    }
    is_root
}

fn why() -> Why {
    Why { receipt: 1, code: Some(Code::Malformed), message: "no command".into(), hint: None, at: Time(0) }
}

impl World {
    /// A path in a box, as the container has it.
    fn at(&self, b: BoxName, name: impl AsRef<Path>) -> PathBuf {
        self.boxes.path_of(b).join(name)
    }

    fn claim(&self, name: impl AsRef<OsStr>) -> Result<Claimed, ClaimError> {
        self.boxes.claim(CommandBox::Tasks, name.as_ref(), &self.claims)
    }

    fn names(&self, place: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.root.path().join(place)) else { return Vec::new() };
        let mut names: Vec<_> =
            entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// A host file that nothing may change, and what it says.
    fn treasure(&self) -> (PathBuf, &'static str) {
        let path = self.root.path().join("g2.sqlite");
        fs::write(&path, "treasure").unwrap();
        (path, "treasure")
    }
}
