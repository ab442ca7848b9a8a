//! The central store: groups with their settings, chats, wirings, people and their rights.

use std::collections::{BTreeMap, BTreeSet};

use ipc_handlers::{Folder, Time};
use jiff::tz::TimeZone;
use serde_json::Map;

use super::{
    super::parts::{Names, folder, group_name, jid, keyed, name},
    container::{of_file, of_row, put_in},
    engage::{Listens, of_columns, of_rules},
    known::CONFIG,
    names,
};
use crate::{
    domain::{
        heard::{
            access::UnknownSenders,
            engage::Engages,
            people::{Role as Right, check_user},
        },
        moved::{
            findings::Finding,
            rows::{Chat, Group, Kind, Member, Role, Row, User, Wiring},
        },
        platforms::chats::ChatKind,
    },
    moving::{
        addresses::known,
        foreign::{Foreign, Read},
        installation::Installation,
        moment,
        source::{Batch, Place, Tree},
    },
};

/// As many rows of one table are read.
const MOST: usize = 20_000;

/// A chat of the store.
pub(super) struct ChatPlace {
    pub jid: String,
    pub channel: String,
}

/// What the central store says.
pub(super) struct Central {
    groups: Vec<Group>,
    chats: Vec<Chat>,
    wirings: Vec<(String, Wiring)>,
    /// The folder of each agent, and the address of each chat, by their ids there.
    pub folders: BTreeMap<String, Folder>,
    pub places: BTreeMap<String, ChatPlace>,
    /// Addresses of the chats that are taken.
    known: BTreeSet<String>,
    /// Chats that an agent may write to, besides that of its session.
    rights: BTreeSet<(Folder, String)>,
    /// Wirings that stay awake in a thread.
    pub sticky: BTreeSet<(Folder, String)>,
    /// Agents whose one session goes through all their chats.
    pub shared: BTreeSet<Folder>,
    told: Vec<Finding>,
}

/// Reads a table to its end, or to a bound.
pub(super) fn all(
    store: &Foreign,
    table: &str,
    columns: &[&'static str],
    kind: Kind,
    findings: &mut Vec<Finding>,
) -> Vec<Read> {
    let (mut rows, mut after) = (Vec::new(), i64::MIN);
    loop {
        let page = store.page(table, columns, after, 1_000);
        super::super::parts::told(table, &page, kind, findings);
        rows.extend(page.rows);
        match page.next {
            Some(next) if rows.len() < MOST => after = next,
            Some(_) => {
                let why = format!("it has more than {MOST} rows; the others are not read");
                findings.push(Finding::left(kind, table, why));
                return rows;
            }
            None => return rows,
        }
    }
}

impl Central {
    pub(super) fn read(
        installation: &Installation,
        store: &Foreign,
        zone: &TimeZone,
        now: Time,
        findings: &mut Vec<Finding>,
    ) -> Self {
        let mut central = Self {
            groups: Vec::new(),
            chats: Vec::new(),
            wirings: Vec::new(),
            folders: BTreeMap::new(),
            places: BTreeMap::new(),
            known: BTreeSet::new(),
            rights: BTreeSet::new(),
            sticky: BTreeSet::new(),
            shared: BTreeSet::new(),
            told: Vec::new(),
        };
        let time = |row: &Read| row.text("created_at").and_then(|at| moment::read(&at, zone)).unwrap_or(now);
        central.read_groups(installation, store, &time, findings);
        let columns = &[
            "id",
            "channel_type",
            "platform_id",
            "name",
            "is_group",
            "unknown_sender_policy",
            "created_at",
            "denied_at",
        ];
        for row in all(store, "messaging_groups", columns, Kind::Chat, findings) {
            let (id, channel) =
                (row.text("id").unwrap_or_default(), row.text("channel_type").unwrap_or_default());
            let address = row.text("platform_id").map(|platform| names::jid(&channel, &platform));
            let jid = match jid(address) {
                Ok(jid) => jid,
                Err(why) => {
                    findings.push(Finding::left(Kind::Chat, id, why));
                    continue;
                }
            };
            central.places.insert(id, ChatPlace { jid: jid.clone(), channel: channel.clone() });
            if !central.known.insert(jid.clone()) {
                findings.push(Finding::changed(
                    Kind::Chat,
                    jid.as_str(),
                    "two chats there are one chat here",
                ));
                continue;
            }
            let is_group = row.int("is_group") == Some(1);
            let policy = row.text("unknown_sender_policy").unwrap_or_default();
            central.chats.push(Chat {
                channel: known().channel_of(&jid).to_owned(),
                name: name(row.text("name"), &jid),
                kind: if is_group { ChatKind::Group } else { ChatKind::Direct },
                unknown_senders: UnknownSenders::from_name(&policy).unwrap_or(UnknownSenders::Strict),
                threaded: is_group && names::has_threads(&channel),
                members: None,
                alias_of: None,
                // An owner did not want it to be registered: nobody is asked again.
                wired_before: row.text("denied_at").is_some(),
                created_at: time(&row),
                jid,
            });
        }
        central.read_wirings(store, &time, findings);
        central.read_rights(store, findings);
        central
    }

    fn read_groups(
        &mut self,
        installation: &Installation,
        store: &Foreign,
        time: &dyn Fn(&Read) -> Time,
        findings: &mut Vec<Finding>,
    ) {
        let configs = all(store, "container_configs", CONFIG, Kind::Group, findings);
        let configs: BTreeMap<String, &Read> =
            configs.iter().filter_map(|row| Some((row.text("agent_group_id")?, row))).collect();
        let mut called = Names::default();
        let mut taken = BTreeSet::new();
        let columns = &["id", "name", "folder", "agent_provider", "created_at"];
        for row in all(store, "agent_groups", columns, Kind::Group, findings) {
            let id = row.text("id").unwrap_or_default();
            let Some(group) = folder(&row.text("folder").unwrap_or_default(), Kind::Group, &id, findings)
            else {
                continue;
            };
            if !taken.insert(group.clone()) {
                findings.push(Finding::left(Kind::Group, id, "another group has its folder"));
                continue;
            }
            let settings = match configs.get(&id) {
                Some(row) => of_row(row),
                None => of_file(installation, &group, findings),
            };
            let provider = row.text("agent_provider");
            let name = called.once(group_name(row.text("name"), &group, findings), &group, findings);
            let mut made = Group {
                folder: group.clone(),
                is_main: false,
                trigger: format!("@{name}"),
                name,
                provider: None,
                script: None,
                image: None,
                config: Map::new(),
                held: None,
                hosts: Vec::new(),
                created_at: time(&row),
            };
            put_in(&mut made, &settings, provider, findings);
            self.folders.insert(id, group);
            self.groups.push(made);
        }
    }

    fn read_wirings(&mut self, store: &Foreign, time: &dyn Fn(&Read) -> Time, findings: &mut Vec<Finding>) {
        let table = "messaging_group_agents";
        let columns = &[
            "id",
            "messaging_group_id",
            "agent_group_id",
            "trigger_rules",
            "response_scope",
            "session_mode",
            "priority",
            "created_at",
            "engage_mode",
            "engage_pattern",
            "sender_scope",
            "ignored_message_policy",
        ];
        let is_old = !store.has_column(table, "engage_mode");
        let mut has_mentions = false;
        for row in all(store, table, columns, Kind::Wiring, findings) {
            let id = row.text("id").unwrap_or_default();
            let chat = row
                .text("messaging_group_id")
                .and_then(|id| self.places.get(&id))
                .map(|place| place.jid.clone());
            let group = row.text("agent_group_id").and_then(|id| self.folders.get(&id)).cloned();
            let (Some(chat), Some(group)) = (chat, group) else {
                findings.push(Finding::left(Kind::Wiring, id, "its chat or its agent is not there"));
                continue;
            };
            let Listens { engages, scope, ignored, told } =
                if is_old { of_rules(&row) } else { of_columns(&row) };
            if let Some(told) = told {
                findings.push(Finding::changed(Kind::Wiring, id.as_str(), told).fix("g2 wirings set"));
            }
            if row.int("priority").is_some_and(|priority| priority != 0) {
                let why = "its priority is not there: each agent that a message wakes gets it at once";
                findings.push(Finding::differs(Kind::Wiring, id.as_str(), why));
            }
            if row.text("session_mode").as_deref() == Some("agent-shared") {
                self.shared.insert(group.clone());
                let why = "its agent has one session for all its chats there, and one for each chat here";
                findings.push(Finding::differs(Kind::Wiring, id.as_str(), why));
            }
            if engages == Engages::MentionSticky {
                self.sticky.insert((group.clone(), chat.clone()));
            }
            has_mentions |= matches!(engages, Engages::Mention | Engages::MentionSticky);
            let (engage_mode, engage_pattern) = engages.columns();
            self.wirings.push((
                id,
                Wiring {
                    group,
                    chat,
                    engage_mode,
                    engage_pattern,
                    sender_scope: scope,
                    ignored_messages: ignored,
                    trigger: None,
                    created_at: time(&row),
                },
            ));
        }
        if has_mentions {
            let why =
                "where a mention wakes an agent, a text that begins with its name wakes it, too: `@Name …`";
            self.told
                .push(Finding::differs(Kind::Wiring, table, why).fix("g2 groups set GROUP trigger=WORD"));
        }
    }

    /// Each agent may write where it listens, and to its destinations.
    fn read_rights(&mut self, store: &Foreign, findings: &mut Vec<Finding>) {
        self.rights
            .extend(self.wirings.iter().map(|(_, wiring)| (wiring.group.clone(), wiring.chat.clone())));
        let columns = &["agent_group_id", "target_type", "target_id"];
        for row in all(store, "agent_destinations", columns, Kind::Wiring, findings) {
            let group = row.text("agent_group_id").and_then(|id| self.folders.get(&id));
            let chat = row.text("target_id").and_then(|id| self.places.get(&id));
            if let (Some("channel"), Some(group), Some(chat)) =
                (row.text("target_type").as_deref(), group, chat)
            {
                self.rights.insert((group.clone(), chat.jid.clone()));
            }
        }
    }

    pub(super) fn groups(&mut self, out: &mut Batch) {
        out.findings.append(&mut self.told);
        out.rows
            .extend(self.groups.iter().map(|group| keyed(group.folder.as_str(), Row::Group(group.clone()))));
        out.rows.extend(self.chats.iter().map(|chat| keyed(chat.jid.as_str(), Row::Chat(chat.clone()))));
        out.rows
            .extend(self.wirings.iter().map(|(id, wiring)| keyed(id.as_str(), Row::Wiring(wiring.clone()))));
    }

    /// Whether a chat is taken.
    pub(super) fn has_chat(&self, jid: &str) -> bool {
        self.known.contains(jid)
    }

    /// Whether the agent of a group may write to a chat that is not its session's.
    pub(super) fn may_write(&self, group: &Folder, jid: &str) -> bool {
        self.rights.contains(&(group.clone(), jid.to_owned()))
    }

    /// The chats of a group.
    pub(super) fn chats_of<'a>(&'a self, group: &'a Folder) -> impl Iterator<Item = &'a str> {
        self.wirings
            .iter()
            .filter(move |(_, wiring)| wiring.group == *group)
            .map(|(_, wiring)| wiring.chat.as_str())
    }

    pub(super) fn people(&self, store: &Foreign, zone: &TimeZone, now: Time, out: &mut Batch) {
        let findings = &mut out.findings;
        let time =
            |row: &Read, column| row.text(column).and_then(|at| moment::read(&at, zone)).unwrap_or(now);
        let mut dms: BTreeMap<String, String> = BTreeMap::new();
        for row in all(store, "user_dms", &["user_id", "messaging_group_id"], Kind::User, findings) {
            let place = row.text("messaging_group_id").and_then(|id| self.places.get(&id));
            if let (Some(user), Some(place)) = (row.text("user_id"), place) {
                dms.entry(names::user(&user)).or_insert_with(|| place.jid.clone());
            }
        }
        let mut known = BTreeSet::new();
        for row in all(store, "users", &["id", "kind", "display_name", "created_at"], Kind::User, findings) {
            let id = names::user(&row.text("id").unwrap_or_default());
            if check_user(&id).is_err() {
                findings.push(Finding::left(Kind::User, id, "its id is none that a user has here"));
            } else if known.insert(id.clone()) {
                let user = User {
                    name: name(row.text("display_name"), &id),
                    dm_chat: dms.get(&id).cloned(),
                    created_at: time(&row, "created_at"),
                    id: id.clone(),
                };
                out.rows.push(keyed(id, Row::User(user)));
            }
        }
        let by =
            |row: &Read, column| row.text(column).map_or_else(|| "import".to_owned(), |id| names::user(&id));
        let columns = &["user_id", "role", "agent_group_id", "granted_by", "granted_at"];
        for row in all(store, "user_roles", columns, Kind::Role, findings) {
            let (user, role) =
                (names::user(&row.text("user_id").unwrap_or_default()), row.text("role").unwrap_or_default());
            let scope = row.text("agent_group_id");
            let group = scope.as_ref().and_then(|id| self.folders.get(id)).cloned();
            let key = format!("{user} {role} {}", scope.as_deref().unwrap_or_default());
            let why = match Right::from_name(&role) {
                None => "there is no such role",
                Some(_) if !known.contains(&user) => "its user is not there",
                Some(_) if scope.is_some() && group.is_none() => "its agent is not there",
                Some(Right::Owner) if group.is_some() => "an owner is one of everything",
                Some(right) => {
                    let role = Role {
                        user,
                        role: right,
                        group,
                        granted_by: by(&row, "granted_by"),
                        granted_at: time(&row, "granted_at"),
                    };
                    out.rows.push(keyed(key, Row::Role(role)));
                    continue;
                }
            };
            findings.push(Finding::left(Kind::Role, key, why));
        }
        let columns = &["user_id", "agent_group_id", "added_by", "added_at"];
        for row in all(store, "agent_group_members", columns, Kind::Member, findings) {
            let user = names::user(&row.text("user_id").unwrap_or_default());
            let group = row.text("agent_group_id").and_then(|id| self.folders.get(&id)).cloned();
            match group.filter(|_| known.contains(&user)) {
                Some(group) => {
                    let key = format!("{user} {group}");
                    let member = Member {
                        user,
                        group,
                        added_by: by(&row, "added_by"),
                        added_at: time(&row, "added_at"),
                    };
                    out.rows.push(keyed(key, Row::Member(member)));
                }
                None => {
                    findings.push(Finding::left(Kind::Member, user, "the user or the agent is not there"))
                }
            }
        }
        for (table, what) in [
            ("pending_sender_approvals", "a question about a stranger"),
            ("pending_channel_approvals", "a question about a chat"),
            ("pending_approvals", "a question of an agent"),
            ("pending_questions", "a question of an agent"),
            ("unregistered_senders", "a count of senders that were not heard"),
        ] {
            for row in all(store, table, &[], Kind::Approval, findings) {
                let key = format!("{table} row {}", row.number);
                findings.push(Finding::left(
                    Kind::Approval,
                    key,
                    format!("{what}; it comes up anew with the next message"),
                ));
            }
        }
    }

    pub(super) fn trees(&self, installation: &Installation) -> Vec<Tree> {
        let mut trees = Vec::new();
        let mut add = |to: Place, inner: String, without: &[&str]| {
            if let Some(from) = installation.folder(&inner) {
                trees.push(Tree {
                    to,
                    from,
                    without: without.iter().map(|name| (*name).to_owned()).collect(),
                });
            }
        };
        add(Place::Global, "groups/global".into(), &[]);
        add(Place::Media, "data/v2-sessions".into(), &[]);
        for (id, group) in &self.folders {
            add(
                Place::Group(group.clone()),
                format!("groups/{group}"),
                &[".claude-fragments", ".claude-shared.md", "CLAUDE.md", "container.json", "logs"],
            );
            // Those of all groups stand in their own folders as links to these.
            add(Place::Skills(group.clone()), "container/skills".into(), &[]);
            let claude = format!("data/v2-sessions/{id}/.claude-shared");
            add(Place::Transcripts(group.clone()), format!("{claude}/projects/-workspace-agent"), &[]);
            add(Place::Skills(group.clone()), format!("{claude}/skills"), &[]);
        }
        trees
    }
}
