//! The files that go with what a command says: copied out of the group's folder before the transaction that queues them, so
//! that their bytes are those of now, whatever becomes of the group's own.

use std::{collections::BTreeMap, path::Path};

use ipc_handlers::{
    Command, Refusal,
    file::{Attach, FileFault},
};
use rustix::io::Errno;

use super::{Mailboxes, flow::AT_ONCE, read::Pending};
use crate::{
    domain::{
        platforms::attachments::{Attachment, BLOCK, MediaUse},
        shown::errors::chain,
        states::CommandOutcome,
    },
    ipc::{InsideError, file_inside, is_only_name},
    store::Settled,
    system::media::{InHand, NotKept},
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

impl Copied {
    /// Returns the weight of the command among those that are settled together, bytes. A refused command ends such a batch, as its
    /// file may have been read to the end.
    pub(super) fn weight(&self) -> usize {
        if self.files.is_err() {
            return AT_ONCE;
        }
        let new = self.hands.iter().filter(|hand| hand.is_new).count();
        self.bytes + new * (AT_ONCE / NEW_TOGETHER)
    }
}

/// How many files that are new are settled together at most.
const NEW_TOGETHER: usize = 8;

/// What came of copying the files of a command.
pub(super) enum Copying {
    Done(Copied),
    /// There may be no room beside what the commands before it take. It is known once those are settled.
    Unsure,
    /// We stop, and the next start does it; or whether there is room can't be read now, and it is tried again.
    NotNow,
}

/// The room that the commands of a group may take that were read and are not settled yet. Their files are copied already.
#[derive(Default)]
pub(super) struct Ahead {
    read: Takes,
    /// Those that the store is at work on.
    settling: Takes,
    /// How much there was of each chat's files, and how much the group had stored, when it was looked first.
    seen: BTreeMap<String, (MediaUse, u64)>,
}

/// How much commands take, bytes.
#[derive(Default)]
struct Takes {
    chats: BTreeMap<String, u64>,
    files: u64,
    /// In the store, of the group.
    stored: u64,
}

/// How much the rows of one command take in the store at most, beside its own bytes.
const ROWS: u64 = 8 << 10;

impl Ahead {
    /// A command was read, and its files are copied.
    pub(super) fn read(&mut self, pending: &Pending, copied: Option<&Copied>) {
        let read = &mut self.read;
        // Its text and its ids stand in several rows.
        read.stored += ROWS + 4 * pending.kept.len() as u64;
        let (Some(sends), Some(Copied { files: Ok(_), bytes, .. })) = (&pending.sends, copied) else {
            return;
        };
        let bytes = *bytes as u64;
        read.stored += bytes;
        read.files += bytes;
        *read.chats.entry(sends.chat.clone()).or_default() += bytes;
    }

    /// The read commands are given to the store, which has settled all before them.
    pub(super) fn given(&mut self) {
        *self = Self { settling: std::mem::take(&mut self.read), ..Self::default() };
    }

    /// The store has settled what it was given.
    pub(super) fn settled(&mut self) {
        self.settling = Takes::default();
        self.seen.clear();
    }

    fn is_none(&self) -> bool {
        self.read.stored == 0 && self.settling.stored == 0 && self.seen.is_empty()
    }

    /// Returns how much of files there is with these, and how much of the group is stored.
    fn with(&self, chat: &str, (used, stored): (MediaUse, u64)) -> (MediaUse, u64) {
        let mut sum = (used, stored);
        for takes in [&self.read, &self.settling] {
            sum.0.chat_hour = sum.0.chat_hour.saturating_add(takes.chats.get(chat).copied().unwrap_or(0));
            sum.0.all = sum.0.all.saturating_add(takes.files);
            sum.1 = sum.1.saturating_add(takes.stored);
        }
        sum
    }
}

/// Why a file is not copied.
enum NotCopied {
    Refused(Refusal),
    /// There is no room for it beside what is ahead.
    NoRoom(Refusal),
    /// Whether there is can't be read.
    Unknown,
}

impl From<Refusal> for NotCopied {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Copies the files of a command, of which others may be `ahead`.
pub(super) fn copy(mail: &Mailboxes, pending: &Pending, files: &Files, ahead: &mut Ahead) -> Copying {
    let group = &pending.claimed.folder;
    let mut copied = Copied { files: Ok(Vec::new()), hands: Vec::new(), bytes: 0 };
    let mut rows = Vec::new();
    let is_sure = ahead.is_none();
    for file in &files.files {
        if mail.stop.is_cancelled() {
            return Copying::NotNow;
        }
        match one(mail, pending, files, file, copied.bytes as u64, ahead) {
            Ok(hand) => {
                copied.bytes += usize::try_from(hand.size.max(BLOCK)).unwrap_or(usize::MAX >> 8);
                rows.push(Attachment::sent(file, hand.digest, hand.size, hand.mime));
                copied.hands.push(hand);
            }
            Err(NotCopied::NoRoom(_)) if !is_sure => {
                copied.hands.into_iter().for_each(|hand| forget(mail, hand));
                return Copying::Unsure;
            }
            Err(NotCopied::Unknown) => {
                copied.hands.into_iter().for_each(|hand| forget(mail, hand));
                return Copying::NotNow;
            }
            Err(NotCopied::NoRoom(refusal) | NotCopied::Refused(refusal)) => {
                tracing::info!(%group, file = file.file_path, why = refusal.message, "a file is not sent");
                copied.files = Err(refusal);
                return Copying::Done(copied);
            }
        }
    }
    copied.files = Ok(rows);
    Copying::Done(copied)
}

/// Copies one file, `before` bytes of the same message after the others.
fn one(
    mail: &Mailboxes,
    pending: &Pending,
    files: &Files,
    file: &Attach,
    before: u64,
    ahead: &mut Ahead,
) -> Result<InHand, NotCopied> {
    let group = &pending.claimed.folder;
    let folder = mail.root.join("groups").join(group.as_str());
    let relative = file.relative(&folder.to_string_lossy())?;
    let open = file_inside(&folder, Path::new(relative)).map_err(|error| refusal_of(&error, file))?;
    let limits = mail.config.now().media.limits();
    let size = open.size();
    // A platform that takes no files gets a line in the text, and one that was not spoken to yet may take any.
    let there = mail.channels.of(&files.chat).map_or(0, |channel| channel.traits().files.largest);
    if there > 0 && size > there && size <= limits.largest {
        return Err(FileFault::TooLargeThere { size, most: there }.refusal(file).into());
    }
    // A file that is certain to be refused is not copied. The transaction that queues it looks again.
    if size <= limits.largest {
        let seen = match ahead.seen.get(&files.chat) {
            Some(seen) => *seen,
            None => {
                let seen = used(mail, pending, &files.chat)?;
                ahead.seen.insert(files.chat.clone(), seen);
                seen
            }
        };
        let (used, stored) = ahead.with(&files.chat, seen);
        let most = mail.config.now().limits.stored_bytes;
        if stored.saturating_add(before + size) > most {
            return Err(NotCopied::NoRoom(Refusal::no_room(stored, most)));
        }
        if let Some(fault) = limits.fault(used, before + size.max(BLOCK)) {
            return Err(NotCopied::NoRoom(fault.into()));
        }
    }
    let hand =
        open.file().map_err(NotKept::World).and_then(|file| mail.media.keep(file, limits.largest)).map_err(
            |error| match error {
                NotKept::Fault(fault) => fault.refusal(file),
                NotKept::World(error) => {
                    tracing::error!(%group, error = %chain(&error), "a file can't be copied");
                    Refusal::internal()
                }
            },
        )?;
    // It may have had a second name when it was opened, and have lost the one that led here.
    if is_only_name(&folder, Path::new(relative), &open) {
        return Ok(hand);
    }
    forget(mail, hand);
    Err(FileFault::Changed.refusal(file).into())
}

/// Returns how much of files there is, and how much of the group is stored.
fn used(mail: &Mailboxes, pending: &Pending, chat: &str) -> Result<(MediaUse, u64), NotCopied> {
    mail.store.room_taken(&pending.claimed.folder, chat, mail.machine.world.now()).map_err(|error| {
        if error.is_worlds_fault() {
            tracing::warn!(error = %chain(&error), "the room for files can't be read; it is read again");
            return NotCopied::Unknown;
        }
        tracing::error!(error = %chain(&error), "the room for files can't be read");
        NotCopied::Refused(Refusal::internal())
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

/// Lets go of the files of a command that is settled: those that no row names are removed. What fails here, the next sweep
/// does.
pub(super) fn let_go(mail: &Mailboxes, pending: &mut Pending, settled: &Settled) {
    let hands = std::mem::take(&mut pending.hands);
    // A file that was queued just now is named.
    if !settled.fresh || settled.receipt.outcome != CommandOutcome::Applied {
        hands.into_iter().for_each(|hand| forget(mail, hand));
    }
}

fn forget(mail: &Mailboxes, hand: InHand) {
    let digest = hand.digest;
    drop(hand);
    let gone = mail.media.forget(&digest, || mail.store.names_file(&digest).map_err(std::io::Error::other));
    if let Err(error) = gone {
        tracing::warn!(error = %chain(&error), "a file that nothing names can't be removed yet");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_command_ends_its_batch_and_files_that_are_kept_weigh_their_bytes() {
        let copied = |files| Copied { files, hands: Vec::new(), bytes: 4096 };
        assert_eq!(copied(Ok(Vec::new())).weight(), 4096);
        // Its file may have been read to the end, and those behind it must not be read before it is settled.
        assert!(copied(Err(Refusal::internal())).weight() >= AT_ONCE);
    }
}
