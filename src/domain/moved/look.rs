//! What an installation would become here, before anything is taken in: gathered from its rows as they are read.

use std::collections::BTreeMap;

use ipc_handlers::{Schedule, TaskStatus, Time, effect::EngageMode};
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    findings::{Finding, Findings, Sort},
    rows::{Fate, Keyed, Kind, Row, Task, Wiring},
};
use crate::{platforms::accounts::check_adapter, shown::screen::escaped, time::zone::Zones};

/// As many groups and tasks are listed; the others are counted.
const LISTED: usize = 500;
/// As many findings of each sort are printed.
const PRINTED: usize = 40;
/// As many times of a task are told on each side.
const TIMES: usize = 3;

/// Whose zone holds here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ZoneHere {
    /// This root's, which is set.
    Stays,
    /// The one that comes along, if one does.
    #[default]
    Comes,
}

/// What becomes what.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Look {
    /// The installation, in words.
    pub from: String,
    /// How many rows there are, by kind.
    pub rows: BTreeMap<Kind, u64>,
    pub groups: Vec<LookGroup>,
    pub tasks: Vec<LookTask>,
    pub settings: BTreeMap<String, serde_json::Value>,
    /// Names of secrets: their values are never told.
    pub secrets: Vec<String>,
    pub lists: Vec<String>,
    /// Messages that nobody has answered there, by group.
    pub unanswered: BTreeMap<String, u64>,
    /// Chats of platforms that have no adapter here, by platform.
    pub without_adapter: BTreeMap<String, u64>,
    pub differences: Vec<Difference>,
    pub findings: Findings,
    #[serde(skip)]
    now: Time,
    #[serde(skip)]
    zones: Zones,
    #[serde(skip)]
    zone_here: ZoneHere,
    /// The platforms that there are adapters for.
    #[serde(skip)]
    adapters: &'static [&'static str],
    #[serde(skip)]
    own: u64,
}

/// A group, and where it listens.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LookGroup {
    pub folder: String,
    pub name: String,
    pub is_main: bool,
    pub trigger: String,
    /// Its chats, each with what wakes it there.
    pub listens: Vec<LookWiring>,
    /// How many of its conversations go on.
    pub sessions: u64,
}

/// A chat of a group.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LookWiring {
    pub chat: String,
    /// In words.
    pub wakes: String,
}

/// A task, with its next times there and here.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LookTask {
    pub id: String,
    pub group: String,
    pub schedule: String,
    #[schemars(with = "String")]
    pub status: TaskStatus,
    /// RFC 3339.
    pub before: Vec<String>,
    pub after: Vec<String>,
}

/// Something that acts differently here.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Difference {
    pub what: String,
    /// The setting or command that changes it.
    pub setting: Option<String>,
    /// The page that says why.
    pub page: &'static str,
}

impl Look {
    /// A look at an installation, of which nothing was seen yet. `zones`: those of this root; `adapters`: the platforms that there are
    /// adapters for.
    #[must_use]
    pub fn new(
        from: String,
        now: Time,
        (zones, zone_here): (Zones, ZoneHere),
        adapters: &'static [&'static str],
    ) -> Self {
        Self {
            from,
            rows: BTreeMap::new(),
            groups: Vec::new(),
            tasks: Vec::new(),
            settings: BTreeMap::new(),
            secrets: Vec::new(),
            lists: Vec::new(),
            unanswered: BTreeMap::new(),
            without_adapter: BTreeMap::new(),
            differences: Vec::new(),
            findings: Findings::default(),
            now,
            zones,
            zone_here,
            adapters,
            own: 0,
        }
    }

    /// Takes in rows in the order in which a source yields them.
    pub fn see(&mut self, rows: &[Keyed], findings: Vec<Finding>) {
        self.findings.extend(findings);
        for Keyed { row, .. } in rows {
            *self.rows.entry(row.kind()).or_default() += 1;
            match row {
                Row::Setting(setting) if self.settings.len() < LISTED => {
                    self.settings.insert(setting.name.clone(), setting.value.clone());
                }
                Row::Secret(secret) if self.secrets.len() < LISTED => self.secrets.push(secret.name.clone()),
                Row::List(list) => self.lists.push(list.name.to_string()),
                Row::Group(group) if self.groups.len() < LISTED => self.groups.push(LookGroup {
                    folder: group.folder.to_string(),
                    name: group.name.clone(),
                    is_main: group.is_main,
                    trigger: group.trigger.clone(),
                    listens: Vec::new(),
                    sessions: 0,
                }),
                Row::Chat(chat)
                    if chat.channel != "local"
                        && check_adapter(self.adapters, &chat.channel, None).is_err() =>
                {
                    *self.without_adapter.entry(chat.channel.clone()).or_default() += 1;
                }
                Row::Wiring(wiring) => self.wiring(wiring),
                Row::Lane(lane) if lane.session.is_some() => {
                    if let Some(group) = self.group(lane.group.as_str()) {
                        group.sessions += 1;
                    }
                }
                Row::Message(message) => {
                    self.own += u64::from(message.from_me && !message.bot);
                    for heard in message.heard.iter().filter(|heard| heard.fate == Fate::Waits) {
                        if self.unanswered.len() < LISTED
                            || self.unanswered.contains_key(heard.group.as_str())
                        {
                            *self.unanswered.entry(heard.group.to_string()).or_default() += 1;
                        }
                    }
                }
                Row::Task(task) if self.tasks.len() < LISTED => {
                    let task = self.task(task);
                    self.tasks.push(task);
                }
                Row::Setting(_)
                | Row::Secret(_)
                | Row::Group(_)
                | Row::Chat(_)
                | Row::User(_)
                | Row::Role(_)
                | Row::Member(_)
                | Row::Approval(_)
                | Row::Mark(_)
                | Row::Lane(_)
                | Row::Archive(_)
                | Row::Task(_)
                | Row::Run(_)
                | Row::Usage(_)
                | Row::Text(_)
                | Row::Audit(_) => {}
            }
        }
    }

    fn group(&mut self, folder: &str) -> Option<&mut LookGroup> {
        self.groups.iter_mut().find(|group| group.folder == folder)
    }

    fn wiring(&mut self, wiring: &Wiring) {
        let Some(group) = self.groups.iter_mut().find(|group| group.folder == wiring.group.as_str()) else {
            return;
        };
        let trigger = wiring.trigger.as_ref().unwrap_or(&group.trigger);
        let wakes = match (wiring.engage_mode, wiring.engage_pattern.as_deref()) {
            (EngageMode::Pattern, None | Some(".")) => "every message".to_owned(),
            (EngageMode::Pattern, Some(pattern)) => format!("a message with the pattern {pattern}"),
            (EngageMode::Mention, _) => format!("a mention, or {trigger} at the start"),
            (EngageMode::MentionSticky, _) => {
                format!("a mention, or {trigger} at the start, then all of its thread")
            }
        };
        if group.listens.len() < LISTED {
            group.listens.push(LookWiring { chat: wiring.chat.clone(), wakes });
        }
    }

    fn task(&self, task: &Task) -> LookTask {
        let there = self.settings.get("timezone").and_then(serde_json::Value::as_str);
        let zone_there = self.zones.of(there).zone;
        let zone_here = match self.zone_here {
            ZoneHere::Stays => self.zones.of(None).zone,
            ZoneHere::Comes => zone_there.clone(),
        };
        let kind = task.schedule_type.as_str();
        let times = |zone: &TimeZone, passes_over: bool| {
            let Ok(schedule) = Schedule::parse(kind, &task.schedule_value, zone, self.now) else {
                return Vec::new();
            };
            let mut next = match task.next_run {
                // Here a time that has passed is passed over.
                Some(at) if passes_over && at <= self.now => schedule.next_after(at, self.now, zone),
                Some(at) => Some(at),
                None => schedule.first_run(self.now, zone),
            };
            let mut times = Vec::new();
            while let Some(at) = next.filter(|_| times.len() < TIMES) {
                times.push(at.to_string());
                next = schedule.next_after(at, at, zone);
            }
            times
        };
        let (before, after) = match task.status {
            TaskStatus::Completed => (Vec::new(), Vec::new()),
            TaskStatus::Active | TaskStatus::Paused => (times(&zone_there, false), times(&zone_here, true)),
        };
        LookTask {
            id: task.id.clone(),
            group: task.group.to_string(),
            schedule: format!("{kind} {}", task.schedule_value),
            status: task.status,
            before,
            after,
        }
    }

    /// Tells of what acts differently, once all rows were seen. `same`: it comes from an installation of this program.
    pub fn finish(&mut self, same: bool) {
        if same {
            return;
        }
        let mut differs = |what: &str, setting: Option<&str>, page| {
            self.differences.push(Difference {
                what: what.to_owned(),
                setting: setting.map(str::to_owned),
                page,
            });
        };
        let several = self.groups.iter().any(|group| group.listens.len() > 1);
        if several {
            differs(
                "one session for each chat and thread, in the place of one for a group",
                None,
                CONVERSATIONS,
            );
        }
        differs(
            "every message that wakes the agent is in a prompt; a bound holds for the context around them alone",
            Some("limits.max_messages_per_prompt"),
            CONVERSATIONS,
        );
        if self.own > 0 {
            differs(
                "messages of your own account wake no agent: here they are the agent's own",
                None,
                CONVERSATIONS,
            );
        }
        if !self.tasks.is_empty() {
            differs(
                "a failed task is tried again after 5, 10 and 20 s, and paused after 8 failures in a row",
                Some("limits.retry_base_ms"),
                TASKS,
            );
        }
        differs("containers reach their model alone", Some("sandbox.network"), CONTAINERS);
        differs("keys stay on the host", Some("sandbox.credentials"), CONTAINERS);
        differs("no group sees ~/.aws", Some("sandbox.aws"), CONTAINERS);
        differs("main sees the program read-only, without keys and data", None, CONTAINERS);
        differs("/compact and /remote-control are not there; others are", Some("[words]"), SMALLER);
        for (channel, count) in &self.without_adapter {
            self.differences.push(Difference {
                what: format!("{channel} has no adapter here: its {count} chats are kept, and nothing is heard or said there"),
                setting: Some(format!("g2 channels add {channel} --program PROGRAM")),
                page: "docs/channel-protocol.md",
            });
        }
    }

    /// Returns the report as people read it.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![escaped(&self.from), String::new(), "What becomes what".to_owned()];
        for (kind, count) in &self.rows {
            lines.push(format!("{count:>9}  {kind}"));
        }
        for group in &self.groups {
            let main = if group.is_main { ", the main group" } else { "" };
            let session = match group.sessions {
                0 => String::new(),
                1 => "; its conversation goes on".to_owned(),
                n => format!("; {n} of its conversations go on"),
            };
            let waits = self
                .unanswered
                .get(&group.folder)
                .map_or(String::new(), |n| format!("; {n} messages are unanswered"));
            lines.push(escaped(&format!("  group {} ({}){main}{session}{waits}", group.folder, group.name)));
            for wiring in &group.listens {
                lines.push(escaped(&format!("    in {}: {} wakes it", wiring.chat, wiring.wakes)));
            }
        }
        for task in &self.tasks {
            lines.push(escaped(&format!(
                "  task {} of {}: {}, {}",
                task.id, task.group, task.schedule, task.status
            )));
            let told =
                |times: &[String]| if times.is_empty() { "never".to_owned() } else { times.join(", ") };
            if task.before == task.after {
                lines.push(format!("    next, there and here: {}", told(&task.before)));
            } else {
                lines.push(format!("    next there: {}", told(&task.before)));
                lines.push(format!("    next here:  {}", told(&task.after)));
            }
        }
        for (name, value) in &self.settings {
            lines.push(escaped(&format!("  setting {name} = {value}")));
        }
        lines.extend(
            self.secrets.iter().map(|name| escaped(&format!("  secret {name} (its value is not shown)"))),
        );
        lines.extend(self.lists.iter().map(|name| format!("  list {name}.json")));
        for (sort, title) in [
            (Sort::Left, "What can't be taken"),
            (Sort::Changed, "What is taken with a change"),
            (Sort::Differs, "What will act differently"),
        ] {
            let found: Vec<&Finding> =
                self.findings.kept.iter().filter(|finding| finding.sort == sort).collect();
            let own: &[Difference] = if sort == Sort::Differs { &self.differences } else { &[] };
            if found.is_empty() && own.is_empty() {
                continue;
            }
            lines.extend([String::new(), title.to_owned()]);
            for finding in found.iter().take(PRINTED) {
                let fix = finding.fix.as_ref().map_or(String::new(), |fix| format!(" ({fix})"));
                lines.push(escaped(&format!("  {} {}: {}{fix}", finding.kind, finding.key, finding.why)));
            }
            let more = self.findings.count(sort).saturating_sub(found.len().min(PRINTED) as u64);
            if more > 0 {
                lines.push(format!("  and {more} more, of which the first are in --json"));
            }
            for Difference { what, setting, page } in own {
                let setting = setting.as_ref().map_or(String::new(), |setting| format!(" ({setting})"));
                lines.push(escaped(&format!("  {what}{setting}: {page}")));
            }
        }
        lines
    }
}

const CONVERSATIONS: &str = "docs/differences.md#conversations";
const TASKS: &str = "docs/differences.md#tasks";
const CONTAINERS: &str = "docs/differences.md#containers";
const SMALLER: &str = "docs/differences.md#smaller-ones";
