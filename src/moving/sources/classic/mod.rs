//! NanoClaw v1, and G2 in TypeScript, which grew out of it: one store, `store/messages.db`, a folder for each group, and in early
//! versions some JSON files beside.
//!
//! They differ in how a message wakes an agent (v1: the trigger stands at the start; G2: it is a regular expression, in any case),
//! in which group is main, and in archives, which G2 alone has.

mod registry;
mod rest;
mod talk;

use std::collections::{BTreeMap, BTreeSet};

use ipc_handlers::{Folder, Time};
use jiff::tz::TimeZone;

use super::{
    Around, NotOpened, Program,
    parts::told,
    settings::{self, Env},
};
use crate::{
    domain::{
        heard::sender_list::SenderList,
        moved::{
            findings::Finding,
            rehearsal::there::{Dialect, There},
            rows::{Keyed, Kind, ListName, Part, Row},
        },
    },
    moving::{
        foreign::Foreign,
        installation::Installation,
        order::Order,
        source::{Batch, Source, Tree},
    },
};
use registry::Registry;

/// The columns of every version.
const KNOWN: [(&str, &[&str]); 9] = [
    ("chats", &["jid", "name", "last_message_time", "channel", "is_group"]),
    (
        "messages",
        &[
            "id",
            "chat_jid",
            "sender",
            "sender_name",
            "content",
            "timestamp",
            "is_from_me",
            "is_bot_message",
            "reply_to_message_id",
            "reply_to_message_content",
            "reply_to_sender_name",
            "media_type",
            "media_mimetype",
            "media_path",
        ],
    ),
    (
        "scheduled_tasks",
        &[
            "id",
            "group_folder",
            "chat_jid",
            "prompt",
            "schedule_type",
            "schedule_value",
            "next_run",
            "last_run",
            "last_result",
            "status",
            "created_at",
            "context_mode",
            "script",
        ],
    ),
    ("task_run_logs", &["id", "task_id", "run_at", "duration_ms", "status", "result", "error"]),
    ("router_state", &["key", "value"]),
    ("sessions", &["group_folder", "session_id"]),
    (
        "registered_groups",
        &[
            "jid",
            "name",
            "folder",
            "trigger_pattern",
            "added_at",
            "container_config",
            "requires_trigger",
            "is_main",
            "channel",
        ],
    ),
    ("conversation_archives", &["id", "group_folder", "session_id", "name", "content", "archived_at"]),
    ("session_history", &["id", "group_folder", "session_id", "name", "created_at", "archived_at"]),
];

/// Where it has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Start,
    Groups,
    Chats(i64),
    Wirings,
    People,
    Runs(i64),
    Sort,
    Messages,
    Lanes,
    Archives(i64),
    OldArchives(i64),
    Tasks(i64),
    End,
}

impl Step {
    fn part(self) -> Part {
        match self {
            Self::Start => Part::Settings,
            Self::Groups | Self::Chats(_) | Self::Wirings => Part::Groups,
            Self::People => Part::People,
            Self::Sort | Self::Messages => Part::Messages,
            Self::Lanes | Self::Archives(_) | Self::OldArchives(_) => Part::Sessions,
            Self::Tasks(_) | Self::End => Part::Tasks,
            Self::Runs(_) => Part::Runs,
        }
    }

    /// The first step that comes after this one is through.
    fn after(self) -> Self {
        match self {
            Self::Start => Self::Groups,
            Self::Groups => Self::Chats(i64::MIN),
            Self::Chats(_) => Self::Wirings,
            Self::Wirings => Self::People,
            Self::People => Self::Runs(i64::MIN),
            Self::Runs(_) => Self::Sort,
            Self::Sort => Self::Messages,
            Self::Messages => Self::Lanes,
            Self::Lanes => Self::Archives(i64::MIN),
            Self::Archives(_) => Self::OldArchives(i64::MIN),
            Self::OldArchives(_) => Self::Tasks(i64::MIN),
            Self::Tasks(_) | Self::End => Self::End,
        }
    }
}

/// An installation of one of the two.
pub(super) struct Classic {
    program: Program,
    installation: Installation,
    store: Foreign,
    name: String,
    env: Env,
    lists: Vec<Keyed>,
    senders: SenderList,
    zone: TimeZone,
    now: Time,
    registry: Registry,
    /// Every chat of the store, and those that are registered and not told of yet.
    chats: BTreeSet<String>,
    told_chats: BTreeSet<String>,
    /// The group and the chat of each task, once they are wanted.
    owners: Option<BTreeMap<String, (Folder, String)>>,
    order: Order,
    /// The newest time that was read: a message without one has it.
    last_time: Time,
    step: Step,
    /// What there is to tell before the first rows.
    findings: Vec<Finding>,
    weight: u64,
}

impl Classic {
    /// Opens one.
    pub(super) fn open(
        program: Program,
        installation: Installation,
        around: Around,
    ) -> Result<Self, NotOpened> {
        let path = || installation.path().to_owned();
        let (store, mut findings) = Foreign::open(&installation, program.store())
            .map_err(|why| NotOpened::Store { path: path(), store: program.store().into(), why })?;
        findings.extend(store.unknown(&KNOWN));
        for (table, _) in KNOWN.iter().filter(|(table, _)| ["chats", "messages"].contains(table)) {
            if !store.has(table) {
                findings.push(Finding::left(Kind::Source, *table, "the store has no such table"));
            }
        }
        let has_archives = store.has("conversation_archives") || store.has("session_history");
        let is_other = match program {
            Program::G2 => store.has_column("registered_groups", "is_main"),
            Program::Nanoclaw | Program::NanoclawV2 => has_archives,
        };
        if is_other {
            findings.push(Finding::differs(
                Kind::Source,
                program.store(),
                format!(
                    "it does not look like a store of {}; triggers would be read wrongly",
                    program.called()
                ),
            ));
        }
        let env = settings::env(program, &installation, &around, &mut findings);
        let lists = settings::lists(program, &around, &mut findings)?;
        let senders = lists.iter().find_map(|row| match &row.row {
            Row::List(list) if list.name == ListName::Senders => {
                Some(SenderList::parse(list.content.to_string().as_bytes()))
            }
            _ => None,
        });
        let zone = around.zones.of(env.zone.as_deref()).zone;
        let registry = Registry::read(program, &installation, &store, &env, &zone, around.now, &mut findings);
        let registered: BTreeSet<String> = registry.all.iter().map(|one| one.jid.clone()).collect();
        let mut chats = registered.clone();
        talk::chats_of(&store, &mut chats, &mut findings);
        let weight =
            ["messages", "chats", "scheduled_tasks", "task_run_logs"].iter().map(|t| store.rows(t)).sum();
        Ok(Self {
            program,
            name: format!("{} {}", program.kind(), installation.path().display()),
            env,
            lists,
            senders: senders.unwrap_or_default(),
            zone,
            now: around.now,
            registry,
            chats,
            told_chats: registered,
            owners: None,
            order: Order::new(&around.scratch).map_err(NotOpened::Order)?,
            last_time: Time(0),
            step: Step::Start,
            findings,
            weight,
            installation,
            store,
        })
    }

    /// Yields the rows of one step, or of one page of it, and says where to go on.
    fn step(&mut self, out: &mut Batch) -> anyhow::Result<Step> {
        let step = self.step;
        Ok(match step {
            Step::Start => {
                out.rows.append(&mut self.env.rows);
                out.rows.extend(self.lists.extract_if(.., |row| row.row.part() == Part::Settings));
                step.after()
            }
            Step::Groups => {
                self.registry.groups(out);
                step.after()
            }
            Step::Chats(after) => self.chats(after, out).map_or(step.after(), Step::Chats),
            Step::Wirings => {
                self.registry.wirings(out);
                step.after()
            }
            Step::People => {
                self.registry.people(out);
                out.rows.extend(self.lists.extract_if(.., |row| row.row.part() == Part::People));
                step.after()
            }
            Step::Sort => {
                self.sort(out)?;
                step.after()
            }
            Step::Messages => {
                if self.messages(out)? {
                    Step::Messages
                } else {
                    step.after()
                }
            }
            Step::Lanes => {
                self.registry.lanes(out);
                step.after()
            }
            Step::Archives(after) => {
                self.archives("conversation_archives", after, out).map_or(step.after(), Step::Archives)
            }
            Step::OldArchives(after) => {
                self.archives("session_history", after, out).map_or(step.after(), Step::OldArchives)
            }
            Step::Tasks(after) => self.tasks(after, out).map_or(step.after(), Step::Tasks),
            Step::Runs(after) => self.runs(after, out).map_or(step.after(), Step::Runs),
            Step::End => Step::End,
        })
    }
}

impl Source for Classic {
    fn name(&self) -> &str {
        &self.name
    }

    fn about(&self) -> String {
        format!("{} at {}", self.program.called(), self.installation.path().display())
    }

    fn weight(&self) -> u64 {
        self.weight
    }

    fn next(&mut self, parts: &[Part]) -> anyhow::Result<Option<Batch>> {
        let mut out = Batch { rows: Vec::new(), findings: std::mem::take(&mut self.findings) };
        while self.step != Step::End {
            if parts.contains(&self.step.part()) {
                self.step = self.step(&mut out)?;
            } else {
                self.step = self.step.after();
            }
            if !out.rows.is_empty() || !out.findings.is_empty() {
                return Ok(Some(out));
            }
        }
        Ok(if out.findings.is_empty() { None } else { Some(out) })
    }

    fn trees(&self) -> Vec<Tree> {
        self.registry.trees(&self.installation)
    }

    fn rules(&self) -> There {
        let dialect = match self.program {
            Program::G2 => Dialect::Pattern,
            Program::Nanoclaw | Program::NanoclawV2 => Dialect::Name,
        };
        self.registry.rules(dialect, &self.env.assistant, &self.senders)
    }
}
