//! Rows of other installations, taken in as they are, and all rows read out.
//!
//! History raises nothing: no question about a stranger, no notice, no run, no text that is sent. What was to be answered or to be
//! sent is held back as a restore holds it back, and a person decides about all of it at once. Each row is taken once: by
//! `imported`, or by the unique key of its own table.

use std::collections::{BTreeMap, HashMap, HashSet};

use ipc_handlers::{Folder, Time, effect::Lanes};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{Result, Store, StoreError};
use crate::domain::{
    moved::{
        findings::Finding,
        rows::{Keyed, Kind, LONGEST_KEY, Row},
    },
    platforms::attachments::Attachment,
    time::zone::Zones,
};

mod chats;
mod groups;
mod out;
mod people;
mod work;

pub use out::Page;

/// A row that is to be taken, with the files beside it as they are kept here.
#[derive(Clone, Debug)]
pub struct Arriving {
    pub keyed: Keyed,
    pub files: Vec<Attachment>,
}

/// What came of rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// How many are new, by kind.
    pub new: BTreeMap<Kind, u64>,
    /// How many were taken before, or are here already.
    pub again: BTreeMap<Kind, u64>,
    pub findings: Vec<Finding>,
}

/// What came of one row.
enum Came {
    /// It is taken, and is called so here.
    New(String),
    Again,
    /// It is not taken: why.
    Left(String),
}

impl Came {
    fn left(why: impl Into<String>) -> Result<Self> {
        Ok(Self::Left(why.into()))
    }
}

/// Where rows go in.
struct Door<'a> {
    c: &'a Connection,
    source: &'a str,
    zones: &'a Zones,
    now: Time,
    /// Whether the files of the source come along.
    files_come: bool,
    /// Chats that are known to be there.
    chats: HashSet<String>,
    /// Lanes by group, chat and thread; `None`: there is no such group or chat.
    lanes: HashMap<(Folder, String, String), Option<i64>>,
    /// What is told of the row at hand, which is taken with a change.
    changes: Vec<String>,
}

impl Store {
    /// Takes rows in, in one transaction; `files_come`: with the files of their source. One that is not sound is left, and told with the reason; the others are taken.
    pub async fn take_in(
        &self,
        source: &str,
        (rows, files_come): (Vec<Arriving>, bool),
        zones: &Zones,
        now: Time,
    ) -> Result<Taken> {
        let (source, zones) = (source.to_owned(), zones.clone());
        self.write(move |c| {
            let newest = newest_event(c)?;
            let (chats, lanes) = (HashSet::new(), HashMap::new());
            let mut door = Door {
                c,
                source: &source,
                zones: &zones,
                now,
                files_come,
                chats,
                lanes,
                changes: Vec::new(),
            };
            let mut taken = Taken::default();
            for row in rows {
                door.one(row, &mut taken)?;
            }
            forget_events(c, newest)?;
            crate::system::failpoint::reach("moving.taken");
            Ok(taken)
        })
        .await
    }

    /// Returns what a row of a source is here, if it was taken.
    pub async fn moved_as(&self, source: &str, kind: Kind, key: &str) -> Result<Option<String>> {
        let (source, key) = (source.to_owned(), key.to_owned());
        self.ask(move |c| moved_as(c, &source, kind, &key)).await
    }

    /// Whether a group is here and came from a source.
    pub async fn group_came(&self, source: &str, group: &Folder) -> Result<bool> {
        let (source, group) = (source.to_owned(), group.clone());
        self.ask(move |c| group_came(c, &source, &group)).await
    }

    /// Gives a group in a chat another session, by its transcript from elsewhere; a live run leaves.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]: there is no such group, or chat.
    pub async fn adopt_session(&self, group: &Folder, chat: &str, session: &str) -> Result<()> {
        let (group, chat, session) = (group.clone(), chat.to_owned(), session.to_owned());
        self.write(move |c| {
            let lane =
                lane(c, &group, &chat, "")?.ok_or_else(|| StoreError::NotFound { what: "chat", id: chat })?;
            super::work::sessions::give(c, &group, Lanes::One(lane), Some(&session))
        })
        .await
    }

    /// Notes that a row of a source was taken that is no row of the store.
    pub async fn note_moved(&self, source: &str, kind: Kind, key: &str, own: &str) -> Result<()> {
        let (source, key, own) = (source.to_owned(), key.to_owned(), own.to_owned());
        self.write(move |c| note(c, &source, kind, &key, &own)).await
    }
}

fn moved_as(c: &Connection, source: &str, kind: Kind, key: &str) -> Result<Option<String>> {
    Ok(c.prepare_cached("SELECT own FROM imported WHERE source = ?1 AND kind = ?2 AND key = ?3")?
        .query_row([source, kind.as_str(), key], |r| r.get("own"))
        .optional()?)
}

fn group_came(c: &Connection, source: &str, group: &Folder) -> Result<bool> {
    Ok(c.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM groups WHERE folder = ?2)
           AND EXISTS (SELECT 1 FROM imported WHERE source = ?1 AND kind = 'group' AND own = ?2) AS came",
    )?
    .query_row([source, group.as_str()], |r| r.get("came"))?)
}

fn note(c: &Connection, source: &str, kind: Kind, key: &str, own: &str) -> Result<()> {
    c.prepare_cached("INSERT OR IGNORE INTO imported (source, kind, key, own) VALUES (?1, ?2, ?3, ?4)")?
        .execute([source, kind.as_str(), key, own])?;
    Ok(())
}

impl Door<'_> {
    /// Takes one row in, all of it or nothing.
    fn one(&mut self, row: Arriving, taken: &mut Taken) -> Result<()> {
        let Arriving { keyed: Keyed { key, row }, files } = row;
        let kind = row.kind();
        let has_own_key = matches!(kind, Kind::Message | Kind::Mark | Kind::Text);
        if key.is_empty() || key.len() > LONGEST_KEY {
            let why = format!("its key is empty, or longer than {LONGEST_KEY} bytes");
            taken.findings.push(Finding::left(kind, key, why));
            return Ok(());
        }
        let before = match has_own_key {
            true => None,
            false => moved_as(self.c, self.source, kind, &key)?,
        };
        // A conversation without its transcript would not go on.
        if before.is_some() && !(kind == Kind::Lane && self.files_come) {
            *taken.again.entry(kind).or_default() += 1;
            return Ok(());
        }
        self.c.prepare_cached("SAVEPOINT one_row")?.execute([])?;
        self.changes.clear();
        let came = match (&before, &row) {
            (Some(own), Row::Lane(lane)) => self.lane_again(&key, own, lane),
            _ => self.take(&key, &row, &files),
        };
        let came = match came {
            Err(StoreError::Sqlite(fault)) if fault.is_of_its_row() => Ok(Came::Left(fault.to_string())),
            came => came,
        };
        match came? {
            Came::New(own) => {
                if !has_own_key {
                    note(self.c, self.source, kind, &key, &own)?;
                }
                *taken.new.entry(kind).or_default() += 1;
                let changed = |why| Finding::changed(kind, key.clone(), why);
                taken.findings.extend(self.changes.drain(..).map(changed));
            }
            Came::Again => *taken.again.entry(kind).or_default() += 1,
            Came::Left(why) => {
                self.c.prepare_cached("ROLLBACK TO one_row")?.execute([])?;
                // What the row had made is gone again.
                self.chats.clear();
                self.lanes.clear();
                taken.findings.push(Finding::left(kind, key, why));
            }
        }
        self.c.prepare_cached("RELEASE one_row")?.execute([])?;
        Ok(())
    }

    fn take(&mut self, key: &str, row: &Row, files: &[Attachment]) -> Result<Came> {
        match row {
            Row::Group(group) => self.group(group),
            Row::Chat(chat) => self.chat(chat),
            Row::Wiring(wiring) => self.wiring(wiring),
            Row::User(user) => self.user(user),
            Row::Role(role) => self.role(role),
            Row::Member(member) => self.member(member),
            Row::Approval(approval) => self.approval(approval),
            Row::Message(message) => self.message(message, files),
            Row::Mark(mark) => self.mark(mark),
            Row::Text(text) => self.text(key, text, files),
            Row::Lane(lane) => self.lane_row(lane),
            Row::Archive(archive) => self.archive(archive),
            Row::Task(task) => self.task(task),
            Row::Run(run) => self.run(run),
            Row::Usage(usage) => self.usage(usage),
            Row::Setting(_) | Row::Secret(_) | Row::List(_) | Row::Audit(_) => {
                Came::left("it is no row of the store")
            }
        }
    }

    fn has_group(&self, group: &Folder) -> Result<bool> {
        Ok(self
            .c
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM groups WHERE folder = ?1)")?
            .query_row([group.as_str()], |r| r.get(0))?)
    }

    /// Whether a group is here and came from this source: what is of a group there goes to no other group of its name.
    fn came(&self, group: &Folder) -> Result<bool> {
        group_came(self.c, self.source, group)
    }

    /// Has a chat be there.
    fn ensure_chat(&mut self, jid: &str, at: Time) -> Result<()> {
        if !self.chats.contains(jid) {
            super::talk::chats::ensure_chat(self.c, jid, at)?;
            self.chats.insert(jid.to_owned());
        }
        Ok(())
    }

    /// Returns the lane of a group in a chat, having made it if need be; `None`: there is no such group or chat.
    fn lane(&mut self, group: &Folder, chat: &str, thread: &str) -> Result<Option<i64>> {
        let place = (group.clone(), chat.to_owned(), thread.to_owned());
        if let Some(known) = self.lanes.get(&place) {
            return Ok(*known);
        }
        let lane = if self.came(group)? { lane(self.c, group, chat, thread)? } else { None };
        self.lanes.insert(place, lane);
        Ok(lane)
    }
}

fn lane(c: &Connection, group: &Folder, chat: &str, thread: &str) -> Result<Option<i64>> {
    c.prepare_cached(
        "INSERT INTO lanes (group_folder, chat_jid, thread)
         SELECT ?1, ?2, ?3 WHERE EXISTS (SELECT 1 FROM groups WHERE folder = ?1) AND EXISTS (SELECT 1 FROM chats WHERE jid = ?2)
         ON CONFLICT DO NOTHING",
    )?
    .execute([group.as_str(), chat, thread])?;
    Ok(c.prepare_cached("SELECT id FROM lanes WHERE group_folder = ?1 AND chat_jid = ?2 AND thread = ?3")?
        .query_row([group.as_str(), chat, thread], |r| r.get("id"))
        .optional()?)
}

/// Returns the number of the newest event.
fn newest_event(c: &Connection) -> Result<i64> {
    Ok(c.prepare_cached("SELECT coalesce(max(seq), 0) AS newest FROM events")?
        .query_row([], |r| r.get("newest"))?)
}

/// Forgets the events after one of this number, for nobody reads them: the daemon is down, and reads all there is at its start. The
/// newest stays, as numbers go on from it.
fn forget_events(c: &Connection, after: i64) -> Result<()> {
    let newest = newest_event(c)?;
    c.prepare_cached("DELETE FROM events WHERE seq > ?1 AND seq < ?2")?.execute(params![after, newest])?;
    Ok(())
}
