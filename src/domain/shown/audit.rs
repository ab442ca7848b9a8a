//! Changes and their authors: a chain of rows, each of which holds the hash of the one before it, and what is wrong with one.

use std::fmt;

use ipc_handlers::{Time, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The longest `what` and `why` of a row, characters.
pub const LONGEST: usize = 500;
/// The longest name of an author, characters.
pub const LONGEST_WHO: usize = 100;
/// For how long rows are kept at least, days.
pub const AUDIT_DAYS: u32 = 400;
/// How many rows the agents of a group make in a day; of more, their commands alone tell.
pub const OF_AGENT: usize = 1_000;
/// How many faults are named; of more, their number.
pub const NAMED: usize = 100;

words! {
    /// Where a change came from.
    #[derive(JsonSchema)]
    pub enum Origin: "origin" {
        /// A command that somebody typed, or a script.
        CommandLine = "command_line",
        /// Another program, on the daemon's socket.
        Program = "program",
        /// The page.
        Page = "page",
        /// A person in a chat.
        Chat = "chat",
        /// An agent, by its mailbox.
        Agent = "agent",
    }
}

words! {
    /// How far a change had come.
    #[derive(JsonSchema)]
    pub enum Step: "step" {
        /// It is about to be made. Without a later row, the daemon died over it.
        Asked = "asked",
        Done = "done",
        /// Nothing was changed.
        Failed = "failed",
    }
}

/// What is written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub at: Time,
    pub origin: Origin,
    pub who: String,
    pub what: String,
    pub step: Step,
    /// The row that asked for it.
    pub asked: Option<i64>,
    /// Why it failed.
    pub why: Option<String>,
    /// The group whose agent it was.
    pub agent: Option<String>,
}

impl Entry {
    /// Returns the entry with its texts cut to what a row has room for.
    #[must_use]
    pub fn cut(self) -> Self {
        let or_none = |text: String| if text.is_empty() { "-".to_owned() } else { text };
        Self {
            who: or_none(cut(&self.who, LONGEST_WHO)),
            what: or_none(cut(&self.what, LONGEST)),
            why: self.why.map(|why| or_none(cut(&why, LONGEST))),
            ..self
        }
    }
}

/// Returns at most `most` characters of a text, the last one a `…` where it is cut.
#[must_use]
pub fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash(pub [u8; 32]);

impl Hash {
    /// What stands before the first row.
    pub const NONE: Self = Self([0; 32]);

    /// Reads 64 hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut hash = [0; 32];
        if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        for (at, byte) in hash.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
        }
        Some(Self(hash))
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Hash {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("no SHA-256"))
    }
}

/// A row as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRow {
    pub id: i64,
    pub entry: Entry,
    pub prev: Hash,
    pub hash: Hash,
}

impl AuditRow {
    /// Returns the row that comes after the one with the hash `prev`.
    #[must_use]
    pub fn after(prev: Hash, id: i64, entry: Entry) -> Self {
        let hash = hash(prev, id, &entry);
        Self { id, entry, prev, hash }
    }
}

/// Returns the hash of a row: SHA-256 of the hash before it in hexadecimal digits, a line end, and a JSON array of
/// its number, its instant (ms since 1970), origin, author, change, step, the row that asked, the reason and the agent's group.
#[must_use]
pub fn hash(prev: Hash, id: i64, entry: &Entry) -> Hash {
    let Entry { at, origin, who, what, step, asked, why, agent } = entry;
    let fields = serde_json::json!([id, at.0, origin, who, what, step, asked, why, agent]);
    Hash(Sha256::digest(format!("{prev}\n{fields}")).into())
}

/// What is wrong with the chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "fault", rename_all = "snake_case")]
pub enum AuditFault {
    /// The row is not what it was when it was written.
    Changed { row: i64 },
    /// The row stood at another place.
    Moved { row: i64, was: i64 },
    /// Rows are missing, from the first to the last of these numbers.
    Removed { from: i64, to: i64 },
    /// The row is not the one that was noted elsewhere.
    Replaced { row: i64 },
}

impl fmt::Display for AuditFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed { row } => write!(f, "row {row} was changed after it was written"),
            Self::Moved { row, was } => write!(f, "row {row} was row {was} when it was written"),
            Self::Removed { from, to } if from == to => write!(f, "row {from} is missing"),
            Self::Removed { from, to } => write!(f, "rows {from} to {to} are missing"),
            Self::Replaced { row } => write!(f, "row {row} is not the row that was noted elsewhere"),
        }
    }
}

/// Follows the rows from the oldest to the newest.
#[derive(Debug)]
pub struct Chain {
    /// The row that was looked at last, and its hash.
    last: (i64, Hash),
    rows: u64,
    /// Whether the last row is as it was written.
    whole: bool,
    faults: Vec<AuditFault>,
    unnamed: u64,
    /// Rows that fit at none of their places: number, and what they hold.
    strays: Vec<AuditRow>,
}

impl Chain {
    /// Begins behind a row, of which only its number and hash are known: (0, [`Hash::NONE`]) where nothing was pruned.
    #[must_use]
    pub fn behind(row: i64, hash: Hash) -> Self {
        Self { last: (row, hash), rows: 0, whole: true, faults: Vec::new(), unnamed: 0, strays: Vec::new() }
    }

    /// Looks at the next row.
    pub fn follow(&mut self, row: AuditRow) {
        self.rows += 1;
        let (last, before) = self.last;
        if row.id > last + 1 {
            self.found(AuditFault::Removed { from: last + 1, to: row.id - 1 });
        }
        let is_next = row.id == last + 1;
        let is_itself = hash(row.prev, row.id, &row.entry) == row.hash;
        // A row that was written anew with a right hash of its own is known by the one after it.
        if is_itself && is_next && row.prev != before && self.whole {
            match last {
                0 => self.found(AuditFault::Changed { row: row.id }),
                last => self.found(AuditFault::Changed { row: last }),
            }
        }
        self.last = (row.id, row.hash);
        self.whole = is_itself;
        match is_itself {
            true => {}
            false if self.strays.len() < NAMED => self.strays.push(row),
            false => self.unnamed += 1,
        }
    }

    fn found(&mut self, fault: AuditFault) {
        match self.faults.len() < NAMED {
            true => self.faults.push(fault),
            false => self.unnamed += 1,
        }
    }

    /// Ends where the store says that `newest` was the last number that was given.
    #[must_use]
    pub fn end(mut self, newest: i64) -> Checked {
        if newest > self.last.0 {
            self.found(AuditFault::Removed { from: self.last.0 + 1, to: newest });
        }
        let strays = std::mem::take(&mut self.strays);
        let places: Vec<i64> = strays.iter().map(|row| row.id).collect();
        for row in strays {
            // Under which of the other numbers was it written?
            let was = places.iter().find(|place| hash(row.prev, **place, &row.entry) == row.hash);
            self.found(match was {
                Some(was) => AuditFault::Moved { row: row.id, was: *was },
                None => AuditFault::Changed { row: row.id },
            });
        }
        Checked {
            rows: self.rows,
            newest: self.last.0,
            hash: self.last.1,
            faults: self.faults,
            unnamed: self.unnamed,
        }
    }
}

/// What came of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// How many rows were looked at.
    pub rows: u64,
    /// The newest row, with its hash: a note of both elsewhere proves later what stood here.
    pub newest: i64,
    pub hash: Hash,
    pub faults: Vec<AuditFault>,
    /// Further faults.
    pub unnamed: u64,
}

/// Returns what a line of `data/changes.log` says of its row: the number, and the first 16 digits of its hash.
#[must_use]
pub fn mark(id: i64, hash: Hash) -> String {
    format!("[audit {id} {:.16}]", hash.to_string())
}

/// Reads what [`mark`] wrote at the end of a line.
#[must_use]
pub fn read_mark(line: &str) -> Option<(i64, &str)> {
    let (_, mark) = line.strip_suffix(']')?.rsplit_once("[audit ")?;
    let (id, hash) = mark.split_once(' ')?;
    (hash.len() == 16 && hash.is_ascii()).then_some((id.parse().ok()?, hash))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(what: &str) -> Entry {
        Entry {
            at: Time(1_800_000_000_000),
            origin: Origin::CommandLine,
            who: "uid 0 (root)".into(),
            what: what.into(),
            step: Step::Done,
            asked: None,
            why: None,
            agent: None,
        }
    }

    fn chain(count: i64) -> Vec<AuditRow> {
        let mut rows: Vec<AuditRow> = Vec::new();
        for id in 1..=count {
            let prev = rows.last().map_or(Hash::NONE, |row| row.hash);
            rows.push(AuditRow::after(prev, id, entry(&format!("change {id}"))));
        }
        rows
    }

    fn check(rows: Vec<AuditRow>, newest: i64) -> Vec<AuditFault> {
        let mut chain = Chain::behind(0, Hash::NONE);
        rows.into_iter().for_each(|row| chain.follow(row));
        chain.end(newest).faults
    }

    /// Pinned: chains that were written by earlier versions have to be read by later ones.
    #[test]
    fn the_hash_of_a_row_never_changes() {
        let row = AuditRow::after(Hash::NONE, 1, entry("groups.add chat=local:f"));
        let by_hand = Sha256::digest(format!(
            "{}\n[1,1800000000000,\"command_line\",\"uid 0 (root)\",\"groups.add chat=local:f\",\"done\",null,null,null]",
            "0".repeat(64)
        ));
        assert_eq!(row.hash.0, <[u8; 32]>::from(by_hand));
    }

    #[test]
    fn whole_chains_have_no_fault_and_an_empty_one_neither() {
        assert_eq!(check(chain(5), 5), []);
        assert_eq!(check(chain(0), 0), []);
    }

    #[test]
    fn rows_that_were_changed_moved_removed_or_written_anew_are_named() {
        let (changed, removed) =
            (|row| AuditFault::Changed { row }, |from, to| AuditFault::Removed { from, to });
        let mut rows = chain(5);
        rows[2].entry.who = "somebody else".into();
        assert_eq!(check(rows, 5), [changed(3)]);

        // With a right hash of its own.
        let mut rows = chain(5);
        rows[2] = AuditRow::after(rows[2].prev, 3, entry("something else"));
        assert_eq!(check(rows, 5), [changed(3)]);

        let mut rows = chain(5);
        rows.drain(1..3);
        assert_eq!(check(rows, 5), [removed(2, 3)]);

        let mut rows = chain(5);
        rows.truncate(3);
        assert_eq!(check(rows, 5), [removed(4, 5)]);

        let mut rows = chain(5);
        (rows[1].id, rows[3].id) = (4, 2);
        rows.sort_by_key(|row| row.id);
        assert_eq!(
            check(rows, 5),
            [AuditFault::Moved { row: 2, was: 4 }, AuditFault::Moved { row: 4, was: 2 }]
        );

        // Removed, and those behind moved up.
        let mut rows = chain(4);
        rows.remove(1);
        rows.iter_mut().zip(1..).for_each(|(row, id)| row.id = id);
        assert!(!check(rows, 3).is_empty());
    }

    #[test]
    fn a_chain_whose_beginning_was_pruned_goes_on_behind_its_anchor() {
        let rows = chain(5);
        let mut chain = Chain::behind(2, rows[1].hash);
        rows[2..].iter().cloned().for_each(|row| chain.follow(row));
        assert_eq!(chain.end(5).faults, []);
        let mut chain = Chain::behind(2, rows[0].hash);
        rows[2..].iter().cloned().for_each(|row| chain.follow(row));
        assert_eq!(chain.end(5).faults, [AuditFault::Changed { row: 2 }]);
    }

    #[test]
    fn texts_are_cut_to_their_room_and_marks_are_read_again() {
        let long =
            Entry { why: Some("é".repeat(9_999)), who: String::new(), ..entry(&"x".repeat(9_999)) }.cut();
        assert_eq!((long.what.chars().count(), long.why.map(|w| w.chars().count())), (501, Some(501)));
        assert_eq!(long.who, "-");
        let hash = chain(1)[0].hash;
        let line = format!("2027-01-15T08:00:00.000Z uid 0 done: x {}", mark(12, hash));
        assert_eq!(read_mark(&line), Some((12, &hash.to_string()[..16])));
        for other in ["", "]", "[audit 1]", "[audit x 0123456789abcdef]", "[audit 1 é123456789abcde]"] {
            assert_eq!(read_mark(other), None, "{other}");
        }
        assert_eq!(Hash::parse(&hash.to_string()), Some(hash));
        assert_eq!(Hash::parse(&"é".repeat(32)), None);
    }

    proptest! {
        /// Whatever is done to a chain, it is found, as long as something is different afterwards.
        #[test]
        fn no_change_goes_unseen(count in 2..12_i64, at in 0..12_usize, other in 0..12_usize, how in 0..4) {
            let rows = chain(count);
            let (at, other) = (at % rows.len(), other % rows.len());
            let mut changed = rows.clone();
            match how {
                0 => changed[at].entry.what.push('!'),
                1 => drop(changed.remove(at)),
                2 => {
                    changed.swap(at, other);
                    let ids: Vec<i64> = rows.iter().map(|row| row.id).collect();
                    changed.iter_mut().zip(ids).for_each(|(row, id)| row.id = id);
                }
                _ => changed[at] = AuditRow::after(changed[at].prev, changed[at].id, entry("other")),
            }
            // The last row, written anew with a right hash, is what only a note elsewhere tells.
            let is_last_anew = how == 3 && at + 1 == rows.len();
            prop_assume!(changed != rows && !is_last_anew);
            prop_assert!(!check(changed, count).is_empty());
        }
    }
}
