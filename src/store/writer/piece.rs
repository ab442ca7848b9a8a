//! One piece of work, in a savepoint of its own: where it fails or panics, all of it is undone, and its neighbours go on.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, Location, catch_unwind},
};

use rusqlite::Connection;

use crate::store::StoreError;

/// The longest text that is kept of a panic, characters.
const LONGEST: usize = 300;

/// Does a piece of work of the method at `place`, all or nothing. A savepoint of another name that it leaves open is closed with
/// its own; a piece within it closes its own.
///
/// # Errors
/// The work's, or [`StoreError::Panicked`].
pub(super) fn in_savepoint<T>(
    connection: &Connection,
    place: &'static Location<'static>,
    work: impl FnOnce(&Connection) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    execute(connection, "SAVEPOINT piece")?;
    let outcome = caught(place, || work(connection));
    // The transaction is gone, and every savepoint with it: what comes next would be committed by itself.
    if outcome.is_err() && connection.is_autocommit() {
        return outcome;
    }
    let closed = match &outcome {
        Ok(_) => execute(connection, "RELEASE piece"),
        Err(_) => {
            execute(connection, "ROLLBACK TO piece").and_then(|()| execute(connection, "RELEASE piece"))
        }
    };
    if let Err(error) = closed {
        // Nothing may be committed of a piece that is told to have failed.
        let _ = connection.execute_batch("ROLLBACK");
        return Err(error.into());
    }
    outcome
}

/// Does the work of the method at `place`, and logs it if that panics.
fn caught<T>(
    place: &'static Location<'static>,
    work: impl FnOnce() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    // Whatever it had in hand is dropped, so its statements are over. Only its rows are left, and the caller undoes them.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let why = said(&*panic);
        tracing::error!(%place, why, "our own fault: a piece of work on the store panicked; it is undone");
        Err(StoreError::Panicked { place, why })
    })
}

/// Returns the words of a panic.
pub(super) fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref().map(String::as_str));
    text.unwrap_or("it says nothing").chars().take(LONGEST).collect()
}

/// Executes a statement without values, parsed once.
pub(in crate::store) fn execute(connection: &Connection, sql: &'static str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(drop)
}
