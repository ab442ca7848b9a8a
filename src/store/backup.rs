//! A copy of a store, for a backup.

use std::path::Path;

use super::{Result, StoreError, place::StoreFile};

/// Copies the store at `from` into the new file `to`, as it stands at one instant, and checks the whole copy. A writer
/// that comes meanwhile does not wait, and its rows are not in the copy.
///
/// # Errors
/// [`StoreError::Open`] when it can't be read, or the copy can't be written; [`StoreError::Refused`] when the copy is damaged.
pub fn copy_to(from: &Path, to: &Path) -> Result<()> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error: rusqlite::Error| StoreError::Open { path: path.clone(), source: error.into() }
    };
    let store = StoreFile::of(from, None)?.connect()?;
    store.busy_timeout(std::time::Duration::from_secs(5)).map_err(failed(from))?;
    // One reading transaction, whatever is committed meanwhile; the other way would begin anew with each commit.
    store.execute("VACUUM INTO ?1", [to.to_string_lossy()]).map_err(failed(from))?;
    let copy = StoreFile::of(to, None)?.connect()?;
    let told: Vec<String> = copy
        .prepare("PRAGMA integrity_check(5)")
        .and_then(|mut check| check.query_map([], |row| row.get(0))?.collect())
        .map_err(failed(to))?;
    if told != ["ok"] {
        let told = told.join("; ");
        return Err(StoreError::refused(
            format!("the store is damaged ({told})"),
            "`g2 doctor` says how to go on",
        ));
    }
    Ok(())
}
