//! Locks that outlive the panics of their holders: what they guard is whole after each step.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes such a lock.
pub trait Locked<T: ?Sized> {
    /// Waits for the lock, also of one over which somebody panicked.
    fn locked(&self) -> MutexGuard<'_, T>;
}

impl<T: ?Sized> Locked<T> for Mutex<T> {
    fn locked(&self) -> MutexGuard<'_, T> {
        self.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
