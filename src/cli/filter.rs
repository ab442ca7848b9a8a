//! Filters by a group or a chat: an empty list of something that is not there is a mistake, and said to be one.

use anyhow::{Context as _, bail};
use ipc_handlers::Folder;

use crate::store::Store;

/// Refuses an empty list of a group that is not there. A group that was removed may still have rows.
///
/// # Errors
/// The name is no folder's, or no group has it.
pub(super) fn check_group<T>(store: &Store, rows: &[T], group: Option<&str>) -> anyhow::Result<()> {
    let Some(name) = group.filter(|_| rows.is_empty()) else { return Ok(()) };
    let folder = Folder::parse(name).context("reading --group")?;
    match store.group(&folder)? {
        Some(_) => Ok(()),
        None => bail!("there is no group {folder}; `g2 groups list` shows all"),
    }
}

/// Refuses an empty list of a chat of which nothing is known.
///
/// # Errors
/// No message came from the chat, and no group is wired to it.
pub(super) fn check_chat<T>(store: &Store, rows: &[T], chat: Option<&str>) -> anyhow::Result<()> {
    let Some(jid) = chat.filter(|_| rows.is_empty()) else { return Ok(()) };
    match store.chat(jid)? {
        Some(_) => Ok(()),
        None => bail!("there is no chat {jid}; `g2 chats list` shows all"),
    }
}
