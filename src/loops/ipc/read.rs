//! Claimed files, read once into memory.

use std::{
    os::unix::ffi::OsStrExt as _,
    sync::{Arc, LazyLock},
    time::Duration,
};

use ipc_handlers::{
    Command, Fault,
    refusal::{Code, Refusal},
    token,
};
use regex::bytes::Regex;

use super::{Mailboxes, files::Files, transcripts::Archives};
use crate::{
    domain::shown::errors::chain,
    ipc::{ClaimError, Claimed, CommandBox, GroupBoxes, Read, ReadError, WorldFault, Writer},
    ops::ipc::hand::file_of,
    store::{self, Body, CommandFile, Proof, digest},
    system::{failpoint, media::InHand},
};

/// How long a file that can't be parsed is given to become whole.
const HALF_WRITTEN: Duration = Duration::from_secs(2);

/// A claimed file on its way to the store.
pub(super) struct Pending {
    pub(super) claimed: Claimed,
    pub(super) file: CommandFile,
    /// Its bytes as they are kept for people: all of them, or as many as were read of a file that is too large.
    pub(super) kept: Arc<Vec<u8>>,
    /// Whether it is to say something in a chat.
    pub(super) is_message: bool,
    /// The transcripts of sessions that it keeps are to be read first.
    pub(super) archives: Option<Archives>,
    /// These files go with what it says, and are to be copied first.
    pub(super) sends: Option<Files>,
    /// The copies: they are not removed until it is settled.
    pub(super) hands: Vec<InHand>,
    /// How often it was settled and could not be answered.
    pub(super) unanswered: u32,
}

impl Pending {
    /// A claimed file that is refused whatever it asks for. `None`: the world is in the way of keeping its bytes, and it stays
    /// claimed until the next start. On a thread that may block.
    pub(super) fn refused(mail: &Mailboxes, claimed: Claimed, refusal: Refusal) -> Option<Self> {
        let no_origin = || format!("claim:{}", claimed.id).into_bytes();
        let (kept, digest, origin) = match mail.claims.read(&claimed) {
            Ok(read) => (read.bytes.clone(), digest(&read.bytes), read.origin.key),
            Err(ReadError::TooLarge { head, origin, .. }) => (head, Vec::new(), origin.key),
            Err(ReadError::Gone | ReadError::NotAFile(_)) => (Vec::new(), Vec::new(), no_origin()),
            Err(ReadError::World(error)) => {
                tracing::error!(claim = claimed.id, error = %chain(&error), "a command that we can't handle can't be read either");
                return None;
            }
        };
        let file = file_of(&claimed, origin, Err(refusal), digest);
        Some(Self {
            claimed,
            file,
            kept: Arc::new(kept),
            is_message: false,
            archives: None,
            sends: None,
            hands: Vec::new(),
            unanswered: 0,
        })
    }
}

impl Pending {
    /// The same, refused whatever it asks for.
    pub(super) fn refused_for(mut self, refusal: Refusal) -> Self {
        self.file.refused = Some(refusal);
        self
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// A writer may not be done: look again later.
    Some,
    /// Its container is dead: what is there is all there will be.
    None,
}

/// Whether a command asks for a list or a search. Both are counted as they are claimed, before they are settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asks {
    /// A list: its reply may be far longer than the command.
    List,
    /// A search: it waits for its answer after it is settled.
    Search,
    /// Anything else.
    Nothing,
}

/// Matches the bytes of each command that asks for a list or a search, and of few others.
static LIST_OR_SEARCH: LazyLock<Regex> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "a pattern of our own, which a test compiles")]
    Regex::new(r"list_tasks|refresh_groups|search_sessions|\\u").expect("it is valid")
});

/// A claimed file that is to be read.
pub(super) struct Taken {
    pub(super) claimed: Claimed,
    /// Why it could not be a command.
    pub(super) refusal: Option<Refusal>,
    /// How long ago it was claimed.
    pub(super) age: Duration,
    /// What was read as it was claimed.
    pub(super) read: Option<Result<Read, ReadError>>,
}

impl Taken {
    /// One that was claimed before.
    pub(super) fn before(claimed: Claimed, age: Duration) -> Self {
        Self { claimed, refusal: None, age, read: None }
    }

    /// Returns whether it asks for a list or a search.
    pub(super) fn asks(&self) -> Asks {
        let Some(Ok(Read { bytes, .. })) = &self.read else { return Asks::Nothing };
        // Nearly all others are known by a look at their bytes: names of commands have letters only, or escapes of them.
        if !LIST_OR_SEARCH.is_match(bytes) {
            return Asks::Nothing;
        }
        let body = Body::of(bytes);
        match body.envelope().ok().map(|envelope| &envelope.command) {
            Some(Command::ListTasks(_) | Command::RefreshGroups(_)) => Asks::List,
            Some(Command::SearchSessions(_)) => Asks::Search,
            _ => Asks::Nothing,
        }
    }

    /// How much of it is in memory, bytes.
    pub(super) fn bytes(&self) -> usize {
        match &self.read {
            Some(Ok(read)) => read.bytes.len(),
            Some(Err(_)) | None => 0,
        }
    }
}

/// Claims a file and reads it, or says why it can't be a command. `None`: it is not there, or not to be claimed.
///
/// # Errors
/// The world was in the way, which is told: what is younger must not go first.
pub(super) fn claim(
    mail: &Mailboxes,
    boxes: &GroupBoxes,
    in_box: CommandBox,
    name: &std::ffi::OsStr,
) -> Result<Option<Taken>, WorldFault> {
    let no_file = |kind: &str| {
        Refusal::new(
            Code::Malformed,
            format!("the command is a {kind}"),
            "write commands as regular files: a temporary name in the same box, then rename",
        )
    };
    // Held until it is claimed: a hold that was taken in keeps everything from then on.
    let holds = mail.held.now();
    if holds.file(boxes.folder(), in_box.as_str(), name.as_bytes()) {
        return Ok(None);
    }
    let claimed = boxes.claim_and_read(in_box, name, &mail.claims);
    drop(holds);
    let taken = |claimed, refusal, read| Some(Taken { claimed, refusal, age: Duration::ZERO, read });
    match claimed {
        Ok((claimed, read)) => Ok(taken(claimed, None, Some(read))),
        Err(ClaimError::Gone) => Ok(None),
        Err(ClaimError::Directory) => {
            // Told of by the scan, once: its writer can rename it all day long.
            tracing::debug!(%in_box, ?name, "a directory is named like a command");
            Ok(None)
        }
        Err(ClaimError::NotAFile { claimed, kind }) => {
            Ok(taken(claimed, Some(no_file(&kind.to_string())), None))
        }
        Err(ClaimError::World(error)) => {
            tracing::warn!(error = %chain(&error), "claiming failed; it is tried again");
            Err(error)
        }
    }
}

/// What the token of a command proves, if it carries one.
fn proof(mail: &Mailboxes, bytes: Option<&[u8]>) -> Proof {
    match bytes.and_then(|bytes| token::verify(&mail.token_key, bytes)) {
        Some(Ok(claims)) => Proof::Claims(Box::new(claims)),
        Some(Err(fault)) => Proof::Bad(fault),
        None if mail.config.now().ipc.require_token => Proof::Missing,
        None => Proof::None,
    }
}

pub(super) enum Reading {
    Ready(Box<Pending>),
    /// Its writer may not be done, or the world failed: again later. With how large it is, bytes.
    NotYet(Claimed, u64),
    Nothing,
}

pub(super) fn read(mail: &Mailboxes, taken: Taken, run: Option<i64>, patience: Patience) -> Reading {
    let Taken { claimed, refusal, age, read } = taken;
    failpoint::reach_of("ipc.reading", claimed.folder.as_str());
    // A file without an inode of its own is identified by its claim.
    let no_origin = format!("claim:{}", claimed.id).into_bytes();
    let mut kept = Arc::default();
    let mut digest = Vec::new();
    let (body, origin) = match refusal {
        Some(refusal) => (Err(refusal), no_origin),
        None => match read.unwrap_or_else(|| mail.claims.read(&claimed)) {
            Ok(read) => {
                let body = Body::of(&read.bytes);
                let malformed = body.envelope().is_err_and(|rejected| rejected.fault == Fault::Malformed);
                let writer = || mail.claims.writer(&claimed);
                let may_be_at_work = || match writer() {
                    Writer::Holds => true,
                    Writer::Unknown => age < 2 * HALF_WRITTEN,
                    Writer::None => false,
                };
                if malformed && patience == Patience::Some && (age < HALF_WRITTEN || may_be_at_work()) {
                    return Reading::NotYet(claimed, read.bytes.len() as u64);
                }
                if read.origin.kind == crate::ipc::OriginKind::Weak
                    && let Some(source) = &claimed.source
                    && let Ok(boxes) = mail.boxes.of(&claimed.folder)
                    && let Err(error) = mail.claims.sync_source(&boxes, source.in_box)
                {
                    tracing::warn!(claim = claimed.id, error = %chain(&error), "syncing a box failed");
                }
                digest = store::digest(&read.bytes);
                kept = Arc::new(read.bytes);
                (Ok(Arc::new(body)), read.origin.key)
            }
            Err(ReadError::Gone) => return Reading::Nothing,
            Err(ReadError::TooLarge { size, head, origin }) => {
                kept = Arc::new(head);
                let refusal = Refusal::new(
                    Code::TooLarge,
                    format!("the command has {size} bytes; the limit is {}", crate::ipc::COMMAND_LIMIT),
                    "put long text into a file of the group and send its name",
                );
                (Err(refusal), origin.key)
            }
            Err(ReadError::NotAFile(kind)) => (
                Err(Refusal::new(
                    Code::Malformed,
                    format!("the command is a {kind}"),
                    "write commands as regular files",
                )),
                no_origin,
            ),
            Err(ReadError::World(error)) => {
                // Its writer can see to it that this goes on for a while, as by a lease: said once.
                if age.is_zero() {
                    tracing::warn!(claim = claimed.id, error = %chain(&error), "reading a claimed command failed; it is tried again");
                }
                return Reading::NotYet(claimed, crate::ipc::COMMAND_LIMIT);
            }
        },
    };
    let proof = proof(mail, body.is_ok().then_some(kept.as_slice()));
    let command = body.as_ref().ok().and_then(|body| body.envelope().ok()).map(|envelope| &envelope.command);
    let is_message =
        matches!(command, Some(Command::SendMessage(_) | Command::Media(_) | Command::AskUser(_)));
    let archives = command.and_then(Archives::of);
    let sends = command.and_then(Files::of);
    let file = CommandFile { run, proof, ..file_of(&claimed, origin, body, digest) };
    let hands = Vec::new();
    Reading::Ready(Box::new(Pending {
        claimed,
        file,
        kept,
        is_message,
        archives,
        sends,
        hands,
        unanswered: 0,
    }))
}

#[cfg(test)]
mod tests {
    use ipc_handlers::Folder;

    use super::*;
    use crate::ipc::{Origin, OriginKind};

    fn asks(json: &str) -> Asks {
        let (folder, path) = (Folder::parse("main").unwrap(), std::path::Path::new("x").into());
        let claimed = Claimed { id: 1, folder, source: None, path, written: None, taken: None };
        let origin = Origin { key: Vec::new(), kind: OriginKind::Handle };
        let read = Some(Ok(Read { bytes: json.as_bytes().to_vec(), origin }));
        Taken { read, ..Taken::before(claimed, Duration::ZERO) }.asks()
    }

    #[test]
    fn lists_and_searches_are_known_however_they_are_spelled_and_nothing_is_taken_for_one() {
        for list in [
            r#"{"type": "list_tasks"}"#,
            r#"{"type": "refresh_groups"}"#,
            r#"{"type": "\u006cist_tasks"}"#,
            r#"{"ty\u0070e": "refresh_groups", "requestId": "a"}"#,
        ] {
            assert_eq!(asks(list), Asks::List, "{list}");
        }
        for search in [
            r#"{"type": "search_sessions", "schemaVersion": 1, "query": "list_tasks"}"#,
            r#"{"type": "search\u005fsessions", "schemaVersion": 1, "query": "a"}"#,
        ] {
            assert_eq!(asks(search), Asks::Search, "{search}");
        }
        for other in [
            r#"{"type": "send_message", "chatJid": "local:main", "text": "list_tasks, search_sessions"}"#,
            r#"{"type": "send_message", "chatJid": "local:main", "text": "\u0061"}"#,
            r#"{"type": "List_tasks"}"#,
            "list_tasks",
            "",
        ] {
            assert_eq!(asks(other), Asks::Nothing, "{other}");
        }
    }
}
