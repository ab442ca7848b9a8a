//! Everything that is checked, by name: for `status`, `doctor`, the log and programs.

use ipc_handlers::words;

words! {
    /// What is checked.
    pub enum Check: "check" {
        Root = "root",
        Store = "store",
        StoreWriter = "store_writer",
        Settings = "settings",
        Sandbox = "sandbox",
        Secrets = "secrets",
        Gateway = "gateway",
        ModelKey = "model_key",
        ModelRefuses = "model_refuses",
        Key = "key",
        Docker = "docker",
        Image = "image",
        Script = "script",
        Disk = "disk",
        Inodes = "inodes",
        OpenFiles = "open_files",
        FileEvents = "file_events",
        SearchIndex = "search_index",
        MainGroup = "main_group",
        GroupFolder = "group_folder",
        GroupSettings = "group_settings",
        MountAllowlist = "mount_allowlist",
        SenderList = "sender_list",
        EngagePattern = "engage_pattern",
        AnswersTwice = "answers_twice",
        HeldMessages = "held_messages",
        Approvals = "approvals",
        Channel = "channel",
        Outbox = "outbox",
        RunsFail = "runs_fail",
        TaskFails = "task_fails",
        TaskRests = "task_rests",
        TaskPaused = "task_paused",
        LaneRests = "lane_rests",
        GivenUp = "given_up",
        SetAside = "set_aside",
        UnownedRun = "unowned_run",
        Loop = "loop",
        LoopKey = "loop_key",
        OurFault = "our_fault",
        GroupRemains = "group_remains",
        Stored = "stored",
        Heartbeat = "heartbeat",
        Clock = "clock",
        TimeZone = "time_zone",
        HeldBack = "held_back",
        Backup = "backup",
        BackupLacks = "backup_lacks",
        ManyChats = "many_chats",
        Lock = "lock",
        Socket = "socket",
        Holds = "holds",
        StaleRuns = "stale_runs",
        Runs = "runs",
        Commands = "commands",
        Egress = "egress",
        Mount = "mount",
        UidBase = "uid_base",
        GroupOwner = "group_owner",
        Inotify = "inotify",
        FileSystem = "file_system",
        FileHandles = "file_handles",
        Boxes = "boxes",
        Wirings = "wirings",
        ZoneData = "zone_data",
        Archives = "archives",
        Media = "media",
        Runner = "runner",
        RunnerStarts = "runner_starts",
        RunnerReady = "runner_ready",
        RunnerStaleClose = "runner_stale_close",
        RunnerAnswers = "runner_answers",
        RunnerHeartbeat = "runner_heartbeat",
        RunnerFollowUps = "runner_follow_ups",
        RunnerRepeats = "runner_repeats",
        RunnerBadInput = "runner_bad_input",
        RunnerClose = "runner_close",
        RunnerHandled = "runner_handled",
        RunnerRecords = "runner_records",
        RunnerUnknownSession = "runner_unknown_session",
        RunnerTerm = "runner_term",
        RunnerBadDocument = "runner_bad_document",
        RunnerNotTried = "runner_not_tried",
    }
}

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
            Look::Always(says) => Some((says, None)),
            Look::InStore(says) => Some((says, Some(Self::Store))),
            Look::InEngine(says) => Some((says, Some(Self::Docker))),
            Look::WithRoom(says) => Some((says, Some(Self::Disk))),
            Look::Doctor => None,
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

    const fn facts(self) -> (&'static str, Look) {
        use Look::{Always, Doctor, InEngine, InStore, WithRoom};
        match self {
            Self::Root => (ROOT, Always("the root is whole, and can be written")),
            Self::Store => (ROOT, Always("the store can be read and written")),
            Self::StoreWriter => (ROOT, Always("nothing keeps changes from being stored")),
            Self::Settings => (ROOT, Always("the settings can be used, and none waits for a restart")),
            Self::Sandbox => (ENGINE, Always("no agent runs without a sandbox that the settings ask for")),
            Self::Secrets => (ROOT, Always("nobody else can read files of secrets")),
            Self::Gateway => (MODEL, Always("the address of the model's host can be used")),
            Self::ModelKey => (MODEL, InStore("the gateway has a key where agents need one")),
            Self::ModelRefuses => (MODEL, InStore("the model's host refuses no group")),
            Self::Key => (MODEL, InStore("agents that need a key of their own have one")),
            Self::Docker => (ENGINE, Always("the container engine answers, where it is used")),
            Self::Image => (ENGINE, InEngine("every image that a group needs is there")),
            Self::Script => (GROUPS, InStore("the scripts of scripted agents can be followed")),
            Self::Disk => (MACHINE, Always("there is room on the disk")),
            Self::Inodes => (MACHINE, WithRoom("the file system has room for more files")),
            Self::OpenFiles => (MACHINE, InStore("the limit of open files is high enough")),
            Self::FileEvents => (MACHINE, Always("the kernel tells of new files in boxes")),
            Self::SearchIndex => (ROOT, WithRoom("archived sessions can be searched")),
            Self::MainGroup => (GROUPS, InStore("there is one main group")),
            Self::GroupFolder => (GROUPS, InStore("each group has its folder")),
            Self::GroupSettings => (GROUPS, InStore("the settings of each group can be used")),
            Self::MountAllowlist => (FOLDERS, Always("the list of folders that may be mounted can be read")),
            Self::SenderList => (SENDERS, Always("the list of senders can be read")),
            Self::EngagePattern => (SENDERS, InStore("the pattern of each wiring can be used")),
            Self::AnswersTwice => (SENDERS, InStore("no chat is answered by two groups")),
            Self::HeldMessages => (SENDERS, InStore("no message is held because no rule could judge it")),
            Self::Approvals => {
                (STRANGERS, InStore("questions about strangers find somebody, or are not asked"))
            }
            Self::Channel => (SIGNS, InStore("each platform is connected")),
            Self::Outbox => (SIGNS, InStore("every text of the last day arrived")),
            Self::RunsFail => (RESTS, InStore("no group fails each time")),
            Self::TaskFails => (RESTS, InStore("no task fails each time")),
            Self::TaskRests => (RESTS, InStore("no task rests after it got stuck")),
            Self::TaskPaused => (RESTS, InStore("no task is paused after failures")),
            Self::LaneRests => (RESTS, InStore("no conversation rests after a failure")),
            Self::GivenUp => (RESTS, InStore("no message of the last day was given up")),
            Self::SetAside => (RESTS, InStore("no group is set aside")),
            Self::UnownedRun => (DAEMON, InStore("each run has an owner, or has ended")),
            Self::Loop => (DAEMON, Always("each loop of the daemon looks at what is to be done")),
            Self::LoopKey => (DAEMON, Always("no work of a loop fails again and again")),
            Self::OurFault => (DAEMON, Always("no fault of g2's own is in the way")),
            Self::GroupRemains => (GROUPS, Always("nothing is left of earlier groups")),
            Self::Stored => (ROOT, InStore("no group has too much in the store")),
            Self::Heartbeat => (HEARTBEAT, InStore("the tasks of each HEARTBEAT.md can be taken")),
            Self::Clock => (TIMES, Always("the clock shows a time that tasks can run by")),
            Self::TimeZone => (TIMES, Always("the time zone is known")),
            Self::HeldBack => (BACKUPS, InStore("a restore holds nothing back")),
            Self::Backup => (BACKUPS, InStore("the last daily backup went well, if there is one")),
            Self::BackupLacks => (BACKUPS, InStore("no group's folder is missing in the last daily backup")),
            Self::ManyChats => (SIGNS, InStore("no account tells of more chats than are kept")),
            Self::Lock => (DAEMON, Doctor),
            Self::Socket => (DAEMON, Doctor),
            Self::Holds => (DAEMON, Doctor),
            Self::StaleRuns => (DAEMON, Doctor),
            Self::Runs => (DAEMON, Doctor),
            Self::Commands => (DAEMON, Doctor),
            Self::Egress => (HOSTS, Doctor),
            Self::Mount => (FOLDERS, Doctor),
            Self::UidBase => (USERS, Doctor),
            Self::GroupOwner => (USERS, Doctor),
            Self::Inotify => (MACHINE, Doctor),
            Self::FileSystem => (MACHINE, Doctor),
            Self::FileHandles => (MACHINE, Doctor),
            Self::Boxes => (GROUPS, Doctor),
            Self::Wirings => (GROUPS, Doctor),
            Self::ZoneData => (TIMES, Doctor),
            Self::Archives => (REMOVAL, Doctor),
            Self::Media => (REMOVAL, Doctor),
            Self::Runner
            | Self::RunnerStarts
            | Self::RunnerReady
            | Self::RunnerStaleClose
            | Self::RunnerAnswers
            | Self::RunnerHeartbeat
            | Self::RunnerFollowUps
            | Self::RunnerRepeats
            | Self::RunnerBadInput
            | Self::RunnerClose
            | Self::RunnerHandled
            | Self::RunnerRecords
            | Self::RunnerUnknownSession
            | Self::RunnerTerm
            | Self::RunnerBadDocument
            | Self::RunnerNotTried => (ENGINE, Doctor),
        }
    }
}
