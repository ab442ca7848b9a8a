//! What becomes of installations as their own programs wrote them.
#![expect(clippy::disallowed_methods, reason = "a test changes a copy of an installation")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::fs;

use g2::{
    domain::{
        moved::rows::{Fate, Message, Part, Row},
        time::zone::Zones,
    },
    moving::sources::{Around, SourceKind, open},
};

use super::samples::{NOW, Sample, read};

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
            assert!(rows.iter().all(|row| row.row.kind().part() == part), "{name}: {part}");
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
        ("M3", Some(Fate::Waits)),
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
        let around = Around { home: None, zones: Zones::utc(), now: NOW };
        let error = open(other, sample.dir.path(), around).err().unwrap().to_string();
        assert!(error.contains(words), "{error}");
    }
}
