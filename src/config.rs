//! Settings: read from `g2.toml` and v1's environment names, and checked. A daemon reads the files again when they change
//! ([`Live`]), and the environment never. Every setting is declared in `config/settings.rs`, once.
#![expect(clippy::disallowed_methods, reason = "this file is the door to g2.toml")]

use std::path::{Path, PathBuf};

use crate::domain::{
    heard::chat_commands::Words,
    platforms::accounts::Account,
    runs::run_settings::{IMAGE_NAMES, RunSettings, may_be_an_image},
    shown::screen,
    time::zone::{ZoneChoice, Zones},
};

pub mod adapters;
mod channels;
mod declare;
pub mod dotenv;
pub mod edit;
mod environment;
mod layers;
mod live;
mod proxy;
mod secrets;
mod sections;
mod settings;
mod shown;
mod standing;
mod units;
mod web;
mod written;
mod zones;

pub use channels::{NoSecret, OWN_ADAPTERS, WHATSAPP, account_in, with_secrets};
pub use declare::{Takes, default_toml, names, takes};
pub use environment::Environment;
use environment::{OVER, Overs, Place, at_home, put_over, unusable};
pub use live::{Live, Taken};
pub use proxy::Proxy;
pub use secrets::{InTheOpen, hide_secrets, secrets_in, secrets_of, without_secrets};
pub use sections::{Budgets, SandboxKind};
pub use settings::{
    Agent, Approvals, Backup, ClaudeSettings, Egress, Gateway, Health, Housekeeping, Ipc, Limits, Media,
    Notify, Outbox, Sandbox, Web,
};
pub use shown::{Setting, Source, settings};
pub use standing::Standing;
pub use written::Written;
pub use zones::ZoneSource;

/// The settings, checked.
#[derive(Clone, Debug)]
pub struct Config {
    pub assistant_name: String,
    /// The zone's name and how it was found.
    pub zone: ZoneChoice,
    /// The same, and the zones of groups that have their own.
    pub zones: Zones,
    /// Where both come from.
    pub zone_source: ZoneSource,
    pub log_level: String,
    pub sandbox: Sandbox,
    pub egress: Egress,
    pub agent: Agent,
    pub budget: Budgets,
    pub limits: Limits,
    pub housekeeping: Housekeeping,
    pub health: Health,
    pub approvals: Approvals,
    pub words: Words,
    pub notify: Notify,
    pub backup: Backup,
    pub outbox: Outbox,
    pub gateway: Gateway,
    pub ipc: Ipc,
    pub media: Media,
    pub web: Web,
    /// The way to hosts outside, if that is not direct.
    pub proxy: Option<Proxy>,
    /// The accounts on chat platforms.
    pub channels: Vec<Account>,
    /// The user's own folder: where `~` leads to, and where the mount allowlist and `.aws` are.
    pub home: Option<PathBuf>,
    pub docker_host: Option<String>,
    /// What stood in the files when they were read.
    pub written: Written,
    /// Names of the environment that win over the files.
    over: Vec<&'static str>,
    /// What the environment says and can't be used, a sentence each.
    pub unusable: Vec<String>,
}

/// A fault of the settings, and its place.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("reading the settings at {path} failed")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("the settings at {path} can't be understood: {why}")]
    Parse { path: PathBuf, why: String },
    #[error("the settings at {path} can't be used: at line {line}, {name} can't be {value}: {allowed}")]
    Range { path: PathBuf, line: usize, name: String, value: String, allowed: String },
    #[error("the settings of [channels.{name}] can't be used: {why}")]
    Channel { name: String, why: String },
    #[error("the setting {name} can't be {value:?}: {why}")]
    Value { name: &'static str, value: String, why: &'static str },
}

impl Config {
    /// Reads `g2.toml` under `root` (absent: all defaults), lets the environment override it, and checks it.
    ///
    /// # Errors
    /// [`ConfigError`] naming the file, line and setting.
    pub fn load(root: &Path, environment: &Environment) -> Result<Self, ConfigError> {
        let path = root.join("g2.toml");
        Ok(Self::of(&path, &text(&path)?, environment, &dotenv::text(root))?.at(root))
    }

    /// A relative path is relative to the root, wherever the daemon was started.
    fn at(mut self, root: &Path) -> Self {
        self.gateway.token_file = self.gateway.token_file.map(|path| root.join(path));
        self
    }

    /// Returns what a `g2.toml` of this text says, once it is sure that it could be used.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn check(root: &Path, text: &str) -> Result<Self, ConfigError> {
        Self::of(Path::new("g2.toml"), text, &Environment::default(), &dotenv::text(root))
    }

    /// Returns the settings of a root without `g2.toml`.
    ///
    /// # Errors
    /// As [`Config::load`], for what the environment says.
    pub fn defaults(environment: &Environment) -> Result<Self, ConfigError> {
        Self::of(Path::new("g2.toml"), "", environment, "")
    }

    fn of(path: &Path, text: &str, environment: &Environment, dotenv: &str) -> Result<Self, ConfigError> {
        Self::with(path, text, environment, dotenv::Said::of(dotenv))
    }

    fn with(
        path: &Path,
        text: &str,
        environment: &Environment,
        dotenv: dotenv::Said,
    ) -> Result<Self, ConfigError> {
        let mut file = layers::read(path, text)?;
        let zone_in_dotenv = dotenv.get("TZ").map(str::to_owned);
        let in_dotenv = dotenv.clone();
        let overs = Overs { environment, dotenv: &in_dotenv };
        let written = Written::of(text, dotenv)
            .map_err(|error| ConfigError::Parse { path: path.to_owned(), why: error.to_string() })?;
        if file.assistant_name.is_empty() {
            file.assistant_name = layers::read(path, "")?.assistant_name;
        }
        put_over(&mut file, overs);
        file.gateway.token_file = file.gateway.token_file.map(|path| at_home(path, environment));
        file.backup.to = file.backup.to.map(|path| at_home(path, environment));
        let zone_source = ZoneSource::new(environment, &file.timezone, zone_in_dotenv);
        let zone_data = zone_source.data();
        let zone = zone_source.zone(&zone_data);
        // A zone that is none wins over nothing.
        let is_taken = |variable: &str| {
            let over = overs.over(variable).filter(|(_, place)| *place == Place::Environment);
            over.is_some_and(|(over, _)| {
                variable != "TZ" || zone.rejected.iter().all(|(name, _)| *name != over)
            })
        };
        let over =
            OVER.into_iter().map(|(variable, _)| variable).filter(|variable| is_taken(variable)).collect();
        let mut unusable = unusable(overs);
        let proxy = match Proxy::parse(&file.network.proxy, &file.network.no_proxy) {
            Ok(proxy) => proxy,
            Err(why) => match overs.over("HTTPS_PROXY") {
                Some((_, place)) => {
                    unusable.push(format!("HTTPS_PROXY {place} can't be used, so no proxy is: {why}"));
                    None
                }
                None => {
                    let value = screen::address(&file.network.proxy);
                    return Err(ConfigError::Value { name: "network.proxy", value, why });
                }
            },
        };
        let config = Self {
            assistant_name: file.assistant_name,
            zones: Zones::new(zone_data, &zone),
            zone,
            zone_source,
            log_level: file.log_level,
            sandbox: file.sandbox,
            egress: file.egress,
            agent: file.agent,
            budget: file.budget,
            limits: file.limits,
            housekeeping: file.housekeeping,
            health: file.health,
            approvals: file.approvals,
            words: file.words.into(),
            notify: file.notify,
            backup: file.backup,
            outbox: file.outbox,
            gateway: file.gateway,
            ipc: file.ipc,
            media: file.media,
            web: file.web.checked()?,
            proxy,
            channels: channels::accounts(file.channels)?,
            home: environment.get("HOME").map(PathBuf::from).filter(|home| home.is_absolute()),
            docker_host: environment.get("DOCKER_HOST").map(str::to_owned),
            written,
            over,
            unusable,
        };
        if !may_be_an_image(&config.sandbox.image) {
            return Err(ConfigError::Value {
                name: "sandbox.image",
                value: config.sandbox.image,
                why: IMAGE_NAMES,
            });
        }
        config.run_settings().check().map_err(|_| ConfigError::Value {
            name: "sandbox.credentials",
            value: "stdin".into(),
            why: "it needs network = \"open\": with a key of its own the agent goes to the model by itself",
        })?;
        Ok(config)
    }

    /// Returns what wins over a setting in `g2.toml`, if anything does: a variable, and where it stands.
    #[must_use]
    pub fn wins_over(&self, root: &Path, setting: &str) -> Option<String> {
        let (variable, _) = OVER.into_iter().find(|(_, name)| *name == setting)?;
        if self.over.contains(&variable) {
            return Some(format!("{variable} in the environment"));
        }
        let dotenv = dotenv::Said::of(&dotenv::text(root));
        let overs = Overs { environment: &Environment::default(), dotenv: &dotenv };
        let in_dotenv = variable != "TZ" && overs.over(variable).is_some();
        in_dotenv.then(|| format!("{variable} in .env"))
    }

    /// Returns what holds for every group that wants nothing else.
    #[must_use]
    pub fn run_settings(&self) -> RunSettings {
        RunSettings {
            provider: self.agent.provider,
            image: self.sandbox.image.clone(),
            model: self.agent.claude.model.clone(),
            network: self.sandbox.network,
            egress: self.sandbox.egress,
            credentials: self.sandbox.credentials,
            memory_bytes: self.sandbox.memory_bytes,
            cpus: self.sandbox.cpus,
            pids: self.sandbox.pids,
            ceiling_ms: self.health.ceiling_ms.max(self.health.container_ms),
        }
    }
}

/// Reads a `g2.toml`; where there is none all settings are at their defaults.
fn text(path: &Path) -> Result<String, ConfigError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(source) => Err(ConfigError::Read { path: path.to_owned(), source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(&str, &str)], toml: &str) -> Result<Config, ConfigError> {
        Config::of(Path::new("g2.toml"), toml, &Environment::with(pairs), "")
    }

    #[test]
    fn v1s_environment_names_win_over_the_file() {
        let config = with(
            &[("ASSISTANT_NAME", "Andy"), ("MAX_CONCURRENT_CONTAINERS", "0"), ("CONTAINER_IMAGE", "x:1")],
            "assistant_name = \"Bob\"\n[limits]\nmax_concurrent_containers = 9\n",
        )
        .unwrap();
        assert_eq!(
            (
                config.assistant_name.as_str(),
                config.limits.max_containers.get(),
                config.sandbox.image.as_str()
            ),
            ("Andy", 1, "x:1")
        );
    }

    #[test]
    fn v1s_names_in_dotenv_win_over_the_file_and_the_environment_over_them() {
        let toml = "assistant_name = \"Bob\"\ntimezone = \"Asia/Tokyo\"\n[health]\nidle_ms = 7\n";
        let dotenv = "\u{feff}ASSISTANT_NAME=\"Andy\" # ours\nIDLE_TIMEOUT=60000\nLOG_LEVEL=loud\nTZ=UTC\nCONTAINER_IMAGE=a b\n";
        let of = |pairs: &[(&str, &str)]| {
            Config::of(Path::new("g2.toml"), toml, &Environment::with(pairs), dotenv).unwrap()
        };
        let config = of(&[]);
        assert_eq!((config.assistant_name.as_str(), config.health.idle_ms), ("Andy", 60_000));
        assert_eq!(
            (config.zone.name.as_str(), config.sandbox.image.as_str()),
            ("Asia/Tokyo", "g2-agent:latest")
        );
        assert_eq!(config.unusable.len(), 2);
        assert!(config.unusable[0].starts_with("LOG_LEVEL in .env"), "{:?}", config.unusable);
        assert!(config.unusable[1].starts_with("CONTAINER_IMAGE in .env"), "{:?}", config.unusable);
        let config = of(&[("ASSISTANT_NAME", "Carl"), ("LOG_LEVEL", "warn")]);
        assert_eq!((config.assistant_name.as_str(), config.log_level.as_str()), ("Carl", "warn"));
    }

    #[test]
    fn the_models_host_is_v1s_variable_before_the_setting() {
        let toml = "[backup]\nto = \"~/backups\"\n[gateway]\nupstream = \"https://c\"\ntoken_file = \"~/.claude/.credentials.json\"\n";
        let config = with(&[("HOME", "/home/u")], toml).unwrap();
        assert_eq!(config.backup.to.as_deref(), Some(Path::new("/home/u/backups")));
        assert_eq!(config.gateway.upstream, "https://c");
        assert_eq!(
            config.gateway.token_file.as_deref(),
            Some(Path::new("/home/u/.claude/.credentials.json"))
        );
        assert_eq!(with(&[("ANTHROPIC_BASE_URL", "https://a")], toml).unwrap().gateway.upstream, "https://a");
        let dotenv = "ANTHROPIC_BASE_URL=https://b\nANTHROPIC_API_KEY=sk-secret\n";
        let config = Config::of(Path::new("g2.toml"), toml, &Environment::default(), dotenv).unwrap();
        assert_eq!(config.gateway.upstream, "https://b");
        assert!(!format!("{config:?}").contains("sk-secret"));
    }

    #[test]
    fn a_name_that_no_image_can_have_is_refused_in_the_file_and_told_of_the_environment() {
        for name in ["a b", "x;y", "-v", "x\ny", "ä"] {
            let error = with(&[], &format!("[sandbox]\nimage = {name:?}\n")).unwrap_err().to_string();
            assert!(error.contains("sandbox.image") && error.contains("g2-agent:latest"), "{error}");
            let config = with(&[("CONTAINER_IMAGE", name)], "").unwrap();
            assert_eq!(config.sandbox.image, "g2-agent:latest");
            assert!(config.unusable[0].starts_with("CONTAINER_IMAGE"), "{:?}", config.unusable);
        }
        for name in ["x", "ghcr.io:443/a/b_c:1.0-x", "x@sha256:0a", "[fd00::1]:5000/x"] {
            assert_eq!(with(&[("CONTAINER_IMAGE", name)], "").unwrap().sandbox.image, name);
        }
    }

    #[test]
    fn the_ceiling_holds_by_itself_and_v1s_longer_limit_in_its_place() {
        let ceiling =
            |pairs: &[(&str, &str)], toml: &str| with(pairs, toml).unwrap().run_settings().ceiling_ms;
        assert_eq!(ceiling(&[], ""), 1_800_000);
        assert_eq!(ceiling(&[], "[health]\nceiling_ms = 60000\n"), 60_000);
        assert_eq!(ceiling(&[], "[health]\nceiling_ms = 7200000\n"), 7_200_000);
        assert_eq!(ceiling(&[("CONTAINER_TIMEOUT", "7200000")], ""), 7_200_000);
        assert_eq!(ceiling(&[("CONTAINER_TIMEOUT", "60000")], ""), 1_800_000);
        assert_eq!(ceiling(&[("CONTAINER_TIMEOUT", "60000")], "[health]\nceiling_ms = 1000\n"), 60_000);
    }

    #[test]
    fn a_proxy_is_that_of_the_environment_before_the_setting_and_a_broken_one_is_told() {
        let toml = "[network]\nproxy = \"http://ada:hush@p.example:1\"\nno_proxy = \"lan\"\n";
        let place = |config: &Config| config.proxy.as_ref().map(ToString::to_string);
        let config = with(&[], toml).unwrap();
        assert_eq!(place(&config).as_deref(), Some("p.example:1"));
        assert!(!config.proxy.as_ref().unwrap().is_for("x.lan", 443));
        assert!(!format!("{config:?}").contains("hush"), "{config:?}");
        for name in ["HTTPS_PROXY", "https_proxy"] {
            assert_eq!(place(&with(&[(name, "q:2")], toml).unwrap()).as_deref(), Some("q:2"), "{name}");
        }
        let config = with(&[("HTTPS_PROXY", "socks5://ada:hush@q:2")], toml).unwrap();
        assert!(config.proxy.is_none() && config.unusable[0].starts_with("HTTPS_PROXY in the environment"));
        assert!(!config.unusable[0].contains("hush"), "{:?}", config.unusable);
        let error = with(&[], "[network]\nproxy = \"socks5://ada:hush@q:2\"\n").unwrap_err().to_string();
        assert!(error.contains("network.proxy") && !error.contains("hush"), "{error}");
    }

    #[test]
    fn only_what_can_be_used_in_dotenv_wins_over_a_setting() {
        let root = tempfile::tempdir().unwrap();
        let wins = |dotenv: &str, setting: &str| {
            std::fs::write(root.path().join(".env"), dotenv).unwrap();
            Config::load(root.path(), &Environment::default()).unwrap().wins_over(root.path(), setting)
        };
        let most = "limits.max_concurrent_containers";
        assert_eq!(wins("MAX_CONCURRENT_CONTAINERS=many\n", most), None);
        assert_eq!(
            wins("MAX_CONCURRENT_CONTAINERS=3\n", most).as_deref(),
            Some("MAX_CONCURRENT_CONTAINERS in .env")
        );
        assert_eq!(wins("CONTAINER_IMAGE=a b\n", "sandbox.image"), None);
        assert_eq!(wins("POLL_INTERVAL=-1\n", "limits.poll_interval_ms"), None);
        assert_eq!(wins("TZ=UTC\n", "timezone"), None);
    }

    #[test]
    fn an_unknown_setting_is_refused_by_name() {
        let error = with(&[], "[limits]\nmax_containers = 3\n").unwrap_err().to_string();
        assert!(error.contains("max_containers"), "{error}");
    }
}
