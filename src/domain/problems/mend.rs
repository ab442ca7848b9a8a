//! What `g2 doctor --fix` can mend by itself. Each mend changes one thing, twice changes nothing more, and takes nothing away
//! that anybody has written.

use std::path::PathBuf;

use ipc_handlers::Folder;

use crate::machine::image::ImageKind;

/// A mend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mend {
    /// Close the parts of the root that other users may read.
    CloseRoot,
    /// Let only its owner use this file.
    CloseFile(PathBuf),
    /// Make the missing folder of a group, empty.
    MakeFolder(Folder),
    /// Make the mailboxes as they belong: owner and mode. Only without a daemon, which does so by itself.
    LayOutBoxes,
    /// Remove a file that was to become another, whose writer was killed.
    RemoveDraft(PathBuf),
    /// Remove the socket that a killed daemon has left.
    RemoveSocket(PathBuf),
    /// Build an image.
    BuildImage(ImageKind, String),
}

impl Mend {
    /// Returns what it does.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Self::CloseRoot => "close messages, memories and settings in the root to other users".to_owned(),
            Self::CloseFile(path) => format!("close {} to other users", path.display()),
            Self::MakeFolder(group) => format!("make the missing folder of group {group}, empty"),
            Self::LayOutBoxes => "make the groups' mailboxes, with their owner and mode".to_owned(),
            Self::RemoveDraft(path) => {
                format!("remove {}, which a killed program has left half written", path.display())
            }
            Self::RemoveSocket(path) => format!("remove {}, on which nobody listens", path.display()),
            Self::BuildImage(kind, image) => format!("build {image}: `{}`", kind.command(image)),
        }
    }
}
