//! How much the parts of a daemon may have, as the settings say.

use super::adapters;
use crate::{
    config::Config,
    gateway::OutsideLimits,
    store::{Asking, Bounds},
};

/// Returns what the settings let each group have in the store.
#[must_use]
pub fn bounds(config: &Config) -> Bounds {
    Bounds {
        tasks: config.limits.tasks(),
        groups: config.limits.groups,
        replies: config.limits.replies_bytes,
        stored: config.limits.stored_bytes,
        media: config.media.limits(),
        fresh_after_ms: config.health.fresh_after_ms,
    }
}

/// Returns how people are asked by a daemon with these settings.
#[must_use]
pub fn asking(config: &Config) -> Asking {
    Asking {
        channels: adapters::names(config).into(),
        deny_ttl_ms: config.approvals.deny_ttl_ms,
        trigger: format!("@{}", config.assistant_name),
        groups: config.limits.groups,
        words: config.words.clone(),
    }
}

/// Returns how much each group may have from hosts outside.
pub(super) fn bounds_outside(config: &Config) -> OutsideLimits {
    let egress = &config.egress;
    OutsideLimits {
        connections: egress.connections,
        per_minute: egress.connections_per_minute,
        bytes_per_hour: egress.bytes_per_hour,
        life: egress.life,
        ..OutsideLimits::default()
    }
}
