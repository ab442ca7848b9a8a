//! A living adapter, as it is asked: each request has a number, and an answer or none.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use channel_protocol::{Done, Down, NotSent, Up, line};
use tokio::sync::{Notify, Semaphore, mpsc, oneshot};

use super::{lock, words};
use crate::domain::platforms::channels::{Outcome, Unsent};

/// How many requests an adapter works on at once.
const MOST_ASKED: usize = 128;

/// A living adapter, as it is asked.
#[derive(Clone)]
pub(super) struct Wire {
    pub(super) lines: mpsc::Sender<Vec<u8>>,
    open: Arc<Mutex<HashMap<u64, oneshot::Sender<Up>>>>,
    next: Arc<AtomicU64>,
    places: Arc<Semaphore>,
    /// The last request that was open is answered, or asked no more.
    idle: Arc<Notify>,
}

/// Why a request has no answer.
pub(super) enum Lost {
    /// It was not written.
    Never,
    /// It is longer than a line may be.
    TooLong,
    /// The adapter may have read it.
    Perhaps,
}

/// A request that is asked no more leaves nothing behind.
struct Forget<'a>(&'a Wire, u64);

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        let mut open = lock(&self.0.open);
        open.remove(&self.1);
        if open.is_empty() {
            self.0.idle.notify_waiters();
        }
    }
}

impl Wire {
    pub(super) fn new(lines: mpsc::Sender<Vec<u8>>) -> Self {
        Self {
            lines,
            open: Arc::default(),
            next: Arc::new(AtomicU64::new(1)),
            places: Arc::new(Semaphore::new(MOST_ASKED)),
            idle: Arc::default(),
        }
    }

    /// Asks for something and waits for the answer.
    pub(super) async fn ask(&self, make: impl FnOnce(u64) -> Down) -> Result<Up, Lost> {
        let Ok(_place) = self.places.acquire().await else { return Err(Lost::Never) };
        let r = self.next.fetch_add(1, Ordering::Relaxed);
        let line = line(&make(r)).ok_or(Lost::TooLong)?;
        let (answer, answered) = oneshot::channel();
        lock(&self.open).insert(r, answer);
        let _forget = Forget(self, r);
        self.lines.send(line).await.map_err(|_| Lost::Never)?;
        answered.await.map_err(|_| Lost::Perhaps)
    }

    /// Hands an answer to who waits for it.
    pub(super) fn answer(&self, r: u64, up: Up) {
        if let Some(waiting) = lock(&self.open).remove(&r) {
            // Nobody waits any more: the asker decides by that it has heard nothing.
            let _ = waiting.send(up);
        }
    }

    /// Waits until nothing is asked.
    pub(super) async fn idle(&self) {
        loop {
            let mut idle = std::pin::pin!(self.idle.notified());
            // It is told of every end from here on.
            idle.as_mut().enable();
            if lock(&self.open).is_empty() {
                return;
            }
            idle.await;
        }
    }

    /// Nobody is answered any more.
    pub(super) fn end(&self) {
        self.places.close();
        lock(&self.open).clear();
    }
}

/// Reads what became of something that was sent or changed.
pub(super) fn outcome(done: Done) -> Outcome {
    let good = |id: &String| !id.is_empty() && id.len() <= 512;
    match done {
        Done { ids: Some(ids), not: None, unknown: None, .. } if ids.iter().all(good) => Ok(ids),
        Done { ids: None, not: Some(not), unknown: None, .. } => Err(Unsent::Not(not)),
        Done { ids: None, not: None, unknown: Some(why), .. } => {
            Err(Unsent::Unknown(words(&why).unwrap_or_else(|| "the adapter does not know".into())))
        }
        Done { .. } => Err(Unsent::Unknown("the adapter's answer says nothing".into())),
    }
}

/// A request without an answer, as what became of it.
pub(super) fn lost(lost: Lost) -> Unsent {
    match lost {
        Lost::Never => Unsent::Not(NotSent::Offline),
        Lost::TooLong => Unsent::refused("it is longer than a line of the channel protocol may be"),
        Lost::Perhaps => Unsent::Unknown("the adapter ended before it answered".into()),
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn it_is_idle_once_every_request_is_answered_or_given_up() {
        let (lines, mut written) = mpsc::channel(9);
        let wire = Wire::new(lines);
        wire.idle().await;
        let mut first = Box::pin(wire.ask(|r| Down::Ping { r }));
        let mut second = Box::pin(wire.ask(|r| Down::Ping { r }));
        assert!((&mut first).now_or_never().is_none() && (&mut second).now_or_never().is_none());
        written.recv().await.unwrap();
        let mut idle = Box::pin(wire.idle());
        assert!((&mut idle).now_or_never().is_none());
        drop(second);
        assert!((&mut idle).now_or_never().is_none());
        wire.answer(1, Up::Pong { r: 1 });
        assert!(matches!(first.await, Ok(Up::Pong { r: 1 })));
        idle.await;
    }

    #[test]
    fn an_answer_that_says_two_things_or_none_says_nothing() {
        let ids = || Some(vec!["7".to_owned()]);
        assert_eq!(outcome(Done { ids: ids(), ..Done::default() }), Ok(vec!["7".into()]));
        assert_eq!(
            outcome(Done { not: Some(NotSent::Offline), ..Done::default() }),
            Err(Unsent::Not(NotSent::Offline))
        );
        for done in [
            Done::default(),
            Done { ids: ids(), not: Some(NotSent::Offline), ..Done::default() },
            Done { ids: Some(vec![String::new()]), ..Done::default() },
            Done { ids: ids(), unknown: Some("x".into()), ..Done::default() },
        ] {
            assert!(matches!(outcome(done), Err(Unsent::Unknown(_))));
        }
    }
}
