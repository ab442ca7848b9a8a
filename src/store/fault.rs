//! What SQLite said that went wrong. Only the store knows what it means.

use std::sync::Arc;

use rusqlite::{ErrorCode, ffi};

/// A failure that SQLite told of.
#[derive(Clone, Debug, thiserror::Error)]
#[error(transparent)]
pub struct Fault(Arc<rusqlite::Error>);

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self(Arc::new(error))
    }
}

impl Fault {
    /// One that SQLite tells of by this extended code.
    #[cfg(test)]
    pub(crate) fn of(code: i32) -> Self {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None).into()
    }

    fn code(&self) -> Option<ErrorCode> {
        self.0.sqlite_error_code()
    }

    fn is_extended(&self, code: i32) -> bool {
        self.0.sqlite_error().is_some_and(|error| error.extended_code == code)
    }

    /// Whether the disk has no room left.
    pub(super) fn is_disk_full(&self) -> bool {
        self.code() == Some(ErrorCode::DiskFull) || self.is_extended(ffi::SQLITE_IOERR_SHMSIZE)
    }

    /// Whether another program holds the lock of the store.
    pub(super) fn is_locked(&self) -> bool {
        self.code() == Some(ErrorCode::DatabaseBusy)
    }

    /// Whether the work was told to stop.
    pub(super) fn is_interrupted(&self) -> bool {
        self.code() == Some(ErrorCode::OperationInterrupted)
    }

    /// Whether the file is none of SQLite's, or broken. A file that ends too early says so by a code of its own.
    pub(super) fn is_broken(&self) -> bool {
        matches!(self.code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
            || self.is_extended(ffi::SQLITE_IOERR_SHORT_READ)
    }

    /// Whether a table is missing whose name begins so.
    pub(super) fn lacks_table(&self, name: &str) -> bool {
        self.is_extended(ffi::SQLITE_ERROR) && self.0.to_string().contains(&format!("no such table: {name}"))
    }

    /// Whether the file can't be opened, or not be written.
    pub(super) fn is_shut(&self) -> bool {
        matches!(self.code(), Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied))
    }

    /// Whether the row that was to be written is at fault.
    pub(super) fn is_of_its_row(&self) -> bool {
        matches!(
            self.code(),
            Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig | ErrorCode::TypeMismatch)
        )
    }

    /// Whether trying again later may help.
    pub(super) fn may_pass(&self) -> bool {
        matches!(
            self.code(),
            Some(
                ErrorCode::DatabaseBusy
                    | ErrorCode::DatabaseLocked
                    | ErrorCode::DiskFull
                    | ErrorCode::SystemIoFailure
                    | ErrorCode::OutOfMemory
                    | ErrorCode::CannotOpen
                    | ErrorCode::ReadOnly
            )
        )
    }
}
