//! The wire format, pinned by files: what an agent writes, what it means, what it is answered.
//!
//! `wire/<command>.json`: cases that are applied, with their effect and reply. `wire/<command>.refused.json`: cases
//! that are refused, with their error. A case says who asks (`from`, and `run` with the run's chat), and the
//! `input`. `corpus/<outcome>.<name>.json`: hostile bytes.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]
#![expect(clippy::disallowed_methods, reason = "reads the corpus")]

use std::{fs, path::Path};

use ipc_handlers::{
    Caller, Command, Effect, Facts, Folder, Outcome, Refusal, RequestId, RunSeat, ScheduleKind, Scope,
    TaskRow, TaskStatus, Time,
    commands::CATALOGUE,
    decide,
    effect::CatchUp,
    facts::{ArchiveFacts, ChatFacts, GroupCount, GroupFacts, TaskFacts},
    parse, reply,
    shown::{ArchivedSession, FoundSession, GroupRow},
};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use proptest::prelude::*;
use serde_json::{Value, json};

mod golden;
use golden::GOLDEN;

/// 2026-03-01 12:00 UTC, a Sunday; 07:00 in New York.
const NOW: Time = Time(1_772_366_400_000);

fn zone() -> TimeZone {
    TimeZoneDatabase::bundled().get("America/New_York").unwrap()
}

fn folder(name: &str) -> Folder {
    Folder::parse(name).unwrap()
}

fn caller(case: &Value) -> Caller {
    let group = folder(case["from"].as_str().unwrap());
    let run = case["run"].as_str().map(|chat| RunSeat { run: 7, lane: 3, chat_jid: chat.into() });
    Caller { is_main: group.as_str() == "main", group, run }
}

/// A small world: `main` has `local:main`, `family` has two chats, `solo` one. `task-family` and `task-main` are
/// crons at 09:00, `task-family-paused` rests; the archived session 5 is `family`'s, 6 is `main`'s.
fn facts(caller: &Caller, command: &Command) -> Facts {
    let wirings = [("local:main", "main"), ("tg:-100", "family"), ("tg:-101", "family"), ("dc:1", "solo")];
    let wants = command.wants(caller);
    let groups_of = |jid: &str| -> Vec<Folder> {
        wirings.iter().filter(|(chat, _)| *chat == jid).map(|(_, group)| folder(group)).collect()
    };
    Facts {
        groups: GroupCount { count: 3, most: 10 },
        now: NOW,
        asked: NOW,
        zone: zone(),
        zone_name: "America/New_York".into(),
        chat: wants
            .chat
            .map(|jid| ChatFacts { groups: groups_of(&jid), jid })
            .filter(|chat| !chat.groups.is_empty()),
        own_chats: wirings
            .iter()
            .filter(|(_, group)| *group == caller.group.as_str())
            .map(|(chat, _)| (*chat).to_owned())
            .collect(),
        tasks: wants
            .task
            .into_iter()
            .filter_map(|(id, _)| {
                let (group, status) = match id.as_str() {
                    "task-family" => ("family", TaskStatus::Active),
                    "task-family-paused" => ("family", TaskStatus::Paused),
                    "task-main" => ("main", TaskStatus::Active),
                    _ => return None,
                };
                Some(TaskFacts {
                    id,
                    group: folder(group),
                    schedule_type: ScheduleKind::Cron,
                    schedule_value: "0 9 * * *".into(),
                    status,
                    next_run: Some(Time(NOW.0 - 1000)),
                    slot: None,
                    catch_up: CatchUp::Latest,
                })
            })
            .collect(),
        group: wants
            .folder
            .filter(|f| ["main", "family", "solo"].contains(&f.as_str()))
            .map(|f| GroupFacts { is_main: f.as_str() == "main", folder: f }),
        archive: wants.archive.and_then(|(id, scope)| {
            let group = folder(["family", "main"].get(usize::try_from(id - 5).ok()?)?);
            let seen = scope == Scope::All || scope == Scope::Group(group.clone());
            seen.then(|| ArchiveFacts { id, group, session_id: "0b7e3a52".into() })
        }),
    }
}

/// What the store would answer.
fn outcome(effect: &Effect) -> Outcome {
    match effect {
        Effect::Say { unclosed, .. } => Outcome::Said { outbox_id: 12, unclosed: *unclosed },
        Effect::Ask { expires_at, .. } => Outcome::Asked { question_id: 9, expires_at: *expires_at },
        Effect::CreateTask(task) => Outcome::TaskCreated {
            task_id: task.id.clone().unwrap_or("task-1772366400000-abc123".into()),
            group: task.group.clone(),
            next_run: task.next_run,
            in_words: task.schedule.in_words(&zone(), "America/New_York"),
        },
        Effect::ListTasks { .. } => Outcome::Tasks {
            next: None,
            tasks: vec![TaskRow {
                id: "task-family".into(),
                group_folder: "family".into(),
                prompt: "Say good morning".into(),
                script: None,
                schedule_type: ScheduleKind::Cron,
                schedule_value: "0 9 * * 1-5".into(),
                schedule_in_words: Some("weekdays at 09:00 America/New_York".into()),
                status: TaskStatus::Active,
                next_run: Some(Time(1_772_460_000_000)),
                paused_for: None,
                cut: false,
                more: 0,
            }],
        },
        Effect::ChangeTask { id, change, .. } => Outcome::TaskChanged {
            task_id: id.clone(),
            status: change.status.unwrap_or(TaskStatus::Active),
            next_run: change.next_run.or(Some(Time(1_772_373_600_000))),
            in_words: Some(change.schedule.as_ref().map_or_else(
                || "every day at 09:00 America/New_York".to_owned(),
                |new| new.in_words(&zone(), "America/New_York"),
            )),
        },
        Effect::RegisterGroup(made) => Outcome::Registered {
            folder: made.folder.clone(),
            jid: made.chat_jid.clone(),
            unserved: made.chat_jid.starts_with("irc:"),
        },
        Effect::ListGroups => Outcome::Groups {
            more: 0,
            groups: vec![GroupRow {
                jid: "tg:-200".into(),
                name: "Chess club".into(),
                last_activity: Some(Time(1_772_366_000_000)),
                is_registered: false,
            }],
        },
        Effect::ResumeSession { .. } => Outcome::SessionResumed { session_id: "0b7e3a52".into() },
        Effect::SearchSessions { target, .. } => Outcome::Sessions {
            unsearched: None,
            sessions: vec![FoundSession {
                group: target.clone(),
                session: ArchivedSession {
                    id: 5,
                    name: "Holiday plans".into(),
                    session_id: "0b7e3a52".into(),
                    archived_at: Time(1_772_000_000_000),
                },
                snippet: "the **holiday** in May".into(),
            }],
        },
        Effect::ArchiveSession { .. } => Outcome::SessionArchived { id: 6 },
        Effect::CancelTask { id, .. } => Outcome::TaskCancelled { task_id: id.clone() },
        Effect::ClearSession { archive_as, .. } => {
            Outcome::SessionCleared { archived_id: archive_as.as_ref().map(|_| 4) }
        }
    }
}

/// Does with a case what the host does, and returns the effect, if any, and the reply.
fn handle(case: &Value) -> (Option<Value>, Value) {
    let caller = caller(case);
    let answer = |request_id: Option<&RequestId>, refusal: &Refusal| {
        (None, serde_json::from_slice(&reply::refused(request_id, refusal)).unwrap())
    };
    let envelope = match parse(case["input"].to_string().as_bytes()) {
        Ok(envelope) => envelope,
        Err(rejected) => return answer(rejected.request_id.as_ref(), &rejected.refusal),
    };
    let id = envelope.request_id.as_ref();
    match decide(&caller, &envelope.command, &facts(&caller, &envelope.command)) {
        Ok(effects) => {
            let outcomes: Vec<Outcome> = effects.iter().map(outcome).collect();
            let reply = reply::accepted(&envelope, &outcomes, &zone());
            (Some(serde_json::to_value(&effects[0]).unwrap()), serde_json::from_slice(&reply).unwrap())
        }
        Err(refusal) => answer(id, &refusal),
    }
}

fn cases(file: &str) -> Vec<Value> {
    serde_json::from_str(file).unwrap()
}

#[test]
fn every_command_has_its_golden_pair() {
    let files: Vec<&str> = GOLDEN.iter().map(|(command, ..)| *command).collect();
    let commands: Vec<&str> = CATALOGUE.iter().map(|entry| entry.type_name).collect();
    assert_eq!(files, commands);
}

#[test]
fn accepted_commands_mean_and_answer_what_the_files_say() {
    for (command, accepted, _) in GOLDEN {
        for case in cases(accepted) {
            let (effect, reply) = handle(&case);
            let actual = json!({"effect": effect, "reply": reply});
            let expected = json!({"effect": case["effect"], "reply": case["reply"]});
            assert_eq!(actual, expected, "{command}: {}\nactual: {actual}", case["case"]);
        }
    }
}

#[test]
fn refused_commands_are_answered_as_the_files_say() {
    for (command, _, refused) in GOLDEN {
        for case in cases(refused) {
            let (effect, reply) = handle(&case);
            assert_eq!(effect, None, "{command}: {}", case["case"]);
            assert_eq!(reply, case["reply"], "{command}: {}\nactual: {reply}", case["case"]);
        }
    }
}

/// Commands that are right, to be spoilt.
fn good() -> impl Strategy<Value = String> {
    let inputs: Vec<String> = GOLDEN
        .iter()
        .flat_map(|(_, accepted, _)| cases(accepted))
        .map(|case| case["input"].to_string())
        .collect();
    prop::sample::select(inputs)
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| prop::collection::vec(inner, 0..4).prop_map(Value::from))
}

/// Parses and, where that succeeds, decides; returns nothing, but must not panic.
fn survive(bytes: &[u8]) {
    if let Ok(envelope) = parse(bytes) {
        for from in ["main", "family"] {
            let caller = caller(&json!({"from": from}));
            let _ = decide(&caller, &envelope.command, &facts(&caller, &envelope.command));
        }
    }
}

/// Hostile files with what each comes to, which its name begins with: `accepted`, or the code of the refusal.
#[test]
fn each_file_of_the_corpus_comes_to_what_its_name_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        let outcome = match parse(&bytes) {
            Ok(_) => "accepted".to_owned(),
            Err(rejected) => rejected.refusal.code.as_str().to_owned(),
        };
        let name = path.file_name().unwrap().to_str().unwrap();
        assert_eq!(name.split('.').next(), Some(outcome.as_str()), "{name}");
        survive(&bytes);
        count += 1;
    }
    assert!(count > 50, "{count}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        survive(&bytes);
    }

    #[test]
    fn no_spoilt_command_makes_it_panic(
        command in good(), at in any::<prop::sample::Index>(), with in prop::collection::vec(any::<u8>(), 0..8),
        gone in 0_usize..8,
    ) {
        let mut bytes = command.into_bytes();
        let at = at.index(bytes.len());
        let end = (at + gone).min(bytes.len());
        bytes.splice(at..end, with);
        survive(&bytes);
    }

    #[test]
    fn no_value_in_any_field_makes_it_panic(
        command in good(), field in any::<prop::sample::Index>(), value in any_value(),
    ) {
        let mut command: Value = serde_json::from_str(&command).unwrap();
        let fields = command.as_object_mut().unwrap();
        let name = fields.keys().nth(field.index(fields.len())).unwrap().clone();
        fields.insert(name, value);
        survive(command.to_string().as_bytes());
    }

    #[test]
    fn a_valid_request_id_survives_any_refusal(field in "[a-zA-Z_]{1,12}", value in any_value()) {
        prop_assume!(field != "requestId");
        let command = json!({"type": "send_message", "requestId": "r-1", field: value});
        let request_id = match parse(command.to_string().as_bytes()) {
            Ok(envelope) => envelope.request_id,
            Err(rejected) => rejected.request_id,
        };
        prop_assert_eq!(request_id, Some(RequestId::parse("r-1").unwrap()));
    }
}
