//! Each problem in words, with its fix.

use ipc_handlers::Folder;

use super::{
    Arrived, Failing, Finding, Halted, HeldUp, Problem, Resting, RootFault, Severity, TaskTrouble, Unsaid,
    checks::Check,
};
use crate::{
    kept::writing,
    runs::{heartbeat::FILE, hindrance::Hindrance},
    shown::screen::{acts, address, counted},
};

/// The longest text that is shown of what others wrote, such as the error of a run, characters.
const LONGEST_QUOTE: usize = 300;

/// How many parts of the root that are open to others are named.
const NAMED: usize = 5;
/// What of the root has a problem where parts of it are open to others.
pub const OPEN: &str = "open to others";

use Problem::{
    AnswersTwice, Aside, Backup, BackupLacks, Channel, Clock, DeadCommands, Disk, Engine, FolderLost,
    GivenUp, GroupFolder, GroupSettings, Heartbeat, Held, HeldBack, Index, Inodes, Loop, LoopKey, LoopStuck,
    MainGroups, ManyChats, ManyQuestions, MountList, NoImage, NoKey, NoModelKey, NoMount, NoOwnerThere,
    NoPage, NoSettings, NobodyIsAsked, NotSaid, OddImage, OpenFiles, OpenRoot, OtherModel, PassedOver,
    Pattern, Refused, Remains, Restart, Rests, Root, RunsFail, Script, Secrets, SenderList, Settings,
    StoreClosed, StoreFault, StoreWaits, Stored, TaskHalted, TooLittleTold, Unjudged, Unowned, Unreadable,
    Unsandboxed, Unsettled, Unusable, Unwatched, Upstream, Zone,
};

impl Problem {
    /// Returns the problem in words, with its fix.
    #[must_use]
    pub fn finding(&self) -> Finding {
        use Severity::{Fail, Warn};
        let found = match self {
            Root(fault) => {
                let (text, fix) = fault.words();
                Finding::fail((Check::Root, fault.about()), text, fix)
            }
            StoreClosed { why } => Finding::fail(
                Check::Store,
                format!("the store can't be opened: {}", quote(why)),
                "`g2 doctor` says more; restore a backup if the store is damaged, install the newer g2 if that wrote it",
            ),
            StoreWaits(held_up) => {
                let (text, fix) = held_up.words();
                Finding::fail(Check::StoreWriter, text, fix)
            }
            NoSettings { why } => Finding::fail(
                Check::Settings,
                format!("the settings can't be used: {}", quote(why)),
                "correct g2.toml; `g2 init` in an empty folder writes one with every setting at its default",
            ),
            Unsandboxed { what } => Finding::fail(
                Check::Sandbox,
                format!(
                    "{} would run without any sandbox, so neither it nor a daemon is started",
                    quote(what)
                ),
                "set sandbox.kind = \"docker\", or allow this with sandbox.allow_unsandboxed = true",
            ),
            Upstream { text, why } => Finding::fail(
                Check::Gateway,
                format!(
                    "{:?} is not a usable address of the model's host: {}",
                    quote(&address(text)),
                    quote(why)
                ),
                "set gateway.upstream in g2.toml, or ANTHROPIC_BASE_URL, to an address such as https://api.anthropic.com",
            ),
            Unusable { why } => Finding::warn((Check::Settings, why), quote(why), "correct it or remove it"),
            Secrets { path, mode } => Finding::warn(
                (Check::Secrets, path),
                format!("{path} has mode {mode:04o}: other users can read or change the secrets in it"),
                format!("`chmod 600 {path}`"),
            ),
            OpenRoot { open } => {
                let all: Vec<String> =
                    open.iter().map(|(path, mode)| format!("{path} (mode {mode:04o})")).collect();
                let more = all.len().saturating_sub(NAMED);
                let more_words = if more > 0 { format!(" and {more} more") } else { String::new() };
                let first = open.first().map(|(path, _)| path.as_str()).unwrap_or_default();
                Finding::fail(
                    (Check::Root, OPEN),
                    format!("other users may read {}{more_words}", all[..all.len() - more].join(", ")),
                    format!("start g2, which closes the files of its own user, or `chmod go= {first}`"),
                )
            }
            NoMount { group, path, why, list } => Finding::warn(
                (Check::Mount, format!("{group} {path}")),
                format!("{group} goes without {}: {}", quote(path), quote(why)),
                format!("change `g2 groups set {group} mounts=…`, or, if it is not allowed, {list}"),
            ),
            Disk { path, free, wanted, stopped } => Finding::fail(
                Check::Disk,
                format!(
                    "only {} MiB are free under {path}, and {} MiB are needed, so no agent is launched and commands wait{}",
                    free >> 20,
                    wanted >> 20,
                    was_stopped(stopped)
                ),
                "free some space (`g2 prune` with the daemon down shrinks the store), or lower limits.min_free_mib",
            ),
            Inodes { path, free, all } => Finding::warn(
                Check::Inodes,
                format!("only {free} of {all} inodes are free under {path}, so no agent is launched"),
                "remove small files that you do not need; every command and every run makes a few",
            ),
            OpenFiles { groups, runs, wanted, limit, unserved } => Finding::fail(
                Check::OpenFiles,
                match unserved {
                    0 => format!(
                        "{groups} groups and {runs} runs need about {wanted} open files; {limit} are allowed"
                    ),
                    _ => format!(
                        "commands of {unserved} of {groups} groups wait: no more files can be opened, {limit} are allowed"
                    ),
                },
                format!(
                    "raise the hard limit: `ulimit -Hn {0}`, or LimitNOFILE={0} in the unit; then start the daemon again",
                    wanted.max(limit) * 2
                ),
            ),
            Engine { why } => Finding::fail(
                Check::Docker,
                format!("no agent can be launched: {}", quote(why)),
                "start Docker, let this user use its socket (group docker), or set DOCKER_HOST=unix:///path/to/docker.sock",
            ),
            NoImage { image, groups } => Finding::fail(
                (Check::Image, image),
                format!("image {image} does not exist, so the agents of {} can't be launched", names(groups)),
                format!(
                    "build it with `g2 image build {image}` (`g2 image build --bare {image}` for the scripted agent alone), or set sandbox.image to another"
                ),
            ),
            OddImage { image, fault, groups } => {
                let (text, fix) = fault.words(image, &names(groups));
                Finding::new(if fault.stops() { Fail } else { Warn }, (Check::Image, image), text, fix)
            }
            NoModelKey { why, remedy, groups } => Finding::fail(
                Check::ModelKey,
                format!("{}; the agents of {} need one", quote(why), names(groups)),
                *remedy,
            ),
            Refused { what, why, since, until, groups } => Finding::new(
                if what.is_weather() { Warn } else { Fail },
                (Check::ModelRefuses, what),
                {
                    let when =
                        until.map_or_else(|| format!("since {since}"), |until| format!("until {until}"));
                    format!("{}; {when} the messages and tasks of {} wait", quote(why), names(groups))
                },
                mend(*what),
            ),
            OtherModel { model, why, until, groups } => Finding::new(
                Warn,
                (Check::OtherModel, model),
                format!(
                    "{}; until {until} the model {} answers for {}",
                    quote(why),
                    quote(model),
                    names(groups)
                ),
                "G2 goes back to the group's own model by itself; `g2 groups set GROUP model_fallback=` ends it now",
            ),
            NoKey { path, why: Some(why), .. } => Finding::fail(
                Check::Key,
                format!("{path} can't be read: {}", quote(why)),
                "let the user that runs g2 read it",
            ),
            NoKey { path, why: None, groups } => Finding::fail(
                Check::Key,
                format!("the agents of {} need a key, and there is none", names(groups)),
                format!("put ANTHROPIC_API_KEY=… or CLAUDE_CODE_OAUTH_TOKEN=… into {path}"),
            ),
            GroupSettings { group, why } => Finding::fail(
                (Check::GroupSettings, group),
                format!("group {group} can't be launched: {}", quote(why)),
                format!(
                    "correct it with `g2 groups set {group} KEY=VALUE`; an empty value restores the default of all groups"
                ),
            ),
            Script { path, of, why, is_read: false, .. } => Finding::fail(
                (Check::Script, path),
                format!("{path} ({of}) can't be read: {}", quote(why)),
                format!("put the file there, or set another for {of}"),
            ),
            Script { path, of, why, is_read: true, .. } => Finding::fail(
                (Check::Script, path),
                format!("{path} ({of}): {}", quote(why)),
                "write a JSON list of {\"when\"?: {\"contains\": …}, \"times\"?: N, \"do\": [step, …]}",
            ),
            MountList { why } => Finding::fail(
                Check::MountAllowlist,
                quote(why),
                r#"write {"allowedRoots": [{"path": "~/x", "allowReadWrite": false}], "blockedPatterns": [], "nonMainReadOnly": true}"#,
            ),
            MainGroups { folders } if folders.is_empty() => Finding::fail(
                Check::MainGroup,
                "no group is the main group, so no agent can register groups or see all of them",
                "add one with `g2 groups add main --chat local:main --main` (any folder name will do)",
            ),
            MainGroups { folders } => Finding::fail(
                Check::MainGroup,
                format!("{} groups are main groups, and only one may be: {}", folders.len(), names(folders)),
                "remove all but one with `g2 groups remove`",
            ),
            FolderLost { group, path } => Finding::fail(
                (Check::GroupFolder, group),
                format!(
                    "{path} is lost, missing or empty: nothing is launched for group {group}, and its work waits"
                ),
                format!(
                    "mount its disk or put it back, and G2 goes on by itself; otherwise `g2 groups restore {group}` takes it from a backup, and `g2 groups renew {group}` makes a new one"
                ),
            ),
            GroupFolder { group, path } => Finding::fail(
                (Check::GroupFolder, group),
                format!("{path} is not a folder, so group {group} can't be launched"),
                format!("move it away and make the folder: `mkdir {path}`"),
            ),
            SenderList { why } => Finding::fail(
                Check::SenderList,
                quote(why),
                "correct it, or remove it so that each chat's policy decides alone; G2 notices the change by itself",
            ),
            Pattern { group, chat, pattern, why } => Finding::fail(
                (Check::EngagePattern, format!("{group} {chat}")),
                format!(
                    "group {group} engages on every message of {chat}, because its pattern {:?} can't be used: {}",
                    quote(pattern),
                    quote(why)
                ),
                format!("correct it with `g2 wirings set --group {group} --chat {chat} 'pattern=…'`"),
            ),
            Heartbeat { group, fault, count } => {
                let (place, others) = match fault.line {
                    0 => (String::new(), "its tasks stay as they are until then"),
                    line => (format!("line {line}: "), "its other tasks run"),
                };
                let more = if *count > 1 { format!("; and {} more", count - 1) } else { String::new() };
                Finding::warn(
                    (Check::Heartbeat, group),
                    format!("{FILE} of group {group}: {place}{}{more}", quote(&fault.why)),
                    format!("correct groups/{group}/{FILE}; {others}"),
                )
            }
            AnswersTwice { chat, groups } => Finding::warn(
                (Check::AnswersTwice, chat),
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
            Held { count, seq, chat, group, reason } => Finding::warn(
                Check::HeldMessages,
                format!(
                    "held messages: {count} (no rule could judge them); the oldest is {seq} of {chat}, for group {group}: {}",
                    quote(reason)
                ),
                format!(
                    "change the pattern with `g2 wirings set --group {group} --chat {chat} 'pattern=…'`, and the messages are judged again; `g2 why {seq}` says more"
                ),
            ),
            Backup { why } => Finding::fail(
                Check::Backup,
                format!("the daily backup failed: {}", quote(why)),
                "correct it, or the setting backup.to; it is tried again each hour",
            ),
            ManyChats { channel } => Finding::warn(
                (Check::ManyChats, channel),
                format!(
                    "the adapter of account {channel} tells of more chats that nobody uses than the 5000 that are kept; new ones are known once somebody writes there"
                ),
                "have its bot leave chats that it has no use for; chats that nobody used for a week make room. If the bot is in few chats, the adapter is at fault",
            ),
            PassedOver { channel, count } => Finding::warn(
                (Check::PassedOver, channel),
                format!(
                    "account {channel} was told something that can't be taken in, the last time within 24 hours ({count} in all); it was passed over"
                ),
                format!(
                    "`g2 channels log {channel}` says why; what was written then is to be seen on the platform alone"
                ),
            ),
            NoPage { listen, why } => Finding::fail(
                Check::Page,
                format!("the operator's page can't be served at {listen}: {}", quote(why)),
                "end the program that has this port, or `g2 config set web.listen` to another one and restart; it is tried again every 5 s",
            ),
            DeadCommands { count } => Finding::warn(
                Check::Commands,
                format!("{} of agents could not be read within 24 hours", counted(*count, "command")),
                "`g2 ipc list --state dead` says why; their files are in data/dead/",
            ),
            NoOwnerThere { channel } => Finding::warn(
                (Check::Owners, channel),
                format!(
                    "nobody is an owner on {channel}: there no words stop the agent, and no questions and problems reach you"
                ),
                "`g2 users claim` makes you one, from your own phone",
            ),
            TooLittleTold { channel, group, chat } => Finding::warn(
                (Check::Privacy, format!("{group} in {chat}")),
                format!(
                    "the bot of account {channel} has its privacy mode on, so it is told only what mentions it, answers it or is a command; agent {group} is to be woken by other messages, too, in {chat}, and does not hear them"
                ),
                format!(
                    "in the chat with @BotFather: /setprivacy, the bot, Disable; then remove the bot from the group, add it again, and `g2 channels restart {channel}`. Or make the bot an admin of the group"
                ),
            ),
            BackupLacks { folder } => Finding::fail(
                (Check::BackupLacks, folder.rsplit('/').next().unwrap_or(folder).to_owned()),
                format!(
                    "the newest daily backup has no copy of {folder}: it is too large for the room in backup.to"
                ),
                format!(
                    "remove what is large in {folder}, or make room in the folder backup.to; within an hour a backup with all folders is made"
                ),
            ),
            HeldBack { held } => Finding::warn(
                Check::HeldBack,
                format!("a restore or an import held back {}", held.words()),
                "look with `g2 restored list`; `g2 restored resume --all` sends and answers them, `g2 restored drop --all` gives them up",
            ),
            NobodyIsAsked { why } => Finding::warn(
                (Check::Approvals, "who is asked"),
                format!("{}; messages of strangers and from new chats are counted but not heard", quote(why)),
                "make a person an owner with `g2 users role USER owner`, and name the chat for their questions with `g2 users add USER --dm CHAT`",
            ),
            ManyQuestions { full } => Finding::warn(
                (Check::Approvals, "open questions"),
                quote(full),
                "answer them (`g2 approvals list`), or close many with `g2 approvals deny --chat JID` or `deny --all`",
            ),
            Zone { name, meant, used } => Finding::warn(
                (Check::TimeZone, name),
                format!("{:?} is not a time zone, so {used} is used", quote(name)),
                meant.map_or_else(
                    || "set TZ or `timezone` in g2.toml to a name such as Europe/Paris".to_owned(),
                    |meant| {
                        format!("write {meant} instead of {name}: in TZ, g2.toml, .env or /etc/localtime")
                    },
                ),
            ),
            Clock { now } => Finding::fail(
                Check::Clock,
                format!(
                    "the machine's clock shows {now}, and no time after the year 2099 can be reckoned with: tasks by cron wait"
                ),
                "set the clock; the tasks go on by themselves",
            ),
            Stored { group, bytes, most, left, held_up } => Finding::new(
                if *held_up == HeldUp::Stopped { Fail } else { Warn },
                (Check::Stored, group),
                match (held_up, bytes >> 20, most >> 20, left >> 20) {
                    (HeldUp::Stopped, mib, most, _) => {
                        format!(
                            "group {group} is stopped: it has {mib} MiB in the store, and may have at most {most} MiB"
                        )
                    }
                    (HeldUp::Full, mib, most, _) => {
                        format!(
                            "group {group} can store nothing more: it has {mib} of at most {most} MiB in the store"
                        )
                    }
                    (HeldUp::Waits, mib, _, left) => {
                        format!(
                            "commands of group {group} wait: it has {mib} MiB in the store, and {left} MiB are left"
                        )
                    }
                },
                "`g2 prune` removes history, `g2 tasks remove` tasks; limits.stored_mib sets the limit",
            ),
            Aside { group, why, since } => Finding::fail(
                (Check::SetAside, group),
                format!("group {group} is set aside since {since}: {}", quote(why)),
                format!(
                    "`g2 ipc list --group {group}` shows its commands, `g2 ipc drop ID` discards one, `g2 ipc release {group}` lets the group go on"
                ),
            ),
            Unowned { group, run, source, begun } => Finding::fail(
                (Check::UnownedRun, group),
                format!(
                    "run {run} of group {group} ({}), begun at {begun}, has no owner, and its container is not found: it may still be at work, so the group waits",
                    quote(source)
                ),
                format!(
                    "make sure that nothing of it runs any more (`docker ps`), then end it: `g2 runs stop {run} --retry` hands its work out again, without `--retry` it is given up"
                ),
            ),
            Loop { name, secs, why } => Finding::fail(
                (Check::Loop, name),
                format!("the loop {name} can't look at what is to be done for {secs} s: {}", quote(why)),
                "g2 tries again by itself; `g2 doctor` says more, and so does the log",
            ),
            LoopStuck { name, secs } => Finding::fail(
                (Check::Loop, name),
                format!("the loop {name} has not come round for {secs} s"),
                "start the daemon again; the log says more, and `g2 report` makes a report of the bug",
            ),
            LoopKey { name, key, more, failures, aside, why } => {
                let others = match more {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                let (what, fix) = match aside {
                    false => (
                        format!("failed {failures} times in a row"),
                        format!(
                            "g2 tries again by itself, and `g2 loops release {name} {key}` at once; the log says more"
                        ),
                    ),
                    true => (
                        format!("failed {failures} times in a row by a fault of g2's own, and is set aside"),
                        format!(
                            "`g2 loops release {name} {key}` lets it go on; `g2 report` makes a report of the bug"
                        ),
                    ),
                };
                Finding::fail(
                    (Check::LoopKey, format!("{name} {key}")),
                    format!("the work of the loop {name} for {key}{others} {what}: {}", quote(why)),
                    fix,
                )
            }
            Unjudged { why } => Finding::fail(
                (Check::OurFault, "messages that came in"),
                format!("a fault of g2's own keeps messages from being judged: {}", quote(why)),
                "others go on, and g2 tries again by itself; the log says more, and `g2 report` makes a report of the bug",
            ),
            Unsettled { group, why } => Finding::fail(
                (Check::OurFault, group),
                format!(
                    "a fault of g2's own keeps commands of group {group} from being settled: {}",
                    quote(why)
                ),
                "g2 tries again by itself, at its next start at the latest; the log says more, and `g2 report` makes a report of the bug",
            ),
            StoreFault { why } => Finding::fail(
                (Check::OurFault, "the store"),
                format!(
                    "a fault of g2's own came over work on the store within the last 10 minutes: {}",
                    quote(why)
                ),
                "work that it keeps from being done is tried again; the log says more, and `g2 report` makes a report of the bug",
            ),
            Remains { group, why } => Finding::warn(
                (Check::GroupRemains, group),
                format!("something is left of an earlier group {group}: {}", quote(why)),
                "put right what it names; G2 tries again each minute, and makes no group of that name before",
            ),
            Restart { settings } => Finding::warn(
                Check::Settings,
                format!("restart for {}", settings.join(", ")),
                "these settings are read at the start: stop g2 and start it again",
            ),
            Settings { why } => Finding::fail(
                Check::Settings,
                format!(
                    "{why}; the daemon goes on with the settings of before, but its next start will fail"
                ),
                "correct g2.toml; the daemon reads it again by itself",
            ),
            Index { path, why } => Finding::fail(
                Check::SearchIndex,
                format!("archived sessions can't be searched, as their index can't be used: {}", quote(why)),
                format!("move {path} away; G2 makes the index anew by itself, from the store"),
            ),
            Unwatched { why } => Finding::warn(
                Check::FileEvents,
                quote(why),
                "put the folder right or raise the limit (by sysctl) that it names; G2 tries again by itself",
            ),
            Channel { channel, refused: true, why, since } => Finding::fail(
                (Check::Channel, channel),
                format!("{channel} has refused the connection since {since}: {}", quote(why)),
                format!(
                    "correct the account of {channel} (its token, its login); nothing is heard or said there until then"
                ),
            ),
            Channel { channel, refused: false, why, since } => Finding::warn(
                (Check::Channel, channel),
                format!("{channel} has been out of reach since {since}: {}", quote(why)),
                format!("look at the network and at {channel} itself; G2 tries again by itself"),
            ),
            RunsFail(Failing { group, task, times, run, at, error }) => {
                let why = quote(error.as_deref().unwrap_or("it did not say why"));
                let (code, about, whose) = match task {
                    None => (Check::RunsFail, group.to_string(), format!("group {group}")),
                    Some(task) => (
                        Check::TaskFails,
                        format!("{group} {task}"),
                        format!("task {} of group {group}", quote(task)),
                    ),
                };
                Finding::fail(
                    (code, about),
                    format!("the last {times} runs of {whose} failed; run {run}, at {at}: {why}"),
                    match task {
                        None => format!(
                            "`g2 runs show {run}` and `g2 runs logs {run}` say more; `g2 lanes list` shows what rests, `g2 lanes wake {group}` has it tried again at once"
                        ),
                        Some(_) => format!("`g2 runs show {run}` and `g2 runs logs {run}` say more"),
                    },
                )
            }
            Rests(Resting { group, chat, thread, until }) => {
                let thread =
                    if thread.is_empty() { String::new() } else { format!(", thread {}", quote(thread)) };
                Finding::warn(
                    (Check::LaneRests, format!("{group} {chat}{thread}")),
                    format!(
                        "messages of {chat}{thread} wait: after a failure, group {group} rests there until {until}"
                    ),
                    format!(
                        "G2 tries again then, or at once after `g2 lanes wake {group} --chat {chat}`; `g2 messages list --chat {chat} --unanswered` shows the messages that wait, `g2 runs list` the failure"
                    ),
                )
            }
            TaskHalted(TaskTrouble { group, task, then }) => {
                let (task, about) = (quote(task), format!("{group} {task}"));
                let resume = format!(
                    "`g2 tasks history {task} --group {group}` shows its runs; repair the cause, then run it again with `g2 tasks resume {task} --group {group}`"
                );
                match then {
                    Halted::Rests(until) => Finding::warn(
                        (Check::TaskRests, about),
                        format!(
                            "task {task} of group {group} got stuck again and again, so it rests until {until}"
                        ),
                        resume,
                    ),
                    Halted::Paused(why) => Finding::fail(
                        (Check::TaskPaused, about),
                        format!(
                            "task {task} of group {group} is paused: {}{}",
                            if why.starts_with("its ") { "" } else { "it " },
                            quote(why)
                        ),
                        resume,
                    ),
                }
            }
            GivenUp { count, newest } => Finding::warn(
                Check::GivenUp,
                format!(
                    "messages that were given up within the last 24 hours: {count}; the newest is {newest}"
                ),
                format!("`g2 why {newest}` says why; its sender was told and can send it again"),
            ),
            NotSaid { arrived, unsaid: Unsaid { count, newest, chat, error } } => {
                let why = error.as_deref().map(|error| format!(": {}", quote(error))).unwrap_or_default();
                let (about, meaning) = match arrived {
                    Arrived::No => ("could not be said", "could not be sent"),
                    Arrived::Unknown => ("may or may not have been said", "may or may not have arrived"),
                };
                Finding::warn(
                    (Check::Outbox, about),
                    format!("texts for chats that {meaning}: {count}; the newest is {newest} to {chat}{why}"),
                    format!(
                        "fix the cause, then send it again with `g2 outbox retry {newest}`; `g2 outbox list` shows all"
                    ),
                )
            }
            Unreadable { what, why } => Finding::fail(
                (Check::Store, *what),
                format!("{what} can't be read: {}", quote(why)),
                "`g2 doctor` checks the store; the log says more",
            ),
        };
        Finding { about: quote(&found.about), fix: quote(&found.fix), ..found }
    }
}

impl writing::HeldUp {
    fn words(&self) -> (String, String) {
        use writing::Obstacle::{Fault, Lock, NoRoom, Slow};
        let since = self.since;
        let (text, fix) = match &self.by {
            Lock => (
                format!(
                    "another program holds the lock of the store (data/g2.sqlite), at least since {since}"
                ),
                "end that program, or what it does with the store: a `sqlite3` shell, a backup tool (`fuser -v data/g2.sqlite` names those that have it open)",
            ),
            NoRoom => (
                format!("the disk has had no room for changes of the store since {since}"),
                "free some space",
            ),
            Fault(why) => (
                format!("every change of the store has failed since {since}: {}", quote(why)),
                "look at its disk (`journalctl -k`); G2 tries again by itself",
            ),
            Slow => (
                format!("the store has been at one change since {since}"),
                "look at its disk (`journalctl -k`), then at the log; a daemon that stays so is better started again",
            ),
        };
        (format!("{text}; commands and messages wait, and none is lost"), fix.into())
    }
}

impl RootFault {
    /// The part that the daemon alone knows of; otherwise the whole root.
    fn about(&self) -> String {
        if let Self::Replaced { path } = self { path.clone() } else { String::new() }
    }

    /// Returns the problem in words, and its fix.
    #[must_use]
    pub fn words(&self) -> (String, String) {
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
            Self::Restoring { root } => (
                format!("a restore into {root} has not ended"),
                format!("wait until it ends; if it was killed, `g2 --root {root} restore FILE` begins anew"),
            ),
            Self::LogOfAnother { root } => (
                format!(
                    "{root}/data/g2.sqlite was replaced: the log beside it, g2.sqlite-wal, belongs to the earlier file and has what was stored last"
                ),
                "put the earlier file back with mv; if this is a copy of it that was made after every g2 had ended, remove data/lock; if it is lost, end every g2, then move g2.sqlite-wal and g2.sqlite-shm away: what only they hold is lost".into(),
            ),
            Self::NoFolder { root, path } => {
                (format!("{path} is not a folder"), format!("move it away and run `g2 --root {root} init`"))
            }
            Self::Replaced { path } => (
                format!(
                    "{path} was moved away or replaced; the daemon goes on with the old one, which others do not see"
                ),
                "put the old one back, or stop g2 and start it again".into(),
            ),
            Self::Unwritable { root, path, why } => (format!("{path} can't be written: {why}"), owner(root)),
            Self::ReadOnly { path, why } => (
                format!("{path} can't be written: {why}"),
                "mount the file system for writing, or choose another root with --root".into(),
            ),
        }
    }
}

/// Says how a refusal of the model's host is mended.
fn mend(what: Hindrance) -> &'static str {
    match what {
        Hindrance::NoKey => "put a key into .env, or into the file of gateway.token_file; G2 sees it at once",
        Hindrance::Key => {
            "put a key that works into .env, or into the file of gateway.token_file; G2 sees it at once, and tries the old one again by itself"
        }
        Hindrance::NotAllowed => {
            "use a key that may ask for it, or another model (`g2 groups set GROUP model=NAME`); G2 sees a new key at once, and tries again by itself"
        }
        Hindrance::NoCredit => {
            "give the account credit, or use another key; G2 sees a new key at once, and tries again by itself"
        }
        Hindrance::NoModel => {
            "name another one: `g2 groups set GROUP model=NAME`, or model_fallback=NAME where that one was asked, which G2 sees at once; or set agent.claude.model for all groups, and G2 tries again by itself"
        }
        Hindrance::Limit => {
            "G2 goes on by itself when it is over; a key with another limit lets it go on sooner"
        }
        Hindrance::Busy | Hindrance::NoImage | Hindrance::Engine => "G2 tries again by itself",
    }
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
