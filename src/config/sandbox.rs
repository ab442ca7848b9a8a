//! `[sandbox]`: how containers are run, and what they are given.

use serde::Deserialize;

use super::units::{mib, mib_or_none, number_or_none, word};
use crate::domain::runs::run_settings::{Aws, Credentials, Egress, Network, Selinux};

/// What `sandbox.uid_base` may be: above the users of a machine, and with room above it.
const UID_BASES: std::ops::RangeInclusive<u32> = 10_000..=4_000_000_000;

/// `[sandbox] kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SandboxKind {
    /// Docker when it answers and has the image, otherwise `process` for the scripted agent.
    Auto,
    Docker,
    Process,
}

/// How containers are run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sandbox {
    pub kind: SandboxKind,
    pub image: String,
    pub allow_unsandboxed: bool,
    /// `None`: unbounded, as the next two.
    #[serde(rename = "memory_mib", deserialize_with = "mib_or_none")]
    pub memory_bytes: Option<u64>,
    #[serde(deserialize_with = "cpus")]
    pub cpus: Option<f64>,
    #[serde(deserialize_with = "number_or_none")]
    pub pids: Option<u64>,
    #[serde(rename = "output_mib", deserialize_with = "mib")]
    pub output_bytes: u64,
    #[serde(deserialize_with = "network")]
    pub network: Network,
    #[serde(deserialize_with = "egress")]
    pub egress: Egress,
    #[serde(deserialize_with = "credentials")]
    pub credentials: Credentials,
    #[serde(deserialize_with = "aws")]
    pub aws: Aws,
    #[serde(deserialize_with = "selinux")]
    pub selinux: Selinux,
    /// Each group's agent runs as this user plus the group's own number; `None`: all as one user.
    #[serde(deserialize_with = "uid_base")]
    pub uid_base: Option<u32>,
}

fn cpus<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    Ok(Some(f64::deserialize(from)?).filter(|cpus| *cpus > 0.0))
}

fn network<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Network, D::Error> {
    word(from, "sandbox.network", Network::parse)
}

fn egress<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Egress, D::Error> {
    word(from, "sandbox.egress", Egress::parse)
}

fn credentials<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Credentials, D::Error> {
    word(from, "sandbox.credentials", Credentials::parse)
}

fn aws<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Aws, D::Error> {
    word(from, "sandbox.aws", Aws::parse)
}

fn selinux<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Selinux, D::Error> {
    word(from, "sandbox.selinux", Selinux::parse)
}

fn uid_base<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    match u32::deserialize(from)? {
        0 => Ok(None),
        base if UID_BASES.contains(&base) => Ok(Some(base)),
        base => Err(serde::de::Error::custom(format!(
            "sandbox.uid_base can't be {base}: use a number from 10000 to 4000000000 above which nobody else's users are, or 0"
        ))),
    }
}
