//! The files of `wire/`.

macro_rules! golden {
    ($($command:literal),+) => {
        &[$((
            $command,
            include_str!(concat!("../wire/", $command, ".json")),
            include_str!(concat!("../wire/", $command, ".refused.json")),
        )),+]
    };
}

/// Each command with its cases: those that are applied, and those that are refused.
pub(crate) const GOLDEN: &[(&str, &str, &str)] = golden!(
    "send_message",
    "media",
    "ask_user",
    "schedule_task",
    "list_tasks",
    "update_task",
    "pause_task",
    "resume_task",
    "cancel_task",
    "register_group",
    "refresh_groups",
    "clear_session",
    "resume_session",
    "search_sessions",
    "archive_session"
);
