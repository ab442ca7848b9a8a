//! The central store: groups with their settings, chats, wirings, people and their rights.

use std::collections::{BTreeMap, BTreeSet};

use ipc_handlers::{Folder, Time};
use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};

use super::{
    super::parts::{Config, Names, folder, group_name, jid, keyed, name},
    engage::{Listens, of_columns, of_rules},
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
        platforms::{addresses::channel_of, chats::ChatKind},
    },
    moving::{
        foreign::{Foreign, Read},
        installation::{Installation, Unread},
        moment,
        source::{Batch, Place, Tree},
    },
};

/// As many rows of one table are read.
const MOST: usize = 20_000;

/// The tables and columns of every version.
pub(super) const KNOWN: [(&str, &[&str]); 21] = [
    ("schema_version", &["version", "name", "applied"]),
    ("agent_groups", &["id", "name", "folder", "agent_provider", "container_config", "created_at"]),
    (
        "messaging_groups",
        &[
            "id",
            "channel_type",
            "platform_id",
            "name",
            "is_group",
            "unknown_sender_policy",
            "created_at",
            "denied_at",
        ],
    ),
    (
        "messaging_group_agents",
        &[
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
        ],
    ),
    ("users", &["id", "kind", "display_name", "created_at"]),
    ("user_roles", &["user_id", "role", "agent_group_id", "granted_by", "granted_at"]),
    ("agent_group_members", &["user_id", "agent_group_id", "added_by", "added_at"]),
    ("user_dms", &["user_id", "channel_type", "messaging_group_id", "resolved_at"]),
    (
        "sessions",
        &[
            "id",
            "agent_group_id",
            "messaging_group_id",
            "thread_id",
            "agent_provider",
            "status",
            "container_status",
            "last_active",
            "created_at",
        ],
    ),
    ("pending_questions", QUESTION),
    ("pending_approvals", QUESTION),
    ("pending_sender_approvals", QUESTION),
    ("pending_channel_approvals", QUESTION),
    ("pending_credentials", QUESTION),
    ("agent_destinations", &["agent_group_id", "local_name", "target_type", "target_id", "created_at"]),
    (
        "unregistered_senders",
        &[
            "channel_type",
            "platform_id",
            "user_id",
            "sender_name",
            "reason",
            "messaging_group_id",
            "agent_group_id",
            "message_count",
            "first_seen",
            "last_seen",
        ],
    ),
    ("container_configs", CONFIG),
    ("chat_sdk_kv", &["key", "value", "expires_at"]),
    ("chat_sdk_subscriptions", &["thread_id", "subscribed_at"]),
    ("chat_sdk_locks", &["thread_id", "token", "expires_at"]),
    ("chat_sdk_lists", &["key", "idx", "value", "expires_at"]),
];
const QUESTION: &[&str] = &[
    "id",
    "question_id",
    "approval_id",
    "request_id",
    "session_id",
    "message_out_id",
    "messaging_group_id",
    "agent_group_id",
    "sender_identity",
    "sender_name",
    "original_message",
    "approver_user_id",
    "platform_id",
    "channel_type",
    "thread_id",
    "platform_message_id",
    "action",
    "payload",
    "status",
    "title",
    "options_json",
    "created_at",
    "expires_at",
    "name",
    "type",
    "value",
    "host_pattern",
    "path_pattern",
    "header_name",
    "value_format",
    "description",
];
const CONFIG: &[&str] = &[
    "agent_group_id",
    "provider",
    "model",
    "effort",
    "image_tag",
    "assistant_name",
    "max_messages_per_prompt",
    "skills",
    "mcp_servers",
    "packages_apt",
    "packages_npm",
    "additional_mounts",
    "cli_scope",
    "updated_at",
];

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
        let mut seen = BTreeSet::new();
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
            if !seen.insert(jid.clone()) {
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
                channel: channel_of(&jid).into_owned(),
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

    pub(super) fn groups(&mut self, out: &mut Batch) {
        out.findings.append(&mut self.told);
        out.rows
            .extend(self.groups.iter().map(|group| keyed(group.folder.as_str(), Row::Group(group.clone()))));
        out.rows.extend(self.chats.iter().map(|chat| keyed(chat.jid.as_str(), Row::Chat(chat.clone()))));
        out.rows
            .extend(self.wirings.iter().map(|(id, wiring)| keyed(id.as_str(), Row::Wiring(wiring.clone()))));
    }

    /// Whether a group listens in a chat.
    pub(super) fn has_chat(&self, jid: &str) -> bool {
        self.chats.iter().any(|chat| chat.jid == jid)
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

/// Settings of a group as both their places have them: JSON.
type Settings = Map<String, Value>;

/// The row of a group in `container_configs`.
fn of_row(row: &Read) -> Settings {
    let mut settings = Settings::new();
    for (column, key) in [
        ("provider", "provider"),
        ("model", "model"),
        ("effort", "effort"),
        ("image_tag", "imageTag"),
        ("assistant_name", "assistantName"),
    ] {
        settings.extend(row.text(column).map(|text| (key.to_owned(), Value::from(text))));
    }
    settings.extend(
        row.int("max_messages_per_prompt").map(|n| ("maxMessagesPerPrompt".to_owned(), Value::from(n))),
    );
    for (column, key) in
        [("skills", "skills"), ("mcp_servers", "mcpServers"), ("additional_mounts", "additionalMounts")]
    {
        let read = row.text(column).map(|text| serde_json::from_str(&text).unwrap_or(Value::String(text)));
        settings.extend(read.map(|value| (key.to_owned(), value)));
    }
    let list = |column| {
        row.text(column).and_then(|text| serde_json::from_str::<Value>(&text).ok()).unwrap_or(json!([]))
    };
    settings
        .insert("packages".to_owned(), json!({ "apt": list("packages_apt"), "npm": list("packages_npm") }));
    settings
}

/// `container.json` of a group, in versions that had no table for it.
fn of_file(installation: &Installation, group: &Folder, findings: &mut Vec<Finding>) -> Settings {
    let path = format!("groups/{group}/container.json");
    let why = match installation.text(&path) {
        Ok(text) => match serde_json::from_str::<Settings>(&text) {
            Ok(settings) => return settings,
            Err(error) => format!("it is no JSON object: {error}"),
        },
        Err(Unread::Missing) => return Settings::new(),
        Err(why) => why.to_string(),
    };
    findings.push(Finding::left(Kind::Group, path, why));
    Settings::new()
}

/// Puts the settings into a group; those that are none here are told.
fn put_in(group: &mut Group, settings: &Settings, provider: Option<String>, findings: &mut Vec<Finding>) {
    let folder = group.folder.to_string();
    let text = |key: &str| {
        settings.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let mut told = |why: String, fix: Option<&str>| {
        let finding = Finding::changed(Kind::Group, folder.as_str(), why);
        findings.push(match fix {
            Some(fix) => finding.fix(fix),
            None => finding,
        });
    };
    if let Some(other) = provider.or_else(|| text("provider")).filter(|provider| provider != "claude") {
        told(
            format!("its provider {other:?} is none here; it has the one of all groups"),
            Some("docs/agents.md"),
        );
    }
    if text("effort").is_some() {
        told("its effort is not there".into(), None);
    }
    if settings.get("maxMessagesPerPrompt").is_some_and(|n| !n.is_null()) {
        told(
            "its maxMessagesPerPrompt is a setting of all groups here".into(),
            Some("g2 config set limits.max_messages_per_prompt N"),
        );
    }
    if settings.get("skills").is_some_and(|skills| *skills != json!("all")) {
        told("its choice of skills is not there: it has all of them".into(), None);
    }
    let packages = |kind: &str| {
        settings
            .get("packages")
            .and_then(|p| p.get(kind))
            .and_then(Value::as_array)
            .is_some_and(|p| !p.is_empty())
    };
    if packages("apt") || packages("npm") {
        told(
            "its packages stand in no image here; build one that has them".into(),
            Some("container/README.md"),
        );
    }
    if let Some(image) = text("imageTag") {
        told(
            format!(
                "its image {image:?} has a runner that is not understood here; it has the image of all groups"
            ),
            Some("container/README.md"),
        );
    }
    if let Some(assistant) = text("assistantName") {
        group.trigger = format!("@{}", name(Some(assistant), &group.name));
    }
    let mut config = Config::of(&folder);
    if let Some(model) = text("model") {
        config.set("model", Value::from(model), findings);
    }
    if let Some(mounts) =
        settings.get("additionalMounts").filter(|mounts| mounts.as_array().is_some_and(|m| !m.is_empty()))
    {
        config.set("additionalMounts", mounts.clone(), findings);
    }
    let mut servers = Map::new();
    for (server, value) in
        settings.get("mcpServers").and_then(Value::as_object).into_iter().flatten().take(64)
    {
        let mut with = servers.clone();
        with.insert(server.clone(), tool_server(value));
        if config.set("mcp", Value::Object(with.clone()), findings) {
            servers = with;
        }
    }
    group.config = config.taken();
}

/// A tool server in the form that it has here, with the paths of the containers here.
fn tool_server(value: &Value) -> Value {
    let moved = |text: &str| text.replace("/workspace/agent", "/workspace/group");
    let text = |key: &str| value.get(key).and_then(Value::as_str).map(moved);
    let texts = |key: &str| {
        let pairs = value.get(key).and_then(Value::as_object).into_iter().flatten();
        pairs
            .filter_map(|(name, text)| Some((name.clone(), Value::from(moved(text.as_str()?)))))
            .collect::<Map<_, _>>()
    };
    match text("url") {
        Some(url) => {
            let kind = if text("type").as_deref() == Some("sse") { "sse" } else { "http" };
            json!({ "type": kind, "url": url, "headers": texts("headers") })
        }
        None => {
            let args: Vec<Value> = value
                .get("args")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(|word| word.as_str().map(|word| Value::from(moved(word))))
                .collect();
            json!({ "type": "stdio", "command": text("command").unwrap_or_default(), "args": args, "env": texts("env") })
        }
    }
}
