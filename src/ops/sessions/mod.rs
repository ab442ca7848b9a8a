//! Sessions: the conversations of agents, live and archived.

use ipc_handlers::{Folder, effect::Lanes};
use schemars::JsonSchema;
use serde::Serialize;

use super::{OpError, Site};
use crate::{
    domain::{rows::Session, states::SessionState},
    store::Transcripts,
};

pub mod adopt;
pub mod archive;
pub mod clear;
pub mod delete;
pub mod resume;
mod transcript;

pub use transcript::read_transcript;

/// The conversations of a group after an operation.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Conversations {
    pub group: Folder,
    /// Those that its lanes have now.
    pub live: Vec<Session>,
    /// Those that were archived on the way.
    pub archived: Vec<Session>,
}

/// Returns a group's conversations; of the archived ones those that are to be kept.
fn conversations(
    site: &Site<'_>,
    group: &Folder,
    keep: impl Fn(&Session) -> bool,
) -> Result<Conversations, OpError> {
    let (live, archived): (Vec<Session>, Vec<Session>) = site
        .store
        .sessions(Some(group), None, None)?
        .into_iter()
        .partition(|session| session.state == SessionState::Live);
    let archived = archived.into_iter().filter(|session| keep(session)).collect();
    Ok(Conversations { group: group.clone(), live, archived })
}

/// Returns the text of a group's live sessions if it is wanted, and notes about sessions that can't be read.
fn live(site: &Site<'_>, group: &Folder, wanted: bool) -> Result<(Transcripts, Vec<String>), OpError> {
    let sessions = if wanted { site.store.live_sessions(group, Lanes::All)? } else { Vec::new() };
    Ok(said(site, group, &sessions))
}

/// Returns the text of sessions, and notes about those that can't be read.
fn said(site: &Site<'_>, group: &Folder, sessions: &[String]) -> (Transcripts, Vec<String>) {
    let (mut said, mut notes) = (Transcripts::new(), Vec::new());
    for session in sessions {
        match read_transcript(site.root, group, session, sessions.len(), &|| false) {
            Ok(Some(page)) => drop(said.insert(session.clone(), page)),
            Ok(None) => {}
            Err(error) => {
                let why = crate::domain::shown::errors::chain(&error);
                notes.push(format!("{why}; the session is archived without its text"));
            }
        }
    }
    (said, notes)
}
