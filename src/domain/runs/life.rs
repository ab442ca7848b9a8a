//! A run's life: how far it has come, and whether it is on its way out.
//!
//! ```text
//! queued ─ stdin whole ─▶ started ─ its agent is up ─▶ ready: busy ⇄ idle      and from each of them
//!                                                                              ─ asked to leave ─▶ leaving
//! ```
//!
//! A run that was asked to leave goes on to be told apart by how far it has come: it may still become ready, and finish what
//! it has in hand.

use super::lanes::{AdoptedState, Load};

/// Where a run is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It serves.
    Serving(Reached),
    /// It was asked to leave: nothing more is handed to it.
    Leaving(Reached),
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// Its row is there; its container may be made.
    Queued,
    /// Its container runs and has all of its stdin.
    Started,
    /// Its agent is up.
    Ready(Load),
}

impl Life {
    /// How far it has come.
    #[must_use]
    pub fn reached(self) -> Reached {
        match self {
            Self::Serving(reached) | Self::Leaving(reached) => reached,
        }
    }

    /// Whether its agent has finished with everything it was handed.
    #[must_use]
    pub fn is_idle(self) -> bool {
        self.reached() == Reached::Ready(Load::Idle)
    }

    /// Whether its agent is up.
    #[must_use]
    pub fn is_ready(self) -> bool {
        matches!(self.reached(), Reached::Ready(_))
    }

    /// Returns what the lanes are told of a run that is taken over.
    #[must_use]
    pub fn adopted(self) -> AdoptedState {
        match self {
            Self::Leaving(_) => AdoptedState::Closing,
            Self::Serving(Reached::Queued | Reached::Started) => AdoptedState::Starting,
            Self::Serving(Reached::Ready(load)) => AdoptedState::Ready(load),
        }
    }
}

impl Reached {
    /// Returns how far a run with an agent that is up, or not, has come once its agent has this much in hand.
    #[must_use]
    pub fn with(self, load: Load) -> Self {
        match self {
            Self::Ready(_) => Self::Ready(load),
            Self::Queued | Self::Started => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_idle_only_once_its_agent_is_up_and_taken_over_as_what_it_is() {
        use AdoptedState::{Closing, Ready, Starting};
        let [idle, busy] = [Reached::Ready(Load::Idle), Reached::Ready(Load::Busy)];
        for (reached, serving, is_idle) in [
            (Reached::Queued, Starting, false),
            (Reached::Started, Starting, false),
            (busy, Ready(Load::Busy), false),
            (idle, Ready(Load::Idle), true),
        ] {
            assert_eq!(Life::Serving(reached).adopted(), serving);
            assert_eq!(Life::Leaving(reached).adopted(), Closing, "{reached:?}");
            assert_eq!([Life::Serving(reached), Life::Leaving(reached)].map(Life::is_idle), [is_idle; 2]);
        }
        assert_eq!((busy.with(Load::Idle), Reached::Started.with(Load::Idle)), (idle, Reached::Started));
    }
}
