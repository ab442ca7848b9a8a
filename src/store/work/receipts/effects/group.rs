//! Groups: registered, and what could be.

use ipc_handlers::{Outcome, Time, effect::Registration};
use rusqlite::Connection;

use super::{super::LONGEST_REPLY, Applied};
use crate::store::{
    talk::{
        addresses, groups,
        register::{self, Registered},
    },
    work::{by_hand, sessions},
};

/// Makes the group, or changes it, and wires it to the chat. Where it was there already, its live run leaves, so that the
/// next one has the new settings. `channels`: those that there are now. A new group begins after the `claim` that makes it: what was claimed before is an earlier group's.
pub(super) fn register(
    c: &Connection,
    made: &Registration,
    claim: Option<i64>,
    channels: &[String],
    now: Time,
) -> Applied {
    match register::register(c, made, now)? {
        Err(not_applied) => return Ok(Err(not_applied)),
        Ok(Registered::Changed) => sessions::renew(c, &made.folder)?,
        Ok(Registered::Wired) => {}
        Ok(Registered::Made) => by_hand::begin_after(c, &made.folder, claim.unwrap_or(0))?,
    }
    let channel = addresses::channel_of(c, &made.chat_jid)?;
    Ok(Ok(Outcome::Registered {
        folder: made.folder.clone(),
        jid: made.chat_jid.clone(),
        unserved: !channels.contains(&channel),
    }))
}

/// Reads the chats that an agent could be registered for.
pub(super) fn list(c: &Connection) -> Applied {
    let (groups, more) = groups::available(c, LONGEST_REPLY)?;
    Ok(Ok(Outcome::Groups { groups, more }))
}
