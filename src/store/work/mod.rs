//! The half that is about work: commands and their receipts, runs and what they were handed, sessions, tasks.

pub(super) mod batches;
pub(super) mod budgets;
pub(super) mod by_hand;
pub(super) mod failing;
pub(super) mod folders;
pub(super) mod heartbeat;
pub(super) mod hindrances;
pub(super) mod housekeeping;
pub(super) mod outside;
pub(super) mod receipts;
pub(super) mod replies;
pub(super) mod runs;
pub(super) mod sessions;
pub(super) mod slots;
pub(super) mod tasks;
pub(super) mod uids;
pub(super) mod usage;
pub(super) mod web;
pub(super) mod web_tokens;
