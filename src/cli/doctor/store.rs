//! Whether the store opens, is of a schema that we know, and is sound.

use std::{path::Path, time::Duration};

use super::row::{Row, chain};
use crate::{
    domain::problems::checks::Check,
    root::{Standing, standing},
    store::{Inspection, Size, Soundness, Store, StoreError, inspect},
};

/// Looks at the store; returns it when the other checks can use it. One of an older schema is not touched.
pub(super) fn check(root: &Path, limit: Duration) -> (Vec<Row>, Option<Store>) {
    let path = root.join("data/g2.sqlite");
    if standing(root) != Standing::Root {
        // The check of the root says so.
        return (Vec::new(), None);
    }
    let found = inspect(&path, limit);
    let mut rows = vec![judge(&found, &path)];
    let usable = matches!(&found, Ok(Inspection { schema, known, soundness: Soundness::Sound | Soundness::NotReadToTheEnd }) if schema == known);
    if !usable {
        return (rows, None);
    }
    match Store::open(&path) {
        Ok(store) => {
            rows.extend(store.size().ok().and_then(large));
            (rows, Some(store))
        }
        Err(error) => {
            let fix = format!("let this user write {} and its folder", path.display());
            rows.push(Row::fail(Check::Store, chain(&error), fix));
            (rows, None)
        }
    }
}

/// A store above this is told about, bytes.
const LARGE: u64 = 1 << 30;

/// Says so when a store has grown large.
fn large(size: Size) -> Option<Row> {
    let (mib, free) = (size.bytes >> 20, size.free >> 20);
    (size.bytes >= LARGE).then(|| {
        Row::warn(
            Check::Store,
            format!("it has grown to {mib} MiB, of which {free} MiB are free for new rows"),
            "`g2 prune --dry-run` counts the old history; `g2 prune` removes it, and with the daemon down shrinks the file; with limits.keep_days the daemon prunes daily",
        )
    })
}

fn judge(found: &Result<Inspection, StoreError>, path: &Path) -> Row {
    let shown = path.display();
    let restore = format!(
        "stop g2 and keep a copy of {shown}*; then restore a backup, or recover rows with `sqlite3 {shown} .recover`"
    );
    match found {
        Err(error) => Row::fail(Check::Store, chain(error), restore),
        Ok(Inspection { soundness: Soundness::Damaged(faults), .. }) => {
            Row::fail(Check::Store, format!("{shown} is damaged: {}", faults.join("; ")), restore)
        }
        Ok(Inspection { schema, known, .. }) if schema > known => Row::fail(
            Check::Store,
            format!("{shown} has schema {schema}, newer than the {known} that this program knows"),
            "install the g2 that wrote it, or a newer one",
        ),
        Ok(Inspection { schema, known, .. }) if schema.is_too_old() => Row::fail(
            Check::Store,
            format!(
                "{shown} has schema {schema}; this program writes {known}, and goes on from no such schema"
            ),
            "start a g2 that has schema 67 of the old count there once, then this one",
        ),
        Ok(Inspection { schema, known, .. }) if schema < known => Row::warn(
            Check::Store,
            format!("{shown} has schema {schema}; this program writes {known}"),
            "the next start migrates it and keeps a copy beside it; its contents were not checked",
        ),
        Ok(Inspection { schema, soundness: Soundness::NotReadToTheEnd, .. }) => Row::ok(
            Check::Store,
            format!("schema {schema}; it is too large to be checked whole, and the checked part is sound"),
        ),
        Ok(Inspection { schema, soundness: Soundness::Sound, .. }) => {
            Row::ok(Check::Store, format!("schema {schema}, sound"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_told_about_from_a_gibibyte_on() {
        assert_eq!(large(Size { bytes: LARGE - 1, free: 0 }), None);
        let row = large(Size { bytes: LARGE, free: 7 << 20 }).unwrap();
        assert!(row.told().detail.contains("1024 MiB, of which 7 MiB"), "{row:?}");
    }
}
