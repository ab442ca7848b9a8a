//! One life of a daemon, which may end at any call of it.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use tokio::sync::Notify;

/// Whether the daemon lives. Once it is dead, nothing that it still tries changes anything.
#[derive(Clone, Debug, Default)]
pub struct Life(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    is_dead: AtomicBool,
    why: Mutex<String>,
    died: Notify,
}

impl Life {
    /// Ends it; the first reason counts.
    pub fn end(&self, why: &str) {
        if !self.0.is_dead.swap(true, Ordering::AcqRel) {
            why.clone_into(&mut self.0.why.lock().unwrap_or_else(PoisonError::into_inner));
            self.0.died.notify_one();
        }
    }

    #[must_use]
    pub fn is_over(&self) -> bool {
        self.0.is_dead.load(Ordering::Acquire)
    }

    /// Waits for its end, and returns why it ended.
    pub async fn over(&self) -> String {
        while !self.is_over() {
            self.0.died.notified().await;
        }
        self.0.why.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
