//! What is known when a command is decided, read in the transaction that applies its effects.

use ipc_handlers::{
    Caller, Command, Facts, Folder, Time,
    facts::{ArchiveFacts, ChatFacts, GroupCount, GroupFacts, TaskFacts},
};
use rusqlite::Connection;

use super::{Rules, effects::within, recall::Recall};
use crate::domain::time::zone::Zone;
use crate::store::{
    Result,
    talk::groups,
    work::{sessions, tasks},
};

pub(super) fn facts(
    c: &Connection,
    caller: &Caller,
    command: &Command,
    rules: &Rules,
    recall: &mut Recall,
    (asked, now): (Time, Time),
) -> Result<Facts> {
    let wants = command.wants(caller);
    let chat = wants.chat.map(|jid| recall.chat(c, jid)).transpose()?.flatten();
    let tasks = match &wants.task {
        // Another group's are as absent.
        Some((_, Some(other))) if !caller.may_touch(other) => Vec::new(),
        Some((id, group)) => {
            let own = (!caller.is_main).then_some(&caller.group);
            tasks::facts_of(c, id, group.as_ref().or(own), &caller.group)?
        }
        None => Vec::new(),
    };
    let wants_group = wants.folder.is_some();
    let group = match wants.folder {
        Some(folder) => groups::is_main(c, &folder)?.map(|is_main| GroupFacts { folder, is_main }),
        None => None,
    };
    let groups = match (wants_group, &group) {
        (true, None) => GroupCount { count: groups::count(c)?, most: rules.bounds.groups },
        (true, Some(_)) | (false, _) => GroupCount::default(),
    };
    let archive = match wants.archive {
        Some((id, scope)) => sessions::archived(c, id, within(&scope))?
            .map(|(group, session_id)| ArchiveFacts { id, group, session_id }),
        None => None,
    };
    let own_chats = recall.own_chats(c, caller)?;
    let Zone { name: zone_name, zone } =
        recall.zone(c, whose_clock(caller, tasks.first(), chat.as_ref()), &rules.zones)?;
    Ok(Facts { now, asked, zone, zone_name, chat, own_chats, tasks, group, groups, archive })
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
