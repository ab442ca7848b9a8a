//! Wirings: chats wired to groups, with the rules for messages that wake the agent.

use ipc_handlers::Folder;

use super::{OpError, Site, args::Jid};
use crate::{
    domain::{
        heard::{
            engage::{ChatKind, Engages, default_for, takes_everything},
            js_regex::Pattern,
        },
        platforms::chats,
        rows::{Chat, Wiring},
    },
    store::{Store, StoreError},
};

pub mod add;
pub mod remove;
pub mod set;
pub mod unstick;

/// Returns a wiring's row.
async fn row(site: &Site<'_>, group: &Folder, chat: &Jid) -> Result<Option<Wiring>, OpError> {
    let mut all = site.store.wirings().await?.into_iter();
    Ok(all.find(|wiring| wiring.group == *group && wiring.chat_jid == chat.as_str()))
}

/// There is no such wiring.
fn none(group: &Folder, chat: &Jid) -> OpError {
    OpError::not_found(format!("wiring {group} {chat} does not exist")).hint("see `g2 wirings list`")
}

/// Refuses a pattern that can't be used. (One that an older program stored engages on everything.)
fn check_pattern(pattern: Option<&str>) -> Result<(), OpError> {
    match pattern.map(Pattern::compile) {
        Some(Err(why)) => Err(OpError::invalid(why.to_string()).hint("nothing is changed")),
        Some(Ok(_)) | None => Ok(()),
    }
}

/// Returns a note if this group and another one engage on every message of a chat, so that each is answered twice.
pub(super) async fn two_answer(
    store: &Store,
    group: &Folder,
    chat: &Jid,
) -> Result<Option<String>, StoreError> {
    let all: Vec<String> = store
        .wirings()
        .await?
        .into_iter()
        .filter(|w| w.chat_jid == chat.as_str() && takes_everything(w.engage_pattern.as_deref()))
        .map(|w| w.group.to_string())
        .collect();
    Ok((all.len() > 1 && all.iter().any(|g| g == group.as_str())).then(|| {
        format!(
            "{} engage on every message of {chat}: each message is answered {} times; change one with `g2 wirings set … engage=mention`",
            all.join(" and "),
            all.len()
        )
    }))
}

/// Returns the engage mode of a new wiring that names none. `shown`: the kind that the chat's address shows.
pub(super) fn default_mode(shown: chats::ChatKind, known: Option<&Chat>) -> Engages {
    let kind = known.map_or(shown, |chat| chat.kind);
    let kind = ChatKind::of_columns(kind, known.is_some_and(|chat| chat.threaded));
    default_for(kind).0
}
