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
    inbox::{Found, Inbox},
    world::{Hints, World},
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
    hints: Box<dyn Hints>,
    closed: bool,
}

impl Turns {
    pub(crate) fn new(world: &dyn World, first: Turn, inbox: Arc<Inbox>) -> Self {
        let hints = world.hints(inbox.path());
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
        loop {
            match self.look(&mut inner)? {
                Found::Turn(turn) => return Ok(Some(turn)),
                Found::Close => return Ok(None),
                Found::Nothing => inner.hints.wait(LOOK_AGAIN),
            }
        }
    }

    /// Returns the next turn where one waits, at once: for an agent that takes messages in the middle of a turn.
    ///
    /// # Errors
    /// As above.
    pub fn waiting(&self) -> Result<Option<Turn>, FileError> {
        match self.look(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner))? {
            Found::Turn(turn) => Ok(Some(turn)),
            Found::Close | Found::Nothing => Ok(None),
        }
    }

    /// Looks once. A close is for good.
    fn look(&self, inner: &mut Inner) -> Result<Found, FileError> {
        if let Some(first) = inner.first.take() {
            return Ok(Found::Turn(first));
        }
        if inner.closed || self.stopped.load(Ordering::Relaxed) {
            return Ok(Found::Close);
        }
        let found = self.inbox.look()?;
        match &found {
            Found::Turn(_) => inner.hints.found(),
            Found::Close => inner.closed = true,
            Found::Nothing => {}
        }
        Ok(found)
    }

    /// Lets a [`next`](Self::next) that waits in another thread return `None` soon: nobody wants turns any more.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}
