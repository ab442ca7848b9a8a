//! What each group may still do in this minute, by files and by what it says on stdout.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use ipc_handlers::Folder;

use crate::system::locked::Locked as _;
use crate::{config::Live, domain::mailbox::bucket::Bucket, system::world::World};

/// What each group may still do. A start of the daemon makes it anew.
pub struct Allowances {
    world: World,
    config: Arc<Live>,
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
    pub fn new(world: World, config: Arc<Live>) -> Self {
        Self { world, config, groups: Mutex::default() }
    }

    /// Looks at what a group may still do, or takes of it. The same allowance counts for its files and for its stdout.
    pub fn of<T>(&self, group: &Folder, look: impl FnOnce(&mut Allowance) -> T) -> T {
        let mut groups = self.groups.locked();
        let (config, now) = (self.config.now(), self.world.now());
        let (commands, messages, bytes) = (
            config.limits.commands_per_minute,
            config.limits.messages_per_minute,
            config.limits.command_bytes_per_minute,
        );
        let allowance = groups.entry(group.clone()).or_insert_with(|| Allowance {
            commands: Bucket::new(commands, now),
            messages: Bucket::new(messages, now),
            bytes: Bucket::new(bytes, now),
        });
        allowance.commands.set(commands, now);
        allowance.messages.set(messages, now);
        allowance.bytes.set(bytes, now);
        look(allowance)
    }
}
