//! What was said in the sessions that a command archives, read before the transaction that keeps it.

use ipc_handlers::{Command, Folder, effect::Lanes};

use super::{super::Host, chain};
use crate::{domain::transcript, ipc::read_transcript, store::Transcripts};

/// Reads what a command of a group and its run may archive. What can't be read is archived without.
pub(super) fn of_command(host: &Host, group: &Folder, run: Option<i64>, command: &Command) -> Transcripts {
    let (target, session) = match command {
        Command::ClearSession(command) if command.name.is_some() => (&command.target_folder, None),
        Command::ResumeSession(command) if command.save_name.is_some() => (&command.target_folder, None),
        Command::ArchiveSession(command) if command.content.is_none() => {
            (&command.target_folder, Some(&command.session_id))
        }
        _ => return Transcripts::new(),
    };
    let target = target.as_ref().unwrap_or(group);
    match session {
        Some(session) => of_sessions(host, target, vec![session.clone()]),
        None => {
            let lane = run
                .filter(|_| target == group)
                .and_then(|run| host.store.active_run(run).ok().flatten())
                .and_then(|run| run.lane);
            let lanes = lane.map_or(Lanes::All, Lanes::One);
            match host.store.live_sessions(target, lanes) {
                Ok(sessions) => of_sessions(host, target, sessions),
                Err(error) => {
                    tracing::warn!(group = %target, error = %chain(&error), "finding the sessions to archive failed");
                    Transcripts::new()
                }
            }
        }
    }
}

fn of_sessions(host: &Host, group: &Folder, sessions: Vec<String>) -> Transcripts {
    let read = |session: &String| match read_transcript(&host.root, group, session) {
        Ok(found) => found.map(|bytes| transcript::page(&bytes)),
        Err(error) => {
            tracing::warn!(group = %group, session, error = %chain(&error), "a transcript can't be read; the session is archived without");
            None
        }
    };
    sessions
        .into_iter()
        .filter_map(|session| Some((read(&session)?, session)))
        .map(|(page, session)| (session, page))
        .collect()
}
