//! The end of a run that a person asks for.

use ipc_handlers::words;

words! {
    /// How a person wants a run ended.
    pub enum StopWhen: "way of a stop" {
        /// It may finish within its grace; then it is stopped, and killed.
        InOrder = "in_order",
        /// It is killed at once.
        Now = "now",
    }
}

words! {
    /// What becomes of the work that the run has in hand then.
    pub enum StopThen: "end of a stop" {
        /// It is given up.
        GiveUp = "give_up",
        /// It is handed out again, at no cost.
        AskAgain = "ask_again",
    }
}

/// A stop that a person asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// Who.
    pub by: String,
    pub when: StopWhen,
    pub then: StopThen,
}
