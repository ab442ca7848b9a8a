//! What a person has to mend before everybody is heard as they should be.

use super::super::Host;
use crate::{config::Config, domain::js_regex::Pattern, senders};

/// Returns what is wrong with the sender list, with patterns, and with messages that wait for a person.
pub(super) fn of_hearing(host: &Host) -> Vec<String> {
    let mut problems = senders::problems(&host.config, &senders::read(&host.config));
    match host.store.wirings() {
        Ok(wirings) => problems.extend(wirings.iter().filter_map(|wiring| {
            let pattern = wiring.engage_pattern.as_deref().filter(|pattern| *pattern != ".")?;
            let why = Pattern::compile(pattern).err()?;
            Some(format!("group {} engages on every message of {}: {why}", wiring.group, wiring.chat_jid))
        })),
        Err(error) => problems.push(format!("the wirings can't be read: {error}")),
    }
    match host.store.held_messages() {
        Ok(held) => problems.extend(held.first().map(|first| {
            format!("messages are held: {}; the oldest is {} (`g2 why {1}`)", held.len(), first.seq)
        })),
        Err(error) => problems.push(format!("held messages can't be read: {error}")),
    }
    problems
}

/// Returns which settings were changed since the start, or why they can't be read any more.
pub(super) fn of_settings(host: &Host) -> Option<String> {
    match Config::written_now(&host.root) {
        Ok(now) => {
            let changed = host.config.written.differences(&now);
            (!changed.is_empty()).then(|| format!("restart for {}", changed.join(", ")))
        }
        Err(error) => Some(format!("{error}; what was read at the start holds until it is restarted")),
    }
}
