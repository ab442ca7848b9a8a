//! Work that panics, which is a fault of our own.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, UnwindSafe, catch_unwind},
};

use futures_util::FutureExt as _;
use tokio::task::JoinError;

/// Work panicked, and what it said then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it panicked: {0}")]
pub struct Panicked(String);

/// Does work that may panic. What it had in hand then may be half done: the caller looks at it anew.
///
/// # Errors
/// [`Panicked`]
pub async fn caught<T>(work: impl Future<Output = T>) -> Result<T, Panicked> {
    AssertUnwindSafe(work).catch_unwind().await.map_err(|panic| Panicked(words(&*panic).to_owned()))
}

/// As [`caught`], on this thread.
///
/// # Errors
/// [`Panicked`]
pub fn caught_here<T>(work: impl FnOnce() -> T + UnwindSafe) -> Result<T, Panicked> {
    catch_unwind(work).map_err(|panic| Panicked(words(&*panic).to_owned()))
}

impl Panicked {
    /// Nobody did the work, and nobody is told any more: the runtime ends.
    pub(super) fn never_done(why: &std::io::Error) -> Self {
        Self(why.to_string())
    }
}

impl From<JoinError> for Panicked {
    fn from(error: JoinError) -> Self {
        match error.try_into_panic() {
            Ok(panic) => Self(words(&*panic).to_owned()),
            // Nobody is told any more: the runtime ends.
            Err(cancelled) => Self(cancelled.to_string()),
        }
    }
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it did not say why")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_said_in_a_panic_is_returned_and_other_work_is_left_alone() {
        assert_eq!(caught(async { 7 }).await, Ok(7));
        let panicked = |words: &str| Err(Panicked(words.to_owned()));
        assert_eq!(caught::<()>(async { panic!("plain") }).await, panicked("plain"));
        assert_eq!(caught::<()>(async { panic!("{} of two", 1) }).await, panicked("1 of two"));
        assert_eq!(caught::<()>(async { std::panic::panic_any(7) }).await, panicked("it did not say why"));
    }
}
