//! Which container is started, piped into and closed, and when: a pure state machine.
//!
//! A *group* has at most one container; a *lane* is the unit of order and session; a *run* serves one lane or one
//! task. The machine knows only *that* a lane waits or a task is due; what waits is the store's to say. News of the
//! world go in as [`Event`]s with the instant they are told at, [`Action`]s come out and are performed by the caller,
//! whose results come back as events. [`Lanes::next_wake`] says when to tell it [`Event::Tick`].
//!
//! It never reads a clock or the store, never judges health (it is told [`Event::CloseAsked`]), never counts tries
//! (rests come with the events), and never believes that a run is over before [`Event::Ended`].
//!
//! # States of a group
//!
//! ```text
//!          Start                 Ready             Pipe
//!   none ────────▶ starting ─────────────▶ busy ◀─────────▶ piping
//!    ▲                │                    │  ▲   Busy        │ PipeFailed, PipeEmpty: as before
//!    │                │               Idle │  │ Busy          │ Idle
//!    │                │                    ▼  │ Pipe          ▼
//!    │                │                    idle ◀─────────────┘
//!    │                │                      │
//!    │                │  session cleared,    │ other work of the group waits, or a group waits for the slot,
//!    │                │  asked, removed      │ or it was a task's; and as from the states on the left
//!    │                ▼                      ▼
//!    └─────────── closing ◀──────────────────┘
//!        Ended (from any state)
//! ```
//!
//! # Whose turn it is
//!
//! - **Slots.** Every run counts against the cap until it has ended, and so does one that may be alive while nobody can
//!   tell. Runs that were adopted may exceed it, and so may those of before when it is lowered. Groups with work and without
//!   a run stand in one line, in the order in which they began to wait. A group whose run has ended goes to its end, so nobody
//!   gets a second turn before those who wait have had their first.
//! - **In a group** people go first, but a lane that had its turn while a task waited is followed by a task. Lanes have
//!   their turns in the order in which they began to wait, and so have tasks. So a lane with `n` other lanes before it, or
//!   a task with `n` other tasks, waits for at most `2 (n + 1)` ended runs of its group, the one at work included. A pipe is
//!   a turn, too: a lane whose pipe failed begins to wait again.
//! - **Follow-ups** are piped into a ready run of the same lane and generation, one at a time. While others wait (for
//!   the slot, or in the same group) a run gets [`PIPES_WHILE_OTHERS_WAIT`] of them; then it has to finish.
//! - **Making room.** Only idle runs are closed, longest idle first, and only as many as are wanted beyond those
//!   that are closing already.
//! - **Rests.** A lane that rests stands in no line; it begins to wait when the clock, or [`Event::Woken`], has ended its
//!   rest. News of more messages lengthens a rest at most. One further off than [`LONGEST_REST_MS`] is over: the clock was
//!   changed.

mod events;
mod group;
mod intake;
mod line;
mod machine;
#[cfg(test)]
mod tests;

pub use events::{
    Action, AdoptedState, Event, Holding, LONGEST_REST_MS, LaneId, Load, PIPE_TRIES, PIPES_WHILE_OTHERS_WAIT,
    WaitingLane, Work,
};
pub use machine::Lanes;
