//! Whether the root is laid out and can be written to.

use std::path::Path;

use super::row::Row;
use crate::{
    domain::problems::{Problem, checks::Check, mend::Mend},
    root::{drafts, fault, open_to_others},
};

/// As this user finds it, be there a daemon of another.
pub(super) fn check(root: &Path) -> Row {
    match fault(root) {
        Some(fault) => Row::Found(Problem::Root(fault).finding()),
        None => Row::ok(Check::Root, format!("{} is laid out and can be written", root.display())),
    }
}

/// How many files and folders that are open to others are named.
const NAMED: usize = 5;

/// Looks whether other users can read messages, memories or settings; of `.env` its own check says so.
pub(super) fn private(root: &Path) -> Option<Row> {
    let mut open = open_to_others(root);
    open.retain(|(path, _)| !path.ends_with(".env"));
    let (path, _) = open.first()?;
    let all: Vec<String> =
        open.iter().map(|(path, mode)| format!("{} (mode {mode:04o})", path.display())).collect();
    let more = all.len().saturating_sub(NAMED);
    let mut named = all[..all.len() - more].join(", ");
    if more > 0 {
        named.push_str(&format!(" and {more} more"));
    }
    let fix = format!("start g2, which closes the files of its own user, or `chmod go= {}`", path.display());
    Some(Row::fail(Check::Root, format!("other users may read {named}"), fix).mended_by(Mend::CloseRoot))
}

/// Says so when a killed program has left a file half written.
pub(super) fn left(root: &Path) -> Vec<Row> {
    let rows = drafts(root).into_iter().map(|path| {
        let detail = format!("{} was to become another file, and its writer was killed", path.display());
        Row::warn(Check::Root, detail, format!("`rm {}`", path.display())).mended_by(Mend::RemoveDraft(path))
    });
    rows.collect()
}
