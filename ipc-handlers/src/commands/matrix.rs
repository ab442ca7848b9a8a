//! Who may do what, as one table: each operation, asked by main and by another group.

use serde_json::{Value, json};

use super::testing::{ask, caller};
use crate::Code;

/// What comes of asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum May {
    Yes,
    /// The caller may not.
    No,
    /// It reads as if it were not there.
    Hidden,
}
use May::{Hidden, No, Yes};

#[test]
fn the_whole_matrix_of_who_may_do_what() {
    let task = |id: &str, kind: &str| json!({"type": kind, "taskId": id, "prompt": "p"});
    let session = |kind: &str, folder: &str| json!({"type": kind, "targetFolder": folder, "sessionId": "s", "name": "n", "query": "q", "sessionHistoryId": 5});
    let say = |chat: &str| json!({"type": "send_message", "chatJid": chat, "text": "x"});
    let ask_in = |chat: &str| json!({"type": "ask_user", "chatJid": chat, "question": "x?"});
    let schedule = |chat: &str| json!({"type": "schedule_task", "targetJid": chat, "prompt": "p", "schedule_type": "interval", "schedule_value": 60_000});
    let register =
        json!({"type": "register_group", "jid": "tg:-300", "name": "n", "folder": "team", "trigger": "@x"});
    // The operation; main; the group `family`.
    let mut matrix: Vec<(Value, May, May)> = vec![
        (say("local:main"), Yes, No),
        (say("tg:-100"), Yes, Yes),
        (say("dc:1"), Yes, No),
        (say("tg:-999"), Yes, No),
        (ask_in("local:main"), Yes, No),
        (ask_in("tg:-100"), No, Yes),
        (ask_in("tg:-999"), No, No),
        (schedule("local:main"), Yes, No),
        (schedule("tg:-100"), Yes, Yes),
        (schedule("dc:1"), Yes, No),
        (register, Yes, No),
        (json!({"type": "refresh_groups"}), Yes, No),
        (json!({"type": "list_tasks"}), Yes, Yes),
        // An archive is taken up where it is at home.
        (session("resume_session", "family"), Yes, Yes),
        (session("resume_session", "main"), Hidden, No),
    ];
    for kind in ["update_task", "pause_task", "resume_task", "cancel_task"] {
        matrix.push((task("task-family", kind), Yes, Yes));
        matrix.push((task("task-main", kind), Yes, Hidden));
        matrix.push((task("task-none", kind), Hidden, Hidden));
    }
    for kind in ["clear_session", "search_sessions", "archive_session"] {
        matrix.push((session(kind, "family"), Yes, Yes));
        matrix.push((session(kind, "main"), Yes, No));
        matrix.push((session(kind, "solo"), Yes, No));
    }
    for (operation, main, other) in matrix {
        for (group, expected) in [("main", main), ("family", other)] {
            // What a file says of its author means nothing.
            let mut operation = operation.clone();
            operation["groupFolder"] = "main".into();
            operation["isMain"] = true.into();
            let may = match ask(&caller(group), &operation).map_err(|refusal| refusal.code) {
                Ok(_) => Yes,
                Err(Code::NotAuthorized) => No,
                Err(Code::NotFound) => Hidden,
                Err(other) => panic!("{group}: {operation}: {other}"),
            };
            assert_eq!(may, expected, "{group}: {operation}");
        }
    }
}
