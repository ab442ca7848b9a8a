//! What was said in the sessions that a command archives, read before the transaction that keeps it.

use ipc_handlers::{Command, Folder, effect::Lanes};

use super::{Mailboxes, read::Pending};
use crate::{
    domain::shown::errors::chain,
    ops::sessions::read_transcript,
    store::{ActiveRun, Proof, Transcripts},
    system::failpoint,
};

/// Whose transcripts a command archives.
pub(super) struct Archives {
    target: Option<Folder>,
    /// `None`: the sessions that there are.
    session: Option<String>,
}

impl Archives {
    /// `None`: it archives nothing, or brings along what was said.
    pub(super) fn of(command: &Command) -> Option<Self> {
        let (target, session) = match command {
            Command::ClearSession(command) if command.name.is_some() => (&command.target_folder, None),
            Command::ResumeSession(command) if command.save_name.is_some() => (&command.target_folder, None),
            Command::ArchiveSession(command) if command.content.is_none() => {
                (&command.target_folder, Some(command.session_id.clone()))
            }
            _ => return None,
        };
        Some(Self { target: target.clone(), session })
    }

    /// Whether it archives the sessions that there are when it is settled.
    pub(super) fn what_there_is(&self) -> bool {
        self.session.is_none()
    }
}

/// Reads what a command may archive; a transcript that can't be read is archived without. `None`: not now. We stop, or the store
/// can't be read.
pub(super) fn read(mail: &Mailboxes, pending: &Pending, archives: &Archives) -> Option<Transcripts> {
    let group = &pending.claimed.folder;
    failpoint::reach_of("ipc.transcript", group.as_str());
    let target = archives.target.as_ref().unwrap_or(group);
    let sessions = match &archives.session {
        Some(session) => vec![session.clone()],
        None => {
            // The run that wrote it, where it says so and can prove it.
            let run = match &pending.file.proof {
                Proof::Claims(claims) => Some(claims.run_id),
                Proof::None | Proof::Missing | Proof::Bad(_) => pending.file.run,
            };
            let run = run.filter(|_| target == group);
            let run = run.map_or(Ok(None), |run| mail.store.active_run(run));
            let lanes = |run: Option<ActiveRun>| run.and_then(|run| run.lane).map_or(Lanes::All, Lanes::One);
            match run.and_then(|run| mail.store.live_sessions(target, lanes(run))) {
                Ok(sessions) => sessions,
                Err(error) if error.is_worlds_fault() => {
                    tracing::warn!(group = %target, error = %chain(&error), "the sessions to archive can't be read; they are read again");
                    return None;
                }
                Err(error) => {
                    tracing::error!(group = %target, error = %chain(&error), "the sessions to archive can't be read; they are archived without what was said");
                    Vec::new()
                }
            }
        }
    };
    let stop = || mail.stop.is_cancelled();
    let together = sessions.len();
    let mut all = Transcripts::new();
    for session in sessions {
        match read_transcript(&mail.root, target, &session, together, &stop) {
            _ if stop() => return None,
            Ok(Some(page)) => drop(all.insert(session, page)),
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(group = %target, session, error = %chain(&error), "a transcript can't be read; the session is archived without");
            }
        }
    }
    Some(all)
}
