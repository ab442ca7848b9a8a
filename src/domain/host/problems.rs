//! What a person has to mend: one list, shown by `status`, `doctor` and the log.
//!
//! To add a problem: a variant of [`Problem`], its words in [`Problem::finding`], and one line in `loops/problems.rs`, which
//! looks at the world. Where it follows from another problem, or brings others about, `Problem::explains` says so.

use std::borrow::Cow;

use ipc_handlers::{Folder, Time};
use serde::{Deserialize, Serialize};

use super::{prune::DAY_MS, screen::acts};

/// The longest text that is shown of what others wrote, such as the error of a run, characters.
const LONGEST_QUOTE: usize = 300;

/// As many runs that fail in a row are no accident.
pub const EACH_TIME: i64 = 3;

/// What the store knows of things that went wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    pub failing: Vec<Failing>,
    pub resting: Vec<Resting>,
    /// Messages that were given up within a day, and the newest of them.
    pub given_up: i64,
    pub newest_given_up: Option<i64>,
    /// What could not be said within a day.
    pub failed: Option<Unsaid>,
    /// What may or may not have been said.
    pub unknown: Option<Unsaid>,
}

/// Whose newest runs failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failing {
    pub group: Folder,
    /// `None`: all runs of the group.
    pub task: Option<String>,
    /// How many in a row.
    pub times: i64,
    /// The last of them, when it ended, and what was wrong with it.
    pub run: i64,
    pub at: Time,
    pub error: Option<String>,
}

/// A lane that rests after a failure although something waits in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resting {
    pub group: Folder,
    pub chat: String,
    pub thread: String,
    pub until: Time,
}

/// Rows of the outbox that did not arrive for certain; of the newest: which, where to, why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsaid {
    pub count: i64,
    pub newest: i64,
    pub chat: String,
    pub error: Option<String>,
}

/// Whether what was not said can have arrived all the same.
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
    /// How to mend it.
    pub fix: String,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The root can't be served as it stands.
    Root(RootFault),
    /// The store can't be opened.
    StoreClosed { why: String },
    /// The settings can't be used, and there is no daemon that goes on with those of its start.
    NoSettings { why: String },
    /// Agents would run without any sandbox, which is not allowed. `what` would.
    Unsandboxed { what: String },
    /// The address of the model's host can't be used.
    Upstream { text: String, why: String },
    /// Something is set, in the environment or `.env`, and can't be used; a sentence.
    Unusable { why: String },
    /// Other users can read a file of secrets.
    Secrets { path: String, mode: u32 },
    /// Bytes are short under `path`. `stopped`: the groups whose runs were ended for it.
    Disk { path: String, free: u64, wanted: u64, stopped: Vec<Folder> },
    /// Names of files are short under `path`.
    Inodes { path: String, free: u64, all: u64 },
    /// More open files are needed than the hard limit.
    OpenFiles { groups: usize, runs: u64, wanted: u64, limit: u64 },
    /// The container engine does not do what it has to.
    Engine { why: String },
    /// The image of these groups is not there.
    NoImage { image: String, groups: Vec<Folder> },
    /// The image holds another Claude Code than the settings let run.
    OtherClaude { image: String, held: String, wanted: String, groups: Vec<Folder> },
    /// The gateway has no key for the agents of these groups.
    NoModelKey { why: String, remedy: &'static str, groups: Vec<Folder> },
    /// The agents of these groups are to be given a key, and there is none that can be read.
    NoKey { path: String, why: Option<String>, groups: Vec<Folder> },
    /// A group's own settings can't be used.
    GroupSettings { group: Folder, why: String },
    /// What the scripted agent is to follow can't be read, or followed. `of`: who is to follow it.
    Script { path: String, of: String, groups: Vec<Folder>, why: String, is_read: bool },
    /// The mount allowlist is broken.
    MountList { why: String },
    /// The number of privileged groups is not 1.
    MainGroups { folders: Vec<Folder> },
    /// A file lies where a group's folder belongs.
    GroupFolder { group: Folder, path: String },
    /// The sender list can't be read, so only owners are heard.
    SenderList { why: String },
    /// A wiring's pattern can't be used, so it engages on everything.
    Pattern { group: Folder, chat: String, pattern: String, why: String },
    /// These groups answer every message of one chat.
    AnswersTwice { chat: String, groups: Vec<Folder> },
    /// Messages are held that no rule could decide about; of the oldest: which, where, for whom, why.
    Held { count: usize, seq: i64, chat: String, group: String, reason: String },
    /// Nobody can be asked about strangers and new chats.
    NobodyIsAsked { why: String },
    /// As many questions are open as may be.
    ManyQuestions { full: String },
    /// Settings were changed since the start.
    Restart { settings: Vec<String> },
    /// The settings can't be used any more.
    Settings { why: String },
    /// A name is no time zone.
    Zone { name: String, meant: Option<&'static str>, used: String },
    /// A group has much in the store: of `most` bytes that are kept of it `bytes` are there, and `left` may be written yet.
    Stored { group: Folder, bytes: u64, most: u64, left: u64, held_up: HeldUp },
    /// The daemon died again and again over what a group had asked for or said, and set it aside.
    Aside { group: Folder, why: String, since: Time },
    /// File events are not to be had, so boxes are scanned.
    Unwatched { why: String },
    /// The newest runs of a group, or of a task of it, failed.
    RunsFail(Failing),
    /// A conversation rests after a failure, and messages wait in it.
    Rests(Resting),
    /// Messages were given up within a day.
    GivenUp { count: i64, newest: i64 },
    /// Messages to chats did not arrive for certain.
    NotSaid { arrived: Arrived, unsaid: Unsaid },
    /// What has to be read to know how things are can't be.
    Unreadable { what: &'static str, why: String },
}

/// What is wrong with a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootFault {
    /// This user may not look into `path`.
    Closed { root: String, path: String },
    /// Parts of it are not there.
    Missing { root: String, parts: Vec<&'static str> },
    /// The store is gone, and `trace` is of its time.
    WithoutStore { root: String, trace: String },
    /// A file lies where a folder belongs.
    NoFolder { root: String, path: String },
    /// It can't be written: `path` is the first of its parts that this is true of.
    Unwritable { root: String, path: String, why: String },
    /// The file system lets nobody write.
    ReadOnly { path: String, why: String },
}

impl RootFault {
    /// Says it, and how to mend it.
    fn words(&self) -> (String, String) {
        let owner = |root: &String| {
            format!("run g2 as the user that owns it, or give it to yours: `chown -R \"$USER\" {root}`")
        };
        match self {
            Self::Closed { root, path } => (format!("{path} can't be looked into by this user"), owner(root)),
            Self::Missing { root, parts } => (
                format!("{root} is not laid out: {} missing", parts.join(", ")),
                format!("lay it out with `g2 --root {root} init`, or name another with --root"),
            ),
            Self::WithoutStore { root, trace } => (
                format!("the store {root}/data/g2.sqlite is gone, and {trace} is of its time"),
                format!(
                    "mount its disk or bring it back from a backup; `g2 --root {root} init --fresh` begins anew without it"
                ),
            ),
            Self::NoFolder { root, path } => {
                (format!("{path} is no folder"), format!("move it away and run `g2 --root {root} init`"))
            }
            Self::Unwritable { root, path, why } => (format!("{path} can't be written: {why}"), owner(root)),
            Self::ReadOnly { path, why } => (
                format!("{path} can't be written: {why}"),
                "mount the file system for writing, or choose another root with --root".into(),
            ),
        }
    }
}

/// What becomes of a group that has much in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldUp {
    /// Its commands wait: it has more there than what is left for everybody.
    Waits,
    /// Commands that put more there are refused.
    Full,
    /// It is stopped.
    Stopped,
}

use Problem::{
    AnswersTwice, Aside, Disk, Engine, GivenUp, GroupFolder, GroupSettings, Held, Inodes, MainGroups,
    ManyQuestions, MountList, NoImage, NoKey, NoModelKey, NoSettings, NobodyIsAsked, NotSaid, OpenFiles,
    OtherClaude, Pattern, Restart, Rests, Root, RunsFail, Script, Secrets, SenderList, Settings, StoreClosed,
    Stored, Unreadable, Unsandboxed, Unusable, Unwatched, Upstream, Zone,
};

impl Problem {
    /// Says it: what it is, and how to mend it.
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
                "`g2 doctor` checks it and says more; a damaged one is mended with a backup, one of a newer g2 with that".into(),
            ),
            NoSettings { why } => (
                "settings",
                String::new(),
                Fail,
                format!("the settings can't be used: {}", quote(why)),
                "correct g2.toml; `g2 init` in an empty folder writes one with every setting and its default".into(),
            ),
            Unsandboxed { what } => (
                "sandbox",
                String::new(),
                Fail,
                format!("{} would run without any sandbox, so the daemon does not start", quote(what)),
                "set sandbox.kind = \"docker\", or sandbox.allow_unsandboxed = true if that is meant".into(),
            ),
            Upstream { text, why } => (
                "gateway",
                String::new(),
                Fail,
                format!("{:?} can't be the address of the model's host: {}", quote(text), quote(why)),
                "set gateway.upstream in g2.toml, or ANTHROPIC_BASE_URL, to one such as https://api.anthropic.com".into(),
            ),
            Unusable { why } => {
                ("settings", why.clone(), Warn, quote(why), "correct it, or take it out".into())
            }
            Secrets { path, mode } => (
                "secrets",
                path.clone(),
                Warn,
                format!("{path} has mode {mode:04o}: other users can read or change what is secret"),
                format!("`chmod 600 {path}`"),
            ),
            Disk { path, free, wanted, stopped } => (
                "disk",
                String::new(),
                Fail,
                format!(
                    "{} MiB are free under {path}; {} MiB are wanted, so no agent is launched and commands wait{}",
                    free >> 20,
                    wanted >> 20,
                    was_stopped(stopped)
                ),
                "make room (`g2 prune` with the daemon down shrinks the store), or lower limits.min_free_mib".into(),
            ),
            Inodes { path, free, all } => (
                "inodes",
                String::new(),
                Warn,
                format!("{free} of {all} files more may be made under {path}, so no agent is launched"),
                "remove small files that are not needed; every command and run is a few files".into(),
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
                format!("nothing is launched: {}", quote(why)),
                "start Docker, let this user use its socket (group docker), or set DOCKER_HOST=unix:///path/to/docker.sock".into(),
            ),
            NoImage { image, groups } => (
                "image",
                image.clone(),
                Fail,
                format!("the image {image} is not there, so the agents of {} can't be started", names(groups)),
                format!("`container/build.sh {image}` (`--bare` before its name: for the scripted agent alone), or name another in [sandbox] image"),
            ),
            OtherClaude { image, held, wanted, groups } => (
                "image",
                image.clone(),
                Fail,
                format!(
                    "{image} holds Claude Code {held}, and the settings let only Claude Code {wanted} run: every run of {} fails",
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
                format!("the agents of {} are to be given a key, and there is none", names(groups)),
                format!("put ANTHROPIC_API_KEY=… or CLAUDE_CODE_OAUTH_TOKEN=… into {path}"),
            ),
            GroupSettings { group, why } => (
                "group_settings",
                group.to_string(),
                Fail,
                format!("group {group} can't be launched: {}", quote(why)),
                format!("`g2 groups set {group} KEY=VALUE`; an empty value is everybody's"),
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
                "no group is the privileged one, so nobody can register groups or see all of them".into(),
                "`g2 groups add main --chat local:main --main` (any other folder will do)".into(),
            ),
            MainGroups { folders } => (
                "main_group",
                String::new(),
                Fail,
                format!("{} groups are privileged: {}", folders.len(), names(folders)),
                "remove all but one with `g2 groups remove`".into(),
            ),
            GroupFolder { group, path } => (
                "group_folder",
                group.to_string(),
                Fail,
                format!("{path} is no folder, so group {group} can't be run"),
                format!("move it away and make the folder: `mkdir {path}`"),
            ),
            SenderList { why } => (
                "sender_list",
                String::new(),
                Fail,
                quote(why),
                "correct it, or remove it to have each chat's policy decide alone; it is read again by itself".into(),
            ),
            Pattern { group, chat, pattern, why } => (
                "engage_pattern",
                format!("{group} {chat}"),
                Fail,
                format!("group {group} engages on every message of {chat}: {:?}: {}", quote(pattern), quote(why)),
                format!("`g2 wirings set --group {group} --chat {chat} 'pattern=…'`"),
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
                    "messages are held: {count}; the oldest is {seq} of {chat}, for group {group}: {}",
                    quote(reason)
                ),
                format!("`g2 wirings set --group {group} --chat {chat} 'pattern=…'`: what it holds is judged again; `g2 why {seq}` says more"),
            ),
            NobodyIsAsked { why } => (
                "approvals",
                "who is asked".into(),
                Warn,
                format!("{}; messages of strangers and of new chats are counted and not heard", quote(why)),
                "make somebody an owner with `g2 users role USER owner`, and say where they are asked with `g2 users add`".into(),
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
                format!("{:?} names no time zone, so {used} is used", quote(name)),
                meant.map_or_else(
                    || "set TZ or `timezone` in g2.toml to a name such as Europe/Paris".to_owned(),
                    |meant| format!("write {meant} where {name} stands: in TZ, g2.toml, .env or /etc/localtime"),
                ),
            ),
            Stored { group, bytes, most, left, held_up } => (
                "stored",
                group.to_string(),
                if *held_up == HeldUp::Stopped { Fail } else { Warn },
                match (held_up, bytes >> 20, most >> 20, left >> 20) {
                    (HeldUp::Stopped, mib, most, _) => {
                        format!("group {group} is stopped: {mib} MiB of it are in the store, and at most {most} MiB are kept")
                    }
                    (HeldUp::Full, mib, most, _) => {
                        format!("group {group} may put no more into the store: it has {mib} of at most {most} MiB there")
                    }
                    (HeldUp::Waits, mib, _, left) => {
                        format!("commands of group {group} wait: it has {mib} MiB in the store, and {left} MiB are left")
                    }
                },
                "`g2 prune` removes history, `g2 tasks cancel` tasks; limits.stored_mib is how much is kept of a group".into(),
            ),
            Aside { group, why, since } => (
                "set_aside",
                group.to_string(),
                Fail,
                format!("group {group} is set aside since {since}: {}", quote(why)),
                format!(
                    "`g2 ipc list --group {group}` shows what it asked for, `g2 ipc drop ID` throws one away, `g2 ipc release {group}` lets it go on"
                ),
            ),
            Restart { settings } => (
                "settings",
                String::new(),
                Warn,
                format!("restart for {}", settings.join(", ")),
                "what is set holds from the next start on: stop g2 and start it again".into(),
            ),
            Settings { why } => (
                "settings",
                String::new(),
                Fail,
                format!("{why}; what was read at the start holds until g2 is started again, which would fail"),
                "correct g2.toml; SIGHUP has it read again, and says how it is".into(),
            ),
            Unwatched { why } => (
                "file_events",
                String::new(),
                Warn,
                quote(why),
                "raise fs.inotify.max_user_instances with sysctl, or find out who uses them up; it is tried again by itself".into(),
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
                    format!("`g2 runs show {run}` and `g2 runs logs {run}` tell how it went"),
                )
            }
            Rests(Resting { group, chat, thread, until }) => {
                let thread = if thread.is_empty() { String::new() } else { format!(", thread {}", quote(thread)) };
                (
                    "lane_rests",
                    format!("{group} {chat}{thread}"),
                    Warn,
                    format!("messages of {chat}{thread} wait: group {group} rests there until {until} after a failure"),
                    format!("it is tried again then; `g2 messages list --chat {chat} --unanswered` shows what waits, `g2 runs list` why"),
                )
            }
            GivenUp { count, newest } => (
                "given_up",
                String::new(),
                Warn,
                format!("messages that were given up within a day: {count}; the newest is {newest}"),
                format!("`g2 why {newest}` says why; its sender was told, and may say it again"),
            ),
            NotSaid { arrived, unsaid: Unsaid { count, newest, chat, error } } => {
                let why = error.as_deref().map(|error| format!(": {}", quote(error))).unwrap_or_default();
                let meaning = match arrived {
                    Arrived::No => "could not be said",
                    Arrived::Unknown => "may or may not have been said",
                };
                (
                    "outbox",
                    meaning.into(),
                    Warn,
                    format!("{count} messages {meaning}; the newest is {newest} to {chat}{why}"),
                    format!("mend the cause and say it again with `g2 outbox retry {newest}`; `g2 outbox list` shows all"),
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

    /// Whether `other` is only what this one brings about, and needs no mend of its own.
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

    /// Whether no run of this group can go well while this is so.
    fn stops(&self, group: &Folder) -> bool {
        match self {
            // While the disk is low nothing is launched, so nothing fails for it but what was stopped.
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
            | Unreadable { .. } => false,
        }
    }
}

impl Problem {
    /// Whether a daemon would not start for it.
    #[must_use]
    pub fn keeps_from_starting(&self) -> bool {
        matches!(
            self,
            Root(_) | StoreClosed { .. } | NoSettings { .. } | Unsandboxed { .. } | Upstream { .. }
        )
    }

    /// Whether nobody can tell, while this is so, if `other` is mended.
    fn blinds_to(&self, other: &Self) -> bool {
        match (self, other) {
            (Engine { .. }, NoImage { .. } | OtherClaude { .. })
            | (Disk { .. }, Inodes { .. })
            | (Settings { .. }, Restart { .. }) => true,
            // Of the store no more than this is known: nothing that is read there has gone.
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

    /// Whether both are one problem, seen at different times: its words may count what it has brought about by now.
    fn is_same(&self, other: &Self) -> bool {
        self.finding().is_same(&other.finding())
    }
}

/// Returns what of the ledger a person has to know. What failed at other times is told by `runs list`.
#[must_use]
pub fn of_ledger(ledger: Ledger, now: Time) -> Vec<Problem> {
    let Ledger { failing, resting, given_up, newest_given_up, failed, unknown } = ledger;
    // A group may have been mended since, and nothing asked of it; a task comes again by itself.
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

/// Puts what was found in order, worst first, and leaves out what another problem explains: each cause stands there once.
#[must_use]
pub fn sort_out(found: Vec<Problem>) -> Vec<Finding> {
    in_order(&told(found, &[]))
}

/// Leaves out what another problem explains, unless it was known before that one was.
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
    /// What is known now, worst first.
    pub now: Vec<Finding>,
    pub new: Vec<Finding>,
    pub gone: Vec<Finding>,
    /// What the next look is compared with.
    pub known: Vec<Problem>,
}

/// Compares a look with what was `known` before it. What another problem hides, or keeps from being looked at, is not gone.
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

/// Text of others, on one line and of a bounded length.
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
        1 => format!("; group {} was stopped, as it filled it", names(groups)),
        _ => format!("; the groups {} were stopped, as they may have filled it", names(groups)),
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

    /// What is new and what is gone.
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
