//! Work that panics, which is a fault of our own.

use std::{any::Any, panic::AssertUnwindSafe};

use futures_util::FutureExt as _;

/// Does work that may panic. What it had in hand then may be half done: the caller looks at it anew.
///
/// # Errors
/// What it said as it panicked.
pub async fn caught<T>(work: impl Future<Output = T>) -> Result<T, String> {
    AssertUnwindSafe(work).catch_unwind().await.map_err(|panic| words(&*panic).to_owned())
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
        assert_eq!(caught::<()>(async { panic!("plain") }).await, Err("plain".to_owned()));
        assert_eq!(caught::<()>(async { panic!("{} of two", 1) }).await, Err("1 of two".to_owned()));
        assert_eq!(
            caught::<()>(async { std::panic::panic_any(7) }).await,
            Err("it did not say why".to_owned())
        );
    }
}
