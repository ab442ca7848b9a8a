//! Problems that a person has to fix: one list, shown by `status`, `doctor` and the log.
//!
//! To add a problem: a variant of [`Problem`], its words in [`Problem::finding`], and one line in `loops/problems.rs`, which
//! looks at the world. Where it follows from another problem, or brings others about, `Problem::explains` says so.

use std::borrow::Cow;

use ipc_handlers::{Folder, Time};
use serde::{Deserialize, Serialize};

use super::{prune::DAY_MS, screen::acts};
use crate::domain::{platforms::channels::Connection, rows::ChannelState};

/// The longest text that is shown of what others wrote, such as the error of a run, characters.
const LONGEST_QUOTE: usize = 300;

/// This many failed runs in a row are a problem, fewer an accident.
pub const EACH_TIME: i64 = 3;

/// Failures that the store knows of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    pub failing: Vec<Failing>,
    pub resting: Vec<Resting>,
    /// Messages that were given up within the last 24 hours, and the newest of them.
    pub given_up: i64,
    pub newest_given_up: Option<i64>,
    /// Texts that could not be sent within the last 24 hours.
    pub failed: Option<Unsaid>,
    /// Texts that may or may not have arrived.
    pub unknown: Option<Unsaid>,
}

/// A group, or a task of it, whose newest runs failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failing {
    pub group: Folder,
    /// `None`: all runs of the group.
    pub task: Option<String>,
    /// Failed runs in a row.
    pub times: i64,
    /// The last of them, its end, and its error.
    pub run: i64,
    pub at: Time,
    pub error: Option<String>,
}

/// A lane that rests after a failure while messages wait in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resting {
    pub group: Folder,
    pub chat: String,
    pub thread: String,
    pub until: Time,
}

/// Rows of the outbox that did not arrive for certain, with number, chat and error of the newest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsaid {
    pub count: i64,
    pub newest: i64,
    pub chat: String,
    pub error: Option<String>,
}

/// Whether a text that was not confirmed can have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrived {
    No,
    Unknown,
}

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Something does not work.
    Fail,
    /// It works, and is not as it should be.
    Warn,
}

/// A problem in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Names the kind of problem and never changes; `doctor` calls it `check`.
    pub code: Cow<'static, str>,
    /// The group, chat or file that has it; empty: everything.
    pub about: String,
    pub severity: Severity,
    pub text: String,
    /// How to fix it.
    pub fix: String,
}

/// A problem with its facts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The root can't be served as it stands.
    Root(RootFault),
    /// The store can't be opened.
    StoreClosed { why: String },
    /// The settings can't be used, and there is no daemon that goes on with those of its start.
    NoSettings { why: String },
    /// Agents would run without any sandbox, which the settings do not allow. `what` would run so.
    Unsandboxed { what: String },
    /// The address of the model's host can't be used.
    Upstream { text: String, why: String },
    /// A value in the environment or `.env` can't be used; a sentence.
    Unusable { why: String },
    /// Other users can read a file of secrets.
    Secrets { path: String, mode: u32 },
    /// Too few bytes are free under `path`. `stopped`: the groups whose runs were ended for it.
    Disk { path: String, free: u64, wanted: u64, stopped: Vec<Folder> },
    /// Too few inodes are free under `path`.
    Inodes { path: String, free: u64, all: u64 },
    /// More open files are needed than the hard limit.
    OpenFiles { groups: usize, runs: u64, wanted: u64, limit: u64 },
    /// The container engine can't be used.
    Engine { why: String },
    /// The image of these groups does not exist.
    NoImage { image: String, groups: Vec<Folder> },
    /// The image holds another Claude Code than the settings let run.
    OtherClaude { image: String, held: String, wanted: String, groups: Vec<Folder> },
    /// The gateway has no key for the agents of these groups.
    NoModelKey { why: String, remedy: &'static str, groups: Vec<Folder> },
    /// The agents of these groups need a key, and none can be read.
    NoKey { path: String, why: Option<String>, groups: Vec<Folder> },
    /// A group's own settings can't be used.
    GroupSettings { group: Folder, why: String },
    /// The script of a scripted agent can't be read, or can't be followed. `of`: the setting or group that names it.
    Script { path: String, of: String, groups: Vec<Folder>, why: String, is_read: bool },
    /// The mount allowlist is broken.
    MountList { why: String },
    /// The number of main groups is not 1.
    MainGroups { folders: Vec<Folder> },
    /// A file lies where a group's folder belongs.
    GroupFolder { group: Folder, path: String },
    /// The sender list can't be read, so only owners are heard.
    SenderList { why: String },
    /// A wiring's pattern can't be used, so it engages on everything.
    Pattern { group: Folder, chat: String, pattern: String, why: String },
    /// These groups answer every message of one chat.
    AnswersTwice { chat: String, groups: Vec<Folder> },
    /// Messages that no rule could judge are held; number, chat, group and reason of the oldest.
    Held { count: usize, seq: i64, chat: String, group: String, reason: String },
    /// Nobody can be asked about strangers and new chats.
    NobodyIsAsked { why: String },
    /// The number of open questions is at its limit.
    ManyQuestions { full: String },
    /// Settings were changed since the start.
    Restart { settings: Vec<String> },
    /// The settings can't be used any more.
    Settings { why: String },
    /// A name is no time zone.
    Zone { name: String, meant: Option<&'static str>, used: String },
    /// A group has `bytes` in the store, of at most `most`; the disk has room for `left` more.
    Stored { group: Folder, bytes: u64, most: u64, left: u64, held_up: HeldUp },
    /// The daemon died again and again over commands or output of a group, and set the group aside.
    Aside { group: Folder, why: String, since: Time },
    /// The kernel gives no file events, so boxes are polled.
    Unwatched { why: String },
    /// A platform is not connected: it turned us away, or has been out of reach for a while.
    Channel { channel: String, refused: bool, why: String, since: Time },
    /// The newest runs of a group, or of a task of it, failed.
    RunsFail(Failing),
    /// A lane rests after a failure, and messages wait in it.
    Rests(Resting),
    /// Messages were given up within the last 24 hours.
    GivenUp { count: i64, newest: i64 },
    /// Messages to chats did not arrive for certain.
    NotSaid { arrived: Arrived, unsaid: Unsaid },
    /// A source that this list is made from can't be read.
    Unreadable { what: &'static str, why: String },
}

/// A fault of a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootFault {
    /// This user may not look into `path`.
    Closed { root: String, path: String },
    /// Parts of it are missing.
    Missing { root: String, parts: Vec<&'static str> },
    /// The store is missing, and `trace` shows that there was one.
    WithoutStore { root: String, trace: String },
    /// A file lies where a folder belongs.
    NoFolder { root: String, path: String },
    /// It can't be written; `path` is the first part that can't.
    Unwritable { root: String, path: String, why: String },
    /// The file system is read-only.
    ReadOnly { path: String, why: String },
}

impl RootFault {
    /// Returns the problem in words, and its fix.
    fn words(&self) -> (String, String) {
        let owner = |root: &String| {
            format!(
                "run g2 as the user that owns it, or make your user the owner: `chown -R \"$USER\" {root}`"
            )
        };
        match self {
            Self::Closed { root, path } => (format!("this user may not read {path}"), owner(root)),
            Self::Missing { root, parts } => (
                format!("{root} is not laid out: {} missing", parts.join(", ")),
                format!("lay it out with `g2 --root {root} init`, or choose another root with --root"),
            ),
            Self::WithoutStore { root, trace } => (
                format!("the store {root}/data/g2.sqlite is missing, but {trace} shows that there was one"),
                format!(
                    "mount its disk or restore it from a backup; `g2 --root {root} init --fresh` starts anew without it"
                ),
            ),
            Self::NoFolder { root, path } => {
                (format!("{path} is not a folder"), format!("move it away and run `g2 --root {root} init`"))
            }
            Self::Unwritable { root, path, why } => (format!("{path} can't be written: {why}"), owner(root)),
            Self::ReadOnly { path, why } => (
                format!("{path} can't be written: {why}"),
                "mount the file system for writing, or choose another root with --root".into(),
            ),
        }
    }
}

/// The effect on a group that has much in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldUp {
    /// Its commands wait: it has more there than the disk has room for.
    Waits,
    /// Commands that would store more are refused.
    Full,
    /// It is stopped.
    Stopped,
}

use Problem::{
    AnswersTwice, Aside, Channel, Disk, Engine, GivenUp, GroupFolder, GroupSettings, Held, Inodes,
    MainGroups, ManyQuestions, MountList, NoImage, NoKey, NoModelKey, NoSettings, NobodyIsAsked, NotSaid,
    OpenFiles, OtherClaude, Pattern, Restart, Rests, Root, RunsFail, Script, Secrets, SenderList, Settings,
    StoreClosed, Stored, Unreadable, Unsandboxed, Unusable, Unwatched, Upstream, Zone,
};

impl Problem {
    /// Returns the problem in words, with its fix.
    #[must_use]
    pub fn finding(&self) -> Finding {
        use Severity::{Fail, Warn};
        let (code, about, severity, text, fix) = match self {
            Root(fault) => {
                let (text, fix) = fault.words();
                ("root", String::new(), Fail, text, fix)
            }
            StoreClosed { why } => (
                "store",
                String::new(),
                Fail,
                format!("the store can't be opened: {}", quote(why)),
                "`g2 doctor` says more; restore a backup if the store is damaged, install the newer g2 if that wrote it".into(),
            ),
            NoSettings { why } => (
                "settings",
                String::new(),
                Fail,
                format!("the settings can't be used: {}", quote(why)),
                "correct g2.toml; `g2 init` in an empty folder writes one with every setting at its default".into(),
            ),
            Unsandboxed { what } => (
                "sandbox",
                String::new(),
                Fail,
                format!("{} would run without any sandbox, so the daemon does not start", quote(what)),
                "set sandbox.kind = \"docker\", or allow this with sandbox.allow_unsandboxed = true".into(),
            ),
            Upstream { text, why } => (
                "gateway",
                String::new(),
                Fail,
                format!("{:?} is not a usable address of the model's host: {}", quote(text), quote(why)),
                "set gateway.upstream in g2.toml, or ANTHROPIC_BASE_URL, to an address such as https://api.anthropic.com".into(),
            ),
            Unusable { why } => {
                ("settings", why.clone(), Warn, quote(why), "correct it or remove it".into())
            }
            Secrets { path, mode } => (
                "secrets",
                path.clone(),
                Warn,
                format!("{path} has mode {mode:04o}: other users can read or change the secrets in it"),
                format!("`chmod 600 {path}`"),
            ),
            Disk { path, free, wanted, stopped } => (
                "disk",
                String::new(),
                Fail,
                format!(
                    "only {} MiB are free under {path}, and {} MiB are needed, so no agent is launched and commands wait{}",
                    free >> 20,
                    wanted >> 20,
                    was_stopped(stopped)
                ),
                "free some space (`g2 prune` with the daemon down shrinks the store), or lower limits.min_free_mib".into(),
            ),
            Inodes { path, free, all } => (
                "inodes",
                String::new(),
                Warn,
                format!("only {free} of {all} inodes are free under {path}, so no agent is launched"),
                "remove small files that you do not need; every command and every run makes a few".into(),
            ),
            OpenFiles { groups, runs, wanted, limit } => (
                "open_files",
                String::new(),
                Fail,
                format!(
                    "{groups} groups and {runs} runs need about {wanted} open files; {limit} are allowed"
                ),
                format!(
                    "raise the hard limit: `ulimit -Hn {0}`, or LimitNOFILE={0} in the unit",
                    wanted * 2
                ),
            ),
            Engine { why } => (
                "docker",
                String::new(),
                Fail,
                format!("no agent can be launched: {}", quote(why)),
                "start Docker, let this user use its socket (group docker), or set DOCKER_HOST=unix:///path/to/docker.sock".into(),
            ),
            NoImage { image, groups } => (
                "image",
                image.clone(),
                Fail,
                format!("image {image} does not exist, so the agents of {} can't be launched", names(groups)),
                format!("build it with `container/build.sh {image}` (`container/build.sh --bare {image}` for the scripted agent alone), or set sandbox.image to another"),
            ),
            OtherClaude { image, held, wanted, groups } => (
                "image",
                image.clone(),
                Fail,
                format!(
                    "image {image} has Claude Code {held}, but agent.claude.version allows only {wanted}: every run of {} fails",
                    names(groups)
                ),
                format!("set agent.claude.version = \"{held}\", or build the image with that version"),
            ),
            NoModelKey { why, remedy, groups } => (
                "model_key",
                String::new(),
                Fail,
                format!("{}; the agents of {} need one", quote(why), names(groups)),
                (*remedy).into(),
            ),
            NoKey { path, why: Some(why), .. } => (
                "key",
                String::new(),
                Fail,
                format!("{path} can't be read: {}", quote(why)),
                "let the user that runs g2 read it".into(),
            ),
            NoKey { path, why: None, groups } => (
                "key",
                String::new(),
                Fail,
                format!("the agents of {} need a key, and there is none", names(groups)),
                format!("put ANTHROPIC_API_KEY=… or CLAUDE_CODE_OAUTH_TOKEN=… into {path}"),
            ),
            GroupSettings { group, why } => (
                "group_settings",
                group.to_string(),
                Fail,
                format!("group {group} can't be launched: {}", quote(why)),
                format!("correct it with `g2 groups set {group} KEY=VALUE`; an empty value restores the default of all groups"),
            ),
            Script { path, of, why, is_read: false, .. } => (
                "script",
                path.clone(),
                Fail,
                format!("{path} ({of}) can't be read: {}", quote(why)),
                format!("put the file there, or set another for {of}"),
            ),
            Script { path, of, why, is_read: true, .. } => (
                "script",
                path.clone(),
                Fail,
                format!("{path} ({of}): {}", quote(why)),
                "write a JSON list of {\"when\"?: {\"contains\": …}, \"times\"?: N, \"do\": [step, …]}".into(),
            ),
            MountList { why } => (
                "mount_allowlist",
                String::new(),
                Fail,
                quote(why),
                r#"write {"allowedRoots": [{"path": "~/x", "allowReadWrite": false}], "blockedPatterns": [], "nonMainReadOnly": true}"#.into(),
            ),
            MainGroups { folders } if folders.is_empty() => (
                "main_group",
                String::new(),
                Fail,
                "no group is the main group, so no agent can register groups or see all of them".into(),
                "add one with `g2 groups add main --chat local:main --main` (any folder name will do)".into(),
            ),
            MainGroups { folders } => (
                "main_group",
                String::new(),
                Fail,
                format!("{} groups are main groups, and only one may be: {}", folders.len(), names(folders)),
                "remove all but one with `g2 groups remove`".into(),
            ),
            GroupFolder { group, path } => (
                "group_folder",
                group.to_string(),
                Fail,
                format!("{path} is not a folder, so group {group} can't be launched"),
                format!("move it away and make the folder: `mkdir {path}`"),
            ),
            SenderList { why } => (
                "sender_list",
                String::new(),
                Fail,
                quote(why),
                "correct it, or remove it so that each chat's policy decides alone; G2 notices the change by itself".into(),
            ),
            Pattern { group, chat, pattern, why } => (
                "engage_pattern",
                format!("{group} {chat}"),
                Fail,
                format!("group {group} engages on every message of {chat}, because its pattern {:?} can't be used: {}", quote(pattern), quote(why)),
                format!("correct it with `g2 wirings set --group {group} --chat {chat} 'pattern=…'`"),
            ),
            AnswersTwice { chat, groups } => (
                "answers_twice",
                chat.clone(),
                Warn,
                format!(
                    "{} engage on every message of {chat}: each message is answered {} times",
                    names_with(groups, " and "),
                    groups.len()
                ),
                format!(
                    "`g2 wirings set --group {} --chat {chat} engage=mention`, or remove one with `g2 wirings remove`",
                    groups.last().map(ToString::to_string).unwrap_or_default()
                ),
            ),
            Held { count, seq, chat, group, reason } => (
                "held_messages",
                String::new(),
                Warn,
                format!(
                    "held messages: {count} (no rule could judge them); the oldest is {seq} of {chat}, for group {group}: {}",
                    quote(reason)
                ),
                format!("change the pattern with `g2 wirings set --group {group} --chat {chat} 'pattern=…'`, and the messages are judged again; `g2 why {seq}` says more"),
            ),
            NobodyIsAsked { why } => (
                "approvals",
                "who is asked".into(),
                Warn,
                format!("{}; messages of strangers and from new chats are counted but not heard", quote(why)),
                "make a person an owner with `g2 users role USER owner`, and name the chat for their questions with `g2 users add USER --dm CHAT`".into(),
            ),
            ManyQuestions { full } => (
                "approvals",
                "open questions".into(),
                Warn,
                quote(full),
                "answer them (`g2 approvals list`), or close many with `g2 approvals deny --chat JID` or `deny --all`".into(),
            ),
            Zone { name, meant, used } => (
                "time_zone",
                name.clone(),
                Warn,
                format!("{:?} is not a time zone, so {used} is used", quote(name)),
                meant.map_or_else(
                    || "set TZ or `timezone` in g2.toml to a name such as Europe/Paris".to_owned(),
                    |meant| format!("write {meant} instead of {name}: in TZ, g2.toml, .env or /etc/localtime"),
                ),
            ),
            Stored { group, bytes, most, left, held_up } => (
                "stored",
                group.to_string(),
                if *held_up == HeldUp::Stopped { Fail } else { Warn },
                match (held_up, bytes >> 20, most >> 20, left >> 20) {
                    (HeldUp::Stopped, mib, most, _) => {
                        format!("group {group} is stopped: it has {mib} MiB in the store, and may have at most {most} MiB")
                    }
                    (HeldUp::Full, mib, most, _) => {
                        format!("group {group} can store nothing more: it has {mib} of at most {most} MiB in the store")
                    }
                    (HeldUp::Waits, mib, _, left) => {
                        format!("commands of group {group} wait: it has {mib} MiB in the store, and {left} MiB are left")
                    }
                },
                "`g2 prune` removes history, `g2 tasks cancel` tasks; limits.stored_mib sets the limit".into(),
            ),
            Aside { group, why, since } => (
                "set_aside",
                group.to_string(),
                Fail,
                format!("group {group} is set aside since {since}: {}", quote(why)),
                format!(
                    "`g2 ipc list --group {group}` shows its commands, `g2 ipc drop ID` discards one, `g2 ipc release {group}` lets the group go on"
                ),
            ),
            Restart { settings } => (
                "settings",
                String::new(),
                Warn,
                format!("restart for {}", settings.join(", ")),
                "settings are read at the start: stop g2 and start it again".into(),
            ),
            Settings { why } => (
                "settings",
                String::new(),
                Fail,
                format!("{why}; the daemon goes on with the settings of its start, but its next start will fail"),
                "correct g2.toml; on SIGHUP the daemon checks it and logs the result".into(),
            ),
            Unwatched { why } => (
                "file_events",
                String::new(),
                Warn,
                quote(why),
                "raise fs.inotify.max_user_instances with sysctl, or end programs that use many; G2 tries again by itself".into(),
            ),
            Channel { channel, refused: true, why, since } => (
                "channel",
                channel.clone(),
                Fail,
                format!("{channel} has refused the connection since {since}: {}", quote(why)),
                format!("correct the account of {channel} (its token, its login); nothing is heard or said there until then"),
            ),
            Channel { channel, refused: false, why, since } => (
                "channel",
                channel.clone(),
                Warn,
                format!("{channel} has been out of reach since {since}: {}", quote(why)),
                format!("look at the network and at {channel} itself; G2 tries again by itself"),
            ),
            RunsFail(Failing { group, task, times, run, at, error }) => {
                let why = quote(error.as_deref().unwrap_or("it did not say why"));
                let (code, about, whose) = match task {
                    None => ("runs_fail", group.to_string(), format!("group {group}")),
                    Some(task) => {
                        ("task_fails", format!("{group} {task}"), format!("task {} of group {group}", quote(task)))
                    }
                };
                (
                    code,
                    about,
                    Fail,
                    format!("the last {times} runs of {whose} failed; run {run}, at {at}: {why}"),
                    format!("`g2 runs show {run}` and `g2 runs logs {run}` say more"),
                )
            }
            Rests(Resting { group, chat, thread, until }) => {
                let thread = if thread.is_empty() { String::new() } else { format!(", thread {}", quote(thread)) };
                (
                    "lane_rests",
                    format!("{group} {chat}{thread}"),
                    Warn,
                    format!("messages of {chat}{thread} wait: after a failure, group {group} rests there until {until}"),
                    format!("G2 tries again then; `g2 messages list --chat {chat} --unanswered` shows the messages that wait, `g2 runs list` the failure"),
                )
            }
            GivenUp { count, newest } => (
                "given_up",
                String::new(),
                Warn,
                format!("messages that were given up within the last 24 hours: {count}; the newest is {newest}"),
                format!("`g2 why {newest}` says why; its sender was told and can send it again"),
            ),
            NotSaid { arrived, unsaid: Unsaid { count, newest, chat, error } } => {
                let why = error.as_deref().map(|error| format!(": {}", quote(error))).unwrap_or_default();
                let (about, meaning) = match arrived {
                    Arrived::No => ("could not be said", "could not be sent"),
                    Arrived::Unknown => ("may or may not have been said", "may or may not have arrived"),
                };
                (
                    "outbox",
                    about.into(),
                    Warn,
                    format!("{count} texts for chats {meaning}; the newest is {newest} to {chat}{why}"),
                    format!("fix the cause, then send it again with `g2 outbox retry {newest}`; `g2 outbox list` shows all"),
                )
            }
            Unreadable { what, why } => (
                "store",
                (*what).into(),
                Fail,
                format!("{what} can't be read: {}", quote(why)),
                "`g2 doctor` checks the store; the log says more".into(),
            ),
        };
        Finding { code: code.into(), about: quote(&about), severity, text, fix: quote(&fix) }
    }

    /// Whether `other` only follows from this one, and needs no fix of its own.
    fn explains(&self, other: &Self) -> bool {
        match (self, other) {
            (Engine { .. }, NoImage { .. } | OtherClaude { .. }) => true,
            (
                RunsFail(Failing { task: None, group, .. }),
                RunsFail(Failing { group: of, task: Some(_), .. }),
            ) => group == of,
            (RunsFail(Failing { group, .. }), Rests(Resting { group: of, .. })) => group == of,
            (_, RunsFail(Failing { group, .. }) | Rests(Resting { group, .. })) => self.stops(group),
            _ => false,
        }
    }

    /// Whether no run of this group can go well while this problem lasts.
    fn stops(&self, group: &Folder) -> bool {
        match self {
            // While the disk is low nothing is launched, so only stopped runs fail for it.
            Disk { stopped, .. } => stopped.contains(group),
            Engine { .. } => true,
            NoImage { groups, .. }
            | OtherClaude { groups, .. }
            | NoModelKey { groups, .. }
            | NoKey { groups, .. }
            | Script { groups, .. } => groups.contains(group),
            GroupSettings { group: of, .. } | GroupFolder { group: of, .. } | Aside { group: of, .. } => {
                of == group
            }
            Stored { group: of, held_up, .. } => of == group && *held_up == HeldUp::Stopped,
            Root(_)
            | StoreClosed { .. }
            | NoSettings { .. }
            | Unsandboxed { .. }
            | Upstream { .. }
            | Unusable { .. }
            | Secrets { .. }
            | Inodes { .. }
            | OpenFiles { .. }
            | MountList { .. }
            | MainGroups { .. }
            | SenderList { .. }
            | Pattern { .. }
            | AnswersTwice { .. }
            | Held { .. }
            | NobodyIsAsked { .. }
            | ManyQuestions { .. }
            | Zone { .. }
            | RunsFail(_)
            | Rests(_)
            | GivenUp { .. }
            | NotSaid { .. }
            | Restart { .. }
            | Settings { .. }
            | Unwatched { .. }
            | Channel { .. }
            | Unreadable { .. } => false,
        }
    }
}

impl Problem {
    /// Whether this problem keeps a daemon from starting.
    #[must_use]
    pub fn keeps_from_starting(&self) -> bool {
        matches!(
            self,
            Root(_) | StoreClosed { .. } | NoSettings { .. } | Unsandboxed { .. } | Upstream { .. }
        )
    }

    /// Whether `other` can't be looked at while this problem lasts.
    fn blinds_to(&self, other: &Self) -> bool {
        match (self, other) {
            (Engine { .. }, NoImage { .. } | OtherClaude { .. })
            | (Disk { .. }, Inodes { .. })
            | (Settings { .. }, Restart { .. }) => true,
            // The store can't be read, so no problem that is read from it counts as gone.
            (
                Unreadable { .. },
                Disk { .. }
                | Inodes { .. }
                | Engine { .. }
                | Root(_)
                | Upstream { .. }
                | Unusable { .. }
                | Secrets { .. }
                | MountList { .. }
                | SenderList { .. }
                | Restart { .. }
                | Settings { .. }
                | Zone { .. }
                | Unwatched { .. }
                | Unreadable { .. },
            ) => false,
            (Unreadable { .. }, _) => true,
            _ => false,
        }
    }

    /// Whether both are one problem, seen at different times. Numbers in its words may have changed.
    fn is_same(&self, other: &Self) -> bool {
        self.finding().is_same(&other.finding())
    }
}

/// How long a platform may be out of reach before a person is told, ms.
const OUT_OF_REACH_MS: i64 = 60_000;

/// Returns the platforms that a person has to look after.
#[must_use]
pub fn of_channels(states: Vec<ChannelState>, now: Time) -> Vec<Problem> {
    let found = states.into_iter().filter_map(|ChannelState { channel, state, why, since }| {
        let is_long = now.ms_since(since) >= OUT_OF_REACH_MS;
        let refused = match state {
            Connection::Refused => true,
            Connection::Offline | Connection::Connecting if is_long => false,
            Connection::Connected | Connection::Offline | Connection::Connecting => return None,
        };
        let why = why.unwrap_or_else(|| "it did not say why".to_owned());
        Some(Channel { channel, refused, why, since })
    });
    found.collect()
}

/// Returns the failures that a person has to know of. `runs list` shows the others.
#[must_use]
pub fn of_ledger(ledger: Ledger, now: Time) -> Vec<Problem> {
    let Ledger { failing, resting, given_up, newest_given_up, failed, unknown } = ledger;
    // A group may have been repaired and had no message since; a task runs again by itself.
    let lasts = |one: &Failing| one.task.is_some() || now.ms_since(one.at) < DAY_MS;
    let failing = failing.into_iter().filter(|one| one.times >= EACH_TIME && lasts(one));
    let mut found: Vec<Problem> = failing.map(RunsFail).collect();
    found.extend(resting.into_iter().map(Rests));
    found.extend(newest_given_up.map(|newest| GivenUp { count: given_up, newest }));
    let not_said = |arrived| move |unsaid| NotSaid { arrived, unsaid };
    found.extend(failed.map(not_said(Arrived::No)));
    found.extend(unknown.map(not_said(Arrived::Unknown)));
    found
}

/// Orders problems, worst first, and leaves out those that another problem explains: each cause stands there once.
#[must_use]
pub fn sort_out(found: Vec<Problem>) -> Vec<Finding> {
    in_order(&told(found, &[]))
}

/// Leaves out problems that another one explains, unless they were known before it.
fn told(mut found: Vec<Problem>, known: &[Problem]) -> Vec<Problem> {
    let explained = |one: &Problem| found.iter().any(|other| other != one && other.explains(one));
    let was_told = |one: &Problem| known.iter().any(|other| other.is_same(one));
    let kept: Vec<bool> = found.iter().map(|one| !explained(one) || was_told(one)).collect();
    let mut kept = kept.into_iter();
    found.retain(|_| kept.next().unwrap_or(true));
    found
}

fn in_order(problems: &[Problem]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    for finding in problems.iter().map(Problem::finding) {
        if !findings.iter().any(|known| known.is_same(&finding) && known.text == finding.text) {
            findings.push(finding);
        }
    }
    findings.sort_by_key(|finding| finding.severity);
    findings
}

impl Finding {
    /// Whether both are one problem, seen at different times.
    fn is_same(&self, other: &Self) -> bool {
        self.code == other.code && self.about == other.about
    }
}

/// A look, compared with the one before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Known problems, worst first.
    pub now: Vec<Finding>,
    pub new: Vec<Finding>,
    pub gone: Vec<Finding>,
    /// The problems that the next look is compared with.
    pub known: Vec<Problem>,
}

/// Compares a look with the problems `known` before it. A problem that another one hides, or keeps from being looked at, is
/// not gone.
#[must_use]
pub fn compare(known: &[Problem], found: Vec<Problem>) -> Compared {
    let is_in = |these: &[Problem], one: &Problem| these.iter().any(|other| other.is_same(one));
    let missed = known.iter().filter(|one| !is_in(&found, one));
    let (unseen, gone): (Vec<&Problem>, Vec<&Problem>) =
        missed.partition(|one| found.iter().any(|other| other.blinds_to(one)));
    let (unseen, gone): (Vec<_>, Vec<_>) =
        (unseen.into_iter().cloned().collect(), gone.into_iter().cloned().collect());
    let mut now = told(found, known);
    now.extend(unseen);
    let new: Vec<_> = now.iter().filter(|one| !is_in(known, one)).cloned().collect();
    Compared { now: in_order(&now), new: in_order(&new), gone: in_order(&gone), known: now }
}

/// Foreign text on one line, cut to [`LONGEST_QUOTE`].
fn quote(text: &str) -> String {
    let mut chars = text.chars().map(|c| if acts(c) { ' ' } else { c });
    let mut line: String = chars.by_ref().take(LONGEST_QUOTE).collect();
    if chars.next().is_some() {
        line.push('…');
    }
    line
}

fn names(groups: &[Folder]) -> String {
    names_with(groups, ", ")
}

fn names_with(groups: &[Folder], between: &str) -> String {
    groups.iter().map(Folder::as_str).collect::<Vec<_>>().join(between)
}

fn was_stopped(groups: &[Folder]) -> String {
    match groups.len() {
        0 => String::new(),
        1 => format!("; group {} was stopped, because it filled the disk", names(groups)),
        _ => format!("; the groups {} were stopped, because they may have filled the disk", names(groups)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(count: usize) -> Problem {
        let (chat, group, reason) = ("local:a".into(), "main".into(), "too much work".into());
        Held { count, seq: 3, chat, group, reason }
    }

    fn zone() -> Problem {
        Zone { name: "Mars/Base".into(), meant: None, used: "UTC".into() }
    }

    fn disk(stopped: Vec<Folder>) -> Problem {
        Disk { path: "/r".into(), free: 1, wanted: 2, stopped }
    }

    /// The new and the gone problems.
    fn changes(known: &[Problem], found: Vec<Problem>) -> (Vec<Finding>, Vec<Finding>) {
        let Compared { new, gone, .. } = compare(known, found);
        (new, gone)
    }

    #[test]
    fn a_problem_is_told_when_it_appears_and_when_it_is_gone_and_not_when_it_only_grows() {
        for (known, found, new, gone) in [
            (vec![], vec![held(1)], vec![held(1)], vec![]),
            (vec![held(1)], vec![held(2)], vec![], vec![]),
            (vec![held(1), zone()], vec![zone()], vec![], vec![held(1)]),
            (vec![held(1)], vec![zone()], vec![zone()], vec![held(1)]),
        ] {
            assert_eq!(changes(&known, found), (in_order(&new), in_order(&gone)));
        }
    }

    #[test]
    fn what_is_hidden_or_not_looked_at_is_not_gone_and_stays_in_the_list() {
        let image = || NoImage { image: "i".into(), groups: vec![main()] };
        let engine = || Engine { why: "x".into() };
        let fails = || RunsFail(failing(None, 5, 0));
        let inodes = || Inodes { path: "/r".into(), free: 1, all: 2 };
        let broken = || Unreadable { what: "the ledger", why: "x".into() };
        for (known, found, cause) in [
            // Nothing of it was mended by a low disk, nor by an engine that went away later.
            (fails(), vec![disk(vec![]), fails()], disk(vec![])),
            (fails(), vec![disk(vec![main()]), fails()], disk(vec![main()])),
            (fails(), vec![engine(), fails()], engine()),
            // These are not looked at meanwhile.
            (image(), vec![engine()], engine()),
            (inodes(), vec![disk(vec![])], disk(vec![])),
            (fails(), vec![broken()], broken()),
        ] {
            let later = compare(std::slice::from_ref(&known), found);
            assert_eq!((&later.new, &later.gone), (&vec![cause.finding()], &vec![]), "{known:?}");
            assert!(later.now.contains(&known.finding()), "{known:?}");
            // Once the cause is mended, it is either still there or gone.
            let still = compare(&later.known, vec![known.clone()]);
            assert_eq!((still.new, still.gone), (vec![], vec![cause.finding()]));
            assert_eq!(compare(&later.known, vec![]).gone.len(), 2);
        }
        // What comes after its cause is still left out.
        let later = compare(&[engine()], vec![engine(), image(), fails()]);
        assert_eq!((later.now.len(), later.new.len()), (1, 0));
    }

    fn main() -> Folder {
        Folder::parse("main").unwrap()
    }

    fn failing(task: Option<&str>, times: i64, at: i64) -> Failing {
        let (task, error) = (task.map(str::to_owned), Some("exited with code 3".into()));
        Failing { group: main(), task, times, run: 9, at: Time(at), error }
    }

    #[test]
    fn what_fails_each_time_is_told_and_what_failed_once_or_long_ago_is_not() {
        let now = Time(10 * DAY_MS);
        for (one, told) in [
            (failing(None, EACH_TIME, now.0), true),
            (failing(None, EACH_TIME - 1, now.0), false),
            (failing(None, EACH_TIME, now.0 - DAY_MS), false),
            // One that is due once a week fails on all other days too.
            (failing(Some("t"), EACH_TIME, now.0 - 6 * DAY_MS), true),
            (failing(Some("t"), EACH_TIME - 1, now.0), false),
        ] {
            let ledger = Ledger { failing: vec![one.clone()], ..Ledger::default() };
            assert_eq!(of_ledger(ledger, now) == [RunsFail(one.clone())], told, "{one:?}");
        }
    }

    #[test]
    fn a_platform_that_refuses_is_told_at_once_and_one_out_of_reach_after_a_minute() {
        let since = Time(DAY_MS);
        for (state, after_ms, told) in [
            (Connection::Connected, DAY_MS, None),
            (Connection::Offline, OUT_OF_REACH_MS - 1, None),
            (Connection::Offline, OUT_OF_REACH_MS, Some((Severity::Warn, "tg has been out of reach since"))),
            (Connection::Connecting, OUT_OF_REACH_MS, Some((Severity::Warn, "it did not say why"))),
            (Connection::Refused, 0, Some((Severity::Fail, "tg has refused the connection since"))),
        ] {
            let one = ChannelState { channel: "tg".into(), state, why: None, since };
            let found = of_channels(vec![one], since.plus_ms(after_ms));
            let shown = found.first().map(|problem| problem.finding());
            assert_eq!(shown.is_some(), told.is_some(), "{state}");
            if let (Some(shown), Some((severity, words))) = (shown, told) {
                assert_eq!((shown.severity, shown.about.as_str()), (severity, "tg"));
                assert!(shown.text.contains(words), "{}", shown.text);
            }
        }
    }

    #[test]
    fn a_cause_is_named_once_and_what_follows_from_it_is_not() {
        let now = Time(DAY_MS);
        let resting =
            || Resting { group: main(), chat: "local:main".into(), thread: String::new(), until: now };
        let follows = || {
            let failing = vec![failing(None, 5, now.0), failing(Some("t"), 5, now.0)];
            of_ledger(Ledger { failing, resting: vec![resting()], ..Ledger::default() }, now)
        };
        let groups = || vec![main()];
        let other = || vec![Folder::parse("other").unwrap()];
        let (why, path) = (String::from("x"), String::from("/r"));
        let image = |groups| NoImage { image: "i".into(), groups };
        for (cause, codes) in [
            (vec![], &["runs_fail"][..]),
            // A disk that is low has nothing launched: what failed, failed for another reason, unless it was stopped.
            (vec![disk(vec![])], &["disk", "runs_fail"]),
            (vec![disk(groups())], &["disk"]),
            (vec![Engine { why: why.clone() }, image(groups())], &["docker"]),
            (vec![image(groups())], &["image"]),
            (vec![image(other())], &["image", "runs_fail"]),
            (vec![NoModelKey { why: why.clone(), remedy: "y", groups: groups() }], &["model_key"]),
            (vec![NoKey { path: path.clone(), why: None, groups: groups() }], &["key"]),
            (vec![GroupSettings { group: main(), why: why.clone() }], &["group_settings"]),
            (vec![GroupFolder { group: main(), path: path.clone() }], &["group_folder"]),
        ] {
            let found = sort_out([cause, follows()].concat());
            assert_eq!(found.iter().map(|f| &*f.code).collect::<Vec<_>>(), codes, "{found:#?}");
        }
        let found = sort_out(vec![Rests(resting()), RunsFail(failing(Some("t"), 5, now.0))]);
        assert_eq!(found.len(), 1, "{found:#?}");
    }

    #[test]
    fn the_worst_stands_first_each_once_and_nothing_foreign_acts_or_is_long() {
        let twice = || Zone { name: "a\u{1b}[31m\nb".into(), meant: None, used: "UTC".into() };
        let why = "x".repeat(10_000);
        let found = sort_out(vec![twice(), twice(), Engine { why }]);
        assert_eq!(found.iter().map(|f| &*f.code).collect::<Vec<_>>(), ["docker", "time_zone"]);
        assert!(found[0].text.chars().count() < 400);
        assert!(found.iter().all(|f| !format!("{}{}{}", f.about, f.text, f.fix).chars().any(acts)));
    }
}
