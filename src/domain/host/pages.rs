//! The page of the documentation that tells more of a check, below the folder that holds `docs/`.

/// Returns the page and the heading for a check of `g2 doctor`; `None`: there is no such check.
#[must_use]
pub fn page(check: &str) -> Option<&'static str> {
    Some(match check {
        "root" | "settings" | "store" | "store_writer" | "stored" | "secrets" | "search_index" => {
            "docs/troubleshooting.md#root-and-store"
        }
        "lock" | "socket" | "holds" | "stale_runs" | "runs" | "unowned_run" | "loop" | "loop_key"
        | "our_fault" | "commands" => "docs/troubleshooting.md#the-daemon",
        "docker" | "image" | "sandbox" => "docs/troubleshooting.md#the-engine-and-the-image",
        // One for each rule of runners.
        runner if runner.starts_with("runner") => "docs/troubleshooting.md#the-engine-and-the-image",
        "gateway" | "model_key" | "model_refuses" | "key" => "docs/agents.md#the-model-and-its-key",
        "egress" => "docs/agents.md#hosts-outside",
        "mount" | "mount_allowlist" => "docs/agents.md#more-folders",
        "uid_base" | "group_owner" => "docs/agents.md#what-a-container-has",
        "disk" | "inodes" | "open_files" | "inotify" | "file_events" | "file_system" | "file_handles" => {
            "docs/troubleshooting.md#the-machine"
        }
        "main_group" | "group_folder" | "group_settings" | "group_remains" | "boxes" | "wirings"
        | "script" => "docs/troubleshooting.md#groups",
        "backup" | "backup_lacks" | "held_back" => "docs/backup.md#backups",
        "time_zone" | "zone_data" | "clock" => "docs/tasks.md#when",
        "archives" | "media" => "docs/media.md#removal",
        "sender_list" | "engage_pattern" | "answers_twice" | "held_messages" => {
            "docs/people.md#whose-messages-reach-an-agent"
        }
        "approvals" => "docs/people.md#strangers-and-new-chats",
        "heartbeat" => "docs/tasks.md#heartbeatmd",
        "channel" | "many_chats" | "outbox" => "docs/channels.md#signs-of-life",
        "runs_fail" | "task_fails" | "lane_rests" | "task_rests" | "task_paused" | "given_up"
        | "set_aside" => "docs/service.md#turns-rests-and-pauses",
        _ => return None,
    })
}
