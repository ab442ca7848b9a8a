//! When a change of a setting holds, while a daemon runs.

use ipc_handlers::words;
use schemars::JsonSchema;

words! {
    /// When a change of a setting holds.
    #[derive(JsonSchema)]
    pub enum Takes: "effect of a setting" {
        /// At once.
        Now = "now",
        /// For runs that begin from now on.
        NextRun = "next_run",
        /// From the next start of the daemon on.
        Restart = "restart",
    }
}

/// Stands for every name below its section.
const ANY: &[&str] = &["*"];

/// Every setting: its section, when it holds, its name.
const SETTINGS: [(&str, Takes, &[&str]); 28] = [
    ("", Takes::Now, &["assistant_name", "timezone", "log_level", "TZ in .env"]),
    ("", Takes::Restart, &["ANTHROPIC_BASE_URL in .env"]),
    // How agents are run is chosen once, and so are the users that own their files.
    ("sandbox", Takes::Restart, &["kind", "uid_base"]),
    ("sandbox", Takes::NextRun, &["image", "allow_unsandboxed", "memory_mib", "cpus", "pids", "output_mib"]),
    ("sandbox", Takes::NextRun, &["network", "egress", "credentials", "aws", "selinux"]),
    ("egress", Takes::Now, &["allow", "connections", "connections_per_minute", "mib_per_hour"]),
    ("egress", Takes::Now, &["connection_minutes"]),
    ("agent", Takes::NextRun, &["provider", "command", "script"]),
    ("agent.claude", Takes::NextRun, &["path", "version", "model", "append_system_prompt", "tools"]),
    ("agent.claude", Takes::NextRun, &["setting_sources", "stall_timeout_ms"]),
    ("agent.acp", Takes::NextRun, &["command", "auth_method", "refuse", "stall_timeout_ms"]),
    ("agent.acp.env", Takes::NextRun, ANY),
    ("budget", Takes::Now, &["requests", "tokens", "money", "minutes"]),
    ("budget.prices", Takes::Now, ANY),
    ("limits", Takes::Now, LIMITS),
    ("housekeeping", Takes::Now, &["runs_days", "runs_mib", "sessions_days", "sessions_mib"]),
    ("health", Takes::Now, &["claim_ms", "idle_ms", "close_grace_ms", "fresh_after_hours", "tell_retry_ms"]),
    ("health", Takes::NextRun, &["startup_ms", "ceiling_ms", "container_ms"]),
    ("approvals", Takes::Now, &["deny_ttl_minutes"]),
    ("words", Takes::Now, &["stop", "retry"]),
    ("backup", Takes::Now, &["to", "keep", "at", "with_secrets"]),
    ("outbox", Takes::Restart, &["on_unknown"]),
    // What listens, and where the key goes, stays as it began.
    ("gateway", Takes::Restart, &["upstream", "token_file"]),
    ("web", Takes::Restart, &["listen", "behind_proxy", "host"]),
    ("ipc", Takes::Now, &["require_token"]),
    ("media", Takes::Now, &["largest_mib", "chat_mib_per_hour", "store_mib"]),
    ("media.hooks", Takes::Now, HOOKS),
    ("channels", Takes::Now, ANY),
];

const LIMITS: &[&str] = &[
    "max_concurrent_containers",
    "max_messages_per_prompt",
    "batch_messages",
    "batch_kib",
    "retry_base_ms",
    "catch_up_spacing_ms",
    "poll_interval_ms",
    "min_free_mib",
    "commands_per_minute",
    "messages_per_minute",
    "commands_mib_per_minute",
    "stored_mib",
    "waiting_mib",
    "waiting_files",
    "groups",
    "tasks",
    "tasks_mib",
    "task_prompt_kib",
    "task_script_kib",
    "replies_mib",
    "archives",
    "archives_mib",
    "keep_days",
    "keep_first_minutes",
];

const HOOKS: &[&str] = &["voice", "audio", "image", "video", "document", "reads", "network", "seconds"];

/// Returns when a change of a setting, named in full, holds. A name that is not known takes a restart.
#[must_use]
pub fn takes(name: &str) -> Takes {
    let entry = SETTINGS.iter().find(|entry| is_of(name, entry));
    entry.map_or(Takes::Restart, |(_, takes, _)| *takes)
}

fn is_of(name: &str, (section, _, names): &(&str, Takes, &[&str])) -> bool {
    if *names == ANY {
        let below = name.strip_prefix(section);
        return below.is_some_and(|below| below.is_empty() || below.starts_with('.'));
    }
    let (above, last) = name.rsplit_once('.').filter(|_| !name.ends_with(" in .env")).unwrap_or(("", name));
    above == *section && names.contains(&last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Environment, settings, written};

    #[test]
    fn every_setting_has_its_effect_and_no_other_has_one() {
        let dir = tempfile::tempdir().unwrap();
        let mut all: Vec<String> = settings(dir.path(), "", &Environment::default())
            .unwrap()
            .into_iter()
            .map(|setting| setting.name)
            .collect();
        assert!(all.len() > 80, "{all:?}");
        all.extend(written::IN_DOTENV.map(str::to_owned));
        for name in &all {
            let known: Vec<_> = SETTINGS.iter().filter(|entry| is_of(name, entry)).collect();
            assert_eq!(known.len(), 1, "{name} stands {} times in SETTINGS", known.len());
        }
        for (section, _, names) in SETTINGS.iter().filter(|(_, _, names)| *names != ANY) {
            for last in *names {
                let name = if section.is_empty() { (*last).to_owned() } else { format!("{section}.{last}") };
                assert!(all.contains(&name), "{name} is no setting");
            }
        }
    }

    #[test]
    fn a_setting_holds_now_for_the_next_run_or_from_the_next_start_on() {
        for (name, expected) in [
            ("backup.keep", Takes::Now),
            ("backups.keep", Takes::Restart),
            ("channels.telegram.work.allow", Takes::Now),
            ("channelsx.work", Takes::Restart),
            ("budget.prices.claude-3.5.input", Takes::Now),
            ("agent.acp.env.A", Takes::NextRun),
            ("agent.claude.model", Takes::NextRun),
            ("web.listen", Takes::Restart),
            ("limits.odd", Takes::Restart),
        ] {
            assert_eq!(takes(name), expected, "{name}");
        }
    }
}
