//! How many there are of each thing that `status` tells. A number that can't be read is unknown, and a problem.

use ipc_handlers::Time;

use crate::{
    domain::{heard::approvals::State, kept::prune::DAY_MS, problems::Problem, shown::errors::chain},
    ops,
    store::{Store, StoreError},
};

/// Numbers of `status`; `None`: it can't be read.
pub struct Counts {
    pub groups: Option<usize>,
    /// Runs under way.
    pub running: Option<usize>,
    /// Conversations in which something waits for an agent.
    pub waiting: Option<usize>,
    pub outbox_pending: Option<i64>,
    /// Malformed commands.
    pub dead: Option<i64>,
    pub stale_recoveries_24h: Option<i64>,
    /// Questions that wait for an answer.
    pub approvals_pending: Option<usize>,
    /// Groups whose commands are held, and files as `GROUP/BOX/NAME`.
    pub held: Option<Vec<String>>,
}

/// Counts everything, and returns what can't be counted.
pub async fn count(store: &Store, now: Time) -> (Counts, Vec<Problem>) {
    let mut unread = Vec::new();
    let open = known(&mut unread, "the questions", store.approvals(false).await);
    let counts = Counts {
        groups: known(&mut unread, "the groups", store.groups().await).map(|groups| groups.len()),
        running: known(&mut unread, "the runs", store.active_runs()).map(|runs| runs.len()),
        waiting: known(&mut unread, "waiting conversations", store.waiting_lanes()).map(|lanes| lanes.len()),
        outbox_pending: known(&mut unread, "the outbox", store.outbox_pending().await),
        dead: known(&mut unread, "the receipts", store.dead_commands()),
        stale_recoveries_24h: known(&mut unread, "the runs", store.stale_recoveries(now.plus_ms(-DAY_MS)))
            .map(|(count, _)| count),
        approvals_pending: open.map(|all| all.iter().filter(|one| one.state == State::Pending).count()),
        held: known(&mut unread, "the holds", store.holds())
            .map(|holds| holds.iter().map(ops::ipc::shown).collect()),
    };
    (counts, unread)
}

/// Returns what was read, and otherwise notes why `what` could not be.
pub fn known<T>(unread: &mut Vec<Problem>, what: &'static str, read: Result<T, StoreError>) -> Option<T> {
    read.inspect_err(|error| unread.push(Problem::Unreadable { what, why: chain(error) })).ok()
}
