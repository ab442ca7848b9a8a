//! Log lines about a run. An agent can bring about each of these as often as it likes, so of each kind a line is
//! said once a minute, with how often it came.

use std::sync::Mutex;

use crate::system::locked::Locked as _;
use crate::{domain::shown::repeats::Repeats, system::world::World};

/// The kinds of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Line {
    NotTaken,
    NoAnswer,
    CutOff,
    KeyEchoed,
    NotReached,
}

impl Line {
    fn text(self) -> &'static str {
        match self {
            Self::NotTaken => "a connection could not be taken",
            Self::NoAnswer => "the model's host gave no answer",
            Self::CutOff => "an answer of the model's host is cut off",
            Self::KeyEchoed => "the model's host said the key in an answer; the agent got stars in its place",
            Self::NotReached => "a host outside can't be reached",
        }
    }
}

/// The lines of one run.
pub(super) struct Log {
    world: World,
    run: i64,
    repeats: Mutex<Repeats<Line>>,
}

impl Log {
    pub(super) fn new(world: World, run: i64) -> Self {
        Self { world, run, repeats: Mutex::default() }
    }

    /// Says a line, unless its kind was said within the last minute.
    pub(super) fn warn(&self, line: Line, why: &dyn std::fmt::Display) {
        if let Some(times) = self.repeats().happened(line, self.world.now()) {
            tracing::warn!(run = self.run, %why, times, "{}", line.text());
        }
    }

    fn repeats(&self) -> std::sync::MutexGuard<'_, Repeats<Line>> {
        self.repeats.locked()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        for (line, times) in self.repeats().rest() {
            tracing::warn!(run = self.run, times, "{}", line.text());
        }
    }
}
