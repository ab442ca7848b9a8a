//! No statement of the hot path walks through a table that grows. A story sends messages, commands and tasks from their
//! arrival to their end, and the test looks at the plan of every statement that SQLite was given on the way.
//!
//! A new method of the store is part of the story here, or it is in [`NOT_HOT`], with who calls it.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{Arc, Mutex},
};

use rusqlite::{
    Connection, StatementStatus,
    trace::{TraceEvent, TraceEventCodes},
};

mod growth;
mod people;
mod story;

use super::Store;
use story::the_story;

/// Statements, as they were written, with the steps that SQLite's machine took for each.
type Heard = Arc<Mutex<BTreeMap<String, i64>>>;

thread_local! {
    /// Where the statements go that this thread executes.
    static EAR: RefCell<Option<Heard>> = const { RefCell::new(None) };
}

/// Hears what a connection is given, on the threads that have an ear.
pub(super) fn listen(connection: &mut Connection) {
    let both = TraceEventCodes::SQLITE_TRACE_STMT | TraceEventCodes::SQLITE_TRACE_PROFILE;
    connection.trace_v2(both, Some(hear)).unwrap();
}

/// Has the statements of a read on another thread go where this thread's statements go.
pub(super) fn heard_here<T, F: FnOnce(&Connection) -> T>(
    work: F,
) -> impl FnOnce(&Connection) -> T + use<T, F> {
    let ear = EAR.with_borrow(Clone::clone);
    move |c| {
        let before = EAR.replace(ear);
        let value = work(c);
        EAR.set(before);
        value
    }
}

fn hear(event: TraceEvent<'_>) {
    let (statement, steps) = match event {
        TraceEvent::Stmt(statement, _) => (statement, 0),
        TraceEvent::Profile(statement, _) => {
            let steps = statement.get_status(StatementStatus::VmStep);
            (statement, i64::from(steps))
        }
        _ => return,
    };
    EAR.with_borrow(|ear| {
        if let Some(heard) = ear {
            let mut heard = heard.lock().unwrap();
            let most = heard.entry(statement.sql().into_owned()).or_default();
            *most = steps.max(*most);
        }
    });
}

/// Callers of methods that do not run for each message, command or task.
#[rustfmt::skip]
const NOT_HOT: [(&str, &[&str]); 23] = [
    ("an adapter: its events are stored as messages and marks are, and all else is read by a primary key, at its start, or once a second", &[
        "arrive", "know_account", "learn_addresses", "set_lights", "note_myself", "note_start", "note_out", "want_start", "forget_channel", "connection_of", "cursor_of", "newest_ids", "unsent",
        "part_begins",
    ]),
    ("a message with files that its platform keeps: rows of these files alone", &["want_files", "files_of_context", "file_work", "file_fetched", "file_missing", "file_read", "file_again"]),
    ("an account that lists its chats, at most once a minute: rows by their primary keys, and all its chats where one is new; and a person", &["know_chats", "note_listed", "listed", "chats_of"]),
    ("somebody who is to be asked and with whom no chat is known: the questions that wait for it, by an index", &["openings", "opened", "unopened"]),
    ("an account that tells of too many chats, once a minute; and `status`, a row an account", &["note_too_many_chats", "too_many_chats", "told_little", "owned_channels", "addresses"]),
    ("the look for problems, and at what hinders runs while something hinders one; a row a group that waits or is at work", &["hindrances", "hinders_no_more", "try_again", "prolong", "fallbacks", "may_fall_back", "dead_since", "notify", "notices", "pushes", "pushed", "mark_noted", "forget_noted"]),
    ("the judging of messages; its statement is that of `unjudged`", &["unjudged_after"]),
    ("a restore, of a store that nobody serves", &["rehearse_start"]),
    ("an import into a store that nobody serves, rows by their keys; an export, of a copy", &["take_in", "moved_as", "group_came", "note_moved", "move_out"]),
    ("a person whose forwarded or edited words read as a command; rows of that message alone", &["tell_no_command"]),
    ("a terminal that listens, while a text grows in its chat: the texts that grow, and rows by their primary key", &["growing_in", "how_far"]),
    ("a person who says a word in a chat: rows of one lane, of the newest 200 messages of a chat, the tasks of a group, and a month's sums of models", &["stands", "models_since", "asked_about", "tasks_for"]),
    ("the end of a daemon, or of one change without one", &["empty_log"]),
    ("a service manager's watchdog: a row by its primary key", &["beat"]),
    ("the start, and `status`", &["open", "open_in", "meta", "upgrade", "set_meta", "clear_meta", "clocks_changed", "budget_rows", "filled_folders"]),
    ("the clocks, when they change", &["note_clocks", "read_clocks"]),
    ("a change of HEARTBEAT.md, at most one in some seconds; and the start", &["set_heartbeat", "groups_with_heartbeat"]),
    ("the sweep of files at the start and each hour, a row of an index each; `doctor`", &["has_file", "media_bytes"]),
    ("anybody, without SQL", &["wake_readers", "held_up", "our_fault", "index_fault", "index_is_wanted", "path", "world", "asking", "bounded", "renew", "media_limits", "is_read_only", "follow_from", "follow_new", "follow_kinds_from", "watch_others_every"]),
    ("pruning, beside everybody else; its plans are looked at in prune/tests.rs", &[
        "history", "newest", "next_history", "remove_history", "dropped_until", "remove_dropped", "marks_until", "remove_marks", "slots_until", "remove_slots", "audit_until", "remove_audit", "runs_gone", "was_given", "size",
        "needed_sessions", "runs_with_files", "runs_without_files", "bytes_of_runs", "weighed", "largest_groups",
        "outlived_requests",
    ]),
    ("a part of the daemon that tells main something, such as the watch over the disk", &["tell", "chat_of_main"]),
    ("a person at the operator's page; its plans are looked at in views/page/tests.rs", &[
        "chats_on_page", "transcript", "words_of_questions", "outbox_on_page", "runs_on_page", "run_story", "tasks_to_come", "tasks_at_rest",
        "add_web_ticket", "enter_web", "web_session", "web_sessions", "end_web_sessions", "web_token", "web_tokens",
        "add_web_token", "keep_token_of_file", "note_token_used", "end_web_token",
    ]),
    ("a person at the command line", &[
        "counts", "accounts_known", "act", "add_claim", "adopt_session", "audit", "audit_ends", "audit_rows", "changes", "commit_times", "count_held_back", "decide_held", "held_back", "figures", "egress", "set_rule_outside", "counted", "recounted", "add_group", "add_member", "archived_session", "archives_kept", "as_if", "chat", "chats",
        "claim", "clear_dropped", "command_of_file", "commands_called", "conversation", "delete_archive", "dropped", "event_before", "forget_note", "grant_role", "groups",
        "hold", "ipc_rows", "lanes_called", "live_sessions", "members", "messages", "messages_of", "approvals_of", "newest_groups", "newest_members", "newest_users", "newest_admins", "newest_wirings", "newest_wirings_of", "note", "note_problem", "note_drop", "note_retry", "outbox_row", "questions",
        "put_user", "activity", "heard_word", "clear_lanes", "lanes_in", "drop_outbox", "skip_message", "leaving", "leave", "has_left", "stop_run", "stop_of", "tell_owner", "run", "say_to_run", "steps_of_run", "seen_of_run", "release", "remove_group", "remove_member", "remove_user", "remove_wiring", "retry_outbox", "say_by_hand", "revoke_roles",
        "runs", "runs_of", "outbox_of", "sessions", "set_chat", "set_group", "set_wiring", "settled_file", "shown_lanes", "speaker", "story", "task_history", "tasks", "groups_of_task", "tried_as", "unanswered",
        "unstick", "usage", "usage_of_run", "users", "visit", "wake_lanes", "waiters",
    ]),
];

/// The walks from end to end that a plan may have: a part of the statement, the beginning of the step, and why the walk is
/// short.
#[rustfmt::skip]
const SHORT: [(&str, &str, &str); 44] = [
    ("FROM claims WHERE expires_at", "SCAN claims", "at most 20 rows"),
    ("", "SCAN CONSTANT ROW", "one row"),
    ("WITH mine", "SCAN mine", "the ids of one person, at most nine"),
    ("FROM account_addresses ORDER BY", "SCAN account_addresses", "a row an account, where a chat is new"),
    ("", "SCAN (subquery", "its own rows; where they come from is a step of its own"),
    ("", "SCAN sqlite_sequence", "a row a table"),
    ("FROM lanes l WHERE l.id IN (SELECT value FROM json_each", "SCAN json_each", "the lanes of a group in which something waits"),
    ("INSERT INTO lanes", "SCAN runs", "only while a foreign key is broken, which none is"),
    ("INSERT INTO groups", "SCAN roles", "only while a foreign key is broken, which none is"),
    ("FROM batches b INDEXED BY batches_open", "SCAN b USING INDEX batches_open", "what agents have in hand"),
    ("(SELECT seq, id, answers, received_at FROM messages INDEXED", "SCAN m", "the newest 64 messages of a chat"),
    ("FROM audit ORDER BY id DESC", "SCAN audit", "one row, the newest"),
    ("FROM events ORDER BY seq", "SCAN events", "one row, the oldest or the newest"),
    ("FROM outbox", "SCAN outbox USING INDEX outbox_open", "what is still to be said"),
    ("WITH RECURSIVE open (jid)", "SCAN open", "its own rows: the chats that have something to say, each by an index"),
    ("FROM inbox", "SCAN i USING INDEX inbox_unjudged", "what is still to be judged"),
    ("FROM inbox", "SCAN file_work USING INDEX file_work_wanted", "one row: whether there is any"),
    ("FROM runs", "SCAN runs USING INDEX runs_one_per_group", "the runs under way"),
    ("FROM receipts", "SCAN receipts USING COVERING INDEX receipts_dead", "dead commands, for `status`"),
    ("WHERE ?1 IS NULL\n           AND EXISTS (SELECT 1 FROM wirings", "SCAN l", "the lanes, at the start and for `status`"),
    ("SELECT count(*) FROM (\n", "SCAN w", "the wirings, for `status`"),
    ("SELECT count(*) FROM (\n", "SCAN i USING INDEX inbox_unjudged", "what is still to be judged, for `status`"),
    ("SELECT min(m.received_at) FROM (", "SCAN w", "the wirings, for `status`"),
    ("FROM tasks INDEXED BY tasks_in_trouble", "SCAN tasks USING INDEX tasks_in_trouble", "the tasks that rest or were paused after failures, for `status`"),
    ("FROM failing f", "SCAN f", "what fails now: a row a group and a task at most"),
    ("ORDER BY sent_at DESC LIMIT 1", "SCAN outbox USING COVERING INDEX outbox_answers", "one row, the newest"),
    ("FROM groups g", "SCAN g", "the groups: of each its first due task, by an index"),
    ("FROM channel_states", "SCAN channel_states", "a row a platform, for `status`"),
    ("FROM chats", "SCAN chats", "the list of the chats is asked for"),
    ("FROM wirings WHERE ?2 IS NULL OR group_folder = ?2 ORDER BY id", "SCAN wirings", "the wirings, for `status`"),
    ("INDEXED BY inbox_held", "SCAN i USING INDEX inbox_held", "what is held, for `status`"),
    ("INDEXED BY inbox_held", "SCAN inbox USING COVERING INDEX inbox_held", "the same, counted"),
    ("FROM approvals INDEXED BY approvals_open_by_end", "SCAN approvals USING INDEX", "the questions that are open"),
    ("FROM approvals WHERE state = 'pending'", "SCAN approvals USING COVERING INDEX approvals_open_by_row", "the questions that are open, of which there are few"),
    ("FROM groups LIMIT 2", "SCAN groups", "two rows"),
    ("SELECT count(*) FROM groups", "SCAN groups USING COVERING INDEX", "the groups, where a new one is made"),
    ("SELECT folder, name, is_main FROM groups ORDER BY folder", "SCAN groups", "the groups, named on a card, once a question"),
    ("SELECT folder, name FROM groups ORDER BY folder", "SCAN groups", "the groups, where a new one is made"),
    ("FROM roles r", "SCAN r", "who may decide, once a question and for `status`"),
    ("FROM stored JOIN groups", "SCAN stored", "a row a group, for the watch over the disk and `status`"),
    ("FROM amends", "SCAN m", "few rows, of questions that are open or just closed, and of reactions to what agents have in hand"),
    ("FROM holds", "SCAN holds", "what people hold"),
    ("FROM tasks WHERE ?1 IS NULL", "SCAN tasks", "the list of all tasks, which main is shown"),
    ("FROM groups JOIN archives ON group_folder = folder", "SCAN archives", "all archived sessions, by an index, where the index is compared with the store"),
];

/// Returns the statements that are executed by `work`, on this thread and where it asks.
pub(super) async fn heard(work: impl Future<Output = ()>) -> BTreeSet<String> {
    heard_with_steps(work).await.into_keys().collect()
}

/// Returns the same with the steps of each, of what the writer does for it too.
async fn heard_with_writes(store: &Store, work: impl Future<Output = ()>) -> BTreeMap<String, i64> {
    let heard = Heard::default();
    EAR.set(Some(Arc::clone(&heard)));
    let ear = Arc::clone(&heard);
    let all_ears = move |_: &Connection| {
        EAR.set(Some(ear));
        Ok(())
    };
    store.write(all_ears).await.unwrap();
    work.await;
    EAR.set(None);
    heard.lock().unwrap().clone()
}

/// Returns the steps of each, without the writer's.
async fn heard_with_steps(work: impl Future<Output = ()>) -> BTreeMap<String, i64> {
    let heard = Heard::default();
    EAR.set(Some(Arc::clone(&heard)));
    work.await;
    EAR.set(None);
    heard.lock().unwrap().clone()
}

/// The steps of a statement's plan.
pub(super) fn steps(c: &Connection, sql: &str) -> Vec<String> {
    let mut plan = c.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    plan.raw_query().mapped(|r| r.get("detail")).collect::<rusqlite::Result<_>>().unwrap()
}

/// What a statement's plan walks through from end to end.
fn walks(c: &Connection, sql: &str) -> Vec<String> {
    steps(c, sql).into_iter().filter(|step| step.starts_with("SCAN ")).collect()
}

#[tokio::test]
async fn what_was_said_in_sessions_is_never_sorted() {
    let (_dir, store, heard) = the_story(0).await;
    let of_archives: Vec<_> = heard.keys().filter(|sql| sql.contains("FROM archives")).collect();
    assert!(of_archives.len() > 5, "the story was not heard: {of_archives:?}");
    store
        .read(|c| {
            for sql in of_archives {
                let sorts = steps(c, sql).into_iter().any(|step| step.contains("TEMP B-TREE"));
                assert!(!sorts, "{sql}: {:?}", steps(c, sql));
            }
            Ok(())
        })
        .unwrap();
}

#[tokio::test]
async fn no_statement_of_the_hot_path_walks_through_a_table_that_grows() {
    let (_dir, store, heard) = the_story(0).await;
    let verbs = ["SELECT", "INSERT", "UPDATE", "DELETE", "WITH"];
    let statements: Vec<&String> =
        heard.keys().filter(|sql| verbs.iter().any(|verb| sql.starts_with(verb))).collect();
    assert!(statements.len() > 60, "the story was not heard: {}", statements.len());
    let mut found: BTreeMap<&String, Vec<String>> = BTreeMap::new();
    store
        .read(|c| {
            for sql in statements {
                let is_short = |step: &String| {
                    SHORT.iter().any(|(part, begins, _)| sql.contains(part) && step.starts_with(begins))
                };
                let long: Vec<String> = walks(c, sql).into_iter().filter(|step| !is_short(step)).collect();
                if !long.is_empty() {
                    found.insert(sql, long);
                }
            }
            Ok(())
        })
        .unwrap();
    assert!(found.is_empty(), "{found:#?}");
}

/// The methods of [`Store`] and the file each is in.
#[expect(clippy::disallowed_methods, reason = "reads the sources")]
fn methods() -> Vec<(String, String)> {
    let mut files = vec![];
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    let method = regex::Regex::new(r"^    pub (?:async )?fn ([a-z_]+)").unwrap();
    let mut found = Vec::new();
    for file in files.into_iter().filter(|file| file.extension().is_some_and(|end| end == "rs")) {
        let mut of_the_store = false;
        for line in std::fs::read_to_string(&file).unwrap().lines() {
            match line {
                "impl Store {" => of_the_store = true,
                "}" => of_the_store = false,
                line => {
                    let name = method.captures(line).filter(|_| of_the_store);
                    found.extend(name.map(|name| (name[1].to_owned(), file.display().to_string())));
                }
            }
        }
    }
    found
}

#[test]
fn each_method_of_the_store_is_in_the_story_or_said_not_to_be_hot() {
    let story = [include_str!("plans/story.rs"), include_str!("plans/story/questions.rs")].concat();
    let methods = methods();
    assert!(methods.len() > 60, "{}", methods.len());
    for (name, file) in &methods {
        let told = regex::Regex::new(&format!(r"\bstore\s*\.{name}\(")).unwrap().is_match(&story);
        let cold = NOT_HOT.iter().any(|(_, names)| names.contains(&name.as_str()));
        assert!(told || cold, "Store::{name} of {file} belongs into the story or into NOT_HOT");
    }
    for name in NOT_HOT.iter().flat_map(|(_, names)| *names) {
        assert!(methods.iter().any(|(method, _)| method == name), "there is no Store::{name}");
    }
}
