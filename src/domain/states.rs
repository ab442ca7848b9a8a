//! The states of runs, batches, commands and outbox rows in the store: one closed set of words each.

use ipc_handlers::words;
use schemars::JsonSchema;

words! {
    /// What a run is for.
    #[derive(JsonSchema)]
    pub enum RunKind: "run kind" {
        /// Messages of a lane.
        Message = "message",
        /// A task that is due.
        Task = "task",
        /// A task of `HEARTBEAT.md` that is due.
        Heartbeat = "heartbeat",
    }
}

words! {
    /// Where a task comes from.
    #[derive(JsonSchema)]
    pub enum TaskOrigin: "task origin" {
        /// Somebody asked for it.
        Asked = "asked",
        /// It stands in its group's `HEARTBEAT.md`.
        Heartbeat = "heartbeat",
    }
}

words! {
    /// What came of a tool that an agent used.
    pub enum ToolOutcome: "tool outcome" {
        Ok = "ok",
        Failed = "failed",
    }
}

words! {
    /// How a run stands in the ledger.
    #[derive(JsonSchema)]
    pub enum RunStatus: "run status" {
        /// It has no container yet.
        Queued = "queued",
        /// It has a container.
        Running = "running",
        /// It ended, and nothing was wrong.
        Succeeded = "succeeded",
        /// It ended, and something was wrong.
        Failed = "failed",
        /// Somebody ended it on purpose.
        Cancelled = "cancelled",
    }
}

impl RunStatus {
    /// Whether it has ended.
    #[must_use]
    pub fn is_over(self) -> bool {
        match self {
            Self::Queued | Self::Running => false,
            Self::Succeeded | Self::Failed | Self::Cancelled => true,
        }
    }
}

words! {
    /// How far a batch of messages is.
    pub enum BatchState: "batch state" {
        /// It was given to a run, which may not have read it.
        Handed = "handed",
        /// Its run has read it.
        Claimed = "claimed",
        /// Its run has finished with it.
        Done = "done",
        /// Its run ended before that: it is handed out again.
        Returned = "returned",
        /// It is given up, and its chat was told so.
        Failed = "failed",
    }
}

impl BatchState {
    /// Whether a run has it in hand.
    #[must_use]
    pub fn is_in_hand(self) -> bool {
        match self {
            Self::Handed | Self::Claimed => true,
            Self::Done | Self::Returned | Self::Failed => false,
        }
    }
}

words! {
    /// What became of a slot: an instant at which a task was due.
    pub enum SlotOutcome: "outcome of a slot" {
        /// A run of the task was for it.
        Ran = "ran",
        /// The daemon was up, and it was not its turn.
        Skipped = "skipped",
        /// The daemon was not up, and it is not made up for.
        Missed = "missed",
    }
}

words! {
    /// Why a slot did not run.
    pub enum SlotReason: "reason of a slot" {
        /// A run for an earlier slot waited or was under way.
        PreviousRun = "previous_run",
        /// An earlier slot had failed and was to be tried again.
        Rest = "rest",
        /// The task was paused.
        Paused = "paused",
        /// G2 was not running, or the machine slept.
        HostDown = "host_down",
        /// The group's budget of the day was used up.
        Budget = "budget",
        /// The same, and it is longer ago than the task makes up for.
        OutsideWindow = "outside_window",
        /// The same, and newer ones are all that are made up for.
        TooMany = "too_many",
    }
}

impl SlotReason {
    /// Returns it in the words that people and programs read.
    #[must_use]
    pub const fn says(self) -> &'static str {
        match self {
            Self::PreviousRun => "previous run still queued or running",
            Self::Rest => "resting after a failure",
            Self::Paused => "paused",
            Self::HostDown => "host down",
            Self::Budget => "budget used up",
            Self::OutsideWindow => "outside the window",
            Self::TooMany => "more than 24 were missed",
        }
    }

    /// Returns what became of a slot that did not run for this reason.
    #[must_use]
    pub fn outcome(self) -> SlotOutcome {
        match self {
            Self::PreviousRun | Self::Rest | Self::Paused => SlotOutcome::Skipped,
            Self::HostDown | Self::Budget | Self::OutsideWindow | Self::TooMany => SlotOutcome::Missed,
        }
    }
}

words! {
    /// What has a text said.
    pub enum CauseKind: "kind of cause" {
        /// A record of a run.
        Record = "record",
        /// A command of an agent.
        Command = "command",
        /// A person, by a command line.
        Person = "person",
        /// A question about a stranger or a new chat.
        Approval = "approval",
        /// A batch that was given up.
        BatchFailed = "batch_failed",
        /// Texts that waited long for their channel.
        Waited = "waited",
        /// Anything else that the host tells of.
        Notice = "notice",
    }
}

words! {
    /// How a group's budget of the day stands.
    pub enum BudgetState: "state of a budget" {
        Enough = "enough",
        /// Most of a part of it is used.
        Near = "near",
        /// A part of it is used up.
        Out = "out",
    }
}

words! {
    /// The way on which a batch came to its run.
    pub enum Via: "way of a batch" {
        /// In the document on stdin, with the launch.
        Stdin = "stdin",
        /// As a file in `input/`, to a live run.
        Input = "input",
    }
}

words! {
    /// How far a row of the outbox is.
    #[derive(schemars::JsonSchema)]
    pub enum DeliveryStatus: "delivery status" {
        /// It waits for its turn.
        Pending = "pending",
        /// The channel was given it and has not answered.
        Sending = "sending",
        /// The channel has it.
        Sent = "sent",
        /// Nobody knows whether the channel has it.
        Unknown = "unknown",
        /// The channel does not take it.
        Failed = "failed",
    }
}

words! {
    /// What became of a command file.
    pub enum CommandOutcome: "outcome of a command" {
        Applied = "applied",
        Refused = "refused",
        /// It is no command.
        Malformed = "malformed",
    }
}

words! {
    /// Where a command of the mailbox stands, as people see it.
    #[derive(schemars::JsonSchema)]
    pub enum QueueState: "state of a command" {
        /// Its file lies in its box.
        Waiting = "waiting",
        /// The daemon has its file, and has not decided.
        Claimed = "claimed",
        Applied = "applied",
        Refused = "refused",
        /// It was no command; its file lies in `dead/`.
        Dead = "dead",
        /// A person holds its file.
        Held = "held",
    }
}

impl From<CommandOutcome> for QueueState {
    fn from(outcome: CommandOutcome) -> Self {
        match outcome {
            CommandOutcome::Applied => Self::Applied,
            CommandOutcome::Refused => Self::Refused,
            CommandOutcome::Malformed => Self::Dead,
        }
    }
}

impl QueueState {
    /// The outcome that such a command has a receipt of; the others have none.
    #[must_use]
    pub fn outcome(self) -> Option<CommandOutcome> {
        match self {
            Self::Applied => Some(CommandOutcome::Applied),
            Self::Refused => Some(CommandOutcome::Refused),
            Self::Dead => Some(CommandOutcome::Malformed),
            Self::Waiting | Self::Claimed | Self::Held => None,
        }
    }
}

words! {
    /// Whether a lane has a session, or it is kept.
    #[derive(schemars::JsonSchema)]
    pub enum SessionState: "session state" {
        Live = "live",
        Archived = "archived",
    }
}

words! {
    /// What runs containers.
    #[derive(JsonSchema)]
    pub enum SandboxName: "sandbox" {
        Docker = "docker",
        /// Plain child processes.
        Process = "process",
    }
}

words! {
    /// How the run of a command is known.
    pub enum RunBy: "proof of a run" {
        /// The command carried the run's token.
        Token = "token",
        /// It was the group's run when the file was claimed.
        Mount = "mount",
    }
}
