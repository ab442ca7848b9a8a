//! The files that go with what a command says: copied out of the group's folder before the transaction that queues them, so
//! that their bytes are those of now, whatever becomes of the group's own.

use std::path::Path;

use ipc_handlers::{
    Command, Refusal,
    file::{Attach, FileFault},
};
use rustix::io::Errno;

use super::{Mailboxes, read::Pending};
use crate::{
    domain::{
        host::errors::chain,
        platforms::attachments::{Attachment, BLOCK, MediaUse},
    },
    ipc::{InsideError, file_inside, is_only_name},
    system::{
        clock,
        media::{InHand, NotKept},
    },
};

/// Which files go to which chat.
pub(super) struct Files {
    chat: String,
    files: Vec<Attach>,
}

impl Files {
    /// `None`: none go with it.
    pub(super) fn of(command: &Command) -> Option<Self> {
        let chat = match command {
            Command::SendMessage(command) => &command.chat_jid,
            Command::Media(command) => &command.chat_jid,
            _ => return None,
        };
        let files = command.files();
        (!files.is_empty()).then(|| Self { chat: chat.clone(), files })
    }
}

/// What was copied.
pub(super) struct Copied {
    /// One for each file, or why the message is refused.
    pub(super) files: Result<Vec<Attachment>, Refusal>,
    /// They are not removed while these are held.
    pub(super) hands: Vec<InHand>,
    /// How much was copied, bytes.
    pub(super) bytes: usize,
}

/// Copies the files of a command. `None`: we stop, and the next start does it.
pub(super) fn copy(mail: &Mailboxes, pending: &Pending, files: &Files) -> Option<Copied> {
    let group = &pending.claimed.folder;
    let mut copied = Copied { files: Ok(Vec::new()), hands: Vec::new(), bytes: 0 };
    let mut rows = Vec::new();
    for file in &files.files {
        if mail.stop.is_cancelled() {
            return None;
        }
        match one(mail, pending, files, file, copied.bytes as u64) {
            Ok(hand) => {
                copied.bytes += usize::try_from(hand.size.max(BLOCK)).unwrap_or(usize::MAX >> 8);
                rows.push(Attachment::sent(file, hand.digest, hand.size, hand.mime));
                copied.hands.push(hand);
            }
            Err(refusal) => {
                tracing::info!(%group, file = file.file_path, why = refusal.message, "a file is not sent");
                copied.files = Err(refusal);
                return Some(copied);
            }
        }
    }
    copied.files = Ok(rows);
    Some(copied)
}

/// Copies one file, `before` bytes of the same message after the others.
fn one(
    mail: &Mailboxes,
    pending: &Pending,
    files: &Files,
    file: &Attach,
    before: u64,
) -> Result<InHand, Refusal> {
    let group = &pending.claimed.folder;
    let folder = mail.root.join("groups").join(group.as_str());
    let relative = file.relative(&folder.to_string_lossy())?;
    let open = file_inside(&folder, Path::new(relative)).map_err(|error| refusal_of(&error, file))?;
    let limits = mail.config.now().media.limits();
    let size = open.metadata().map_or(0, |meta| meta.len());
    // A platform that takes no files gets a line in the text, and one that was not spoken to yet may take any.
    let there = mail.channels.of(&files.chat).map_or(0, |channel| channel.traits().files.largest);
    if there > 0 && size > there && size <= limits.largest {
        return Err(FileFault::TooLargeThere { size, most: there }.refusal(file));
    }
    // What is certain to be refused is not copied. The transaction that queues it looks again.
    if size <= limits.largest {
        let (used, stored) = used(mail, pending, &files.chat)?;
        let most = mail.config.now().limits.stored_bytes;
        if stored.saturating_add(before + size) > most {
            return Err(Refusal::no_room(stored, most));
        }
        if let Some(fault) = limits.fault(used, before + size.max(BLOCK)) {
            return Err(fault.into());
        }
    }
    let hand = mail.media.keep(&open, limits.largest).map_err(|error| match error {
        NotKept::Fault(fault) => fault.refusal(file),
        NotKept::World(error) => {
            tracing::error!(%group, error = %chain(&error), "a file can't be copied");
            Refusal::internal()
        }
    })?;
    // It may have had a second name when it was opened, and have lost the one that led here.
    if is_only_name(&folder, Path::new(relative), &open) {
        return Ok(hand);
    }
    forget(mail, hand);
    Err(FileFault::Changed.refusal(file))
}

/// Returns how much of files there is, and how much of the group is stored.
fn used(mail: &Mailboxes, pending: &Pending, chat: &str) -> Result<(MediaUse, u64), Refusal> {
    let used = tokio::runtime::Handle::current().block_on(mail.store.media_use(chat, clock::now()));
    let stored = mail.store.stored_by(&pending.claimed.folder);
    used.and_then(|used| Ok((used, stored?))).map_err(|error| {
        tracing::error!(error = %chain(&error), "the room for files can't be read");
        Refusal::internal()
    })
}

fn refusal_of(error: &InsideError, file: &Attach) -> Refusal {
    let fault = match error {
        InsideError::Absent(_) => FileFault::Absent,
        InsideError::NotAFile(_) => FileFault::NotAFile,
        InsideError::World(world) => match Errno::from_io_error(&world.source) {
            // Closed to us, or held by a lease.
            Some(Errno::ACCESS | Errno::PERM | Errno::AGAIN) => FileFault::Unreadable,
            Some(Errno::NAMETOOLONG) => FileFault::Absent,
            Some(_) | None => {
                tracing::error!(error = %chain(error), "a file that is to be sent can't be opened");
                return Refusal::internal();
            }
        },
    };
    fault.refusal(file)
}

/// Lets go of the files of commands that are settled: those that no row names are removed. What fails here, the next sweep
/// does.
pub(super) fn let_go(mail: &Mailboxes, pending: &mut Pending) {
    std::mem::take(&mut pending.hands).into_iter().for_each(|hand| forget(mail, hand));
}

fn forget(mail: &Mailboxes, hand: InHand) {
    let digest = hand.digest;
    drop(hand);
    let gone = mail.media.forget(&digest, || mail.store.names_file(&digest).map_err(std::io::Error::other));
    if let Err(error) = gone {
        tracing::warn!(error = %chain(&error), "a file that nothing names can't be removed yet");
    }
}
