//! What goes into the machine and what comes out.

use std::{fmt, num::NonZeroUsize};

use ipc_handlers::{Folder, Time};

/// How many follow-ups one run is given while others wait for its slot or its group.
pub const PIPES_WHILE_OTHERS_WAIT: u32 = 8;

/// After how many failed pipes a run is given no more; what waits in its lane then gets a new run.
pub const PIPE_TRIES: u32 = 2;

/// The longest rest, in milliseconds. A rest that ends further off is over.
pub const LONGEST_REST_MS: i64 = 3_600_000;

/// A lane's number in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId(pub i64);

/// What a run serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// The messages of one lane.
    Lane(LaneId),
    /// One occurrence of the task with this id.
    Task(String),
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lane(LaneId(lane)) => write!(f, "lane:{lane}"),
            Self::Task(task) => write!(f, "task:{task}"),
        }
    }
}

/// Whether a ready run has something in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// It has been handed something that it has not finished with.
    Busy,
    /// It has finished with everything it was handed.
    Idle,
}

/// In which state a run was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdoptedState {
    /// Its agent has not said that it is ready.
    Starting,
    /// Its agent is up.
    Ready(Load),
    /// It has been told to leave.
    Closing,
}

/// A lane in which waking inbox rows wait past the cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitingLane {
    /// Which lane.
    pub lane: LaneId,
    /// The generation of its session. It only rises: a lower one than is known already counts as the known one.
    pub generation: i64,
    /// The end of its retry rest, if it has one.
    pub not_before: Option<Time>,
}

/// Why a group is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holding {
    /// A run of it may be alive: the engine does not answer, or its end is not written down yet. It counts as a run.
    Unknown,
    /// It was set aside until a person lets it go on. That may be long, so a run that it may have does not count.
    SetAside,
    /// Somebody is removing it.
    Removal,
    /// There is no room for what it writes.
    NoSpace,
    /// Its budget of the day is used up.
    Budget,
    /// Its folder is lost.
    Folder,
}

/// News of the world.
///
/// Those of one group are told in the order in which they happened; [`Event::Adopted`] and [`Event::Hold`] before
/// anything else at start. News that don't fit the state (a second `Ready`, `Idle` of a closing run) change nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Waking inbox rows wait in a lane. May be told again at will.
    Waiting {
        /// The lane's group.
        group: Folder,
        /// The lane, its generation and its rest.
        waiting: WaitingLane,
    },
    /// Nothing waits in the lane any more: deregistered, chat removed, taken by a hand-over.
    Emptied {
        /// The lane's group.
        group: Folder,
        /// The lane.
        lane: LaneId,
    },
    /// Somebody has ended the lane's rest.
    Woken {
        /// The lane's group.
        group: Folder,
        /// The lane.
        lane: LaneId,
    },
    /// A task's time has come. Ignored while the same task is queued or its run has not ended.
    TaskDue {
        /// The task's group.
        group: Folder,
        /// The task's id.
        task: String,
    },
    /// A task is not due any more: cancelled, paused or moved. Its run, if it has one, goes on.
    TaskGone {
        /// The task's group.
        group: Folder,
        /// The task's id.
        task: String,
    },
    /// The run's agent has said that it is ready (protocol 2) or is up (v1 mode). It has the first batch in hand.
    Ready {
        /// The run's group.
        group: Folder,
    },
    /// The agent has finished with everything it was handed, pipes included.
    Idle {
        /// The run's group.
        group: Folder,
    },
    /// Something was handed that the agent has not finished with: a pipe went through, a record says that it works.
    Busy {
        /// The run's group.
        group: Folder,
    },
    /// A pipe could not be done (the file could not be written, the run is not ready any more): the lane still waits.
    PipeFailed {
        /// The run's group.
        group: Folder,
        /// The lane.
        lane: LaneId,
    },
    /// A pipe found nothing to hand over. What was told of the lane since the pipe still counts.
    PipeEmpty {
        /// The run's group.
        group: Folder,
        /// The lane.
        lane: LaneId,
    },
    /// The session of a lane was cleared: a live run of an older generation is closed, nothing is piped into it.
    SessionCleared {
        /// The lane's group.
        group: Folder,
        /// The lane.
        lane: LaneId,
        /// The generation that the lane has now.
        generation: i64,
    },
    /// The run is asked to leave for another reason (health ceiling, a person).
    CloseAsked {
        /// The run's group.
        group: Folder,
    },
    /// A person wants this run of the group ended: it is asked to leave, if it is the group's run still.
    StopAsked {
        /// The run's group.
        group: Folder,
        /// Its number in the store.
        run: i64,
    },
    /// The run is over: the container is certainly dead and its end is committed, or it never came to be.
    Ended {
        /// The run's group.
        group: Folder,
        /// What waits in the group according to the store, returned batches included. Lanes that the machine was
        /// told of and that are not listed keep waiting: their rows may be younger than the list.
        waiting: Vec<WaitingLane>,
    },
    /// A run was found alive at start, or when the engine answered again. Ignored if the group's run is known.
    Adopted {
        /// The run's group.
        group: Folder,
        /// What it serves.
        work: Work,
        /// The generation it was started with; without meaning for a task.
        generation: i64,
        /// In which state it is.
        state: AdoptedState,
    },
    /// Nothing is started or piped in a group, and its run, if one is known, is not closed to make room.
    Hold {
        /// The group.
        group: Folder,
        /// Why; a group may be held for several reasons at once.
        reason: Holding,
    },
    /// A group is not held any more for this reason. It stays held for others.
    Release {
        /// The group.
        group: Folder,
        /// Which of them is over.
        reason: Holding,
    },
    /// Launching is not possible now (disk low, engine away). Pipes go on, and no run is closed to make room.
    Pause,
    /// Launching is possible again.
    Resume,
    /// The daemon stops: nothing is started or piped from now on.
    Drain,
    /// The group is deregistered: what waits in it is forgotten, its run is closed. A hold stays.
    GroupRemoved {
        /// The group.
        group: Folder,
    },
    /// From now on there are at most this many runs at a time. Those beyond it go on.
    Cap {
        /// How many.
        most: NonZeroUsize,
    },
    /// The clock has reached [`Lanes::next_wake`](super::Lanes::next_wake).
    Tick,
}

/// The actions, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Hand over what waits and launch a container.
    ///
    /// Answered by `Ready`, and by `Ended` in any case: also when there was nothing to hand over or the launch failed
    /// (with a rest, or after `Pause`, else it is tried again at once).
    Start {
        /// The group.
        group: Folder,
        /// What the run serves.
        work: Work,
    },
    /// Hand over what waits in the lane to the group's run.
    ///
    /// Answered by `Busy`, `PipeFailed` or `PipeEmpty`, before any later news of that run. Until then the run counts
    /// as busy and gets no other pipe.
    Pipe {
        /// The group.
        group: Folder,
        /// The lane.
        lane: LaneId,
    },
    /// Tell the group's run to leave. Said once per run; answered by `Ended`.
    Close {
        /// The group.
        group: Folder,
    },
}
