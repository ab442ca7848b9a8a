//! Who listens where: registered groups, the place up to which each has read, and its session.

use std::collections::{BTreeMap, BTreeSet};

use ipc_handlers::{Folder, Time, effect::IgnoredMessages, names::is_session_id};
use jiff::tz::TimeZone;
use serde_json::Value;

use super::super::{
    Program,
    parts::{Config, Names, folder, group_name, jid, keyed, name},
    settings::Env,
};
use crate::{
    domain::{
        heard::{
            engage::{Engages, Listener, V1Group, WiringRule, from_v1},
            js_regex::ignoring_case,
            people::{Role as Right, check_user},
            sender_list::SenderList,
        },
        moved::{
            findings::Finding,
            rehearsal::there::{Dialect, Registrations, There},
            rows::{Group, Kind, Lane, Role, Row, User, Wiring},
        },
        platforms::chats::ChatKind,
    },
    moving::{
        addresses::known,
        foreign::{Foreign, Read},
        installation::{Installation, Unread},
        moment,
        source::{Batch, Place, Tree},
    },
};

/// As many registrations are read.
const MOST: usize = 10_000;

/// A chat that a group listens in.
pub(super) struct Registered {
    pub jid: String,
    pub group: Folder,
    name: String,
    trigger: String,
    config: serde_json::Map<String, Value>,
    is_main: bool,
    created_at: Time,
    /// The trigger as it is stored.
    written: String,
    engages: Engages,
    ignored: IgnoredMessages,
    /// The time up to which its agent was given the messages, as it is written.
    pub cursor: String,
    /// Its rule, ready to be asked.
    pub listener: Listener,
    /// Whether each message wakes it.
    pub takes_all: bool,
}

/// All of them.
pub(super) struct Registry {
    pub all: Vec<Registered>,
    /// Which of them a chat is.
    by_jid: BTreeMap<String, usize>,
    sessions: BTreeMap<String, String>,
    folders: BTreeSet<Folder>,
}

/// A registration as it was read.
struct Raw {
    jid: Option<String>,
    name: Option<String>,
    folder: String,
    trigger: Option<String>,
    added_at: Option<String>,
    config: Option<String>,
    requires_trigger: Option<bool>,
    is_main: Option<bool>,
}

impl Registry {
    pub(super) fn read(
        program: Program,
        installation: &Installation,
        store: &Foreign,
        env: &Env,
        zone: &TimeZone,
        now: Time,
        findings: &mut Vec<Finding>,
    ) -> Self {
        let mut raw = from_table(store, findings);
        raw.extend(from_file(installation, findings));
        let cursors = cursors(installation, store, findings);
        let mut registry = Self {
            all: Vec::new(),
            by_jid: BTreeMap::new(),
            sessions: sessions(installation, store, findings),
            folders: BTreeSet::new(),
        };
        let mut names = Names::default();
        let mut has_main = false;
        for raw in raw {
            let told = raw.jid.clone().unwrap_or_default();
            let jid = match jid(raw.jid) {
                Ok(jid) => jid,
                Err(why) => {
                    findings.push(Finding::left(Kind::Group, told, why));
                    continue;
                }
            };
            let Some(group) = folder(&raw.folder, Kind::Group, &jid, findings) else { continue };
            if registry.by_jid.contains_key(&jid) {
                findings.push(Finding::left(
                    Kind::Wiring,
                    jid,
                    "its chat is registered twice; the first one is taken",
                ));
                continue;
            }
            let wants_main = match program {
                Program::G2 => group.as_str() == "main",
                Program::Nanoclaw | Program::NanoclawV2 => raw.is_main.unwrap_or(group.as_str() == "main"),
            };
            if wants_main && has_main && !registry.folders.contains(&group) {
                findings.push(Finding::changed(
                    Kind::Group,
                    group.as_str(),
                    "another group is main already; this one is none",
                ));
            }
            let is_main = wants_main && !has_main;
            has_main |= is_main;
            let called = group_name(raw.name, &group, findings);
            let called =
                if registry.folders.contains(&group) { called } else { names.once(called, &group, findings) };
            let trigger = raw
                .trigger
                .map(|trigger| trigger.trim().to_owned())
                .filter(|trigger| !trigger.is_empty())
                .unwrap_or_else(|| format!("@{}", env.assistant));
            let written = trigger.clone();
            let listens = Listens { program, is_main: wants_main, requires: raw.requires_trigger, trigger };
            let (engages, ignored, trigger) = listens.rule(&jid, env, findings);
            let mut config = Config::of(group.as_str());
            if let Some(text) = raw.config.filter(|text| !text.is_empty()) {
                config.container_config(&text, findings);
            }
            let config = config.taken();
            let rule = WiringRule { mode: engages.clone(), trigger: trigger.clone(), ignored };
            registry.by_jid.insert(jid.clone(), registry.all.len());
            registry.folders.insert(group.clone());
            registry.all.push(Registered {
                cursor: cursors.get(&jid).cloned().unwrap_or_default(),
                written,
                created_at: raw.added_at.and_then(|at| moment::read(&at, zone)).unwrap_or(now),
                takes_all: engages == Engages::Pattern(".".into()),
                listener: Listener::new(&rule),
                name: called,
                jid,
                group,
                trigger,
                config,
                is_main,
                engages,
                ignored,
            });
        }
        registry
    }

    /// Returns the registration of a chat.
    pub(super) fn of(&self, jid: &str) -> Option<&Registered> {
        self.by_jid.get(jid).and_then(|at| self.all.get(*at))
    }

    pub(super) fn of_mut(&mut self, jid: &str) -> Option<&mut Registered> {
        self.by_jid.get(jid).and_then(|at| self.all.get_mut(*at))
    }

    pub(super) fn has(&self, group: &Folder) -> bool {
        self.folders.contains(group)
    }

    /// The rules of its program, for a rehearsal.
    pub(super) fn rules(&self, dialect: Dialect, assistant: &str, senders: &SenderList) -> There {
        let mut rules = Registrations::new(dialect, assistant, senders.clone());
        for one in &self.all {
            rules.register(&one.jid, one.group.clone(), &one.written, !one.takes_all);
        }
        There::Registered(rules)
    }

    pub(super) fn groups(&self, out: &mut Batch) {
        let mut seen = BTreeSet::new();
        for one in self.all.iter().filter(|one| seen.insert(&one.group)) {
            let row = Group {
                folder: one.group.clone(),
                name: one.name.clone(),
                is_main: one.is_main,
                trigger: one.trigger.clone(),
                provider: None,
                script: None,
                image: None,
                config: one.config.clone(),
                held: None,
                hosts: Vec::new(),
                created_at: one.created_at,
            };
            out.rows.push(keyed(one.group.as_str(), Row::Group(row)));
        }
    }

    pub(super) fn wirings(&self, out: &mut Batch) {
        for one in &self.all {
            let (engage_mode, engage_pattern) = one.engages.clone().columns();
            let row = Wiring {
                group: one.group.clone(),
                chat: one.jid.clone(),
                engage_mode,
                engage_pattern,
                sender_scope: ipc_handlers::effect::SenderScope::All,
                ignored_messages: one.ignored,
                trigger: None,
                created_at: one.created_at,
            };
            out.rows.push(keyed(one.jid.as_str(), Row::Wiring(row)));
        }
    }

    /// Everybody in the chat of main had all rights. In a chat with one person that is somebody in particular.
    pub(super) fn people(&self, out: &mut Batch) {
        for main in self.all.iter().filter(|one| one.is_main) {
            let user = match main.jid.split_once(':') {
                Some(_) => main.jid.clone(),
                None => known().user_id(&main.jid, &main.jid),
            };
            if known().kind_of(&main.jid) == ChatKind::Direct && check_user(&user).is_ok() {
                out.rows.push(keyed(
                    user.as_str(),
                    Row::User(User {
                        id: user.clone(),
                        name: name(Some(main.name.clone()), &user),
                        dm_chat: Some(main.jid.clone()),
                        created_at: main.created_at,
                    }),
                ));
                out.rows.push(keyed(
                    format!("owner {user}"),
                    Row::Role(Role {
                        user,
                        role: Right::Owner,
                        group: None,
                        granted_by: "import".into(),
                        granted_at: main.created_at,
                    }),
                ));
            } else {
                out.findings.push(
                    Finding::differs(
                        Kind::Role,
                        main.jid.as_str(),
                        "everybody in the chat of main could decide for all groups; here owners and admins can",
                    )
                    .fix("g2 users role USER owner"),
                );
            }
        }
    }

    pub(super) fn lanes(&mut self, out: &mut Batch) {
        for one in &self.all {
            let session = self.sessions.get(one.group.as_str()).filter(|id| is_session_id(id));
            let row = Lane {
                group: one.group.clone(),
                chat: one.jid.clone(),
                thread: String::new(),
                sticky_at: None,
                session: session.cloned(),
                active_at: None,
            };
            out.rows.push(keyed(one.jid.as_str(), Row::Lane(row)));
        }
        for (group, id) in &self.sessions {
            if !is_session_id(id) {
                out.findings.push(Finding::left(
                    Kind::Lane,
                    group.as_str(),
                    "its session has no id that an agent takes",
                ));
            } else if Folder::parse(group).is_ok_and(|group| !self.folders.contains(&group)) {
                out.findings.push(Finding::left(
                    Kind::Lane,
                    group.as_str(),
                    "no group of this folder is registered",
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
        for group in &self.folders {
            add(Place::Group(group.clone()), format!("groups/{group}"), &["logs"]);
            let claude = format!("data/sessions/{group}/.claude");
            add(Place::Transcripts(group.clone()), format!("{claude}/projects/-workspace-group"), &[]);
            add(Place::Skills(group.clone()), format!("{claude}/skills"), &[]);
        }
        trees
    }
}

/// How a registration listens, in the words of its program.
struct Listens {
    program: Program,
    is_main: bool,
    requires: Option<bool>,
    trigger: String,
}

impl Listens {
    /// Returns the rule here, and the trigger of the group.
    fn rule(self, jid: &str, env: &Env, findings: &mut Vec<Finding>) -> (Engages, IgnoredMessages, String) {
        let group = if self.is_main { V1Group::Main } else { V1Group::Other };
        let (engages, ignored) = from_v1(group, self.requires);
        if self.program != Program::G2 || engages != Engages::Mention {
            let trigger = match self.program {
                // Of a group that takes every message the pattern was never asked.
                Program::G2 => format!("@{}", env.assistant),
                Program::Nanoclaw | Program::NanoclawV2 => self.trigger,
            };
            return (engages, ignored, trigger);
        }
        let own = format!("@{}", env.assistant);
        let plain = self.trigger.strip_prefix('^').unwrap_or(&self.trigger);
        let plain = plain.strip_suffix("\\b").unwrap_or(plain);
        let trigger = if plain.starts_with('@') && plain.chars().skip(1).all(char::is_alphanumeric) {
            plain
        } else {
            &own
        };
        let trigger = trigger.to_owned();
        let fault = match ignoring_case(&self.trigger) {
            Ok(pattern) => return (Engages::Pattern(pattern), ignored, trigger),
            Err(fault) => fault,
        };
        findings.push(
            Finding::changed(
                Kind::Wiring,
                jid,
                format!("its trigger is no pattern that can be used, so a mention of {trigger} wakes the agent: {fault}"),
            )
            .fix("g2 wirings set"),
        );
        (Engages::Mention, ignored, trigger)
    }
}

/// Reads pages of a table to its end, or to a bound.
fn all(
    store: &Foreign,
    table: &str,
    columns: &[&'static str],
    kind: Kind,
    findings: &mut Vec<Finding>,
) -> Vec<Read> {
    let (mut rows, mut after) = (Vec::new(), i64::MIN);
    loop {
        let page = store.page(table, columns, after, 1_000);
        super::told(table, &page, kind, findings);
        rows.extend(page.rows);
        match page.next {
            Some(next) if rows.len() < MOST => after = next,
            Some(_) => {
                findings.push(Finding::left(
                    kind,
                    table,
                    format!("it has more than {MOST} rows; the others are not read"),
                ));
                return rows;
            }
            None => return rows,
        }
    }
}

fn from_table(store: &Foreign, findings: &mut Vec<Finding>) -> Vec<Raw> {
    let columns = [
        "jid",
        "name",
        "folder",
        "trigger_pattern",
        "added_at",
        "container_config",
        "requires_trigger",
        "is_main",
    ];
    let has_main = store.has_column("registered_groups", "is_main");
    let rows = all(store, "registered_groups", &columns, Kind::Group, findings);
    let raw = rows.into_iter().map(|row| Raw {
        jid: row.text("jid"),
        name: row.text("name"),
        folder: row.text("folder").unwrap_or_default(),
        trigger: row.text("trigger_pattern"),
        added_at: row.text("added_at"),
        config: row.text("container_config"),
        requires_trigger: row.int("requires_trigger").map(|flag| flag == 1),
        is_main: has_main.then(|| row.int("is_main") == Some(1)),
    });
    raw.collect()
}

/// Reads a JSON file of the versions that had no table for it. A file that was taken over has another name.
fn json(installation: &Installation, file: &str, kind: Kind, findings: &mut Vec<Finding>) -> Option<Value> {
    match installation.text(&format!("data/{file}")) {
        Ok(text) => match serde_json::from_str(&text) {
            Ok(value) => Some(value),
            Err(error) => {
                findings.push(Finding::left(kind, format!("data/{file}"), format!("it is no JSON: {error}")));
                None
            }
        },
        Err(Unread::Missing) => None,
        Err(why) => {
            findings.push(Finding::left(kind, format!("data/{file}"), why.to_string()));
            None
        }
    }
}

fn from_file(installation: &Installation, findings: &mut Vec<Finding>) -> Vec<Raw> {
    let Some(Value::Object(groups)) = json(installation, "registered_groups.json", Kind::Group, findings)
    else {
        return Vec::new();
    };
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let raw = groups.into_iter().take(MOST).map(|(jid, group)| Raw {
        jid: Some(jid),
        name: text(&group, "name"),
        folder: text(&group, "folder").unwrap_or_default(),
        trigger: text(&group, "trigger"),
        added_at: text(&group, "added_at"),
        config: group.get("containerConfig").filter(|config| config.is_object()).map(Value::to_string),
        requires_trigger: group.get("requiresTrigger").and_then(Value::as_bool),
        is_main: group.get("isMain").and_then(Value::as_bool),
    });
    raw.collect()
}

fn cursors(
    installation: &Installation,
    store: &Foreign,
    findings: &mut Vec<Finding>,
) -> BTreeMap<String, String> {
    let rows = all(store, "router_state", &["key", "value"], Kind::Lane, findings);
    let from_table = rows
        .iter()
        .find(|row| row.text("key").as_deref() == Some("last_agent_timestamp"))
        .and_then(|row| row.text("value"));
    let map = match from_table {
        Some(text) => match serde_json::from_str::<Value>(&text) {
            Ok(map) => Some(map),
            Err(_) => {
                findings.push(Finding::changed(
                    Kind::Lane,
                    "router_state",
                    "the places up to which agents have read can't be read; they are taken from the agents' answers",
                ));
                None
            }
        },
        None => json(installation, "router_state.json", Kind::Lane, findings)
            .and_then(|mut state| state.get_mut("last_agent_timestamp").map(Value::take)),
    };
    let Some(Value::Object(map)) = map else { return BTreeMap::new() };
    map.into_iter().filter_map(|(jid, at)| Some((jid, at.as_str()?.to_owned()))).take(MOST).collect()
}

fn sessions(
    installation: &Installation,
    store: &Foreign,
    findings: &mut Vec<Finding>,
) -> BTreeMap<String, String> {
    let mut sessions = BTreeMap::new();
    if let Some(Value::Object(map)) = json(installation, "sessions.json", Kind::Lane, findings) {
        sessions.extend(
            map.into_iter().filter_map(|(group, id)| Some((group, id.as_str()?.to_owned()))).take(MOST),
        );
    }
    let rows = all(store, "sessions", &["group_folder", "session_id"], Kind::Lane, findings);
    sessions.extend(rows.iter().filter_map(|row| Some((row.text("group_folder")?, row.text("session_id")?))));
    sessions
}
