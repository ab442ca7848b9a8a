//! Whether the root is laid out and can be written to.

use std::path::Path;

use super::row::Row;
use crate::{
    domain::problems::{Problem, checks::Check, mend::Mend},
    loops::problems::open_root,
    root::{drafts, fault},
};

/// As this user finds it, be there a daemon of another.
pub(super) fn check(root: &Path) -> Row {
    match fault(root) {
        Some(fault) => Row::Found(Problem::Root(fault).finding()),
        None => Row::ok(Check::Root, format!("{} is laid out and can be written", root.display())),
    }
}

/// Looks whether other users can read messages, memories or settings, and says how that is mended.
pub(super) fn private(root: &Path) -> Option<Row> {
    // What keeps a daemon from starting comes first: the start closes the rest.
    if fault(root).is_some() {
        return None;
    }
    Some(Row::Found(open_root(root)?.finding()).mended_by(Mend::CloseRoot))
}

/// Says so when a killed program has left a file half written.
pub(super) fn left(root: &Path) -> Vec<Row> {
    let rows = drafts(root).into_iter().map(|path| {
        let detail = format!("{} was to become another file, and its writer was killed", path.display());
        Row::warn(Check::Root, detail, format!("`rm {}`", path.display())).mended_by(Mend::RemoveDraft(path))
    });
    rows.collect()
}
