use super::*;
use crate::{
    domain::{platforms::chats::ChatKind, shown::feed::EventKind},
    store::Store,
};

/// The last schema of before, as the program of that time left it: a statement a line, without comments.
const BEFORE: &str = include_str!("../../../tests/fixtures/schema_67.sql");

/// A file for a store, in a folder of its own.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn path(&self) -> PathBuf {
        self.file("g2.sqlite")
    }

    fn open(&self) -> Connection {
        let connection = Connection::open(self.path()).unwrap();
        connection.pragma_update(None, "foreign_keys", true).unwrap();
        connection
    }

    /// A store of the last schema of before, with two groups in it.
    fn before(&self) -> Connection {
        let connection = self.open();
        connection.execute_batch(BEFORE).unwrap();
        connection.execute_batch(GROUPS).unwrap();
        connection
    }

    /// A store of the first schema, with the same.
    fn first(&self) -> Connection {
        let connection = self.open();
        connection.execute_batch(MIGRATIONS[0].1).unwrap();
        Version::of(1).write(&connection).unwrap();
        connection.execute_batch(GROUPS).unwrap();
        connection
    }

    /// A store of this program, with the same.
    fn now(&self) -> Connection {
        let mut connection = self.open();
        migrate(&mut connection, &self.path()).unwrap();
        connection.execute_batch(GROUPS).unwrap();
        connection
    }

    fn copies(&self) -> Vec<String> {
        let name = |path: PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
        kept_copies(&self.path()).into_iter().map(name).collect()
    }
}

const GROUPS: &str =
    "INSERT INTO groups (folder, name, trigger, created_at) VALUES ('a', 'A', '@A', 0), ('b', 'B', '@B', 0);
     INSERT INTO chats (jid, channel, name, kind, created_at) VALUES ('tg:1', 'telegram', 'c', 'group', 1);";

fn count(c: &Connection, from: &str) -> i64 {
    c.query_row(&format!("SELECT count(*) FROM {from}"), [], |r| r.get(0)).unwrap()
}

/// The rows of a statement, in words.
fn rows(c: &Connection, sql: &str) -> Vec<String> {
    let mut statement = c.prepare(sql).unwrap();
    let columns = statement.column_count();
    let row = |r: &rusqlite::Row<'_>| -> rusqlite::Result<String> {
        let values = (0..columns).map(|n| Ok(format!("{:?}", r.get_ref(n)?)));
        Ok(values.collect::<rusqlite::Result<Vec<_>>>()?.join(" "))
    };
    statement.query_map([], row).unwrap().collect::<rusqlite::Result<_>>().unwrap()
}

#[test]
fn migrations_have_numbers_without_holes_and_each_file_is_one() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "README.md")
        .collect();
    files.sort();
    let listed: Vec<String> = MIGRATIONS.iter().map(|(name, _)| format!("{name}.sql")).collect();
    assert_eq!(files, listed);
    for (number, name) in (1..).zip(&listed) {
        assert!(name.starts_with(&format!("{number:04}_")), "{name} is number {number}");
    }
    assert_eq!(version(), Version::of(MIGRATIONS.len()));
}

#[test]
fn the_first_migration_makes_the_last_schema_of_before() {
    let (before, now) = (Place::new(), Place::new());
    let (before, now) = (before.before(), now.first());
    let (theirs, ours) = (parts(&before).unwrap(), parts(&now).unwrap());
    assert_eq!(
        theirs.symmetric_difference(&ours).collect::<Vec<_>>(),
        Vec::<&(String, String, String)>::new()
    );
    assert!(ours.len() > 200, "{}", ours.len());
    // As SQLite understands them: columns, keys, and indexes in the order in which they are considered.
    for asked in [
        "SELECT m.name, x.* FROM sqlite_schema m JOIN pragma_table_xinfo(m.name) x WHERE m.type = 'table' ORDER BY 1, 2",
        "SELECT m.name, l.wr, l.strict FROM sqlite_schema m JOIN pragma_table_list(m.name) l WHERE m.type = 'table' ORDER BY 1",
        "SELECT m.name, x.* FROM sqlite_schema m JOIN pragma_index_list(m.name) x WHERE m.type = 'table' ORDER BY 1, 2",
        "SELECT m.name, x.* FROM sqlite_schema m JOIN pragma_index_xinfo(m.name) x WHERE m.type = 'index' ORDER BY 1, 2",
        "SELECT m.name, x.* FROM sqlite_schema m JOIN pragma_foreign_key_list(m.name) x WHERE m.type = 'table' ORDER BY 1, 2, 3",
        "SELECT name, tbl_name FROM sqlite_schema WHERE type = 'trigger' ORDER BY 1",
        "SELECT id, name, dm_chat FROM users",
        "SELECT user_id, role, group_folder, granted_by FROM roles",
        "SELECT * FROM media_size",
        "SELECT * FROM totals",
    ] {
        let ours = rows(&now, asked);
        assert_eq!(rows(&before, asked), ours, "{asked}");
        assert!(!ours.is_empty(), "{asked}");
    }
}

#[test]
fn a_store_of_the_last_schema_of_before_goes_on_and_a_copy_is_kept_of_it() {
    let place = Place::new();
    for old in ["g2.sqlite.before-0066", "g2.sqlite.before-0067"] {
        std::fs::write(place.file(old), "old").unwrap();
    }
    let mut connection = place.before();
    connection.execute("INSERT INTO meta (key, value) VALUES ('instance', 'x')", []).unwrap();
    migrate(&mut connection, &place.path()).unwrap();
    migrate(&mut connection, &place.path()).unwrap();
    assert_eq!(place.copies(), ["g2.sqlite.before-0067", "g2.sqlite.before-1012"], "the newest two");
    let copy = Connection::open(place.file("g2.sqlite.before-1012")).unwrap();
    for (c, version) in [(&connection, version()), (&copy, Version::LAST_OF_BEFORE)] {
        assert_eq!(Version::read(c).unwrap(), version);
        assert_eq!(count(c, "groups"), 2);
        assert_eq!(count(c, "meta WHERE key = 'instance' AND value = 'x'"), 1);
    }
    assert_eq!(odd_part(&connection, version()).unwrap(), None);
    drop(connection);
    let store = Store::open(&place.path()).unwrap();
    assert_eq!(store.counted().unwrap(), store.recounted().unwrap());
    let upgrade = store.upgrade().unwrap().unwrap();
    let told = (upgrade.from.to_string(), upgrade.to.to_string(), upgrade.changes);
    let typed =
        "What a run was made for, what had a text said, and why a slot did not run are numbers and codes";
    let amends = "Cards and reactions that are to be changed on their platforms stand in one table";
    let limits = "What keeps runs from their work may be a limit of the model, which is over at a time that its host names";
    let questions = "Agents ask the people of their chats, and get the answer as a message";
    let meant = "What people see in a chat is kept with its message";
    let gone = "Threads and chats that went are known, and the reason why a text is said without its thread";
    let owner =
        "People at the command line become owners on their platforms, and owners are told of problems";
    let models = "What keeps runs from their work may be a model that its host does not know";
    let moved = "What was taken from other installations is known by its key there";
    let reach = "What accounts tell of their addresses is kept, a person is known by all of their ids, and messages have titles";
    let used =
        "Tools that agents use are kept with their first argument, what came of them and how long they took";
    assert_eq!(
        told,
        (
            "67 of the old count".into(),
            "12".into(),
            [RENUMBERED, typed, amends, limits, meant, questions, gone, owner, models, used, moved, reach]
                .map(str::to_owned)
                .to_vec()
        )
    );
}

#[test]
fn accounts_that_a_store_has_are_read_as_the_program_of_before_did() {
    let place = Place::new();
    let mut c = place.first();
    c.execute_batch(
        "INSERT INTO chats (jid, channel, name, kind, created_at) VALUES ('tg.work:7', 'telegram.work', 'x', 'direct', 0),
           ('1@g.us', 'whatsapp', 'x', 'group', 0), ('local:main', 'local', 'x', 'direct', 0), ('irc:x', 'irc', 'x', 'group', 0);
         INSERT INTO channel_states (channel, state, since) VALUES ('slack', 'offline', 0), ('webhook.x', 'offline', 0), ('telegrams', 'offline', 0)",
    )
    .unwrap();
    migrate(&mut c, &place.path()).unwrap();
    let known = crate::store::talk::addresses::known(&c).unwrap();
    for (jid, channel, kind) in [
        ("tg.work:7", "telegram.work", ChatKind::Direct),
        ("tg.work:-7", "telegram.work", ChatKind::Group),
        ("1@g.us", "whatsapp", ChatKind::Group),
        ("49@s.whatsapp.net", "whatsapp", ChatKind::Direct),
        ("slack:D1", "slack", ChatKind::Direct),
        ("hook.x:a", "webhook.x", ChatKind::Direct),
        ("irc:x", "irc", ChatKind::Group),
        // Nobody had such an account.
        ("mx:7", "mx", ChatKind::Group),
        ("telegrams:7", "telegrams", ChatKind::Group),
    ] {
        assert_eq!((known.channel_of(jid), known.kind_of(jid)), (channel, kind), "{jid}");
    }
    assert!(known.is_of_programs("webhook.x") && !known.is_of_programs("slack"));
    assert_eq!(known.named("telegram.work").unwrap().forms().main_thread(), "1");
}

#[test]
fn a_store_of_the_first_schema_keeps_what_its_runs_texts_and_slots_say() {
    let place = Place::new();
    let mut c = place.first();
    c.execute_batch(
        r#"INSERT INTO runs (id, group_folder, chat_jid, kind, source, slot, status, sandbox, generation, created_at, ended_at)
           VALUES (1, 'a', 'c', 'message', 'lane:7', NULL, 'failed', 'process', 0, 0, 1), (2, 'a', 'c', 'task', 'task:t:1', 4, 'failed', 'process', 0, 0, 1);
         INSERT INTO slots (group_folder, task, first, last, count, outcome, reason, after_run, at)
           VALUES ('a', 't', 1, 1, 1, 'skipped', 'resting after a failure', 0, 1), ('a', 't', 2, 2, 1, 'missed', 'more than 24 were missed', 0, 1);
         INSERT INTO outbox (chat_jid, text, status, cause, created_at)
           SELECT 'c', 'x', 'pending', value, 0 FROM json_each(
             '["run 2 record 30","command 9","command line","approval 4","notice: batch 12 failed","notice: batch 12 is tried again","waited"]')"#,
    )
    .unwrap();
    migrate(&mut c, &place.path()).unwrap();
    let texts = |sql: &str| -> Vec<String> {
        let mut all = c.prepare(sql).unwrap();
        all.query_map([], |r| r.get(0)).unwrap().collect::<rusqlite::Result<_>>().unwrap()
    };
    let runs = "SELECT concat_ws(' ', source, for_lane, for_task) FROM runs ORDER BY id";
    assert_eq!(texts(runs), ["lane:7 7", "task:t:1 t:1"]);
    assert_eq!(texts("SELECT reason FROM slots ORDER BY id"), ["rest", "too_many"]);
    assert_eq!(
        texts("SELECT concat_ws(' ', cause_kind, cause_id) FROM outbox ORDER BY id"),
        ["record 2", "command 9", "person", "approval 4", "batch_failed 12", "notice", "waited"]
    );
    assert_eq!(odd_part(&c, version()).unwrap(), None);
}

#[test]
fn cards_and_reactions_that_are_to_be_changed_stay_so() {
    let place = Place::new();
    let mut c = place.first();
    c.execute_batch(
        "INSERT INTO outbox (id, chat_jid, text, status, cause, created_at) VALUES (7, 'tg:1', 'card', 'pending', 'x', 0);
         INSERT INTO amends VALUES (7, 4);
         INSERT INTO signs VALUES (3, 'tg:1', 'm', '+', NULL), (5, 'mx:1', '$m', '+', '$r');",
    )
    .unwrap();
    migrate(&mut c, &place.path()).unwrap();
    let all = "SELECT group_concat(concat_ws(' ', outbox_id, approval_id, batch, chat_jid, message_id, sign_id), '; ' ORDER BY id) FROM amends";
    let all: String = c.query_row(all, [], |r| r.get(0)).unwrap();
    assert_eq!(all, "7 4; 3 tg:1 m; 5 mx:1 $m $r");
    c.execute("DELETE FROM outbox", []).unwrap();
    assert_eq!(count(&c, "amends"), 2, "a card's goes with it");
}

#[test]
fn a_store_of_the_same_number_with_another_schema_is_refused_and_left_alone() {
    for (other, odd) in [
        ("DROP INDEX outbox_once", "index outbox_once"),
        ("ALTER TABLE groups ADD COLUMN more TEXT", "table groups"),
        ("CREATE TABLE more (a TEXT)", "table more"),
    ] {
        let place = Place::new();
        let mut connection = place.before();
        connection.execute_batch(other).unwrap();
        let refused = migrate(&mut connection, &place.path()).unwrap_err();
        assert!(matches!(&refused, StoreError::Odd { odd: found, .. } if found == odd), "{refused}");
        assert_eq!(Version::read(&connection).unwrap(), Version::LAST_OF_BEFORE);
        assert_eq!(place.copies(), Vec::<String>::new());
    }
}

#[test]
fn older_schemas_and_newer_ones_are_refused_and_left_alone() {
    let newer = 1000 + MIGRATIONS.len() + 1;
    for stored in [1, 63, 66, 68, 1000, newer] {
        let place = Place::new();
        let mut connection = place.open();
        connection.pragma_update(None, "user_version", stored).unwrap();
        let refused = migrate(&mut connection, &place.path()).unwrap_err();
        match stored == newer {
            true => assert!(matches!(refused, StoreError::Newer { .. }), "{refused}"),
            false => assert!(matches!(refused, StoreError::TooOld { .. }), "{refused}"),
        }
        assert_eq!(count(&connection, "sqlite_schema"), 0);
        assert_eq!(place.copies(), Vec::<String>::new());
    }
}

#[test]
fn comments_blanks_and_quotes_make_no_other_schema() {
    for (sql, left) in [
        ("CREATE TABLE \"t\" (\n  a TEXT -- a comment's\n)", "CREATETABLEt(aTEXT)"),
        ("SELECT 'a -- b' -- c", "SELECT'a--b'"),
        ("SELECT \"--\", evil()\n", "SELECT--,evil()"),
        ("SELECT 'it''s' -- 'd'\n, e - f", "SELECT'it''s',e-f"),
    ] {
        assert_eq!(bare(sql), left);
    }
}

#[test]
fn each_table_that_is_counted_by_group_has_its_triggers_after_the_last_migration() {
    let place = Place::new();
    let connection = place.now();
    let triggers = |table: &str| {
        count(
            &connection,
            &format!(
                "sqlite_schema WHERE type = 'trigger' AND tbl_name = '{table}' AND name GLOB 'stored_*'"
            ),
        )
    };
    let counted = ["receipts", "outbox", "tasks", "archives", "runs", "slots"].map(triggers);
    assert_eq!(
        counted,
        [3, 3, 3, 3, 3, 2],
        "a migration that makes such a table anew makes its triggers anew"
    );
}

#[test]
fn every_kind_of_event_is_taken_and_no_other() {
    let place = Place::new();
    let connection = place.now();
    let tell = |kind: &str| connection.execute("INSERT INTO events (kind, subject) VALUES (?1, '1')", [kind]);
    for (kind, _) in EventKind::CHOICES {
        assert_eq!(tell(kind), Ok(1), "{kind}");
    }
    assert!(tell("nonsense").is_err());
}

#[test]
fn no_state_of_three_words_that_is_written_often_is_looked_for_in_a_list() {
    let place = Place::new();
    let connection = place.now();
    let long = regex::Regex::new(r"IN \('[^']*',[^',]*'[^']*',").unwrap();
    for name in ["events", "outbox", "outbox_open", "receipts", "attachments", "tasks", "inbox", "batches"]
        .into_iter()
        .chain(["batches_open", "runs", "sessions"])
    {
        let sql: String = connection
            .query_row("SELECT sql FROM sqlite_schema WHERE name = ?1", [name], |r| r.get(0))
            .unwrap();
        assert!(!long.is_match(&sql), "{name}: {sql}");
    }
}

#[test]
fn tasks_have_ids_of_their_group_and_numbers_that_are_given_once() {
    let place = Place::new();
    let connection = place.now();
    let task = |group: &str, id: &str| {
        connection.execute(
            "INSERT INTO tasks (id, group_folder, chat_jid, prompt, schedule_type, schedule_value, context_mode, status, created_at)
             VALUES (?2, ?1, 'c', 'zwölf', 'interval', '60000', 'group', 'active', 1)",
            [group, id],
        )
    };
    task("a", "t").unwrap();
    task("a", "u").unwrap();
    assert!(task("a", "t").is_err());
    assert_eq!(rows(&connection, "SELECT bytes FROM tasks WHERE id = 't'"), ["Integer(11)"]);
    connection.execute("DELETE FROM tasks WHERE id = 'u'", []).unwrap();
    task("b", "t").unwrap();
    assert_eq!(connection.last_insert_rowid(), 3, "the number of what was removed is not given again");
    let ran = |group: &str| {
        connection.execute(
            "INSERT INTO runs (group_folder, chat_jid, kind, for_task, slot, status, sandbox, generation, created_at, started_at, ended_at)
             VALUES (?1, 'c', 'task', 't', 4, 'succeeded', 'process', 0, 0, 1, 2)",
            [group],
        )
    };
    ran("a").unwrap();
    assert!(ran("a").is_err(), "a slot's attempt starts once");
    ran("b").unwrap();
    connection.execute("DELETE FROM groups WHERE folder = 'b'", []).unwrap();
    assert_eq!(count(&connection, "tasks"), 1, "its tasks go with a group");
}

#[test]
fn an_answer_is_a_word_and_where_it_connects_a_group() {
    let place = Place::new();
    let connection = place.now();
    let answered = |decision: &str, group: Option<&str>| {
        connection.execute(
            "INSERT INTO approvals (kind, chat_jid, sender, sender_name, state, approver, card_chat, options, created_at, expires_at, decided_at, decision, decided_group)
             VALUES ('channel', 'tg:1', 'tg:2', 'Bob', 'approved', 'local:me', 'local:main', '[]', 1, 9, 2, ?1, ?2)",
            (decision, group),
        )
    };
    assert!(answered("connect", Some("family")).is_ok() && answered("allow", None).is_ok());
    for (decision, group) in
        [("connect family", None), ("maybe", None), ("connect", None), ("allow", Some("family"))]
    {
        assert!(answered(decision, group).is_err(), "{decision} {group:?}");
    }
}

#[test]
fn a_session_tells_that_it_is_another_one_and_goes_with_its_lane() {
    let place = Place::new();
    let connection = place.now();
    connection
        .execute_batch(
            "INSERT INTO lanes (group_folder, chat_jid) VALUES ('a', 'tg:1');
             INSERT INTO sessions (lane_id, group_folder, chat_jid, thread) VALUES (1, 'a', 'tg:1', '');
             UPDATE sessions SET generation = 3 WHERE lane_id = 1;",
        )
        .unwrap();
    assert_eq!(
        count(&connection, "events WHERE kind = 'cleared' AND chat_jid = 'tg:1' AND subject = '1'"),
        1
    );
    connection.execute("DELETE FROM groups WHERE folder = 'a'", []).unwrap();
    assert_eq!(count(&connection, "sessions"), 0);
}

#[test]
fn the_next_group_of_a_name_has_no_receipts_and_no_files_of_the_earlier_one() {
    let place = Place::new();
    let connection = place.now();
    let folder = ipc_handlers::Folder::parse("a").unwrap();
    let after = || crate::store::work::by_hand::begun_after(&connection, &folder).unwrap();
    connection
        .execute_batch(
            "INSERT INTO receipts (claim_id, group_folder, box, name, origin, digest, outcome, at)
               VALUES (7, 'a', 'tasks', 'x.json', x'01', x'02', 'applied', 1);
             INSERT INTO filled_folders VALUES ('a');",
        )
        .unwrap();
    assert_eq!(after(), 0);
    connection.execute("DELETE FROM groups WHERE folder = 'a'", []).unwrap();
    assert_eq!(count(&connection, "filled_folders"), 0, "it goes with its group");
    connection
        .execute("INSERT INTO groups (folder, name, trigger, created_at) VALUES ('a', 'A', '@A', 0)", [])
        .unwrap();
    assert_eq!(after(), 7);
}

#[test]
fn a_token_has_a_purpose_and_a_whole_digest() {
    let place = Place::new();
    let connection = place.now();
    for (purpose, length, is_taken) in [("all", 32, false), ("metrics", 31, false), ("metrics", 32, true)] {
        let made = connection.execute(
            "INSERT INTO web_tokens (name, purpose, digest, made_by, made_at) VALUES ('t', ?1, zeroblob(?2), 'me', 1)",
            (purpose, length),
        );
        assert_eq!(made.is_ok(), is_taken, "{purpose} {length}");
    }
}
