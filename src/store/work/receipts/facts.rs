//! What is known when a command is decided, read in the transaction that applies its effects.

use ipc_handlers::{
    Caller, Command, Facts, Folder, RunSeat, Time,
    facts::{ArchiveFacts, ChatFacts, GroupFacts, TaskFacts},
};
use rusqlite::{Connection, OptionalExtension};

use super::effects::within;
use crate::domain::host::zone::{Zone, Zones};
use crate::store::{
    Result,
    talk::{chats, groups},
    work::{sessions, tasks},
};

pub(super) fn run_seat(c: &Connection, run: i64) -> Result<Option<RunSeat>> {
    Ok(c.prepare_cached("SELECT lane_id, chat_jid FROM runs WHERE id = ?1")?
        .query_row([run], |r| Ok((r.get::<_, Option<i64>>("lane_id")?, r.get::<_, String>("chat_jid")?)))
        .optional()?
        .and_then(|(lane, chat_jid)| lane.map(|lane| RunSeat { run, lane, chat_jid })))
}

pub(super) fn facts(
    c: &Connection,
    caller: &Caller,
    command: &Command,
    zones: &Zones,
    now: Time,
) -> Result<Facts> {
    let wants = command.wants(caller);
    let chat = match wants.chat {
        Some(jid) if chats::is_known(c, &jid)? => {
            Some(ChatFacts { groups: groups::groups_of(c, &jid)?, jid })
        }
        Some(_) | None => None,
    };
    let tasks = match &wants.task {
        // Another group's are as absent.
        Some((_, Some(other))) if !caller.may_touch(other) => Vec::new(),
        Some((id, group)) => {
            let own = (!caller.is_main).then_some(&caller.group);
            tasks::facts_of(c, id, group.as_ref().or(own), &caller.group)?
        }
        None => Vec::new(),
    };
    let group = match wants.folder {
        Some(folder) => groups::is_main(c, &folder)?.map(|is_main| GroupFacts { folder, is_main }),
        None => None,
    };
    let archive = match wants.archive {
        Some((id, scope)) => sessions::archived(c, id, within(&scope))?
            .map(|(group, session_id)| ArchiveFacts { id, group, session_id }),
        None => None,
    };
    let own_chats = groups::chats_of(c, &caller.group)?;
    let Zone { name: zone_name, zone } =
        groups::zone_of(c, whose_clock(caller, tasks.first(), chat.as_ref()), zones)?;
    Ok(Facts { now, zone, zone_name, chat, own_chats, tasks, group, archive })
}

/// Returns the group by whose clock a command is read: that of the task, or of the chat that a task is made for.
fn whose_clock<'a>(
    caller: &'a Caller,
    task: Option<&'a TaskFacts>,
    chat: Option<&'a ChatFacts>,
) -> &'a Folder {
    match (task, chat) {
        (Some(task), _) => &task.group,
        (None, Some(chat)) if !chat.groups.contains(&caller.group) => {
            chat.groups.first().unwrap_or(&caller.group)
        }
        (None, Some(_) | None) => &caller.group,
    }
}
