//! How a run is launched: what the settings say, with what its group wants otherwise.

use ipc_handlers::{words, words::Word};

use super::group_config::{BadGroupConfig, GroupConfig};
use crate::rows::Group;

words! {
    /// Which provider drives the agent.
    pub enum Provider: "provider" {
        Scripted = "scripted",
        Claude = "claude",
        /// Any agent that speaks the Agent Client Protocol.
        Acp = "acp",
    }
}

/// The names that an image can have, in words.
pub const IMAGE_NAMES: &str = "use the name of an image, such as g2-agent:latest";

/// Whether a text has no letter that a name of an image can't have, by Docker's rules. An empty text passes: that an image is missing
/// is told where one is needed.
#[must_use]
pub fn may_be_an_image(name: &str) -> bool {
    !name.starts_with('-') && name.chars().all(|c| c.is_ascii_alphanumeric() || "._-+/:@[]".contains(c))
}

words! {
    /// What a container can reach.
    pub enum Network: "network" {
        /// Nothing but its model, over a socket file.
        Model = "model",
        /// Its model, and hosts outside that the owner allows, over socket files.
        Allowlist = "allowlist",
        /// Whatever the machine reaches.
        Open = "open",
    }
}

words! {
    /// What the model's host may be asked to reach for a container that has no network.
    pub enum Egress: "egress by the model" {
        /// Nothing: the model answers from what it is told.
        None = "none",
        /// What it can: pages, searches, servers of tools. Whatever the container knows can go out in such an address.
        ModelFetch = "model_fetch",
    }
}

words! {
    /// How an agent's requests come to carry a key.
    pub enum Credentials: "credentials" {
        /// The host puts it on; the container has a placeholder.
        Gateway = "gateway",
        /// The container is given it on stdin, as v1 did.
        Stdin = "stdin",
    }
}

words! {
    /// Whose containers see `~/.aws`.
    pub enum Aws: "use of ~/.aws" {
        Off = "off",
        Main = "main",
        All = "all",
    }
}

words! {
    /// How mounts are labelled for SELinux, in the words of the engine's `-v`.
    pub enum Selinux: "SELinux label" {
        Keep = "",
        Shared = "z",
        Private = "Z",
        Off = "disable",
    }
}

/// A value that is none of those that a setting has: what would be one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoSuchValue(String);

impl NoSuchValue {
    /// It has to be one of these words; the empty one stands for none.
    #[must_use]
    pub fn but<'w>(words: impl IntoIterator<Item = &'w str>) -> Self {
        let (mut quoted, mut or_empty) = (Vec::new(), "");
        for word in words {
            match word {
                "" => or_empty = ", or leave it empty",
                word => quoted.push(format!("{word:?}")),
            }
        }
        let last = quoted.pop().unwrap_or_default();
        Self(format!("use {} or {last}{or_empty}", quoted.join(", ")))
    }
}

/// Returns the value of a setting that is one of a few words.
///
/// # Errors
/// [`NoSuchValue`]
pub fn one_of<T: Word>(text: &str) -> Result<T, NoSuchValue> {
    T::from_word(text).map_err(|_| NoSuchValue::but(T::CHOICES.iter().map(|(word, _)| *word)))
}

impl Provider {
    /// The agent as people know it, where it is a program of others that needs a sandbox.
    #[must_use]
    pub fn foreign(self) -> Option<&'static str> {
        match self {
            Self::Scripted => None,
            Self::Claude => Some("Claude Code"),
            Self::Acp => Some("the ACP agent"),
        }
    }
}

impl Aws {
    /// Whether a group's containers see `~/.aws`.
    #[must_use]
    pub fn is_for(self, is_main: bool) -> bool {
        match self {
            Self::Off => false,
            Self::Main => is_main,
            Self::All => true,
        }
    }
}

/// What can be said for all groups at once and otherwise for one.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSettings {
    pub provider: Provider,
    pub image: String,
    /// The model that the agent asks for; `None`: the agent's own choice.
    pub model: Option<String>,
    pub network: Network,
    pub egress: Egress,
    pub credentials: Credentials,
    /// Bytes; `None`: unbounded, as the next two.
    pub memory_bytes: Option<u64>,
    pub cpus: Option<f64>,
    pub pids: Option<u64>,
    /// For how long a run may give no sign of life, ms.
    pub ceiling_ms: u64,
}

/// Two settings that can't be had together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "credentials = \"stdin\" needs network = \"open\": with a key of its own the agent goes to the model by itself; \
     set network = \"open\", or credentials = \"gateway\""
)]
pub struct StdinNeedsNetwork;

/// Why a group can't be launched as it is set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSettings {
    #[error("the group's provider can't be {name:?}: {why}")]
    Provider { name: String, why: NoSuchValue },
    #[error(transparent)]
    Group(#[from] BadGroupConfig),
    #[error(transparent)]
    Key(#[from] StdinNeedsNetwork),
}

impl RunSettings {
    /// Returns these settings as they are in force for a group, and what it wants for itself.
    ///
    /// # Errors
    /// [`BadSettings`]
    pub fn for_group(self, group: &Group) -> Result<(Self, GroupConfig), BadSettings> {
        let own = group.config()?;
        let provider = group
            .provider
            .as_deref()
            .map(|name| one_of(name).map_err(|why| BadSettings::Provider { name: name.into(), why }))
            .transpose()?;
        Ok((self.of(provider, group.image.clone(), &own)?, own))
    }

    /// Returns these settings with what a group wants otherwise; `provider` and `image` are columns of its own.
    ///
    /// # Errors
    /// [`StdinNeedsNetwork`], also if the two come from different places.
    pub fn of(
        self,
        provider: Option<Provider>,
        image: Option<String>,
        group: &GroupConfig,
    ) -> Result<Self, StdinNeedsNetwork> {
        let bounded = |own: Option<u64>, all: Option<u64>| own.map_or(all, |n| Some(n).filter(|n| *n > 0));
        let settings = Self {
            provider: provider.unwrap_or(self.provider),
            image: image.unwrap_or(self.image),
            model: group.model.clone().or(self.model),
            network: group.network.unwrap_or(self.network),
            egress: group.egress.unwrap_or(self.egress),
            credentials: group.credentials.unwrap_or(self.credentials),
            memory_bytes: bounded(group.memory_mib.map(|mib| mib << 20), self.memory_bytes),
            cpus: group.cpus.map_or(self.cpus, |n| Some(n).filter(|n| *n > 0.0)),
            pids: bounded(group.pids, self.pids),
            ceiling_ms: group.timeout.unwrap_or(self.ceiling_ms),
        };
        settings.check()
    }

    /// Returns whether requests to the model are looked into: where the container has no way out that the owner did not allow,
    /// and is to have none.
    #[must_use]
    pub fn looks_into_requests(&self) -> bool {
        self.network != Network::Open && self.egress == Egress::None
    }

    /// # Errors
    /// [`StdinNeedsNetwork`]
    pub fn check(self) -> Result<Self, StdinNeedsNetwork> {
        match (self.credentials, self.network) {
            (Credentials::Stdin, Network::Model | Network::Allowlist) => Err(StdinNeedsNetwork),
            (Credentials::Stdin, Network::Open) | (Credentials::Gateway, _) => Ok(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> RunSettings {
        RunSettings {
            provider: Provider::Scripted,
            image: "a:1".into(),
            model: None,
            network: Network::Model,
            egress: Egress::None,
            credentials: Credentials::Gateway,
            memory_bytes: Some(2 << 30),
            cpus: Some(2.0),
            pids: Some(512),
            ceiling_ms: 1_800_000,
        }
    }

    #[test]
    fn a_group_that_wants_nothing_has_what_all_have() {
        assert_eq!(all().of(None, None, &GroupConfig::default()), Ok(all()));
    }

    #[test]
    fn a_group_s_own_settings_win_and_0_is_no_bound() {
        let own = GroupConfig {
            timeout: Some(1000),
            model: Some("small".into()),
            memory_mib: Some(1),
            cpus: Some(0.5),
            pids: Some(0),
            network: Some(Network::Open),
            credentials: Some(Credentials::Stdin),
            ..GroupConfig::default()
        };
        let has = all().of(Some(Provider::Claude), Some("b:2".into()), &own).unwrap();
        assert_eq!(
            (has.provider, has.image.as_str(), has.model.as_deref()),
            (Provider::Claude, "b:2", Some("small"))
        );
        assert_eq!(
            (has.memory_bytes, has.cpus, has.pids, has.ceiling_ms),
            (Some(1 << 20), Some(0.5), None, 1000)
        );
        assert_eq!((has.network, has.credentials), (Network::Open, Credentials::Stdin));
    }

    #[test]
    fn requests_are_looked_into_where_there_is_no_other_way_out() {
        assert!(all().looks_into_requests());
        let listed = GroupConfig { network: Some(Network::Allowlist), ..GroupConfig::default() };
        assert!(all().of(None, None, &listed).unwrap().looks_into_requests());
        for own in [
            GroupConfig { network: Some(Network::Open), ..GroupConfig::default() },
            GroupConfig { egress: Some(Egress::ModelFetch), ..GroupConfig::default() },
        ] {
            assert!(!all().of(None, None, &own).unwrap().looks_into_requests());
        }
    }

    #[test]
    fn a_key_without_a_way_to_the_model_is_refused_whoever_chose_it() {
        let stdin = GroupConfig { credentials: Some(Credentials::Stdin), ..GroupConfig::default() };
        assert_eq!(all().of(None, None, &stdin), Err(StdinNeedsNetwork));
        let open = RunSettings { network: Network::Open, credentials: Credentials::Stdin, ..all() };
        let closed = GroupConfig { network: Some(Network::Model), ..GroupConfig::default() };
        assert_eq!(open.clone().check(), Ok(open.clone()));
        let listed = GroupConfig { network: Some(Network::Allowlist), ..GroupConfig::default() };
        assert_eq!(open.clone().of(None, None, &listed), Err(StdinNeedsNetwork));
        assert_eq!(open.of(None, None, &closed), Err(StdinNeedsNetwork));
    }
}
