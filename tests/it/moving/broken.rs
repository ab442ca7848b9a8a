//! Stores that are broken, hostile, or of a version that nobody knows: what is wrong is told by row, and the rest is taken.
#![expect(clippy::disallowed_methods, reason = "a test breaks a copy of an installation")]

use std::{
    fs,
    io::{Seek as _, SeekFrom, Write as _},
    os::unix::fs::symlink,
};

use g2::{
    domain::{
        moved::{
            findings::Sort,
            rows::{Fate, Keyed, Kind, Row},
        },
        time::zone::Zones,
    },
    moving::sources::{Around, SourceKind, open},
};

use super::samples::{NOW, Sample, told};

const STORE: &str = "store/messages.db";

fn texts(rows: &[Keyed]) -> Vec<String> {
    rows.iter()
        .filter_map(|row| match &row.row {
            Row::Message(message) => Some(message.text.clone()),
            _ => None,
        })
        .collect()
}

fn count(rows: &[Keyed], kind: Kind) -> usize {
    rows.iter().filter(|row| row.row.kind() == kind).count()
}

/// The reason why it can't be opened.
fn refused(sample: &Sample) -> String {
    let around = Around { home: None, zones: Zones::utc(), now: NOW, scratch: std::env::temp_dir() };
    open(sample.program, sample.dir.path(), around).err().expect("it can be opened").to_string()
}

#[test]
fn a_store_that_ends_too_early_gives_what_it_has_or_says_why_not() {
    let whole = Sample::of("nanoclaw");
    let size = fs::metadata(whole.path(STORE)).unwrap().len();
    for end in [0, 1, 100, 4096, 4097, size / 3, size / 2, size - 4096, size - 1] {
        let sample = Sample::of("nanoclaw");
        fs::OpenOptions::new().write(true).open(sample.path(STORE)).unwrap().set_len(end).unwrap();
        let around = Around { home: None, zones: Zones::utc(), now: NOW, scratch: std::env::temp_dir() };
        match open(sample.program, sample.dir.path(), around) {
            Ok(_) => {
                let (rows, findings) = sample.read();
                assert!(!findings.is_empty(), "{end}: nothing is told");
                assert!(count(&rows, Kind::Message) <= 17);
            }
            Err(error) => assert!(error.to_string().contains(STORE), "{end}: {error}"),
        }
    }
}

#[test]
fn rows_around_a_damaged_place_are_taken_and_the_place_is_told_by_its_rows() {
    let sample = Sample::of("nanoclaw");
    sample.sql(
        STORE,
        "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 3000)
         INSERT INTO messages (id, chat_jid, sender, sender_name, content, timestamp, is_from_me, is_bot_message)
         SELECT 'x' || n, 'tg:-1001234567890', '77', 'Magnus', 'number ' || n || ' ' || hex(randomblob(40)), '2026-05-01T00:00:00.000Z', 0, 0 FROM n",
    );
    let (rows, _) = sample.read();
    let all = count(&rows, Kind::Message);
    assert_eq!(all, 3017);
    // The leaf that has the 1500th row.
    let bytes = fs::read(sample.path(STORE)).unwrap();
    let at = bytes.windows(12).position(|window| window == b"number 1500 ").unwrap() / 4096 * 4096;
    let mut file = fs::OpenOptions::new().write(true).open(sample.path(STORE)).unwrap();
    file.seek(SeekFrom::Start(at as u64)).unwrap();
    file.write_all(&[0xff; 4096]).unwrap();
    drop(file);
    let (rows, findings) = sample.read();
    let left = count(&rows, Kind::Message);
    assert!(left > 2900 && left < all, "{left} of {all}");
    let told = told(&findings, Kind::Message);
    assert!(
        told.iter().any(|(sort, key, why)| {
            *sort == Sort::Left && key.starts_with("messages rows ") && why.contains("damaged")
        }),
        "{told:?}"
    );
    assert!(texts(&rows).iter().any(|text| text.starts_with("number 3000 ")));
}

/// A log that a program has not yet written into its store is read; one of another store is left.
#[test]
fn a_log_beside_the_store_is_read_if_it_is_its_own() {
    let sample = Sample::of("nanoclaw");
    let (store, log) = (sample.path(STORE), sample.path("store/messages.db-wal"));
    let writer = rusqlite::Connection::open(&store).unwrap();
    writer.pragma_update(None, "journal_mode", "wal").unwrap();
    writer.execute_batch("PRAGMA wal_autocheckpoint = 0; INSERT INTO messages (id, chat_jid, sender, sender_name, content, timestamp, is_from_me, is_bot_message)
        VALUES ('new', 'tg:-1001234567890', '77', 'Magnus', 'only in the log', '2026-05-20T09:59:00.000Z', 0, 0)").unwrap();
    assert!(fs::metadata(&log).unwrap().len() > 0);
    let (rows, findings) = sample.read();
    assert!(texts(&rows).contains(&"only in the log".to_owned()));
    assert!(told(&findings, Kind::Source).is_empty(), "{findings:?}");
    drop(writer);

    // The log of a store that has other pages.
    let other = tempfile::tempdir().unwrap();
    let stranger = rusqlite::Connection::open(other.path().join("o")).unwrap();
    stranger.pragma_update(None, "journal_mode", "wal").unwrap();
    stranger.execute_batch("PRAGMA wal_autocheckpoint = 0; CREATE TABLE t (a); CREATE TABLE u (b); INSERT INTO t SELECT randomblob(9000)").unwrap();
    fs::copy(other.path().join("o-wal"), &log).unwrap();
    let (rows, findings) = sample.read();
    assert_eq!(count(&rows, Kind::Message), 18);
    let told = told(&findings, Kind::Source);
    assert!(
        told.iter().any(|(_, key, why)| key.ends_with("messages.db-wal") && why.contains("read without it")),
        "{told:?}"
    );
}

/// SQLite removes the file that such a journal names.
#[test]
fn a_journal_that_names_another_file_is_refused_and_the_file_stays() {
    let sample = Sample::of("nanoclaw");
    let precious = sample.path("precious");
    fs::write(&precious, "keep me").unwrap();
    let mut journal = vec![0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
    journal.resize(512, 0);
    journal.extend(precious.to_str().unwrap().as_bytes());
    let (len, sum) =
        (precious.to_str().unwrap().len(), precious.to_str().unwrap().bytes().map(u32::from).sum::<u32>());
    journal.extend(u32::try_from(len).unwrap().to_be_bytes());
    journal.extend(sum.to_be_bytes());
    journal.extend([0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7]);
    fs::write(sample.path("store/messages.db-journal"), journal).unwrap();
    let why = refused(&sample);
    assert!(why.contains("journal names another file"), "{why}");
    assert_eq!(fs::read_to_string(&precious).unwrap(), "keep me");
}

#[test]
fn views_triggers_and_computed_tables_are_named_and_never_run() {
    let sample = Sample::of("nanoclaw");
    sample.sql(
        STORE,
        "CREATE VIEW everything AS SELECT * FROM messages;
         CREATE TRIGGER spy AFTER INSERT ON messages BEGIN DELETE FROM messages; END;
         CREATE TABLE doubled (a INTEGER, b INTEGER GENERATED ALWAYS AS (a * 2));
         CREATE TABLE bare (a TEXT PRIMARY KEY) WITHOUT ROWID;
         DROP TABLE sessions;
         CREATE VIEW sessions AS WITH RECURSIVE n (group_folder, session_id) AS
            (SELECT 'main', 'x' UNION ALL SELECT group_folder, session_id || 'x' FROM n) SELECT * FROM n;",
    );
    let (rows, findings) = sample.read();
    assert_eq!(count(&rows, Kind::Message), 17);
    let told = told(&findings, Kind::Source);
    for (name, word) in [
        ("everything", "a view"),
        ("spy", "a trigger"),
        ("doubled", "computed"),
        ("bare", "row numbers"),
        ("sessions", "a view"),
    ] {
        assert!(
            told.iter().any(|(_, key, why)| key.ends_with(name) && why.contains(word)),
            "{name}: {told:?}"
        );
    }
}

#[test]
fn tables_and_columns_of_an_unknown_version_are_named() {
    let sample = Sample::of("nanoclaw-v2");
    sample
        .sql("data/v2.db", "CREATE TABLE moods (a); ALTER TABLE users ADD COLUMN colour TEXT DEFAULT 'red'");
    let (rows, findings) = sample.read();
    assert_eq!(count(&rows, Kind::User), 4);
    let told = told(&findings, Kind::Source);
    for name in ["data/v2.db: moods", "data/v2.db: users.colour"] {
        assert!(
            told.iter().any(|(_, key, why)| *key == name && why.contains("no known version")),
            "{told:?}"
        );
    }
}

#[test]
fn odd_rows_are_told_one_by_one_and_the_rest_is_taken() {
    let sample = Sample::of("nanoclaw");
    sample.sql(
        STORE,
        "PRAGMA foreign_keys = OFF;
         INSERT INTO messages (id, chat_jid, sender, sender_name, content, timestamp, is_from_me) VALUES
            ('zone', 'tg:-1001234567890', '77', 'Magnus', 'in another zone', '2026-05-20T11:00:00+05:30', 0),
            ('half', 'tg:-1001234567890', '77', 'Magnus', CAST(x'686920eda0bd' AS TEXT), '2026-05-20T07:01:00.000Z', 0),
            ('when', 'tg:-1001234567890', '77', 'Magnus', 'no time', 'yesterday', 0),
            ('long', 'tg:-1001234567890', '77', 'Magnus', hex(zeroblob(3000000)), '2026-05-20T07:02:00.000Z', 0),
            ('blob', 'tg:-1001234567890', '77', 'Magnus', x'00ff', '2026-05-20T07:03:00.000Z', 0),
            ('lost', 'tg:-1', '77', 'Magnus', 'no such chat', '2026-05-20T07:04:00.000Z', 0),
            (NULL, 'tg:-1001234567890', '77', 'Magnus', 'no id', '2026-05-20T07:05:00.000Z', 0);
         INSERT INTO registered_groups (jid, name, folder, trigger_pattern, added_at) VALUES
            ('tg:1', 'Out', '../../etc', '@Andy', 'now'), ('tg:2', 'Errors', 'errors', '@Andy', 'now'), ('', 'No chat', 'nochat', '@Andy', 'now');
         UPDATE registered_groups SET container_config = '{\"timeout\": 5, \"colour\": 1}' WHERE folder = 'work';
         UPDATE router_state SET value = '{broken' WHERE key = 'last_agent_timestamp';
         UPDATE sessions SET session_id = '../../../etc/passwd' WHERE group_folder = 'main';
         INSERT INTO scheduled_tasks (id, group_folder, chat_jid, prompt, schedule_type, schedule_value, created_at) VALUES
            ('t1', 'main', 'tg:1', 'p', 'cron', 'each day', 'now'), ('t2', 'main', 'tg:1', 'p', 'moon', 'full', 'now'), ('t3', 'nobody', 'tg:1', 'p', 'once', '2026-06-01T10:00:00', 'now');",
    );
    let (rows, findings) = sample.read();
    assert_eq!(count(&rows, Kind::Message), 20);
    assert_eq!((count(&rows, Kind::Group), count(&rows, Kind::Task)), (4, 5));
    let message = |id: &str| {
        rows.iter().find_map(|row| match &row.row {
            Row::Message(message) if message.id == id => Some(message),
            _ => None,
        })
    };
    assert_eq!(message("zone").unwrap().at.unwrap().to_string(), "2026-05-20T05:30:00.000Z");
    assert!(message("half").unwrap().text.starts_with("hi \u{fffd}"));
    let all: Vec<String> =
        findings.iter().map(|f| format!("{} {} {}: {}", f.sort, f.kind, f.key, f.why)).collect();
    for expected in [
        "changed message tg:-1001234567890 half: some of its bytes are no text",
        "changed message tg:-1001234567890 when: its time \"yesterday\" is none",
        "(long): it is longer",
        "(blob): it has bytes",
        "(lost): its chat is not in the store",
        "it has no id",
        "left group tg:1: folder name \"../../etc\" is not allowed",
        "left group tg:2: folder name \"errors\" is not allowed",
        "left group : it has no address",
        "changed group work: its setting timeout is not taken",
        "changed group work: colour of its container_config",
        "changed lane router_state: the places",
        "left lane main: its session has no id",
        "(t1): ",
        "(t2): it has a schedule of the kind \"moon\"",
        "(t3): no group of this folder",
    ] {
        assert!(all.iter().any(|told| told.contains(expected)), "{expected}: {all:#?}");
    }
    // The places are taken from the agents' answers, as their program takes them where it has none.
    assert_eq!(all.iter().filter(|told| told.starts_with("left message")).count(), 4);
}

/// No key of a hostile store stands in the way of the others: the first registration counts.
#[test]
fn what_stands_twice_is_taken_once_and_told() {
    let sample = Sample::of("nanoclaw");
    sample.sql(
        STORE,
        "CREATE TABLE twice AS SELECT * FROM registered_groups UNION ALL SELECT * FROM registered_groups;
         DROP TABLE registered_groups; ALTER TABLE twice RENAME TO registered_groups;
         UPDATE registered_groups SET name = 'Family', is_main = 1 WHERE folder IN ('work', 'family');",
    );
    let (rows, findings) = sample.read();
    assert_eq!((count(&rows, Kind::Group), count(&rows, Kind::Wiring)), (4, 4));
    let mains = rows.iter().filter(|row| matches!(&row.row, Row::Group(group) if group.is_main)).count();
    assert_eq!(mains, 1);
    assert_eq!(
        told(&findings, Kind::Wiring).iter().filter(|(_, _, why)| why.contains("registered twice")).count(),
        4
    );
    assert!(told(&findings, Kind::Group).iter().any(|(_, _, why)| why.contains("\"Family (work)\"")));
}

#[test]
fn a_store_that_is_no_file_or_too_large_is_refused_at_once() {
    for (make, words) in [
        ((|path| drop(symlink("/etc/hostname", path))) as fn(&std::path::Path), "it is a link"),
        (|path| fs::create_dir(path).unwrap(), "no plain file"),
        (
            |path| rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::RUSR).unwrap(),
            "no plain file",
        ),
        (|path| fs::File::create(path).unwrap().set_len(300 << 30).unwrap(), "at most"),
        (|path| fs::write(path, "SELECT * FROM messages").unwrap(), "no SQLite database"),
    ] {
        let sample = Sample::of("nanoclaw");
        fs::remove_file(sample.path(STORE)).unwrap();
        make(&sample.path(STORE));
        let why = refused(&sample);
        assert!(why.contains(words), "{words}: {why}");
    }
}

#[test]
fn sessions_of_the_second_version_lead_nowhere_and_a_broken_one_leaves_the_others() {
    let sample = Sample::of("nanoclaw-v2");
    sample.sql(
        "data/v2.db",
        "INSERT INTO sessions SELECT '../../../../../../etc', agent_group_id, messaging_group_id, thread_id, agent_provider, status, container_status, last_active, created_at FROM sessions LIMIT 1;
         UPDATE messaging_group_agents SET engage_mode = 'always' WHERE id = 'mga-1';",
    );
    let sessions = sample.path("data/v2-sessions/ag-club");
    let session = fs::read_dir(&sessions).unwrap().next().unwrap().unwrap().path();
    fs::write(session.join("inbound.db"), "not a store").unwrap();
    let (rows, findings) = sample.read();
    assert_eq!(count(&rows, Kind::Task), 3);
    assert!(texts(&rows).contains(&"turn the light on".to_owned()));
    assert!(told(&findings, Kind::Lane).iter().any(|(_, _, why)| why.contains("leads to another folder")));
    assert!(told(&findings, Kind::Source).iter().any(|(_, key, _)| key.ends_with("inbound.db")));
    assert!(
        told(&findings, Kind::Wiring).iter().any(|(sort, key, _)| *sort == Sort::Changed && *key == "mga-1")
    );
    assert_eq!(sample.program, SourceKind::NanoclawV2);
}

/// JavaScript cuts texts in the middle of a character.
#[test]
fn half_a_character_in_json_is_mended() {
    let sample = Sample::of("nanoclaw-v2");
    let store = {
        let home = sample.path("data/v2-sessions/ag-home");
        let entries = fs::read_dir(home).unwrap().map(|entry| entry.unwrap().path());
        let mut stores = entries.map(|path| path.join("inbound.db")).filter(|path| path.exists());
        stores.next().unwrap().strip_prefix(sample.dir.path()).unwrap().display().to_string()
    };
    sample.sql(
        &store,
        r#"INSERT INTO messages_in (id, seq, kind, timestamp, trigger, platform_id, channel_type, content)
           VALUES ('h:ag-home', 900, 'chat', '2026-05-20T09:50:00.000Z', 1, 'telegram:42', 'telegram', '{"text":"cut \ud83c","senderId":"42"}')"#,
    );
    let (rows, _) = sample.read();
    assert!(texts(&rows).contains(&"cut \u{fffd}".to_owned()));
}

/// An agent of the second version writes into the folder of its session: a link there leads to no other one's messages.
#[test]
fn a_link_in_the_place_of_a_store_is_told_and_not_followed() {
    let sample = Sample::of("nanoclaw-v2");
    let (before, _) = sample.read();
    let sessions = sample.path("data/v2-sessions");
    let mut stores = Vec::new();
    for agent in fs::read_dir(&sessions).unwrap() {
        for session in fs::read_dir(agent.unwrap().path()).unwrap() {
            stores.push(session.unwrap().path().join("inbound.db"));
        }
    }
    stores.retain(|store| store.exists());
    stores.sort();
    assert!(stores.len() > 1, "{stores:?}");
    fs::remove_file(&stores[0]).unwrap();
    symlink(&stores[1], &stores[0]).unwrap();
    let (rows, findings) = sample.read();
    assert!(count(&rows, Kind::Message) < count(&before, Kind::Message));
    let told = told(&findings, Kind::Source);
    assert!(
        told.iter().any(|(_, key, why)| key.ends_with("inbound.db") && why.contains("it is a link")),
        "{told:?}"
    );
}

#[test]
fn keys_in_a_vault_are_named_and_what_is_of_the_account_itself_wakes_nobody() {
    let sample = Sample::of("nanoclaw");
    fs::write(sample.path(".env"), "ONECLI_URL=http://127.0.0.1:10254\n").unwrap();
    sample.sql(
        STORE,
        "INSERT INTO messages (id, chat_jid, sender, sender_name, content, timestamp, is_from_me, is_bot_message)
         VALUES ('mine', 'tg:-1001234567890', '77', 'Magnus', '@Andy and this', '2026-05-20T09:59:00.000Z', 1, 0)",
    );
    let (rows, findings) = sample.read();
    let vault = findings.iter().find(|found| found.key == "ONECLI_URL").expect("it is told");
    assert!(vault.fix.as_deref().is_some_and(|fix| fix.contains("g2 doctor")), "{vault:?}");
    let mine = rows.iter().find_map(|row| match &row.row {
        Row::Message(message) if message.id == "mine" => Some(message),
        _ => None,
    });
    let heard = &mine.expect("it is taken").heard;
    assert!(heard.iter().all(|heard| heard.fate == Fate::Kept), "{heard:?}");
    assert!(!heard.is_empty());
}
