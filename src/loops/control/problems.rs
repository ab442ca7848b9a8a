//! What a person has to mend before everybody is heard as they should be.

use super::super::Host;
use crate::{
    domain::{
        js_regex::Pattern,
        room::{self, Intake},
    },
    senders,
};

/// How people get room back from the store.
const HOW: &str =
    "`g2 prune` removes history, `g2 tasks cancel` tasks, limits.stored_mib is how much is kept of a group";

/// Returns which groups have as much in the store as they may, and more.
pub(super) fn of_the_store(host: &Host) -> Vec<String> {
    let stored = match host.store.stored() {
        Ok(stored) => stored,
        Err(error) => return vec![format!("what is stored of groups can't be read: {error}")],
    };
    let (most, disk) = (host.config.stored_bytes, host.whole_disk());
    let problem = |(group, bytes): (&ipc_handlers::Folder, &u64)| {
        let (mib, kept, left) = (bytes >> 20, most >> 20, disk.left() >> 20);
        let intake = room::intake(*bytes, most, &disk);
        if room::is_over(*bytes, most) {
            Some(format!(
                "group {group} is stopped: {mib} MiB of it are in the store, and at most {kept} are kept; {HOW}"
            ))
        } else if *bytes >= most {
            Some(format!(
                "group {group} may put no more into the store: it has {mib} of {kept} MiB there; {HOW}"
            ))
        } else if intake == Intake::Ahead {
            Some(format!(
                "commands of group {group} wait: it has {mib} MiB in the store, and {left} MiB are left; {HOW}"
            ))
        } else {
            None
        }
    };
    stored.iter().filter_map(problem).collect()
}

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
