//! When a change of a setting holds, while a daemon runs.

use ipc_handlers::words;
use schemars::JsonSchema;

words! {
    /// When a change of a setting holds.
    #[derive(JsonSchema)]
    pub enum Takes: "effect of a setting" {
        /// The running daemon reads it again whenever it needs it.
        Now = "now",
        /// From the next start on.
        Restart = "restart",
    }
}

/// Settings that are read again, by their full names or by their section; keys and lists outside of `g2.toml` always are.
const NOW: [&str; 2] = ["backup.", "channels."];

/// Returns when a change of a setting holds.
#[must_use]
pub fn takes(name: &str) -> Takes {
    let is_now = NOW.iter().any(|now| name == *now || (now.ends_with('.') && name.starts_with(now)));
    if is_now { Takes::Now } else { Takes::Restart }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_holds_now_or_from_the_next_start_on() {
        for (name, expected) in [
            ("backup.keep", Takes::Now),
            ("backups.keep", Takes::Restart),
            ("limits.keep_days", Takes::Restart),
        ] {
            assert_eq!(takes(name), expected, "{name}");
        }
    }
}
