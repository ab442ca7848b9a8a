//! Everything that is checked, by name: for `status`, `doctor`, the log and programs.

use ipc_handlers::words;

use self::Look::{Always, Doctor, InEngine, InStore, WithRoom};

/// Who looks, after what, and how it reads where nothing is wrong.
enum Look {
    /// The search for problems.
    Always(&'static str),
    /// The same, if the store can be read.
    InStore(&'static str),
    /// The same, if the container engine answers.
    InEngine(&'static str),
    /// The same, if there is room on the disk.
    WithRoom(&'static str),
    /// `g2 doctor` alone.
    Doctor,
}

const ROOT: &str = "docs/troubleshooting.md#root-and-store";
const DAEMON: &str = "docs/troubleshooting.md#the-daemon";
const ENGINE: &str = "docs/troubleshooting.md#the-engine-and-the-image";
const MODEL: &str = "docs/agents.md#the-model-and-its-key";
const HOSTS: &str = "docs/agents.md#hosts-outside";
const SERVERS: &str = "docs/persona.md#tool-servers";
const FOLDERS: &str = "docs/agents.md#more-folders";
const USERS: &str = "docs/agents.md#what-a-container-has";
const MACHINE: &str = "docs/troubleshooting.md#the-machine";
const GROUPS: &str = "docs/troubleshooting.md#groups";
const BACKUPS: &str = "docs/backup.md#backups";
const TIMES: &str = "docs/tasks.md#when";
const REMOVAL: &str = "docs/media.md#removal";
const SENDERS: &str = "docs/people.md#whose-messages-reach-an-agent";
const STRANGERS: &str = "docs/people.md#strangers-and-new-chats";
const HEARTBEAT: &str = "docs/tasks.md#heartbeatmd";
const PAGE: &str = "docs/page.md#troubleshooting";
const OWNERS: &str = "docs/people.md#owners-on-platforms";
const PRIVACY: &str = "docs/telegram.md#2-decide-what-the-bot-sees-in-groups";
const SIGNS: &str = "docs/channels.md#signs-of-life";
const RESTS: &str = "docs/service.md#turns-rests-and-pauses";

impl Check {
    /// Returns the page and the heading that tell more of it, below the folder that holds `docs/`.
    #[must_use]
    pub const fn page(self) -> &'static str {
        self.facts().0
    }

    /// Returns how it reads where nothing is wrong, and the check without which it can't be looked at. `None`: the search for
    /// problems does not look at it.
    #[must_use]
    pub const fn when_right(self) -> Option<(&'static str, Option<Self>)> {
        match self.facts().1 {
            Always(says) => Some((says, None)),
            InStore(says) => Some((says, Some(Self::Store))),
            InEngine(says) => Some((says, Some(Self::Docker))),
            WithRoom(says) => Some((says, Some(Self::Disk))),
            Doctor => None,
        }
    }

    /// Whether its details are of our own making: figures and states of the machine and the daemon. Those of the others can
    /// quote what people and agents wrote.
    #[must_use]
    pub const fn tells_details(self) -> bool {
        matches!(
            self,
            Self::Disk
                | Self::FileEvents
                | Self::FileHandles
                | Self::FileSystem
                | Self::Inodes
                | Self::Inotify
                | Self::Lock
                | Self::OpenFiles
                | Self::Sandbox
                | Self::Socket
                | Self::Store
                | Self::Stored
                | Self::TimeZone
                | Self::ZoneData
        )
    }
}

/// Declares the checks: the name, the word, the page, and the look.
macro_rules! checks {
    ($($name:ident = $word:literal, $page:ident, $look:expr;)+) => {
        words! {
            /// What is checked.
            pub enum Check: "check" { $($name = $word),+ }
        }

        impl Check {
            const fn facts(self) -> (&'static str, Look) {
                match self { $(Self::$name => ($page, $look)),+ }
            }
        }
    };
}

checks! {
    Root = "root", ROOT, Always("the root is whole, and can be written");
    Store = "store", ROOT, Always("the store can be read and written");
    StoreWriter = "store_writer", ROOT, Always("nothing keeps changes from being stored");
    Settings = "settings", ROOT, Always("the settings can be used, and none waits for a restart");
    Sandbox = "sandbox", ENGINE, Always("no agent runs without a sandbox that the settings ask for");
    Secrets = "secrets", ROOT, Always("nobody else can read files of secrets");
    Gateway = "gateway", MODEL, Always("the address of the model's host can be used");
    ModelKey = "model_key", MODEL, InStore("the gateway has a key where agents need one");
    ModelRefuses = "model_refuses", MODEL, InStore("the model's host refuses no group");
    OtherModel = "other_model", MODEL, InStore("no group has to ask another model than its own");
    Key = "key", MODEL, InStore("agents that need a key of their own have one");
    Docker = "docker", ENGINE, Always("the container engine answers, where it is used");
    Image = "image", ENGINE, InEngine("every image that a group needs is there");
    Script = "script", GROUPS, InStore("the scripts of scripted agents can be followed");
    Disk = "disk", MACHINE, Always("there is room on the disk");
    Inodes = "inodes", MACHINE, WithRoom("the file system has room for more files");
    OpenFiles = "open_files", MACHINE, InStore("the limit of open files is high enough");
    FileEvents = "file_events", MACHINE, Always("the kernel tells of new files in boxes");
    SearchIndex = "search_index", ROOT, WithRoom("archived sessions can be searched");
    MainGroup = "main_group", GROUPS, InStore("there is one main group");
    GroupFolder = "group_folder", GROUPS, InStore("each group has its folder");
    GroupSettings = "group_settings", GROUPS, InStore("the settings of each group can be used");
    MountAllowlist = "mount_allowlist", FOLDERS, Always("the list of folders that may be mounted can be read");
    Mount = "mount", FOLDERS, InStore("each group has the folders of this machine that it asks for");
    SenderList = "sender_list", SENDERS, Always("the list of senders can be read");
    EngagePattern = "engage_pattern", SENDERS, InStore("the pattern of each wiring can be used");
    AnswersTwice = "answers_twice", SENDERS, InStore("no chat is answered by two groups");
    HeldMessages = "held_messages", SENDERS, InStore("no message is held because no rule could judge it");
    Approvals = "approvals", STRANGERS, InStore("questions about strangers find somebody, or are not asked");
    Channel = "channel", SIGNS, InStore("each platform is connected");
    Outbox = "outbox", SIGNS, InStore("every text of the last day arrived");
    RunsFail = "runs_fail", RESTS, InStore("no group fails each time");
    TaskFails = "task_fails", RESTS, InStore("no task fails each time");
    TaskRests = "task_rests", RESTS, InStore("no task rests after it got stuck");
    TaskPaused = "task_paused", RESTS, InStore("no task is paused after failures");
    LaneRests = "lane_rests", RESTS, InStore("no conversation rests after a failure");
    GivenUp = "given_up", RESTS, InStore("no message of the last day was given up");
    SetAside = "set_aside", RESTS, InStore("no group is set aside");
    UnownedRun = "unowned_run", DAEMON, InStore("each run has an owner, or has ended");
    Loop = "loop", DAEMON, Always("each loop of the daemon looks at what is to be done");
    LoopKey = "loop_key", DAEMON, Always("no work of a loop fails again and again");
    OurFault = "our_fault", DAEMON, Always("no fault of g2's own is in the way");
    GroupRemains = "group_remains", GROUPS, Always("nothing is left of earlier groups");
    Stored = "stored", ROOT, InStore("no group has too much in the store");
    Heartbeat = "heartbeat", HEARTBEAT, InStore("the tasks of each HEARTBEAT.md can be taken");
    Clock = "clock", TIMES, Always("the clock shows a time that tasks can run by");
    TimeZone = "time_zone", TIMES, Always("the time zone is known");
    HeldBack = "held_back", BACKUPS, InStore("a restore or an import holds nothing back");
    Backup = "backup", BACKUPS, InStore("the last daily backup went well, if there is one");
    BackupLacks = "backup_lacks", BACKUPS, InStore("no group's folder is missing in the last daily backup");
    ManyChats = "many_chats", SIGNS, InStore("no account tells of more chats than are kept");
    Commands = "commands", DAEMON, InStore("no command of the last day is dead");
    Page = "page", PAGE, Always("the operator's page is served, or off");
    Owners = "owners", OWNERS, InStore("somebody is an owner on each platform");
    Privacy = "privacy", PRIVACY, InStore("no platform keeps messages from an agent that they are to wake");
    PassedOver = "passed_over", SIGNS, InStore("no account was told anything within 24 hours that can't be taken in");
    // What only a newer daemon looks at.
    Other = "other", DAEMON, Doctor;
    Lock = "lock", DAEMON, Doctor;
    Socket = "socket", DAEMON, Doctor;
    Holds = "holds", DAEMON, Doctor;
    StaleRuns = "stale_runs", DAEMON, Doctor;
    Runs = "runs", DAEMON, Doctor;
    Egress = "egress", HOSTS, Doctor;
    ToolServer = "tool_server", SERVERS, Doctor;
    UidBase = "uid_base", USERS, Doctor;
    GroupOwner = "group_owner", USERS, Doctor;
    Inotify = "inotify", MACHINE, Doctor;
    FileSystem = "file_system", MACHINE, Doctor;
    FileHandles = "file_handles", MACHINE, Doctor;
    Boxes = "boxes", GROUPS, Doctor;
    Wirings = "wirings", GROUPS, Doctor;
    ZoneData = "zone_data", TIMES, Doctor;
    Archives = "archives", REMOVAL, Doctor;
    Media = "media", REMOVAL, Doctor;
    Runner = "runner", ENGINE, Doctor;
    RunnerStarts = "runner_starts", ENGINE, Doctor;
    RunnerReady = "runner_ready", ENGINE, Doctor;
    RunnerStaleClose = "runner_stale_close", ENGINE, Doctor;
    RunnerAnswers = "runner_answers", ENGINE, Doctor;
    RunnerHeartbeat = "runner_heartbeat", ENGINE, Doctor;
    RunnerFollowUps = "runner_follow_ups", ENGINE, Doctor;
    RunnerRepeats = "runner_repeats", ENGINE, Doctor;
    RunnerBadInput = "runner_bad_input", ENGINE, Doctor;
    RunnerClose = "runner_close", ENGINE, Doctor;
    RunnerHandled = "runner_handled", ENGINE, Doctor;
    RunnerRecords = "runner_records", ENGINE, Doctor;
    RunnerUnknownSession = "runner_unknown_session", ENGINE, Doctor;
    RunnerTerm = "runner_term", ENGINE, Doctor;
    RunnerBadDocument = "runner_bad_document", ENGINE, Doctor;
    RunnerNotTried = "runner_not_tried", ENGINE, Doctor;
}
