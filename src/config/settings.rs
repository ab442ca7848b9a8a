//! Every setting, declared once: its key and default as `g2.toml` has them, what a number may be, its place and type in the
//! code, how it is read, and what the file says of it. To add one, add a line.

use std::{collections::BTreeMap, net::SocketAddr, num::NonZeroUsize, path::PathBuf, time::Duration};

use serde::Deserialize;

use super::{
    Budgets, SandboxKind,
    declare::{Declared, Section, Takes, declare},
    units,
};
use crate::domain::{
    kept::backups::TimeOfDay,
    problems::notices::{NotifyLevel, Quiet},
    rows::UnknownDeliveries,
    runs::{
        budget::Price,
        outside::Pattern,
        run_settings::{Aws, Credentials, Egress as ByModel, Network, Provider, Selinux},
    },
};

const YEARS: i64 = 315_360_000_000;
const MANY: i64 = u32::MAX as i64;

// Before `=>` stands what the file has: `"key" = default`, the least and the most of a number, and when a change holds, if that is not
// what its section says. Behind it stand the field, its type, and what reads it.
//
// A comment stands above its setting in the file. If it begins with a small letter or a sign, its first line stands behind the setting.
declare! {
    /// The settings of G2, each at its default. Remove the `# ` before a line to change it.
    /// v1's environment names (ASSISTANT_NAME, TZ, CONTAINER_IMAGE, CONTAINER_TIMEOUT, IDLE_TIMEOUT,
    /// MAX_CONCURRENT_CONTAINERS, MAX_MESSAGES_PER_PROMPT, POLL_INTERVAL, LOG_LEVEL), also in .env, win over this file.
    /// A running daemon follows this file within some seconds, and at once on SIGHUP. What it can't take before its next start is
    /// named by `g2 status`; a file that can't be used changes nothing.
    [""] Now => pub(super) struct File {
        "assistant_name" = "G2" => assistant_name: String;
        /// The user's time zone. G2 takes the first that is set: TZ, this, TZ in .env, the machine's own zone, otherwise UTC. A group
        /// may have its own (`g2 groups set`).
        "timezone" = "" => timezone: String;
        "log_level" = "info" => log_level: String as "units::log_level";
        [sandbox] Sandbox;
        [egress] Egress;
        [agent] Agent;
        [budget] Budgets;
        [limits] Limits;
        [housekeeping] Housekeeping;
        [health] Health;
        [approvals] Approvals;
        [words] ChatWords;
        [notify] Notify;
        [backup] Backup;
        [outbox] Outbox;
        [network] NetworkSettings;
        [gateway] Gateway;
        [ipc] Ipc;
        [media] Media;
        [web] Web;
        // No account is there by default. Its adapter reads the settings of an account.
        [channels] BTreeMap<String, toml::Table>, default;
    }

    // How agents are run is chosen once, and so are the users that own their files.
    ["sandbox"] NextRun => pub struct Sandbox {
        "kind" = "auto", Restart => kind: SandboxKind as "units::word";
        "image" = "g2-agent:latest" => image: String;
        "allow_unsandboxed" = false => allow_unsandboxed: bool;
        "memory_mib" = 2048 in 0..=1 << 24 => memory_bytes: Option<u64> as "units::mib_or_none";
        "cpus" = 2.0 => cpus: Option<f64> as "units::cpus";
        "pids" = 512 in 0..=1 << 22 => pids: Option<u64> as "units::or_none";
        "output_mib" = 256 in 1..=1 << 20 => output_bytes: u64 as "units::mib";
        /// the model only; "allowlist": also the hosts of [egress] and `g2 egress`; "open": everything
        "network" = "model" => network: Network as "units::word";
        /// "model_fetch": without a network, the model's host may fetch pages, search the web, and more
        "egress" = "none" => egress: ByModel as "units::word";
        /// keys stay on the host; "stdin": the agent gets them (needs network = "open")
        "credentials" = "gateway" => credentials: Credentials as "units::word";
        /// groups that see ~/.aws, read-only: "main" or "all"
        "aws" = "off" => aws: Aws as "units::word";
        // Beside 0 it lies above the users of a machine, with room above it.
        /// as root: each group's agent is a user of its own (this plus the group's number); 0: all are 1000
        "uid_base" = 0 in 0..=MANY, Restart => uid_base: Option<u32> as "units::uid_base";
        /// how mounts are labelled: "z", "Z" (a group's own for it alone), "disable"
        "selinux" = "" => selinux: Selinux as "units::word";
    }

    /// Hosts that groups with the network "allowlist" reach, beside those of `g2 egress allow`: HOST[:PORT], *.HOST[:PORT]; without a
    /// port 80 and 443. Addresses of this machine and its networks are never reached. The limits hold for each group.
    ["egress"] Now => pub struct Egress {
        /// such as ["api.example.com", "*.example.org:443"]
        "allow" = [] => allow: Vec<Pattern>;
        /// at a time
        "connections" = 64 in 1..=1_000 => connections: usize;
        /// refused ones included
        "connections_per_minute" = 600 in 1..=1_000_000 => connections_per_minute: u32;
        /// both ways, all connections together
        "mib_per_hour" = 2048 in 1..=1 << 30 => bytes_per_hour: u64 as "units::mib";
        /// how long one may last
        "connection_minutes" = 60 in 1..=10_080 => life: Duration as "units::minutes";
    }

    ["agent"] NextRun => pub struct Agent {
        /// or "claude", or "acp": any agent that speaks the Agent Client Protocol
        "provider" = "scripted" => provider: Provider as "units::word";
        /// the runner in the image and its arguments, if it is not the entry point: container/PROTOCOL.md
        "command" = [] => command: Vec<String>;
        /// a JSON file that the scripted agent follows; its format: container/agent-runner/SCRIPT.md
        "script" = "" => script: Option<PathBuf> as "units::or_none";
        [claude] ClaudeSettings;
        [acp] AcpSettings;
    }

    ["agent.claude"] NextRun => pub struct ClaudeSettings {
        "path" = "" => path: String;
        /// "": any
        "version" = "2.1.197" => version: Option<String> as "units::or_none";
        "model" = "" => model: Option<String> as "units::or_none";
        "append_system_prompt" = "" => append_system_prompt: Option<String> as "units::or_none";
        /// the CLI's own tools that are offered; []: the runner's list
        "tools" = [] => tools: Vec<String>;
        /// settings files that count ("user", "project"): agents can write them. Skills need none
        "setting_sources" = [] => setting_sources: Vec<String> as "units::setting_sources";
        /// ms that it may wait for the model in silence; 0: the runner's limit
        "stall_timeout_ms" = 0 in 0..=YEARS => stall_timeout_ms: u64;
    }

    ["agent.acp"] NextRun => pub struct AcpSettings {
        /// the program in the image and its arguments, such as ["gemini", "--experimental-acp"]
        "command" = ["claude-code-acp"] => command: Vec<String>;
        /// more of its environment; keys belong into .env
        "env" = {} => env: BTreeMap<String, String>;
        /// how it logs in, by a name that it offers; "": not at all
        "auth_method" = "" => auth_method: Option<String> as "units::or_none";
        /// tools, by name or kind ("execute", "edit", "delete", "fetch", …), that it may not use
        "refuse" = [] => refuse: Vec<String>;
        /// ms that it may say nothing in a turn while no tool runs; 0: the runner's limit
        "stall_timeout_ms" = 0 in 0..=YEARS => stall_timeout_ms: u64;
    }

    /// What each group may use in a day of the user's zone; 0: any amount. At 80 % main's chat is told. When it is used up, work waits
    /// until the day is over or the budget is raised. A group may have its own (`g2 groups set FOLDER
    /// budget.requests=N`). The gateway counts: of agents that have the key themselves only minutes are known. docs/budgets.md
    /// says more.
    ["budget"] Now => pub(super) struct Budget {
        /// requests to the model
        "requests" = 0 in 0..=1_000_000_000_000 => requests: u64;
        /// of all kinds together
        "tokens" = 0 in 0..=1_000_000_000_000 => tokens: u64;
        /// by the prices below, in their currency
        "money" = 0.0 in 0..=1_000_000 => money: f64;
        /// time in which its containers run
        "minutes" = 0 in 0..=1_440 => minutes: u64;
        /// such as { "claude-" = { input = 3.0, output = 15.0, cache_write = 3.75, cache_read = 0.3 } }
        /// What a million tokens cost, by the beginning of the model's name; the longest one wins, and a model without a price costs as
        /// much as the dearest. Without cache_write and cache_read these tokens cost as much as input:
        "prices" = {} => prices: BTreeMap<String, Price>;
    }

    ["limits"] Now => pub struct Limits {
        "max_concurrent_containers" = 5 in 1..=10_000 => max_containers: NonZeroUsize;
        "max_messages_per_prompt" = 10 in 1..=1_000_000 => max_context: usize;
        "batch_messages" = 200 in 1..=1_000_000 => batch_messages: usize;
        "batch_kib" = 256 in 1..=1 << 20 => batch_bytes: usize as "units::kib";
        "retry_base_ms" = 5000 in 1..=3_600_000 => retry_base_ms: i64;
        /// time from one missed run of a task that is made up for to the next
        "catch_up_spacing_ms" = 60000 in 0..=3_600_000 => catch_up_spacing_ms: i64;
        /// time between two polls of the boxes, in case the kernel drops a file event
        "poll_interval_ms" = 2000 in 10..=3_600_000 => scan_every: Duration as "units::millis";
        /// Free space, MiB, below which nothing is launched and no command is taken in: commands wait in their boxes. So do commands of
        /// a group that has more in the store than the space that is left above this limit. Free space inside of the store counts too,
        /// if half of this limit is free beside it. If the shortage lasts for some seconds, and at once below half of the limit, the
        /// group whose folders show that it filled the disk is stopped. Removed files that a process still holds open are not seen:
        /// then no group is stopped, and main's chat is told:
        "min_free_mib" = 2048 in 0..=1 << 40 => min_free_bytes: u64 as "units::mib";
        /// Limits of each group in a minute, for files and records on stdout together. Further files wait in their box, further records
        /// in the container's log:
        "commands_per_minute" = 10000 in 1..=MANY => commands_per_minute: u32;
        "messages_per_minute" = 3000 in 1..=MANY => messages_per_minute: u32;
        /// with replies and the texts of records; at most 4095
        "commands_mib_per_minute" = 64 in 1..=4_095 => command_bytes_per_minute: u32 as "units::mib";
        /// Rows of each group in the store, from its commands and records, files of its runs in data/runs, and its part of the index of
        /// archived sessions (at most about 512 MiB, for the newest 64 MiB of text). A group at this limit may
        /// only end and free things (`no_room`); a group a quarter above it is stopped until it has less. `g2 prune` removes old history.
        "stored_mib" = 2048 in 1..=1 << 30 => stored_bytes: u64 as "units::mib";
        /// Files of each group that wait at a time; beyond the number of files the newest are refused:
        "waiting_mib" = 64 in 1..=1 << 30 => waiting_bytes: u64 as "units::mib";
        "waiting_files" = 100000 in 1..=MANY => waiting_files: usize;
        /// Groups, main too. Existing groups stay:
        "groups" = 2000 in 1..=100_000 => groups: usize;
        /// Tasks of each group: their number, their prompts, scripts and schedules together, one prompt, one script. Existing tasks
        /// stay:
        "tasks" = 1000 in 1..=1_000_000 => tasks: usize;
        "tasks_mib" = 8 in 1..=1 << 20 => tasks_bytes: u64 as "units::mib";
        "task_prompt_kib" = 64 in 1..=1 << 10 => task_prompt_bytes: usize as "units::kib";
        "task_script_kib" = 64 in 1..=1 << 10 => task_script_bytes: usize as "units::kib";
        /// Long replies (16 KiB and more, which are lists) of each group that are kept for a repeated `requestId`:
        "replies_mib" = 64 in 1..=1 << 20 => replies_bytes: u64 as "units::mib";
        /// Archived sessions of each group: beyond this number, or this many MiB of text, the oldest are removed. 0: none is removed by
        /// itself. They count for stored_mib; `g2 doctor` warns as they grow:
        "archives" = 0 in 0..=MANY => archives: Option<usize> as "units::or_none";
        "archives_mib" = 0 in 0..=1 << 30 => archives_bytes: Option<u64> as "units::mib_or_none";
        /// Days that history is kept (`g2 prune --help` lists it): once a day older history is removed. 0: nothing is removed by itself.
        "keep_days" = 0 in 0..=36_500 => keep_days: u32;
        /// Minutes from the start to the first time: a wrong clock is mostly corrected by then.
        "keep_first_minutes" = 60 in 0..=MANY => keep_first: Duration as "units::minutes";
    }

    /// Files of each group that nothing needs any more. Once a day G2 removes those that are older than these days, and then the oldest
    /// ones above these MiB; `g2 prune` does the same. 0: no bound.
    ["housekeeping"] Now => pub struct Housekeeping {
        /// logs, prompts and black boxes of runs that have ended, in data/runs
        "runs_days" = 30 in 0..=36_500 => runs_days: u32;
        "runs_mib" = 512 in 0..=1 << 30 => runs_mib: u64;
        /// transcripts that no conversation and no archive needs, debug files and the like, in data/sessions
        "sessions_days" = 30 in 0..=36_500 => sessions_days: u32;
        "sessions_mib" = 1024 in 0..=1 << 30 => sessions_mib: u64;
    }

    ["health"] Now => pub struct Health {
        "startup_ms" = 180000 in 1..=YEARS, NextRun => startup_ms: u64;
        /// without a sign of life
        "ceiling_ms" = 1800000 in 1..=YEARS, NextRun => ceiling_ms: u64;
        "claim_ms" = 60000 in 1..=YEARS => claim_ms: u64;
        "idle_ms" = 1800000 in 1..=YEARS => idle_ms: u64;
        /// v1's CONTAINER_TIMEOUT: where it is longer it takes the place of ceiling_ms; 0: it does not
        "container_ms" = 0 in 0..=YEARS, NextRun => container_ms: u64;
        "close_grace_ms" = 30000 in 0..=YEARS => close_grace_ms: u64;
        /// Hours of silence after which a conversation begins in a new session, with a summary of its last messages. 0: it always goes on:
        "fresh_after_hours" = 0 in 0..=87_600 => fresh_after_ms: Option<i64> as "units::hours_or_none_ms";
        /// A message that could not be answered is tried again after 5, 10, 20, 40 and 80 s. Its owner is told once, in its chat if that is
        /// main's, otherwise in main's chat, when the next attempt is at least this many ms away. 0: nobody is told before it is given up:
        "tell_retry_ms" = 10000 in 0..=YEARS => tell_retry_ms: Option<i64> as "units::or_none";
    }

    /// Questions about strangers and new chats (`g2 approvals list`).
    ["approvals"] Now => pub struct Approvals {
        /// minutes that a no holds; 0: the next message asks again
        "deny_ttl_minutes" = 0 in 0..=MANY => deny_ttl_ms: i64 as "units::minutes_ms";
    }

    /// Messages that are commands in a chat: docs/commands.md. "": there is no such word. One that stands twice counts as the first.
    ["words"] Now => pub(super) struct ChatWords {
        "stop" = "/stop" => stop: Option<String> as "units::or_none";
        "retry" = "/retry" => retry: Option<String> as "units::or_none";
        "help" = "/help" => help: Option<String> as "units::or_none";
        "status" = "/status" => status: Option<String> as "units::or_none";
        "new" = "/new" => new: Option<String> as "units::or_none";
        /// another word for new
        "clear" = "/clear" => clear: Option<String> as "units::or_none";
        "model" = "/model" => model: Option<String> as "units::or_none";
        "tasks" = "/tasks" => tasks: Option<String> as "units::or_none";
        "why" = "/why" => why: Option<String> as "units::or_none";
        "usage" = "/usage" => usage: Option<String> as "units::or_none";
    }

    /// An owner is told of each problem that `g2 status` lists, once, and once more when it is gone: docs/daily.md. The text goes to a
    /// chat whose account works; where none does, to the program and the address below.
    ["notify"] Now => pub struct Notify {
        /// the chat that is told; "": an owner's own on a platform
        "chat" = "" => chat: Option<String> as "units::or_none";
        /// "fail": only what does not work; "none": nothing
        "level" = "warn" => level: NotifyLevel as "units::word";
        /// hours in which nothing is told, such as "22:00-07:00"; in the user's time zone
        "quiet" = "" => quiet: Option<Quiet> as "units::quiet";
        /// such as ["/usr/bin/curl", "--data-binary", "@-", "https://ntfy.example.org/g2"]: it gets the text on its standard input
        "command" = [] => command: Vec<String>;
        /// such as "https://chat.example.org/hooks/abc": it gets {"text": …} as JSON
        "webhook" = "" => webhook: Option<String> as "units::web_address";
    }

    /// A backup each day, made by the daemon: docs/backup.md.
    ["backup"] Now => pub struct Backup {
        /// folder for backups; "": none is made
        "to" = "" => to: Option<PathBuf> as "units::or_none";
        /// how many of the newest stay there
        "keep" = 7 in 1..=10_000 => keep: usize;
        /// in the user's time zone; after an outage one is made at once
        "at" = "03:30" => at: TimeOfDay as "units::time_of_day";
        "with_secrets" = false => with_secrets: bool;
    }

    ["outbox"] Restart => pub struct Outbox {
        "on_unknown" = "resend" => on_unknown: UnknownDeliveries as "units::word";
    }

    // What listens, and where the key goes, stays as it began.
    /// The containers' way to the model. The key itself is in `.env` (ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN), or in
    /// token_file: a token, or ~/.claude/.credentials.json. ANTHROPIC_BASE_URL wins over upstream.
    /// How hosts outside are reached: the model's, those that agents may reach, and chat platforms.
    ["network"] Restart => pub(super) struct NetworkSettings {
        /// such as "http://proxy.example:3128"; HTTPS_PROXY wins over it
        "proxy" = "" => proxy: String;
        /// hosts that are reached without it, as in NO_PROXY, which wins over it: "corp.example, 10.0.0.0/8"
        "no_proxy" = "" => no_proxy: String;
    }

    ["gateway"] Restart => pub struct Gateway {
        "upstream" = "https://api.anthropic.com" => upstream: String;
        /// with true it may be http:// on a network that you trust
        "allow_plain" = false => allow_plain: bool;
        "token_file" = "" => token_file: Option<PathBuf> as "units::or_none";
    }

    ["ipc"] Now => pub struct Ipc {
        /// With true a command needs the token of its run. With false a command without a token belongs to the group of its box, so a
        /// plain `echo > file` works; a token is always checked. The tools of `g2-agent mcp`, for agents that G2 does not drive, have no
        /// token: with true their commands are refused.
        "require_token" = false => require_token: bool;
    }

    /// Files beside messages, both ways.
    ["media"] Now => pub struct Media {
        /// one file
        "largest_mib" = 25 in 1..=1 << 20 => largest: u64 as "units::mib";
        /// all files of a chat in an hour
        "chat_mib_per_hour" = 200 in 1..=1 << 30 => chat_hour: u64 as "units::mib";
        /// all files that are kept; nothing is removed by itself: `g2 prune` or keep_days
        "store_mib" = 5120 in 1..=1 << 30 => all: u64 as "units::mib";
        [hooks] Hooks;
    }

    /// A program for each kind of file that comes in, with its arguments; {file} is the file. What it prints stands in the prompt.
    /// docs/media.md says more.
    ["media.hooks"] Now => pub struct Hooks {
        /// such as ["/opt/hooks/transcribe", "{file}"]
        "voice" = [] => voice: Vec<String>;
        "audio" = [] => audio: Vec<String>;
        "image" = [] => image: Vec<String>;
        "video" = [] => video: Vec<String>;
        "document" = [] => document: Vec<String>;
        /// files and folders that they read, beside the system's own
        "reads" = [] => reads: Vec<PathBuf>;
        /// true: they may use the network, to ask a transcription service, say
        "network" = false => network: bool;
        /// how long one may take
        "seconds" = 120 in 1..=240 => within: Duration as "units::seconds";
    }

    /// The operator's page in a browser: docs/page.md. `g2 web open` prints an address that lets you in.
    ["web"] Restart => pub struct Web {
        /// such as "127.0.0.1:4747"; "": there is no page
        "listen" = "" => listen: Option<SocketAddr> as "units::address_or_none";
        /// true: a proxy with TLS and a log-in of its own stands before it
        "behind_proxy" = false => behind_proxy: bool;
        /// the name that browsers know the proxy by, such as "g2.example.org"
        "host" = "" => host: Option<String> as "units::or_none";
    }
}
