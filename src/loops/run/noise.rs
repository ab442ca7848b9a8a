//! Faults of a run's output, as the log tells them: a container can bring one about as often as it likes.

use super::Watched;
use crate::sandbox::output::Reason;

/// What the log is told of once a minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Noise {
    Unreadable,
    TooLarge,
    Restarted,
    NoStart,
    CutOff,
    NoNumber,
    TooMuch,
}

impl Noise {
    fn of(reason: &Reason) -> Self {
        match reason {
            Reason::Unreadable(_) => Self::Unreadable,
            Reason::TooLarge => Self::TooLarge,
            Reason::Restarted => Self::Restarted,
            Reason::NoStart => Self::NoStart,
            Reason::CutOff => Self::CutOff,
        }
    }
}

impl Watched {
    /// Something in the output is no record.
    pub(super) fn heard_garbage(&mut self, reason: &Reason, sample: &str) {
        let noise = Noise::of(reason);
        if let Some(times) = self.said.noise.happened(noise, self.runs.machine.world.now()) {
            let reason = reason.to_string();
            tracing::warn!(?noise, times, reason, sample, "garbage in the output");
        }
    }

    /// A record without a number is not the runner's. It is not counted: it would take the number of a record that is.
    pub(super) fn heard_without_number(&mut self) {
        if let Some(times) = self.said.noise.happened(Noise::NoNumber, self.runs.machine.world.now()) {
            tracing::warn!(times, "a record without a number is none of the runner's");
        }
    }

    /// Tells the log how often things have happened, a minute after it was told of them.
    pub(super) fn count_noise(&mut self) {
        for (noise, times) in self.said.noise.due(self.runs.machine.world.now()) {
            self.tell_count(noise, times);
        }
    }

    /// The same for all that is left, when the output has ended.
    pub(super) fn count_last_noise(&mut self) {
        for (noise, times) in self.said.noise.rest() {
            self.tell_count(noise, times);
        }
    }

    fn tell_count(&self, noise: Noise, times: u64) {
        tracing::warn!(?noise, times, "garbage in the output, again");
    }
}
