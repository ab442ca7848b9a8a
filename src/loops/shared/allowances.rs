//! What each group may still do in this minute, by files and by what it says on stdout.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use ipc_handlers::Folder;

use crate::{config::Limits, domain::mailbox::bucket::Bucket, system::clock};

/// What each group may still do. A start of the daemon makes it anew.
pub struct Allowances {
    commands_per_minute: u32,
    messages_per_minute: u32,
    bytes_per_minute: u32,
    groups: Mutex<BTreeMap<Folder, Allowance>>,
}

/// What a group may still do.
pub struct Allowance {
    /// Commands, and records on stdout.
    pub commands: Bucket,
    /// Those of them that say something in a chat.
    pub messages: Bucket,
    /// The bytes of its command files, with their replies, and of what its records say.
    pub bytes: Bucket,
}

impl Allowances {
    /// Every group may do what the limits allow in a minute.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        Self {
            commands_per_minute: limits.commands_per_minute,
            messages_per_minute: limits.messages_per_minute,
            bytes_per_minute: limits.command_bytes_per_minute,
            groups: Mutex::default(),
        }
    }

    /// Looks at what a group may still do, or takes of it. The same allowance counts for its files and for its stdout.
    pub fn of<T>(&self, group: &Folder, look: impl FnOnce(&mut Allowance) -> T) -> T {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        let allowance = groups.entry(group.clone()).or_insert_with(|| {
            let now = clock::now();
            Allowance {
                commands: Bucket::new(self.commands_per_minute, now),
                messages: Bucket::new(self.messages_per_minute, now),
                bytes: Bucket::new(self.bytes_per_minute, now),
            }
        });
        look(allowance)
    }
}
