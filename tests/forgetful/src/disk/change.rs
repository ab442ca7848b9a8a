//! One change of names, rights or sizes: what a journal has entries for.

use std::ffi::{OsStr, OsString};

use super::tree::{Ino, Node, Rights};

/// A name in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The folder.
    pub folder: Ino,
    /// The name in it.
    pub name: OsString,
}

impl Place {
    /// The name `name` in `folder`.
    #[must_use]
    pub fn new(folder: Ino, name: &OsStr) -> Self {
        Self { folder, name: name.to_owned() }
    }
}

/// An entry of the journal. Each is there as a whole or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Make {
        ino: Ino,
        node: Box<Node>,
    },
    Link {
        place: Place,
        ino: Ino,
    },
    Unlink {
        place: Place,
    },
    Rename {
        from: Place,
        to: Place,
        swap: bool,
    },
    Rights {
        ino: Ino,
        rights: Rights,
    },
    Attribute {
        ino: Ino,
        name: OsString,
        value: Option<Vec<u8>>,
    },
    Size {
        ino: Ino,
    },
    /// The last descriptor of a node without a name is closed.
    Reap {
        ino: Ino,
    },
}

/// Whether a change of a node is one that `fdatasync` makes durable as well: what is needed to find and read its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    Data,
    Other,
}
