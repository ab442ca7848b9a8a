//! Searches, done beside the store's writer before their command is settled.

use std::{sync::Arc, time::Duration};

use ipc_handlers::{Command, Folder, NotApplied, commands::SearchSessions};

use super::{Mailboxes, transcripts::Archives};
use crate::{
    clock,
    domain::host::errors::chain,
    store::{INDEXED_AT_ONCE, Searched},
};

/// How long all searches that are handled in one go may take: their group waits meanwhile, and maybe somebody who wants all
/// of its files dealt with.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a command has to do with what can be found.
pub(super) enum Concern {
    Nothing,
    /// A search after it has to see what it changed.
    Changes,
    /// It changes that, too, by what was said, which is to be read first.
    Archives(Archives),
    Searches(SearchSessions),
}

impl Concern {
    pub(super) fn searches(&self) -> Option<&SearchSessions> {
        match self {
            Self::Searches(wanted) => Some(wanted),
            Self::Nothing | Self::Changes | Self::Archives(_) => None,
        }
    }

    pub(super) fn of(command: Option<&Command>) -> Self {
        match command {
            Some(Command::SearchSessions(search)) => Self::Searches(search.clone()),
            Some(
                command @ (Command::ClearSession(_) | Command::ResumeSession(_) | Command::ArchiveSession(_)),
            ) => Archives::of(command).map_or(Self::Changes, Self::Archives),
            Some(
                Command::SendMessage(_)
                | Command::ScheduleTask(_)
                | Command::UpdateTask(_)
                | Command::PauseTask(_)
                | Command::ResumeTask(_)
                | Command::CancelTask(_)
                | Command::ListTasks(_)
                | Command::RegisterGroup(_)
                | Command::RefreshGroups(_),
            )
            | None => Self::Nothing,
        }
    }
}

/// Searches for a group. Where the world is in the way (a full disk), it is told to search again. `None`: it may not, or
/// the fault is ours; both come out when the command is settled. So much time was taken by those before it in one go.
pub(super) fn search(
    host: &Mailboxes,
    group: &Folder,
    search: &SearchSessions,
    taken: Duration,
) -> Option<Arc<Searched>> {
    let target = search.target_folder.as_ref().unwrap_or(group);
    if target != group
        && tokio::runtime::Handle::current().block_on(host.store.main_group()).ok().flatten().as_ref()
            != Some(group)
    {
        return None;
    }
    let not_now = || {
        let (query, limit) = (search.query.clone(), search.limit);
        Arc::new(Searched { target: target.clone(), query, limit, found: Err(NotApplied::NoSearchNow) })
    };
    let began = clock::monotonic();
    let stop = || host.stop.is_cancelled() || taken + began.elapsed() >= PATIENCE;
    match host.store.search(target.clone(), search.query.clone(), search.limit, INDEXED_AT_ONCE, &stop) {
        // We stop, or those before it took the time.
        Ok(searched)
            if searched.found.is_err() && (host.stop.is_cancelled() || !taken.is_zero() && stop()) =>
        {
            Some(not_now())
        }
        Ok(searched) => Some(Arc::new(searched)),
        Err(error) => {
            tracing::warn!(group = %group, error = %chain(&error), "searching failed");
            error.is_worlds_fault().then(not_now)
        }
    }
}
