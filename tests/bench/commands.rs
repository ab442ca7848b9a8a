//! Every command that there is, as agents write it, and what has to be there before it can be obeyed.

use ipc_handlers::commands::CATALOGUE;
use rusqlite::{Connection, params};
use serde_json::{Value, json};

/// The picture that each group has, in its folder.
pub(crate) const PICTURE: &str = "chart.png";

/// A day, ms: nothing that is made here comes due meanwhile.
const DAY: i64 = 86_400_000;

/// Returns the names of all commands, in the order of the catalogue.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    CATALOGUE.iter().map(|entry| entry.type_name)
}

/// Returns those of them that `G2_BENCH_ONLY` names, separated by commas; otherwise all.
pub(crate) fn wanted() -> Vec<&'static str> {
    let only = std::env::var("G2_BENCH_ONLY").unwrap_or_default();
    names().filter(|name| only.is_empty() || only.split(',').any(|one| one == *name)).collect()
}

/// Whether only main may give it.
pub(crate) fn is_mains(name: &str) -> bool {
    matches!(name, "register_group" | "refresh_groups")
}

/// Returns command number `n` as `group` writes it, with a `requestId` where it wants a reply. What it names is made by
/// [`prepare`].
pub(crate) fn command(name: &str, group: &str, n: usize, groups: &[String], reply: bool) -> Value {
    let mut command = match name {
        "send_message" => json!({ "chatJid": format!("local:{group}"), "text": format!("message {n}") }),
        "media" => json!({ "chatJid": format!("local:{group}"), "filePath": PICTURE, "mediaType": "image" }),
        "schedule_task" => json!({
            "prompt": format!("look after thing {n}"), "schedule_type": "interval", "schedule_value": DAY.to_string(),
            "targetJid": format!("local:{group}"),
        }),
        "update_task" => json!({ "taskId": task(n), "prompt": format!("look after thing {n} again") }),
        "pause_task" | "resume_task" | "cancel_task" => json!({ "taskId": task(n) }),
        "list_tasks" | "refresh_groups" | "clear_session" => json!({}),
        "register_group" => {
            // Somebody is registered again, as main's own folder can't be.
            let again = &groups[1..];
            let folder = again.get(n % again.len().max(1)).map_or("g0001", String::as_str);
            json!({ "jid": format!("local:{folder}"), "name": folder, "folder": folder, "trigger": "@G2" })
        }
        "resume_session" => json!({ "sessionHistoryId": n + 1 }),
        "search_sessions" => json!({ "query": "holiday" }),
        "archive_session" => json!({
            "sessionId": format!("new-{n}"), "name": format!("conversation {n}"), "content": "**User**: where to on holiday?",
        }),
        other => panic!("how is {other} written? a new command has a line here"),
    };
    command["type"] = json!(name);
    if reply {
        command["requestId"] = json!(format!("{}-{n}", name.replace('_', "-")));
    }
    command
}

/// Stores what the commands `0..count` act on, those that groups give in turn.
pub(crate) fn prepare(store: &mut Connection, name: &str, count: usize, groups: &[String]) {
    let all = store.transaction().unwrap();
    let now = jiff::Timestamp::now().as_millisecond();
    for (n, group) in (0..count).zip(groups.iter().cycle()) {
        match name {
            "update_task" | "pause_task" | "resume_task" | "cancel_task" => {
                let status = if name == "resume_task" { "paused" } else { "active" };
                store_task(&all, &task(n), group, status, now);
            }
            // One of each group.
            "list_tasks" if n < groups.len() => store_task(&all, &task(n), group, "active", now),
            "resume_session" => archive(&all, n, group, now),
            "search_sessions" if n < 10 * groups.len() => archive(&all, n, group, now),
            _ => {}
        }
    }
    all.commit().unwrap();
}

fn task(n: usize) -> String {
    format!("thing-{n}")
}

fn store_task(store: &Connection, id: &str, group: &str, status: &str, now: i64) {
    store
        .prepare_cached(
            "INSERT INTO tasks (id, group_folder, chat_jid, prompt, schedule_type, schedule_value, context_mode, status, next_run, created_at)
             VALUES (?1, ?2, 'local:' || ?2, 'look after it', 'interval', ?3, 'isolated', ?4, ?5, ?6)",
        )
        .unwrap()
        .execute(params![id, group, DAY.to_string(), status, now + DAY, now])
        .unwrap();
}

fn archive(store: &Connection, n: usize, group: &str, now: i64) {
    store
        .prepare_cached(
            "INSERT INTO archives (id, group_folder, session_id, name, content, archived_at)
             VALUES (?1, ?2, ?3, ?4, '**User**: the holiday in May', ?5)",
        )
        .unwrap()
        .execute(params![n as i64 + 1, group, format!("old-{n}"), format!("conversation {n}"), now])
        .unwrap();
}
