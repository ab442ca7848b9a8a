//! The small world that the unit tests of commands decide in.

use jiff::tz::TimeZoneDatabase;

use crate::{
    Caller, Code, Command, Effect, Facts, Folder, Refusal, RunSeat, ScheduleKind, Scope, TaskStatus, Time,
    effect::CatchUp,
    facts::{ArchiveFacts, ChatFacts, GroupCount, GroupFacts, TaskFacts},
};

/// 2026-03-01 12:00 UTC, a Sunday; 07:00 in New York.
pub(crate) const NOW: Time = Time(1_772_366_400_000);

pub(crate) fn folder(name: &str) -> Folder {
    Folder::parse(name).unwrap()
}

pub(crate) fn caller(group: &str) -> Caller {
    Caller { group: folder(group), is_main: group == "main", run: None }
}

pub(crate) fn in_run(group: &str, chat_jid: &str) -> Caller {
    Caller { run: Some(RunSeat { run: 7, lane: 3, chat_jid: chat_jid.into() }), ..caller(group) }
}

/// `main` has `local:main`; `family` has `tg:-100` and `tg:-101`; `solo` has `dc:1`; `tg:-200` is known, nobody's.
/// Tasks: `task-family`, `task-main`, each a cron at 09:00; `task-family-paused`, `task-family-over`; `report` of main,
/// family and solo, `digest` of family and solo. Archived sessions: 5
/// is family's, 6 is main's. `boss` is a privileged group.
pub(crate) fn facts(caller: &Caller, command: &Command) -> Facts {
    let wirings = [("local:main", "main"), ("tg:-100", "family"), ("tg:-101", "family"), ("dc:1", "solo")];
    let wants = command.wants(caller);
    let chat = wants.chat.and_then(|jid| {
        let groups: Vec<_> =
            wirings.iter().filter(|(chat, _)| *chat == jid).map(|(_, group)| folder(group)).collect();
        (jid == "tg:-200" || !groups.is_empty()).then_some(ChatFacts { jid, groups })
    });
    let tasks = wants.task.map_or_else(Vec::new, |(id, target)| {
        let (groups, status): (&[&str], _) = match id.as_str() {
            "task-family" => (&["family"], TaskStatus::Active),
            "task-family-paused" => (&["family"], TaskStatus::Paused),
            "task-family-over" => (&["family"], TaskStatus::Completed),
            "task-main" => (&["main"], TaskStatus::Active),
            "report" => (&["family", "main", "solo"], TaskStatus::Active),
            "digest" => (&["family", "solo"], TaskStatus::Active),
            _ => (&[], TaskStatus::Active),
        };
        let fact = |group: &&str| TaskFacts {
            id: id.clone(),
            group: folder(group),
            schedule_type: ScheduleKind::Cron,
            schedule_value: "0 9 * * *".into(),
            status,
            next_run: (status != TaskStatus::Completed).then_some(NOW.plus_ms(2 * 3_600_000)),
            slot: None,
            catch_up: CatchUp::Latest,
        };
        let named = |task: &TaskFacts| target.as_ref().is_none_or(|target| *target == task.group);
        groups.iter().map(fact).filter(named).collect()
    });
    let archive = wants.archive.and_then(|(id, scope)| {
        let group = folder(match id {
            5 => "family",
            6 => "main",
            _ => return None,
        });
        let seen = scope == Scope::All || scope == Scope::Group(group.clone());
        seen.then_some(ArchiveFacts { id, group, session_id: "s-1".into() })
    });
    let own_chats = wirings
        .iter()
        .filter(|(_, group)| *group == caller.group.as_str())
        .map(|(chat, _)| (*chat).to_owned())
        .collect();
    Facts {
        now: NOW,
        zone: TimeZoneDatabase::bundled().get("America/New_York").unwrap(),
        asked: NOW,
        zone_name: "America/New_York".into(),
        chat,
        own_chats,
        tasks,
        group: wants
            .folder
            .filter(|f| ["main", "boss", "family", "solo"].contains(&f.as_str()))
            .map(|f| GroupFacts { is_main: ["main", "boss"].contains(&f.as_str()), folder: f }),
        groups: GroupCount { count: 4, most: 10 },
        archive,
    }
}

/// Parses and decides, as the host does.
pub(crate) fn ask(caller: &Caller, json: &serde_json::Value) -> Result<Effect, Refusal> {
    let command = crate::parse(json.to_string().as_bytes()).map_err(|rejected| rejected.refusal)?.command;
    let mut effects = crate::decide(caller, &command, &facts(caller, &command))?;
    assert_eq!(effects.len(), 1);
    Ok(effects.remove(0))
}

/// Returns the code that the command is refused with.
pub(crate) fn refused(caller: &Caller, json: &serde_json::Value) -> Code {
    let refusal = ask(caller, json).expect_err(&json.to_string());
    assert!(!refusal.message.is_empty() && !refusal.hint.is_empty(), "{refusal:?}");
    refusal.code
}
