//! The settings of one group on top of those of all groups: `groups.config`, a JSON object.
//!
//! `timeout` and `additionalMounts` are v1's `containerConfig`, taken as they are.

use ipc_handlers::words;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    budget::{Part, Wish},
    mounts::MountRequest,
    run_settings::{Credentials, Egress, Network, NoSuchValue, one_of},
    tool_servers::{self, Fault, Servers},
};
use crate::heard::{bots::Bots, chat_commands::Commands};

/// The shortest and the longest `timeout`, ms: a second and a week.
const TIMEOUT_MS: std::ops::RangeInclusive<u64> = 1000..=604_800_000;
/// The least memory in which an agent starts, MiB.
const LEAST_MEMORY_MIB: u64 = 6;
/// So much is surely a slip: 16 TiB.
const MOST_MEMORY_MIB: u64 = 16 << 20;
/// The most extra mounts of one group.
const MOST_MOUNTS: usize = 64;

/// The longest name of a model, bytes.
const LONGEST_MODEL: usize = 256;
/// The longest emoji, characters.
const MOST_SIGN: usize = 16;

/// The settings that are a group's own. Fields that are left out have the values of all groups.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GroupConfig {
    /// Time that a run may give no sign of life, ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
    /// Folders of the host that its containers ask for, within the mount allowlist.
    #[serde(rename = "additionalMounts", alias = "mounts", skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<MountRequest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The model that is asked while its own is at a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_fallback: Option<String>,
    /// 0: no bound, as in the next two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pids: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress: Option<Egress>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials: Option<Credentials>,
    /// What of an answer is said before it is whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub say: Option<Say>,
    /// The reaction to a message that the agent has in hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen: Option<String>,
    /// Whether other bots are heard.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bots: Option<Bots>,
    /// Who may give commands in its chats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commands: Option<Commands>,
    /// What it may use in a day.
    #[serde(skip_serializing_if = "Wish::is_empty")]
    pub budget: Wish,
    /// An IANA name. The caller with the zone data checks that the zone exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// Tool servers that its agent has besides our own tools.
    #[serde(skip_serializing_if = "Servers::is_empty")]
    pub mcp: Servers,
}

words! {
    /// What of an answer is said before it is whole.
    #[derive(Default)]
    pub enum Say: "way to say it" {
        /// Nothing.
        #[default]
        Final = "final",
        /// Texts between tools, and the beginning of a text on platforms that can change it.
        Stream = "stream",
    }
}

/// v1's `containerConfig`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ContainerConfig {
    timeout: Option<u64>,
    #[serde(rename = "additionalMounts")]
    mounts: Option<Vec<MountRequest>>,
}

/// A fault of a group's own settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadGroupConfig {
    #[error("a group has no setting {0:?}")]
    UnknownKey(String),
    #[error("{key} can't be {value:?}: {why}")]
    Value { key: &'static str, value: String, why: String },
    #[error("mcp{}{} can't be set: {}", if .0.server.is_empty() { "" } else { "." }, .0.server, .0.why)]
    Server(Fault),
    #[error("the group's settings can't be understood: {0}")]
    Json(String),
}

words! {
    /// A setting of a group: a column of its own, or what its `config` holds.
    #[derive(JsonSchema)]
    pub enum Key: "group setting" {
        Name = "name",
        Trigger = "trigger",
        Provider = "provider",
        Script = "script",
        Image = "image",
        Model = "model",
        ModelFallback = "model_fallback",
        Timeout = "timeout",
        MemoryMib = "memory_mib",
        Cpus = "cpus",
        Pids = "pids",
        Network = "network",
        Egress = "egress",
        Credentials = "credentials",
        Timezone = "timezone",
        Say = "say",
        Seen = "seen",
        Bots = "bots",
        Commands = "commands",
        BudgetRequests = "budget.requests",
        BudgetTokens = "budget.tokens",
        BudgetMoney = "budget.money",
        BudgetMinutes = "budget.minutes",
        Mounts = "mounts",
        Mcp = "mcp",
    }
}

impl BadGroupConfig {
    /// Returns how to mend it; empty: its words say all.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::UnknownKey(_) => {
                let known: Vec<&str> = Key::CHOICES.iter().map(|(word, _)| *word).collect();
                format!("there are {}", known.join(", "))
            }
            Self::Value { .. } | Self::Server(_) | Self::Json(_) => String::new(),
        }
    }
}

impl Key {
    /// Returns the setting of this name.
    ///
    /// # Errors
    /// [`BadGroupConfig::UnknownKey`]
    pub fn parse(name: &str) -> Result<Self, BadGroupConfig> {
        Self::from_name(name).ok_or_else(|| BadGroupConfig::UnknownKey(name.to_owned()))
    }
}

impl GroupConfig {
    /// Reads and checks a `containerConfig` or a stored config.
    ///
    /// # Errors
    /// [`BadGroupConfig`]
    pub fn from_json(text: &str) -> Result<Self, BadGroupConfig> {
        let config: Self = serde_json::from_str(text).map_err(|e| BadGroupConfig::Json(e.to_string()))?;
        config.check()
    }

    /// Returns this with what an agent may choose for a group it registers: v1's `timeout` and `additionalMounts`. What it
    /// leaves out stays; the network, the key and the bounds are their owner's to give.
    ///
    /// # Errors
    /// [`BadGroupConfig`]
    pub fn with_container_config(self, json: &str) -> Result<Self, BadGroupConfig> {
        let asked: ContainerConfig =
            serde_json::from_str(json).map_err(|e| BadGroupConfig::Json(e.to_string()))?;
        let mounts = asked.mounts.unwrap_or(self.mounts);
        Self { timeout: asked.timeout.or(self.timeout), mounts, ..self }.check()
    }

    /// Returns this with one setting changed; an empty value restores the default of all groups. Columns of the group are not
    /// held here, and change nothing.
    ///
    /// # Errors
    /// [`BadGroupConfig`] when the value can't be one.
    pub fn with(mut self, key: Key, value: &str) -> Result<Self, BadGroupConfig> {
        let bad = |why: String| BadGroupConfig::Value { key: key.as_str(), value: value.to_owned(), why };
        let no_such = |why: NoSuchValue| bad(why.to_string());
        let text = Some(value).filter(|value| !value.is_empty());
        let number = || text.map(str::parse).transpose().map_err(|_| bad("use a whole number".into()));
        let fraction = |such: &str| {
            text.map(str::parse).transpose().map_err(|_| bad(format!("use a number such as {such}")))
        };
        match key {
            Key::Name | Key::Trigger | Key::Provider | Key::Script | Key::Image => {}
            Key::Model => self.model = text.map(str::to_owned),
            Key::ModelFallback => self.model_fallback = text.map(str::to_owned),
            Key::Timeout => self.timeout = number()?,
            Key::MemoryMib => self.memory_mib = number()?,
            Key::Pids => self.pids = number()?,
            Key::Cpus => self.cpus = fraction("1.5")?,
            Key::Network => self.network = text.map(one_of).transpose().map_err(no_such)?,
            Key::Egress => self.egress = text.map(one_of).transpose().map_err(no_such)?,
            Key::Credentials => self.credentials = text.map(one_of).transpose().map_err(no_such)?,
            Key::Timezone => self.timezone = text.map(str::to_owned),
            Key::Say => {
                let known = |word| Say::from_name(word).ok_or_else(|| bad("use final or stream".into()));
                self.say = text.map(known).transpose()?;
            }
            Key::Seen => self.seen = text.map(str::to_owned),
            Key::Bots => {
                let known = |word| Bots::from_name(word).ok_or_else(|| bad("use ignored or heard".into()));
                self.bots = text.map(known).transpose()?;
            }
            Key::Commands => {
                let known =
                    |word| Commands::from_name(word).ok_or_else(|| bad("use owners or members".into()));
                self.commands = text.map(known).transpose()?;
            }
            Key::BudgetRequests => self.budget.requests = number()?,
            Key::BudgetTokens => self.budget.tokens = number()?,
            Key::BudgetMinutes => self.budget.minutes = number()?,
            Key::BudgetMoney => self.budget.money = fraction("2.50")?,
            Key::Mounts => {
                let form = r#"[{"hostPath": "~/photos", "containerPath": "photos", "readonly": true}]"#;
                let list = text.map_or_else(|| Ok(Vec::new()), serde_json::from_str);
                self.mounts = list.map_err(|e| bad(format!("{e}; write a list such as {form}")))?;
            }
            // What was said is not repeated: a value may be a secret.
            Key::Mcp => self.mcp = tool_servers::changed(self.mcp, value).map_err(BadGroupConfig::Server)?,
        }
        self.check()
    }

    fn check(self) -> Result<Self, BadGroupConfig> {
        let bad = |key, value: String, why: String| Err(BadGroupConfig::Value { key, value, why });
        if let Some(ms) = self.timeout.filter(|ms| !TIMEOUT_MS.contains(ms)) {
            let why = format!("use {} to {} (ms)", TIMEOUT_MS.start(), TIMEOUT_MS.end());
            return bad("timeout", ms.to_string(), why);
        }
        let sane = |mib: &u64| *mib == 0 || (LEAST_MEMORY_MIB..=MOST_MEMORY_MIB).contains(mib);
        if let Some(mib) = self.memory_mib.filter(|mib| !sane(mib)) {
            let why = format!("use {LEAST_MEMORY_MIB} to {MOST_MEMORY_MIB} (MiB), or 0 for no bound");
            return bad("memory_mib", mib.to_string(), why);
        }
        if let Some(cpus) = self.cpus.filter(|cpus| *cpus != 0.0 && !(0.01..=1024.0).contains(cpus)) {
            return bad("cpus", cpus.to_string(), "use 0.01 to 1024, or 0 for no bound".into());
        }
        if let Some(pids) = self.pids.filter(|pids| *pids != 0 && !(8..=4_194_304).contains(pids)) {
            return bad("pids", pids.to_string(), "use 8 to 4194304, or 0 for no bound".into());
        }
        for (key, model) in [("model", &self.model), ("model_fallback", &self.model_fallback)] {
            if let Some(model) =
                model.as_ref().filter(|name| name.chars().any(|c| c.is_control() || c == ' '))
            {
                return bad(key, model.clone(), "a model's name has no blanks".into());
            }
            if let Some(model) = model.as_ref().filter(|name| name.len() > LONGEST_MODEL) {
                return bad(key, model.clone(), format!("a model's name has at most {LONGEST_MODEL} bytes"));
            }
        }
        if let Some(model) = self.model_fallback.as_ref().filter(|model| self.model.as_ref() == Some(model)) {
            return bad("model_fallback", model.clone(), "it is the group's own model".into());
        }
        let is_sign = |sign: &String| {
            (1..=MOST_SIGN).contains(&sign.chars().count())
                && !sign.chars().any(|c| c.is_ascii() || c.is_control() || c.is_whitespace())
        };
        if let Some(sign) = self.seen.as_ref().filter(|sign| !is_sign(sign)) {
            return bad("seen", sign.clone(), "use one emoji, such as 👀".into());
        }
        if let Some((part, why)) = self.budget.fault() {
            let (key, value) = match part {
                Part::Requests => ("budget.requests", self.budget.requests.map(|n| n.to_string())),
                Part::Tokens => ("budget.tokens", self.budget.tokens.map(|n| n.to_string())),
                Part::Money => ("budget.money", self.budget.money.map(|n| n.to_string())),
                Part::Minutes => ("budget.minutes", self.budget.minutes.map(|n| n.to_string())),
            };
            return bad(key, value.unwrap_or_default(), why);
        }
        if self.mounts.len() > MOST_MOUNTS {
            return bad("mounts", format!("{} mounts", self.mounts.len()), format!("at most {MOST_MOUNTS}"));
        }
        tool_servers::check(&self.mcp).map_err(BadGroupConfig::Server)?;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v1_s_container_config_is_taken_as_it_is() {
        let text = r#"{"timeout": 600000, "additionalMounts": [{"hostPath": "~/x"}, {"hostPath": "/y", "containerPath": "z", "readonly": false}]}"#;
        let config = GroupConfig::from_json(text).unwrap();
        assert_eq!((config.timeout, config.mounts.len()), (Some(600_000), 2));
        assert_eq!(config.mounts[1].container_path.as_deref(), Some("z"));
        let again = serde_json::to_string(&config).unwrap();
        assert_eq!(GroupConfig::from_json(&again).unwrap(), config);
        assert_eq!(serde_json::to_string(&GroupConfig::default()).unwrap(), "{}");
    }

    #[test]
    fn an_agent_chooses_v1_s_two_settings_and_no_other() {
        let own = GroupConfig { network: Some(Network::Open), timeout: Some(5000), ..GroupConfig::default() };
        let config =
            own.clone().with_container_config(r#"{"additionalMounts": [{"hostPath": "/x"}]}"#).unwrap();
        assert_eq!(
            (config.network, config.timeout, config.mounts.len()),
            (Some(Network::Open), Some(5000), 1)
        );
        for json in [
            r#"{"network": "open"}"#,
            r#"{"egress": "model_fetch"}"#,
            r#"{"credentials": "stdin"}"#,
            r#"{"timeout": 1}"#,
            r#"{"pids": 0}"#,
            r#"{"mcp": {"a": {"type": "stdio", "command": "x"}}}"#,
        ] {
            assert!(own.clone().with_container_config(json).is_err(), "{json}");
        }
    }

    #[test]
    fn each_key_can_be_set_and_cleared() {
        for (key, value) in [
            ("model", "claude-x"),
            ("model_fallback", "claude-small"),
            ("timeout", "60000"),
            ("memory_mib", "512"),
            ("cpus", "0.5"),
            ("pids", "64"),
            ("network", "open"),
            ("egress", "model_fetch"),
            ("credentials", "stdin"),
            ("timezone", "Asia/Tokyo"),
            ("say", "stream"),
            ("seen", "👀"),
            ("bots", "heard"),
            ("commands", "members"),
            ("budget.requests", "500"),
            ("budget.tokens", "0"),
            ("budget.money", "2.5"),
            ("budget.minutes", "90"),
            ("mounts", r#"[{"hostPath": "/x"}]"#),
            ("mcp", "weather: python3 weather.py"),
        ] {
            let key = Key::parse(key).unwrap();
            let set = GroupConfig::default().with(key, value).unwrap();
            assert_ne!(set, GroupConfig::default(), "{key}");
            assert_eq!(set.with(key, "").unwrap(), GroupConfig::default(), "{key}");
        }
    }

    #[test]
    fn what_can_t_be_is_refused_with_what_could() {
        for (key, value, words) in [
            ("timeout", "1", "604800000"),
            ("timeout", "99999999999999999999", "whole number"),
            ("memory_mib", "-1", "whole number"),
            ("memory_mib", "1", "6"),
            ("cpus", "NaN", "0.01"),
            ("cpus", "inf", "0.01"),
            ("pids", "1", "8"),
            ("network", "closed", "allowlist"),
            ("credentials", "env", "gateway"),
            ("egress", "all", "model_fetch"),
            ("model", "a b", "blanks"),
            ("model_fallback", "a b", "blanks"),
            ("model_fallback", &"x".repeat(257), "256 bytes"),
            ("mounts", "{}", "hostPath"),
            ("say", "all", "stream"),
            ("seen", "seen", "emoji"),
            ("bots", "on", "heard"),
            ("commands", "all", "owners or members"),
            ("budget.requests", "many", "whole number"),
            ("budget.money", "-1", "2.50"),
            ("budget.money", "NaN", "2.50"),
            ("budget.minutes", "1441", "1440"),
            ("budget", "5", "budget.requests"),
            ("colour", "red", "timezone"),
        ] {
            let error = Key::parse(key).and_then(|key| GroupConfig::default().with(key, value)).unwrap_err();
            let told = format!("{error} {}", error.hint());
            assert!(told.contains(words), "{key}={value}: {told}");
        }
        assert!(GroupConfig::from_json(r#"{"timeout": 1}"#).is_err());
        assert!(GroupConfig::from_json(r#"{"colour": "red"}"#).unwrap_err().to_string().contains("colour"));
    }
}
