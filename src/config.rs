//! Settings: read once, from `g2.toml` and v1's environment names, and checked. Nothing reads the environment later.
#![expect(clippy::disallowed_methods, reason = "this file is the door to the environment and to g2.toml")]

use std::{
    collections::BTreeMap,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::Deserialize;

use crate::domain::{
    run_settings::{Aws, Credentials, Egress, Network, Provider, RunSettings, Selinux},
    tasks::TaskLimits,
    zone::{ZoneChoice, ZoneData, Zones},
};

mod agent;
pub mod dotenv;
mod written;

pub use agent::ClaudeSettings;
use agent::{RawAgent, word};
pub use written::Written;
use written::{LEVELS, bad_number, out_of_range};

/// `g2.toml` with every setting commented at its default.
pub const DEFAULT_TOML: &str = include_str!("default.toml");

/// The settings, checked.
#[derive(Clone, Debug)]
pub struct Config {
    pub assistant_name: String,
    /// The zone's name and how it was found.
    pub zone: ZoneChoice,
    /// The same, and the zones of groups that have their own.
    pub zones: Zones,
    pub sandbox: SandboxKind,
    pub image: String,
    pub docker_host: Option<String>,
    pub allow_unsandboxed: bool,
    pub memory_bytes: Option<u64>,
    pub cpus: Option<f64>,
    pub pids: Option<u64>,
    pub output_bytes: u64,
    pub provider: Provider,
    pub claude: ClaudeSettings,
    pub network: Network,
    pub egress: Egress,
    pub credentials: Credentials,
    pub aws: Aws,
    /// Each group's agent runs as this user plus the group's own number; `None`: all as one user.
    pub uid_base: Option<u32>,
    pub selinux: Selinux,
    /// The user's own folder: where `~` leads to, and where the mount allowlist and `.aws` are.
    pub home: Option<PathBuf>,
    /// The program that runs in the container instead of the image's own; empty: the image's.
    pub command: Vec<String>,
    pub script: Option<PathBuf>,
    pub max_containers: NonZeroUsize,
    pub max_context: usize,
    pub batch_messages: usize,
    pub batch_bytes: usize,
    pub retry_base_ms: i64,
    pub scan_every: Duration,
    pub startup_ms: u64,
    pub ceiling_ms: u64,
    pub claim_ms: u64,
    pub idle_ms: u64,
    pub container_ms: u64,
    pub close_grace_ms: u64,
    pub min_free_bytes: u64,
    /// Commands of a group that are taken in a minute.
    pub commands_per_minute: u32,
    /// Messages that a group may send by commands in a minute.
    pub messages_per_minute: u32,
    /// How much a group may put into the store by commands in a minute, with their replies, bytes.
    pub command_bytes_per_minute: u32,
    /// How much of a group is kept in the store before its commands may put no more there, bytes.
    pub stored_bytes: u64,
    /// How much of a group may be claimed and not settled, bytes.
    pub waiting_bytes: u64,
    /// How many files of a group may wait before the newest are refused.
    pub waiting_files: usize,
    /// How long a no to a question is remembered, ms; 0: it is not.
    pub deny_ttl_ms: i64,
    /// What the tasks of a group may be.
    pub tasks: TaskLimits,
    /// How much is replied to a group in a minute, and how much of its long replies is kept, bytes.
    pub replies_bytes: u64,
    /// How many archived sessions of a group are kept.
    pub archives: usize,
    /// How much of what was said in them is kept, bytes.
    pub archives_bytes: u64,
    /// Of how many days history is kept; 0: nothing is removed by itself.
    pub keep_days: u32,
    /// How long after its start the daemon looks for what is older than that for the first time.
    pub keep_first: std::time::Duration,
    pub on_unknown: crate::domain::rows::UnknownDeliveries,
    /// Whether a command needs its run's token; without, the box that it lies in says whose it is.
    pub require_token: bool,
    pub log_level: String,
    /// The address of the model's host.
    pub upstream: String,
    /// Where the key is kept when it is not in `.env`.
    pub token_file: Option<PathBuf>,
    /// What stood in the files when they were read.
    pub written: Written,
    /// What the environment says and can't be used, a sentence each.
    pub unusable: Vec<String>,
}

/// What `sandbox.uid_base` may be: above the users of a machine, and with room above it.
const UID_BASES: std::ops::RangeInclusive<u32> = 10_000..=4_000_000_000;

/// `[sandbox] kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SandboxKind {
    /// Docker when it answers and has the image, else `process` for the scripted agent.
    Auto,
    Docker,
    Process,
}

/// What is wrong with the settings, and where.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("reading the settings at {path} failed")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("the settings at {path} can't be understood: {why}")]
    Parse { path: PathBuf, why: String },
    #[error("the settings at {path} can't be used: at line {line}, {name} can't be {value}: {allowed}")]
    Range { path: PathBuf, line: usize, name: String, value: String, allowed: String },
    #[error("the setting {name} can't be {value:?}: {why}")]
    Value { name: &'static str, value: String, why: &'static str },
}

/// The settings as they are written.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Raw {
    assistant_name: Option<String>,
    timezone: Option<String>,
    log_level: Option<String>,
    sandbox: RawSandbox,
    agent: RawAgent,
    limits: RawLimits,
    health: RawHealth,
    outbox: RawOutbox,
    gateway: RawGateway,
    ipc: RawIpc,
    approvals: RawApprovals,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawSandbox {
    kind: Option<SandboxKind>,
    image: Option<String>,
    allow_unsandboxed: bool,
    memory_mib: Option<u64>,
    cpus: Option<f64>,
    pids: Option<u64>,
    output_mib: Option<u64>,
    network: Option<String>,
    egress: Option<String>,
    credentials: Option<String>,
    aws: Option<String>,
    selinux: Option<String>,
    uid_base: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawLimits {
    max_concurrent_containers: Option<i64>,
    max_messages_per_prompt: Option<i64>,
    batch_messages: Option<usize>,
    batch_kib: Option<usize>,
    retry_base_ms: Option<i64>,
    poll_interval_ms: Option<u64>,
    min_free_mib: Option<u64>,
    commands_per_minute: Option<u32>,
    messages_per_minute: Option<u32>,
    commands_mib_per_minute: Option<u32>,
    stored_mib: Option<u64>,
    waiting_mib: Option<u64>,
    waiting_files: Option<usize>,
    tasks: Option<usize>,
    tasks_mib: Option<u64>,
    task_prompt_kib: Option<usize>,
    task_script_kib: Option<usize>,
    replies_mib: Option<u64>,
    archives: Option<usize>,
    archives_mib: Option<u64>,
    keep_days: Option<u32>,
    keep_first_minutes: Option<u32>,
}

impl RawLimits {
    fn tasks(&self) -> TaskLimits {
        let default = TaskLimits::default();
        TaskLimits {
            count: self.tasks.unwrap_or(default.count),
            bytes: self.tasks_mib.map_or(default.bytes, |mib| mib.min(1 << 20) << 20),
            prompt: self.task_prompt_kib.map_or(default.prompt, |kib| kib.min(1 << 20) << 10),
            script: self.task_script_kib.map_or(default.script, |kib| kib.min(1 << 20) << 10),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawHealth {
    startup_ms: Option<u64>,
    ceiling_ms: Option<u64>,
    claim_ms: Option<u64>,
    idle_ms: Option<u64>,
    container_ms: Option<u64>,
    close_grace_ms: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawIpc {
    require_token: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawApprovals {
    deny_ttl_minutes: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawOutbox {
    on_unknown: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawGateway {
    upstream: Option<String>,
    token_file: Option<PathBuf>,
}

/// What the process was started with.
#[derive(Clone, Debug, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// Reads the process's environment, once.
    #[must_use]
    pub fn of_process() -> Self {
        Self(std::env::vars().collect())
    }

    /// Returns a variable that is set and not empty.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }
}

impl Config {
    /// Reads `g2.toml` under `root` (absent: all defaults), lets the environment override it, and checks it.
    ///
    /// # Errors
    /// [`ConfigError`] naming the file, line and setting.
    pub fn load(root: &Path, environment: &Environment) -> Result<Self, ConfigError> {
        let path = root.join("g2.toml");
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(source) => return Err(ConfigError::Read { path, source }),
        };
        if let Some((line, name, value, allowed)) = bad_number(&text) {
            return Err(ConfigError::Range { path, line, name, value, allowed });
        }
        let parse = |why| ConfigError::Parse { path: path.clone(), why };
        let raw: Raw = toml::from_str(&text).map_err(|e| parse(e.to_string()))?;
        let dotenv = dotenv::text(root);
        let mut config = Self::check(raw, environment, &Dotenv::of(&dotenv))?;
        config.written = Written::of(&text, &dotenv).map_err(parse)?;
        // What is relative is so to the root, wherever the daemon was started.
        config.token_file = config.token_file.map(|path| root.join(path));
        Ok(config)
    }

    /// Returns what stands in the files now, once it is sure that it could be used.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn written_now(root: &Path) -> Result<Written, ConfigError> {
        Ok(Self::load(root, &Environment::default())?.written)
    }

    /// Returns the settings of a root without `g2.toml`.
    ///
    /// # Errors
    /// As [`Config::load`], for what the environment says.
    pub fn defaults(environment: &Environment) -> Result<Self, ConfigError> {
        Self::check(Raw::default(), environment, &Dotenv::default())
    }

    fn check(raw: Raw, environment: &Environment, dotenv: &Dotenv) -> Result<Self, ConfigError> {
        let number = |name: &'static str, default: i64| -> i64 {
            environment.get(name).and_then(leading_number).unwrap_or(default)
        };
        let system = system_zone();
        let zone_data = zone_data();
        let zone = zone_data.resolve(&[
            environment.get("TZ"),
            raw.timezone.as_deref(),
            dotenv.tz.as_deref(),
            system.as_deref(),
        ]);
        if let Some(level) = raw.log_level.as_deref().filter(|level| !LEVELS.contains(level)) {
            let why = "use \"fatal\", \"error\", \"warn\", \"info\", \"debug\" or \"trace\"";
            return Err(ConfigError::Value { name: "log_level", value: level.into(), why });
        }
        let millis = |value: i64, or: u64| u64::try_from(value).unwrap_or(or);
        let on_unknown = match raw.outbox.on_unknown.as_deref() {
            None | Some("resend") => crate::domain::rows::UnknownDeliveries::Resend,
            Some("leave") => crate::domain::rows::UnknownDeliveries::Leave,
            Some(other) => {
                return Err(ConfigError::Value {
                    name: "outbox.on_unknown",
                    value: other.into(),
                    why: "use \"resend\" or \"leave\"",
                });
            }
        };
        let sandbox = &raw.sandbox;
        let config = Self {
            provider: raw.agent.provider()?,
            claude: raw.agent.claude.check()?,
            network: word("sandbox.network", sandbox.network.as_deref(), Network::Model, Network::parse)?,
            egress: word("sandbox.egress", sandbox.egress.as_deref(), Egress::None, Egress::parse)?,
            credentials: word(
                "sandbox.credentials",
                sandbox.credentials.as_deref(),
                Credentials::Gateway,
                Credentials::parse,
            )?,
            aws: word("sandbox.aws", sandbox.aws.as_deref(), Aws::Off, Aws::parse)?,
            uid_base: match raw.sandbox.uid_base.unwrap_or(0) {
                0 => None,
                base if UID_BASES.contains(&base) => Some(base),
                base => {
                    return Err(ConfigError::Value {
                        name: "sandbox.uid_base",
                        value: base.to_string(),
                        why: "use a number from 10000 to 4000000000 above which nobody else's users are, or 0",
                    });
                }
            },
            selinux: word("sandbox.selinux", sandbox.selinux.as_deref(), Selinux::Keep, Selinux::parse)?,
            home: environment.get("HOME").map(PathBuf::from).filter(|home| home.is_absolute()),
            assistant_name: environment
                .get("ASSISTANT_NAME")
                .map(str::to_owned)
                .or(raw.assistant_name.filter(|name| !name.is_empty()))
                .unwrap_or_else(|| "G2".into()),
            zones: Zones::new(zone_data, &zone),
            zone,
            sandbox: raw.sandbox.kind.unwrap_or(SandboxKind::Auto),
            image: environment
                .get("CONTAINER_IMAGE")
                .map(str::to_owned)
                .or(raw.sandbox.image)
                .unwrap_or_else(|| "g2-agent:latest".into()),
            docker_host: environment.get("DOCKER_HOST").map(str::to_owned),
            allow_unsandboxed: raw.sandbox.allow_unsandboxed,
            memory_bytes: Some(raw.sandbox.memory_mib.unwrap_or(2048)).filter(|n| *n > 0).map(|n| n << 20),
            cpus: Some(raw.sandbox.cpus.unwrap_or(2.0)).filter(|n| *n > 0.0),
            pids: Some(raw.sandbox.pids.unwrap_or(512)).filter(|n| *n > 0),
            output_bytes: raw.sandbox.output_mib.unwrap_or(256).max(1) << 20,
            command: raw.agent.command,
            script: raw.agent.script.filter(|path| !path.as_os_str().is_empty()),
            max_containers: usize::try_from(number(
                "MAX_CONCURRENT_CONTAINERS",
                raw.limits.max_concurrent_containers.unwrap_or(5),
            ))
            .ok()
            .and_then(NonZeroUsize::new)
            .unwrap_or(NonZeroUsize::MIN),
            max_context: usize::try_from(
                number("MAX_MESSAGES_PER_PROMPT", raw.limits.max_messages_per_prompt.unwrap_or(10)).max(1),
            )
            .unwrap_or(10),
            batch_messages: raw.limits.batch_messages.unwrap_or(200).max(1),
            batch_bytes: raw.limits.batch_kib.unwrap_or(256).max(1) << 10,
            retry_base_ms: raw.limits.retry_base_ms.unwrap_or(5000).clamp(1, 3_600_000),
            scan_every: Duration::from_millis(
                millis(number("POLL_INTERVAL", raw.limits.poll_interval_ms.map_or(2000, |n| n as i64)), 2000)
                    .max(10),
            ),
            startup_ms: raw.health.startup_ms.unwrap_or(180_000),
            ceiling_ms: raw.health.ceiling_ms.unwrap_or(1_800_000),
            claim_ms: raw.health.claim_ms.unwrap_or(60_000),
            idle_ms: millis(
                number("IDLE_TIMEOUT", raw.health.idle_ms.map_or(1_800_000, |n| n as i64)),
                1_800_000,
            ),
            container_ms: millis(
                number("CONTAINER_TIMEOUT", raw.health.container_ms.map_or(1_800_000, |n| n as i64)),
                1_800_000,
            ),
            close_grace_ms: raw.health.close_grace_ms.unwrap_or(30_000),
            commands_per_minute: raw.limits.commands_per_minute.unwrap_or(10_000).max(1),
            messages_per_minute: raw.limits.messages_per_minute.unwrap_or(3_000).max(1),
            command_bytes_per_minute: raw.limits.commands_mib_per_minute.unwrap_or(64).clamp(1, 4_095) << 20,
            stored_bytes: raw.limits.stored_mib.unwrap_or(2_048).clamp(1, 1 << 30) << 20,
            waiting_bytes: raw.limits.waiting_mib.unwrap_or(64).max(1) << 20,
            waiting_files: raw.limits.waiting_files.unwrap_or(100_000).max(1),
            tasks: raw.limits.tasks(),
            replies_bytes: raw.limits.replies_mib.unwrap_or(64).clamp(1, 1 << 20) << 20,
            archives: raw.limits.archives.unwrap_or(1_000).max(1),
            archives_bytes: raw.limits.archives_mib.unwrap_or(256) << 20,
            keep_days: raw.limits.keep_days.unwrap_or(0),
            keep_first: std::time::Duration::from_secs(
                60 * u64::from(raw.limits.keep_first_minutes.unwrap_or(60)),
            ),
            min_free_bytes: raw.limits.min_free_mib.unwrap_or(2048) << 20,
            deny_ttl_ms: i64::from(raw.approvals.deny_ttl_minutes.unwrap_or(0)) * 60_000,
            on_unknown,
            require_token: raw.ipc.require_token,
            log_level: environment
                .get("LOG_LEVEL")
                .map(str::to_owned)
                .or(raw.log_level)
                .unwrap_or_else(|| "info".into()),
            written: Written::default(),
            unusable: unusable(environment),
            upstream: environment
                .get("ANTHROPIC_BASE_URL")
                .map(str::to_owned)
                .or_else(|| dotenv.base_url.clone())
                .or(raw.gateway.upstream)
                .unwrap_or_else(|| "https://api.anthropic.com".into()),
            token_file: raw
                .gateway
                .token_file
                .filter(|path| !path.as_os_str().is_empty())
                .map(|path| at_home(path, environment)),
        };
        config.run_settings().check().map_err(|_| ConfigError::Value {
            name: "sandbox.credentials",
            value: "stdin".into(),
            why: "it needs network = \"open\": with a key of its own the agent goes to the model by itself",
        })?;
        Ok(config)
    }

    /// Returns what holds for every group that wants nothing else.
    #[must_use]
    pub fn run_settings(&self) -> RunSettings {
        RunSettings {
            provider: self.provider,
            image: self.image.clone(),
            model: self.claude.model.clone(),
            network: self.network,
            egress: self.egress,
            credentials: self.credentials,
            memory_bytes: self.memory_bytes,
            cpus: self.cpus,
            pids: self.pids,
            ceiling_ms: self.ceiling_ms.max(self.container_ms),
        }
    }
}

/// What of v1's environment names can't be used as it stands.
fn unusable(environment: &Environment) -> Vec<String> {
    const NUMBERS: [&str; 5] = [
        "MAX_CONCURRENT_CONTAINERS",
        "MAX_MESSAGES_PER_PROMPT",
        "POLL_INTERVAL",
        "IDLE_TIMEOUT",
        "CONTAINER_TIMEOUT",
    ];
    let number = |name: &str| {
        let text = environment.get(name)?;
        let why = match leading_number(text) {
            None => "it is no number, and the setting is used instead".to_owned(),
            Some(value) if value < 0 => "it is below 0".to_owned(),
            Some(value) => out_of_range(name, value)?,
        };
        Some(format!("{name} in the environment can't be {text:?}: {why}"))
    };
    let level = environment.get("LOG_LEVEL").filter(|level| !LEVELS.contains(level));
    let level = level.map(|level| {
        format!("LOG_LEVEL in the environment can't be {level:?}: it is one of {}", LEVELS.join(", "))
    });
    NUMBERS.into_iter().filter_map(number).chain(level).collect()
}

/// Returns the newest zone data at hand: this machine's, or our own.
#[must_use]
pub fn zone_data() -> ZoneData {
    let system = jiff::tz::TimeZoneDatabase::from_dir("/usr/share/zoneinfo").ok();
    ZoneData::newest(system, std::fs::read_to_string("/usr/share/zoneinfo/tzdata.zi").ok().as_deref())
}

/// JavaScript's `parseInt`, as v1 read its numbers: leading digits, the rest ignored.
fn leading_number(text: &str) -> Option<i64> {
    let text = text.trim();
    let digits: String = text
        .char_indices()
        .take_while(|(i, c)| c.is_ascii_digit() || (*i == 0 && *c == '-'))
        .map(|(_, c)| c)
        .collect();
    digits.parse().ok()
}

/// What `.env` says besides secrets, which are never taken up here.
#[derive(Debug, Default)]
struct Dotenv {
    tz: Option<String>,
    base_url: Option<String>,
}

impl Dotenv {
    fn of(text: &str) -> Self {
        Self { tz: dotenv::value(text, "TZ"), base_url: dotenv::value(text, "ANTHROPIC_BASE_URL") }
    }
}

/// Puts the user's home in the place of a leading `~`.
fn at_home(path: PathBuf, environment: &Environment) -> PathBuf {
    match (path.strip_prefix("~"), environment.get("HOME")) {
        (Ok(rest), Some(home)) => Path::new(home).join(rest),
        _ => path,
    }
}

/// The machine's zone, from the link that `/etc/localtime` is.
fn system_zone() -> Option<String> {
    let target = std::fs::canonicalize("/etc/localtime").ok()?;
    let text = target.to_string_lossy().into_owned();
    text.split_once("zoneinfo/").map(|(_, name)| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(&str, &str)], toml_text: &str) -> Result<Config, ConfigError> {
        let environment = Environment(pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect());
        let raw = toml::from_str(toml_text)
            .map_err(|e| ConfigError::Parse { path: "g2.toml".into(), why: e.to_string() })?;
        Config::check(raw, &environment, &Dotenv::default())
    }

    #[test]
    fn the_commented_settings_are_the_defaults() {
        let uncommented: String = DEFAULT_TOML
            .lines()
            .map(|line| line.strip_prefix("# ").filter(|l| l.contains(" = ")).unwrap_or(line))
            .map(|line| format!("{line}\n"))
            .collect();
        let (all, none) = (with(&[], &uncommented).unwrap(), with(&[], "").unwrap());
        assert_eq!(format!("{all:?}"), format!("{none:?}"));
    }

    #[test]
    fn v1s_environment_names_win_over_the_file() {
        let config = with(
            &[("ASSISTANT_NAME", "Andy"), ("MAX_CONCURRENT_CONTAINERS", "0"), ("CONTAINER_IMAGE", "x:1")],
            "assistant_name = \"Bob\"\n[limits]\nmax_concurrent_containers = 9\n",
        )
        .unwrap();
        assert_eq!(
            (config.assistant_name.as_str(), config.max_containers.get(), config.image.as_str()),
            ("Andy", 1, "x:1")
        );
    }

    #[test]
    fn the_models_host_is_v1s_variable_before_the_setting() {
        let toml = "[gateway]\nupstream = \"https://c\"\ntoken_file = \"~/.claude/.credentials.json\"\n";
        let config = with(&[("HOME", "/home/u")], toml).unwrap();
        assert_eq!(config.upstream, "https://c");
        assert_eq!(config.token_file.as_deref(), Some(Path::new("/home/u/.claude/.credentials.json")));
        assert_eq!(with(&[("ANTHROPIC_BASE_URL", "https://a")], toml).unwrap().upstream, "https://a");
        let raw = toml::from_str(toml).unwrap();
        let dotenv = Dotenv::of("ANTHROPIC_BASE_URL=https://b\nANTHROPIC_API_KEY=sk-secret\n");
        let config = Config::check(raw, &Environment::default(), &dotenv).unwrap();
        assert_eq!(config.upstream, "https://b");
        assert!(!format!("{config:?} {dotenv:?}").contains("sk-secret"));
    }

    #[test]
    fn an_unknown_setting_is_refused_by_name() {
        let error = with(&[], "[limits]\nmax_containers = 3\n").unwrap_err().to_string();
        assert!(error.contains("max_containers"), "{error}");
    }
}
