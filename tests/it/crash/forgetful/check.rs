//! What has to be there.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
};

use g2_forgetful::Forgotten;
use sha2::{Digest as _, Sha256};

use super::{
    super::{ledger::Ledger, random::check_messages, scene::names},
    People,
};
use crate::support::Root;

/// Complaints of `doctor` that a machine without power has a right to: a message may be given up and told, a command whose
/// bytes were lost is dead, runs have lost their daemon.
const EXCUSED: [&str; 4] = ["given_up", "commands", "stale_runs", "runs_fail"];

/// What `doctor` complains of.
pub(super) fn complaints(root: &Root) -> BTreeSet<String> {
    let rows = root.rows(&["doctor"]);
    let bad = rows.iter().filter(|row| row["level"] != "ok");
    let names = bad.map(|row| format!("{} {}", row["check"].as_str().unwrap_or("?"), row["level"]));
    names.filter(|name| !EXCUSED.iter().any(|excused| name.starts_with(excused))).collect()
}

/// What happened in all.
#[derive(Default)]
pub(super) struct Sums {
    losses: usize,
    with_faults: usize,
    forgotten: Forgotten,
    commands: usize,
    refused: usize,
    files: usize,
    messages: usize,
    answered: usize,
    given_up: usize,
    strangers: usize,
    torn: usize,
}

impl Sums {
    pub(super) fn add_loss(&mut self, forgotten: Forgotten, has_faults: bool) {
        self.losses += 1;
        self.with_faults += usize::from(has_faults);
        self.forgotten.changes += forgotten.changes;
        self.forgotten.writes += forgotten.writes;
    }

    pub(super) fn add(&mut self, of: &Self) {
        self.losses += of.losses;
        self.with_faults += of.with_faults;
        self.forgotten.changes += of.forgotten.changes;
        self.forgotten.writes += of.forgotten.writes;
        self.commands += of.commands;
        self.refused += of.refused;
        self.files += of.files;
        self.messages += of.messages;
        self.answered += of.answered;
        self.given_up += of.given_up;
        self.strangers += of.strangers;
        self.torn += of.torn;
    }
}

impl fmt::Display for Sums {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} power losses, {} of them with calls that failed: {} changes and {} writes forgotten; {} commands, {} of them refused \
             at first, {} files, {} messages in {} answered batches, {} given up and told, {} strangers let in; {} commands \
             whose bytes were lost",
            self.losses,
            self.with_faults,
            self.forgotten.changes,
            self.forgotten.writes,
            self.commands,
            self.refused,
            self.files,
            self.messages,
            self.answered,
            self.given_up,
            self.strangers,
            self.torn
        )
    }
}

/// The store is sound, nothing in it was done twice, and all is there that somebody was told of.
pub(super) fn after_a_loss(root: &Root, people: &People) {
    let ledger = Ledger::of_the_dead(root);
    assert_eq!(ledger.column::<String>("PRAGMA integrity_check"), ["ok"]);
    for writer in &people.writers {
        let group = writer.group;
        let applied: Vec<String> = ledger.column(&format!(
            "SELECT request_id FROM receipts WHERE group_folder = '{group}' AND outcome = 'applied' AND replay_of IS NULL
             AND request_id IS NOT NULL"
        ));
        let once: BTreeSet<String> = applied.iter().cloned().collect();
        assert_eq!(once.len(), applied.len(), "{group}: applied once: {applied:?}");
        let lost: Vec<_> = writer.answered.difference(&once).collect();
        assert!(lost.is_empty(), "{group}: answered, and lost: {lost:?}");
        let refused: BTreeSet<String> = ledger
            .column(&format!(
                "SELECT request_id FROM receipts WHERE group_folder = '{group}' AND outcome = 'refused' AND request_id IS NOT NULL"
            ))
            .into_iter()
            .collect();
        let lost: Vec<_> = writer.refused.difference(&refused).collect();
        assert!(lost.is_empty(), "{group}: refused, and that was lost: {lost:?}");
    }
    let messages: BTreeMap<i64, String> =
        ledger.pairs("SELECT seq, text FROM messages").into_iter().collect();
    let told = people.talkers.iter().flat_map(|talker| &talker.accepted).chain(&people.asker.accepted);
    for (seq, text) in told {
        assert_eq!(messages.get(seq), Some(text), "accepted, and lost");
    }
    let approved: BTreeSet<i64> =
        ledger.column("SELECT id FROM approvals WHERE state = 'approved'").into_iter().collect();
    assert!(people.asker.approved.is_subset(&approved), "approved, and lost: {approved:?}");
    no_text_twice(&ledger);
    files(root, &ledger);
}

/// Each text of an agent is one of a kind.
fn no_text_twice(ledger: &Ledger) {
    let twice: Vec<String> = ledger.column(
        "SELECT chat_jid || ': ' || text FROM outbox WHERE text GLOB '[mw]* says *' OR text LIKE 'echo: %'
         GROUP BY chat_jid, text HAVING count(*) > 1",
    );
    assert!(twice.is_empty(), "twice: {twice:?}");
}

/// Each file beside a text is there, with its bytes.
fn files(root: &Root, ledger: &Ledger) -> usize {
    let rows: Vec<(Vec<u8>, i64)> =
        ledger.pairs("SELECT digest, size FROM attachments WHERE digest IS NOT NULL");
    for (digest, size) in &rows {
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = root.data("media").join(&hex[..2]).join(&hex);
        let bytes =
            fs::read(&path).unwrap_or_else(|e| panic!("a file beside a text: {}: {e}", path.display()));
        assert_eq!(i64::try_from(bytes.len()).unwrap(), *size, "{hex}");
        assert_eq!(Sha256::digest(&bytes)[..], digest[..], "the bytes of {hex}");
    }
    rows.len()
}

/// All was done once and said once; adds how much it was.
pub(super) fn at_the_end(root: &Root, people: &People, sums: &mut Sums) {
    after_a_loss(root, people);
    let ledger = Ledger::of_the_dead(root);
    for writer in &people.writers {
        let group = writer.group;
        sums.commands += writer.answered.len();
        sums.refused += writer.refused.len();
        let said: BTreeSet<String> = ledger
            .column(&format!(
                "SELECT text FROM outbox WHERE chat_jid = 'local:{group}' AND status = 'sent' AND text LIKE '{group} says %'"
            ))
            .into_iter()
            .collect();
        assert_eq!(said, writer.texts, "{group}: said once each");
        let tasks: BTreeSet<String> = ledger
            .column(&format!("SELECT id FROM tasks WHERE group_folder = '{group}'"))
            .into_iter()
            .collect();
        assert_eq!(tasks, writer.tasks, "{group}: tasks");
    }
    let sent = people.writers.iter().map(|writer| writer.files).sum::<usize>();
    assert_eq!(files(root, &ledger), sent, "files beside texts");
    for talker in &people.talkers {
        let (done, failed) = check_messages(&ledger, talker.group, &talker.accepted);
        sums.messages += talker.accepted.len();
        sums.answered += done;
        sums.given_up += failed;
    }
    let asked = ledger.number("SELECT count(*) FROM messages WHERE chat_jid = 'local:family'");
    assert_eq!(usize::try_from(asked).unwrap(), people.asker.accepted.len(), "strangers stored once each");
    let open = ledger.number("SELECT count(*) FROM batches WHERE state NOT IN ('done', 'failed')");
    assert_eq!(open, 0, "batches in hand");
    sums.torn += set_aside(root, &ledger);
    sums.files += sent;
    sums.strangers += people.asker.accepted.len();
}

/// Nothing is claimed, and each command in `done/` and `dead/` is one that the store knows. Returns how many were malformed: only
/// those can be whose bytes were lost.
///
/// A file that came back to its box is claimed anew and known by its inode, so its second number has no receipt; its bytes,
/// or the receipt that the reason beside them names, say which command it is. What lies there is not synced.
fn set_aside(root: &Root, ledger: &Ledger) -> usize {
    assert_eq!(names(root, "claimed"), Vec::<String>::new());
    let outcomes: BTreeMap<i64, String> =
        ledger.pairs("SELECT claim_id, outcome FROM receipts").into_iter().collect();
    let requests: BTreeSet<(String, String)> = ledger
        .pairs("SELECT group_folder, request_id FROM receipts WHERE request_id IS NOT NULL")
        .into_iter()
        .collect();
    for pile in ["done", "dead"] {
        for group in names(root, pile) {
            for name in names(root, &format!("{pile}/{group}")) {
                let id = name.split('.').next().and_then(|id| id.parse().ok());
                let has_receipt = id.is_some_and(|id: i64| outcomes.contains_key(&id));
                let bytes = fs::read(root.data(pile).join(&group).join(&name)).unwrap();
                let is_known = |json: &serde_json::Value| {
                    let request = json["requestId"].as_str().map(|id| (group.clone(), id.to_owned()));
                    let receipt = json["receipt"].as_i64();
                    request.is_some_and(|request| requests.contains(&request))
                        || receipt.is_some_and(|claim| outcomes.contains_key(&claim))
                };
                // What is not whole lost its bytes itself.
                let is_explained =
                    serde_json::from_slice(&bytes).map_or(true, |json: serde_json::Value| is_known(&json));
                let text = String::from_utf8_lossy(&bytes);
                assert!(has_receipt || is_explained, "{pile}/{group}/{name} is no command's: {text}");
            }
        }
    }
    outcomes.values().filter(|outcome| *outcome == "malformed").count()
}
