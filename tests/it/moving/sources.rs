//! What becomes of installations as their own programs wrote them.
#![expect(clippy::disallowed_methods, reason = "a test changes a copy of an installation")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::fs;

use g2::{
    domain::{
        moved::rows::{Fate, Kind, ListName, Message, Part, Row, Said},
        time::zone::Zones,
    },
    moving::sources::{Around, SourceKind, open},
};

use super::samples::{NOW, Sample, read, told};

const SAMPLES: [&str; 7] = [
    "nanoclaw",
    "nanoclaw-february",
    "nanoclaw-january",
    "g2",
    "g2-first",
    "nanoclaw-v2",
    "nanoclaw-v2-april",
];
const ENV: &str = "ASSISTANT_NAME=Andy\nTZ=\"America/New_York\"\nTELEGRAM_BOT_TOKEN=tg-not-a-token\n\
                   ANTHROPIC_API_KEY='sk-not-a-key'\nSLACK_BOT_TOKEN=xoxb-not\nMAX_CONCURRENT_CONTAINERS=3\n";

/// Rows and findings, a line each, with the folder of the test taken out.
fn shown(sample: &Sample) -> String {
    let (rows, findings) = sample.read();
    let rows = rows.iter().map(|row| serde_json::to_string(row).unwrap());
    let findings = findings.iter().map(|finding| {
        let fix = finding.fix.as_ref().map_or(String::new(), |fix| format!(" [{fix}]"));
        format!("{} {} {}: {}{fix}", finding.sort, finding.kind, finding.key, finding.why)
    });
    let folder = fs::canonicalize(sample.dir.path()).unwrap();
    let mut trees: Vec<String> = sample
        .open()
        .trees()
        .iter()
        .map(|tree| {
            let from = tree.from.strip_prefix(&folder).unwrap().display();
            format!("{:?} ← {from} without {}", tree.to, tree.without.join(", "))
        })
        .collect();
    trees.sort();
    let lines: Vec<String> = rows.chain(findings).chain(trees).collect();
    lines.join("\n")
}

#[test]
fn an_installation_yields_these_rows_and_tells_of_the_rest() {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("rows");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    for name in SAMPLES {
        let sample = Sample::of(name);
        fs::write(sample.path(".env"), ENV).unwrap();
        let shown = shown(&sample);
        for secret in ["tg-not-a-token", "sk-not-a-key", "xoxb-not"] {
            assert!(!shown.contains(secret), "{name} shows a secret");
        }
        settings.bind(|| insta::assert_snapshot!(name, shown));
    }
}

#[test]
fn values_of_secrets_are_carried_and_never_shown() {
    let sample = Sample::of("nanoclaw");
    fs::write(sample.path(".env"), ENV).unwrap();
    let (rows, _) = read(&mut *sample.open(), &[Part::Settings]);
    let secret = rows.iter().find_map(|row| match &row.row {
        Row::Secret(secret) if secret.name == "TELEGRAM_BOT_TOKEN" => Some(secret),
        _ => None,
    });
    let secret = secret.unwrap();
    assert_eq!(secret.value.0.as_deref(), Some("tg-not-a-token"));
    assert_eq!(format!("{secret:?}"), r#"Secret { name: "TELEGRAM_BOT_TOKEN", value: hidden }"#);
}

#[test]
fn only_the_parts_that_are_asked_for_are_read() {
    for name in SAMPLES {
        let sample = Sample::of(name);
        for part in [
            Part::Settings,
            Part::Groups,
            Part::People,
            Part::Messages,
            Part::Sessions,
            Part::Tasks,
            Part::Runs,
        ] {
            let (rows, _) = read(&mut *sample.open(), &[part]);
            let of = |row: &Row| match row {
                Row::List(list) if list.name == ListName::Senders => Part::People,
                row => row.part(),
            };
            assert!(rows.iter().all(|row| of(&row.row) == part), "{name}: {part}");
        }
    }
}

fn messages(sample: &Sample) -> Vec<Message> {
    let (rows, _) = read(&mut *sample.open(), &[Part::Messages]);
    rows.into_iter()
        .filter_map(|row| match row.row {
            Row::Message(message) => Some(*message),
            _ => None,
        })
        .collect()
}

fn fates(sample: &Sample) -> Vec<(String, Option<Fate>)> {
    messages(sample)
        .iter()
        .map(|message| (message.id.clone(), message.heard.first().map(|heard| heard.fate)))
        .collect()
}

/// The stamp up to which an agent has read parts what it was given from what waits, and an own sender list counts as it did.
#[test]
fn what_was_unanswered_there_is_unanswered_here() {
    let sample = Sample::of("nanoclaw");
    let expected = [
        ("9001", Some(Fate::Answered)),
        ("9002", None),
        ("9003", Some(Fate::Waits)),
        ("F1", Some(Fate::Given)),
        ("F2", Some(Fate::Given)),
        ("F3", Some(Fate::Answered)),
        ("F4", None),
        ("501", Some(Fate::Given)),
        // Its sender is not on the list: the trigger does not count.
        ("502", Some(Fate::Given)),
        ("503", None),
        ("504", Some(Fate::Kept)),
        ("F5", Some(Fate::Given)),
        ("F6", Some(Fate::Kept)),
        ("F7", Some(Fate::Waits)),
        ("M1", Some(Fate::Answered)),
        ("M2", None),
        // Its author is the account itself.
        ("M3", Some(Fate::Kept)),
    ];
    assert_eq!(fates(&sample), expected.map(|(id, fate)| (id.to_owned(), fate)));
}

#[test]
fn a_message_that_two_agents_were_given_is_one_with_two_fates() {
    let sample = Sample::of("nanoclaw-v2");
    sample.sql(
        &inbound(&sample, "ag-home", "203:ag-home"),
        "INSERT INTO messages_in SELECT '202:ag-home', 100, kind, '2026-05-20T09:12:00.000Z', 'pending', process_after, recurrence, series_id,
            tries, 0, platform_id, channel_type, thread_id, content, source_session_id, on_wake FROM messages_in WHERE id = '203:ag-home'",
    );
    let all = messages(&sample);
    let both: Vec<&Message> = all.iter().filter(|message| message.id == "202").collect();
    assert_eq!(both.len(), 1);
    let mut fates: Vec<(&str, Fate)> =
        both[0].heard.iter().map(|heard| (heard.group.as_str(), heard.fate)).collect();
    fates.sort();
    assert_eq!(fates, [("club", Fate::Answered), ("home", Fate::Kept)]);
}

/// The store of the session that has this row.
fn inbound(sample: &Sample, agent: &str, id: &str) -> String {
    let sessions = format!("data/v2-sessions/{agent}");
    for entry in fs::read_dir(sample.path(&sessions)).unwrap() {
        let inner = format!("{sessions}/{}/inbound.db", entry.unwrap().file_name().display());
        let Ok(c) = rusqlite::Connection::open(sample.path(&inner)) else { continue };
        let has = c.query_row("SELECT count(*) FROM messages_in WHERE id = ?1", [id], |r| r.get::<_, i64>(0));
        if has == Ok(1) {
            return inner;
        }
    }
    panic!("no session has {id}");
}

#[test]
fn another_program_s_installation_is_named_with_the_command_for_it() {
    for (name, other, words) in [
        ("nanoclaw-v2", SourceKind::Nanoclaw, "NanoClaw v2: `g2 import nanoclaw-v2`"),
        ("nanoclaw", SourceKind::NanoclawV2, "NanoClaw v1: `g2 import nanoclaw`"),
    ] {
        let sample = Sample { program: other, ..Sample::of(name) };
        let around = Around { home: None, zones: Zones::utc(), now: NOW, scratch: std::env::temp_dir() };
        let error = open(other, sample.dir.path(), around).err().unwrap().to_string();
        assert!(error.contains(words), "{error}");
    }
}

/// Two programs side by side: strangers that were not heard there are not heard here, whatever the settings are.
#[test]
fn the_list_of_senders_comes_with_the_people() {
    let sample = Sample::of("nanoclaw");
    let lists = |parts: &[Part]| -> Vec<String> {
        let (rows, _) = read(&mut *sample.open(), parts);
        rows.into_iter().filter(|row| matches!(row.row, Row::List(_))).map(|row| row.key).collect()
    };
    assert_eq!(lists(&[Part::Groups, Part::People, Part::Messages]), ["sender-allowlist"]);
    assert_eq!(lists(&[Part::Settings]), ["mount-allowlist"]);
}

/// The texts of a sample, each with its state and its error.
fn said(sample: &Sample) -> Vec<(String, Said, Option<String>)> {
    let texts = sample.read().0.into_iter().filter_map(|row| match row.row {
        Row::Text(text) => Some((text.text, text.state, text.error)),
        _ => None,
    });
    texts.collect()
}

#[test]
fn a_text_that_was_delivered_is_never_unsent_however_many_were() {
    let sample = Sample::of("nanoclaw-v2");
    let inbound = inbound(&sample, "ag-home", "101:ag-home");
    let outbound = inbound.replace("inbound.db", "outbound.db");
    let many = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 20500)";
    sample.sql(
        &inbound,
        &format!(
            "CREATE TEMP TABLE last AS SELECT * FROM delivered; DELETE FROM delivered;
             {many} INSERT INTO delivered SELECT 'x' || n, NULL, 'delivered', '2026-05-01 00:00:00' FROM n;
             INSERT INTO delivered SELECT * FROM last; UPDATE messages_in SET status = 'pending';"
        ),
    );
    sample.sql(
        &outbound,
        &format!(
            "CREATE TEMP TABLE last AS SELECT * FROM processing_ack; DELETE FROM processing_ack;
             {many} INSERT INTO processing_ack SELECT 'x' || n, 'completed', '2026-05-01 00:00:00' FROM n;
             INSERT INTO processing_ack SELECT * FROM last;"
        ),
    );
    let text = |sample: &Sample| said(sample).into_iter().find(|(text, ..)| text == "It is on.").unwrap();
    assert_eq!(text(&sample), ("It is on.".into(), Said::Sent, None));
    let first = messages(&sample).into_iter().find(|message| message.id == "101").unwrap();
    assert_eq!(first.heard[0].fate, Fate::Answered);

    // Where nobody can look it up, nobody sends it again.
    sample.sql(&inbound, "DROP TABLE delivered");
    let error = "nobody knows whether it was delivered".to_owned();
    assert_eq!(text(&sample), ("It is on.".into(), Said::Failed, Some(error.clone())));
    fs::write(sample.path(&inbound), "not a store").unwrap();
    assert_eq!(text(&sample), ("It is on.".into(), Said::Failed, Some(error)));
}

#[test]
fn a_text_that_its_host_would_not_send_yet_or_not_there_is_left() {
    let sample = Sample::of("nanoclaw-v2");
    let outbound = |agent: &str, id: &str| inbound(&sample, agent, id).replace("inbound.db", "outbound.db");
    let text = |id: &str, after: &str, chat: &str| {
        format!(
            "INSERT INTO messages_out (id, seq, timestamp, deliver_after, kind, platform_id, channel_type, content)
             VALUES ('{id}', 9{id}, '2026-05-20 09:10:30', {after}, 'chat', '{chat}', 'telegram', '{{\"text\":\"text {id}\"}}');"
        )
    };
    let (own, other) = ("telegram:-1005550001", "telegram:42");
    sample.sql(
        &outbound("ag-club", "202:ag-club"),
        &[text("1", "NULL", own), text("2", "NULL", other), text("3", "'2026-05-20 10:00:01'", own)].concat(),
    );
    sample.sql(
        &outbound("ag-home", "101:ag-home"),
        &[text("4", "'2026-05-20 10:00:00'", own), text("5", "'soon'", other)].concat(),
    );
    let unsent = said(&sample)
        .into_iter()
        .filter(|(text, state, _)| *state == Said::Unsent && text.starts_with("text "));
    let mut unsent: Vec<String> = unsent.map(|(text, ..)| text).collect();
    unsent.sort();
    assert_eq!(unsent, ["text 1", "text 4"]);
    let (_, findings) = sample.read();
    let why: Vec<&str> = told(&findings, Kind::Text).into_iter().map(|(.., why)| why).collect();
    assert_eq!(why.iter().filter(|why| why.contains("no right to its chat")).count(), 1, "{why:?}");
    assert_eq!(why.iter().filter(|why| why.contains("to be sent later")).count(), 2, "{why:?}");
}

#[test]
fn a_task_without_a_time_runs_at_its_next_one_and_that_is_told() {
    let sample = Sample::of("nanoclaw-v2");
    let inbound = inbound(&sample, "ag-home", "101:ag-home");
    sample.sql(
        &inbound,
        "UPDATE messages_in SET process_after = NULL, recurrence = '0 9 * * *' WHERE kind = 'task'",
    );
    let (rows, findings) = sample.read();
    let reckoned = told(&findings, Kind::Task).into_iter().filter(|(.., why)| why.contains("reckoned anew"));
    let reckoned: Vec<&str> = reckoned.map(|(_, id, _)| id).collect();
    assert!(!reckoned.is_empty(), "{findings:?}");
    for row in rows {
        let Row::Task(task) = row.row else { continue };
        assert!(task.next_run.is_some(), "{task:?}");
    }
}
