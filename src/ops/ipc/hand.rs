//! What a person does to commands: dropping one, trying one again. By the daemon, or on a root that none serves, under
//! its lock; the same steps both times.
//!
//! The intent is written down before a file is moved, under the claim id that the file will have. The code that settles a
//! claim looks there first.
//!
//! | what | a crash after | a restart finds | and does |
//! |---|---|---|---|
//! | hold, release | the row | the row | as it says |
//! | drop a waiting one | its row (`hand.noted`) | the file in its box | nothing of it came true: claims it under another id, unless it is held |
//! | | the claim (`hand.placed`) | row and claimed file | settles it as dropped |
//! | | the receipt | as for every command | the stored reply, the file put away |
//! | drop a claimed one | its row (`hand.noted`) | row and claimed file | settles it as dropped |
//! | drop a dead one | any file of it | the rest | nothing; dropping it again removes the rest |
//! | retry | its row (`hand.noted`) | no file of that id | nothing; it may be tried again |
//! | | the file (`hand.placed`) | row and claimed file | decides it anew, once |

use std::{ffi::OsStr, sync::Arc};

use ipc_handlers::{Code, Folder, Refusal, Time};

use super::super::{OpCode, OpError};
use crate::{
    domain::{states::CommandOutcome, time::zone::Zones},
    ipc::{
        ClaimError, Claimed, Claims, CommandBox, GroupBoxes, HostDirs, PutError, ReadError, Source, Why,
        WorldFault,
    },
    root,
    store::{Body, CommandFile, Proof, Store, StoreError, Transcripts, digest},
    system::failpoint,
};

/// The means to act on a root's commands. Only one process may act at a time: the daemon, or the holder of the root's lock.
#[derive(Clone, Copy)]
pub struct ByHand<'a> {
    pub store: &'a Store,
    pub dirs: &'a Arc<HostDirs>,
    pub claims: &'a Claims,
}

/// Why nothing was done.
#[derive(Debug, thiserror::Error)]
pub enum HandError {
    #[error("command {0} does not exist")]
    NoSuchCommand(i64),
    #[error("{0} is not in its box any more")]
    Gone(String),
    #[error("{0} is a directory")]
    Directory(String),
    #[error("command {0} is settled: it was {1}")]
    Settled(i64, CommandOutcome),
    #[error("command {0} was applied")]
    Applied(i64),
    #[error("command {0} is of group {1}, which is gone")]
    GroupGone(i64, Folder),
    #[error("nothing is kept of command {0} any more")]
    NotKept(i64),
    #[error("of command {0} only a part is kept (dead ones are cut at 64 KiB), so it can't be tried again")]
    Cut(i64),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    World(#[from] WorldFault),
}

impl From<HandError> for OpError {
    fn from(error: HandError) -> Self {
        let (code, hint) = match error {
            HandError::NoSuchCommand(_) => (OpCode::NotFound, ""),
            HandError::Gone(_) => (OpCode::NotFound, "see `g2 ipc list`"),
            HandError::Directory(_) => (OpCode::Refused, "only its writer, or you by hand, can remove it"),
            HandError::Settled(..) => {
                (OpCode::Refused, "only what waits, is claimed or is dead can be dropped")
            }
            HandError::Applied(_) => (OpCode::Refused, "trying it again would do it twice"),
            HandError::GroupGone(..) => (OpCode::Refused, "nobody is left who asks for it"),
            HandError::NotKept(_) => {
                (OpCode::Refused, "`done/` has the newest 100 of a group, `dead/` the newest 1000")
            }
            HandError::Cut(_) => (OpCode::Refused, ""),
            HandError::Store(error) => return error.into(),
            HandError::World(error) => return error.into(),
        };
        Self::new(code, error.to_string()).hint(hint)
    }
}

/// Takes a waiting file out of its box and sets it aside; returns its id.
///
/// # Errors
/// [`HandError`]
pub async fn drop_waiting(
    hand: ByHand<'_>,
    boxes: &GroupBoxes,
    in_box: CommandBox,
    name: &OsStr,
    reason: String,
    now: Time,
) -> Result<i64, HandError> {
    let id = hand.claims.next_id();
    let shown = || format!("{}/{in_box}/{}", boxes.folder(), crate::ipc::display_name(name));
    hand.store.note_drop(id, reason, now).await?;
    failpoint::reach("hand.noted");
    let claimed = match boxes.claim_as(Some(id), in_box, name, hand.claims) {
        Ok(claimed) | Err(ClaimError::NotAFile { claimed, .. }) => claimed,
        Err(error) => {
            hand.store.forget_note(id).await?;
            return Err(match error {
                ClaimError::Directory => HandError::Directory(shown()),
                ClaimError::World(error) => error.into(),
                ClaimError::Gone | ClaimError::NotAFile { .. } => HandError::Gone(shown()),
            });
        }
    };
    failpoint::reach("hand.placed");
    finish(hand, Some(boxes), &claimed, now).await?;
    let file = (in_box.to_string(), std::os::unix::ffi::OsStrExt::as_bytes(name).to_vec());
    hand.store.release(boxes.folder().clone(), Some(file)).await?;
    Ok(id)
}

/// Writes down that a claimed command is to be dropped; returns its file, for the code that settles it.
///
/// # Errors
/// [`HandError`]
pub async fn note_drop(hand: ByHand<'_>, id: i64, reason: String, now: Time) -> Result<Claimed, HandError> {
    if let Some(file) = hand.store.settled_file(id)? {
        return Err(HandError::Settled(id, file.outcome));
    }
    let claimed = hand.claims.find(id)?.ok_or(HandError::NoSuchCommand(id))?;
    hand.store.note_drop(id, reason, now).await?;
    failpoint::reach("hand.noted");
    Ok(claimed)
}

/// Settles a claim of which it is written down that it is dropped: receipt, reply, `done/`, and the file's end.
///
/// # Errors
/// [`HandError`]; a restart does the rest.
pub async fn finish(
    hand: ByHand<'_>,
    boxes: Option<&GroupBoxes>,
    claimed: &Claimed,
    now: Time,
) -> Result<(), HandError> {
    let unread = || Refusal::new(Code::Malformed, "it was not read", "write commands as regular files");
    let no_origin = || format!("claim:{}", claimed.id).into_bytes();
    let (body, digest, kept, origin) = match hand.claims.read(claimed) {
        Ok(read) => (Ok(Arc::new(Body::of(&read.bytes))), digest(&read.bytes), read.bytes, read.origin.key),
        Err(ReadError::TooLarge { head, origin, .. }) => (Err(unread()), Vec::new(), head, origin.key),
        Err(ReadError::NotAFile(_) | ReadError::Gone) => (Err(unread()), Vec::new(), Vec::new(), no_origin()),
        Err(ReadError::World(error)) => return Err(error.into()),
    };
    // It is dropped, with any author.
    let file = file_of(claimed, origin, body, digest);
    // A dropped command schedules nothing.
    let receipt = hand.store.settle(file, Zones::utc(), now).await?.receipt;
    failpoint::reach("ipc.committed");
    if let (Some(boxes), Some(id), Some(reply)) = (boxes, &receipt.request_id, &receipt.reply)
        && let Err(PutError::World(error)) = boxes.put_reply(id, reply)
    {
        return Err(error.into());
    }
    if receipt.outcome == CommandOutcome::Refused {
        let why = Why {
            receipt: receipt.claim,
            code: receipt.code,
            message: receipt.reason.unwrap_or_default(),
            hint: receipt.hint,
            at: receipt.at,
        };
        hand.claims.settle_refused(claimed, &kept, &why)?;
    }
    Ok(hand.claims.acknowledge(claimed)?)
}

/// Removes the kept file of a dead command; its row stays.
///
/// # Errors
/// [`HandError`]
pub fn drop_dead(hand: ByHand<'_>, group: &Folder, id: i64) -> Result<(), HandError> {
    if hand.claims.discard_dead(group, id)? { Ok(()) } else { Err(HandError::NotKept(id)) }
}

/// Puts a refused or dead command back among the claimed ones, to be decided anew; returns the new claim.
///
/// # Errors
/// [`HandError`]
pub async fn retry(hand: ByHand<'_>, of: i64, now: Time) -> Result<Claimed, HandError> {
    let file = hand.store.settled_file(of)?.ok_or(HandError::NoSuchCommand(of))?;
    if file.outcome == CommandOutcome::Applied {
        return Err(HandError::Applied(of));
    }
    // A later group of that name is another one.
    if !hand.store.is_of(of, &file.group)? {
        return Err(HandError::GroupGone(of, file.group));
    }
    let is_dead = file.outcome == CommandOutcome::Malformed;
    let bytes = root::read_kept_bytes(hand.dirs.path(), &file.group, of, is_dead);
    let bytes = bytes.ok_or(HandError::NotKept(of))?;
    if !file.held(&bytes) {
        return Err(HandError::Cut(of));
    }
    // A try whose file never came to be was none.
    if let Some(tried) = hand.store.tried_as(of)?
        && hand.claims.find(tried)?.is_none()
    {
        hand.store.forget_note(tried).await?;
    }
    let id = hand.claims.next_id();
    hand.store.note_retry(id, of, now).await?;
    failpoint::reach("hand.noted");
    let source = Source::of_row(&file.box_name, &file.name);
    match hand.claims.put_back(id, &file.group, source, &bytes) {
        Ok(claimed) => {
            failpoint::reach("hand.placed");
            Ok(claimed)
        }
        Err(error) => {
            hand.store.forget_note(id).await?;
            Err(error.into())
        }
    }
}

/// Returns a claimed file as the store takes it, of which no run is known and that proves nothing.
#[must_use]
pub fn file_of(
    claimed: &Claimed,
    origin: Vec<u8>,
    body: Result<Arc<Body>, Refusal>,
    digest: Vec<u8>,
) -> CommandFile {
    let (box_name, name) = match &claimed.source {
        Some(source) => (source.in_box.to_string(), source.name.clone()),
        None => ("unknown".to_owned(), "unknown".to_owned()),
    };
    CommandFile {
        claim: claimed.id,
        group: claimed.folder.clone(),
        box_name,
        name,
        origin,
        run: None,
        written: claimed.written,
        taken: claimed.taken,
        proof: Proof::None,
        body,
        refused: None,
        digest,
        transcripts: Transcripts::new(),
        files: Ok(Vec::new()),
        found: None,
    }
}
