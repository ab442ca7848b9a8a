//! The root that all simulations begin with.

use std::{collections::BTreeMap, fs, path::Path};

use g2::{
    domain::{
        heard::{access::UnknownSenders, people::Role},
        platforms::chats::{ChatInfo, ChatKind},
        rows::ChatChanges,
        runs::group_config::Key,
    },
    store::{NewGroup, NewWiring, Store},
    system::world::World,
};
use ipc_handlers::{
    Folder, Time,
    effect::{EngageMode, IgnoredMessages, SenderScope},
};

use crate::{
    disk::Disk,
    people::{ADMIN, NEW_CHATS, OWNERS},
    plan::{GROUPS, Plan},
};

/// How many files each group has.
pub const FILES: u64 = 4;

/// Returns what a file of a group holds.
#[must_use]
pub fn file(group: &str, n: u64) -> Vec<u8> {
    format!("file {n} of {group}\n").repeat(1 + 40 * usize::try_from(n).unwrap_or(0)).into_bytes()
}

const SETTINGS: &str = "assistant_name = \"Andy\"\ntimezone = \"Europe/Berlin\"\n\
[sandbox]\nkind = \"docker\"\n[limits]\nmax_concurrent_containers = 2\nmin_free_mib = 0\n[approvals]\ndeny_ttl_minutes = 0\n";

/// Writes a store with the groups, their chats, and the people whom they know.
///
/// # Panics
/// It can't be made.
#[expect(clippy::disallowed_methods, reason = "a store of our own")]
pub fn make(path: &Path) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (disk, now) = (Disk::new(1), Time(1_772_600_000_000));
    disk.set_time(now.0);
    let world = World::real().with_disk(disk.vfs_name());
    runtime.block_on(async {
        let store = Store::open_in(world, Path::new("/template")).expect("a new store");
        let folder = |name: &str| Folder::parse(name).expect("a folder's name");
        let group = |name: &str, is_main| NewGroup {
            folder: folder(name),
            name: name.to_owned(),
            is_main,
            trigger: "@Andy".into(),
        };
        store.add_group(group("main", true), Vec::new(), now).await.expect("main");
        for (name, chats) in GROUPS {
            let wiring = |chat: &&str| NewWiring {
                group: folder(name),
                chat_jid: (*chat).to_owned(),
                engage_mode: EngageMode::Mention,
                engage_pattern: None,
                sender_scope: SenderScope::All,
                ignored_message_policy: IgnoredMessages::Accumulate,
            };
            let wirings = chats.iter().map(wiring).collect();
            store.add_group(group(name, false), wirings, now).await.expect("a group");
            for chat in chats {
                let person = format!("{}:7", chat.split(':').next().unwrap_or_default());
                store.add_member(&person, folder(name), "owner", now).await.expect("a member");
            }
        }
        let wired = GROUPS.iter().flat_map(|(_, chats)| chats.iter());
        let info = ChatInfo {
            name: "A chat".into(),
            kind: ChatKind::Group,
            threaded: false,
            members: None,
            hears_all: None,
        };
        for chat in wired.chain(&NEW_CHATS) {
            store.know_chat((*chat).to_owned(), info.clone(), now).await.expect("a chat");
            let policy = ChatChanges { policy: Some(UnknownSenders::Ask), ..ChatChanges::default() };
            store.set_chat(chat, policy).await.expect("a policy");
        }
        for owner in OWNERS {
            store.grant_role(owner, Role::Owner, None, "owner", now).await.expect("an owner");
            store.put_user(owner, "Olga", Some(owner.to_owned()), now).await.expect("their chat");
        }
        let (admin, of) = ADMIN;
        store.grant_role(admin, Role::Admin, Some(folder(of)), "owner", now).await.expect("an admin");
        store.put_user(admin, "Ada", Some(admin.to_owned()), now).await.expect("their chat");
        // Texts that grow, and reactions to what is in hand.
        for (group, key, value) in
            [("alpha", Key::Say, "stream"), ("beta", Key::Say, "stream"), ("alpha", Key::Seen, "👀")]
        {
            let settings = BTreeMap::from([(key, value.to_owned())]);
            store.set_group(folder(group), settings, None, now).await.expect("a setting");
        }
        store.empty_log().await.expect("one file");
    });
    let made = disk.get("/template").expect("the store").to_vec();
    fs::write(path, made).expect("the template");
}

/// Returns what a template holds.
#[expect(clippy::disallowed_methods, reason = "a store of our own")]
pub(crate) fn read(path: &Path) -> Vec<u8> {
    fs::read(path).expect("the template")
}

/// Lays out a root, without its store.
#[expect(clippy::disallowed_methods, reason = "lays out a root of our own")]
pub(crate) fn lay_out(root: &Path, plan: &Plan) {
    fs::create_dir_all(root.join("data")).expect("data/");
    for (group, _) in GROUPS {
        let folder = root.join("groups").join(group);
        fs::create_dir_all(&folder).expect("a group's folder");
        for n in 0..FILES {
            fs::write(folder.join(format!("file{n}.bin")), file(group, n)).expect("a file of a group");
        }
    }
    // Hours in which nothing happens tell nothing new.
    let health = if plan.seed.is_multiple_of(40) {
        ""
    } else {
        "[health]\nceiling_ms = 420000\ncontainer_ms = 480000\n"
    };
    let unknown = if plan.resends { "resend" } else { "leave" };
    let settings = format!("{SETTINGS}[outbox]\non_unknown = \"{unknown}\"\n{health}");
    fs::write(root.join("g2.toml"), settings).expect("g2.toml");
}
