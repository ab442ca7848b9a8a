//! Where a provider gets its turns from.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::{
    files::FileError,
    hints::Hints,
    inbox::{Found, Inbox},
};

/// How long the folder may go unseen when no event comes.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// One batch, or the prompt of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The batch's id, to be named in [`Event::TurnDone`](crate::Event::TurnDone); a task has none.
    pub batch: Option<String>,
    /// What the agent is to be told, formatted.
    pub prompt: String,
}

/// The turns of this life: first the one that came with the launch, then the follow-ups.
///
/// A follow-up is claimed when it is asked for and not before; one that waits can be taken back by the host at no
/// cost. A provider whose agent takes messages in the middle of a turn asks from a second thread.
pub struct Turns {
    inbox: Arc<Inbox>,
    inner: Mutex<Inner>,
    stopped: AtomicBool,
}

struct Inner {
    first: Option<Turn>,
    hints: Hints,
    closed: bool,
}

impl Turns {
    pub(crate) fn new(first: Turn, inbox: Arc<Inbox>) -> Self {
        let hints = Hints::on(inbox.path());
        Self {
            inbox,
            inner: Mutex::new(Inner { first: Some(first), hints, closed: false }),
            stopped: AtomicBool::new(false),
        }
    }

    /// Waits for the next turn. `None`: finish the live work and leave.
    ///
    /// # Errors
    /// [`FileError`] when the input folder can't be read any more.
    pub fn next(&self) -> Result<Option<Turn>, FileError> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(first) = inner.first.take() {
            return Ok(Some(first));
        }
        while !inner.closed && !self.stopped.load(Ordering::Relaxed) {
            match self.inbox.look()? {
                Found::Turn(turn) => {
                    inner.hints.found();
                    return Ok(Some(turn));
                }
                Found::Close => inner.closed = true,
                Found::Nothing => inner.hints.wait(LOOK_AGAIN),
            }
        }
        Ok(None)
    }

    /// Lets a [`next`](Self::next) that waits in another thread return `None` soon: nobody wants turns any more.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}
