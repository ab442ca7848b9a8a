//! The queue as it is: settled commands by their receipts, claimed ones, waiting ones.

use std::{collections::BTreeSet, path::Path};

use ipc_handlers::{Folder, RequestId, Time, envelope};

use super::super::{OpCode, OpError, missing};
use crate::{
    domain::{
        kept::prune::History, mailbox::holds::Holds, rows::IpcRow, shown::screen::escaped, states::QueueState,
    },
    ipc::{
        self, CommandBox,
        peek::{self, Lying},
    },
    store::{IpcFilter, Store},
};

/// How many waiting commands are listed at most, of all groups together; those with the most give way.
const MOST_WAITING: usize = 10_000;
/// How many files are read to say what they ask for.
const MOST_READ: usize = 256;
/// How many waiting files are read to find one by its request id.
const MOST_SEARCHED: usize = 100_000;
/// How many of those that could be meant are named.
const SHOWN: usize = 5;

type Result<T> = std::result::Result<T, OpError>;

/// What of the queue is asked for.
#[derive(Debug, Default)]
pub struct Queue {
    pub group: Option<String>,
    pub state: Option<QueueState>,
    pub limit: Option<usize>,
    /// Of the settled ones, only this id and later.
    pub from: i64,
    /// Only those that were written or settled from this time on, and before that one.
    pub since: Option<Time>,
    pub until: Option<Time>,
}

/// The rows that were asked for, oldest first.
#[derive(Debug)]
pub struct Rows {
    pub rows: Vec<IpcRow>,
    /// Says so when more waits than is listed.
    pub cut: Option<OpError>,
    /// Why boxes could not be read, of which nothing that waits is listed.
    pub unread: Vec<ipc::WorldFault>,
}

/// The commands that are not settled.
struct Opened {
    open: Vec<Open>,
    cut: Option<OpError>,
    unread: Vec<ipc::WorldFault>,
}

/// A command that is not settled.
#[derive(Clone, Debug)]
pub struct Open {
    pub lying: Lying,
    pub row: IpcRow,
}

/// A waiting file: whose box it lies in, and its name's bytes.
#[derive(Clone, Debug)]
pub struct WaitingFile {
    pub group: Folder,
    pub in_box: CommandBox,
    pub name: Vec<u8>,
}

impl Open {
    /// Returns the file of a command that waits; `None`: it is claimed.
    ///
    /// # Errors
    /// It lies where no box is.
    pub fn waiting_file(&self) -> Result<Option<WaitingFile>> {
        if self.lying.claim.is_some() {
            return Ok(None);
        }
        let in_box = self.lying.in_box.ok_or_else(|| OpError::refused("its box is not known"))?;
        let group = Folder::parse(&self.lying.group).map_err(|error| OpError::invalid(error.to_string()))?;
        let name = std::os::unix::ffi::OsStrExt::as_bytes(self.lying.file.as_os_str()).to_vec();
        Ok(Some(WaitingFile { group, in_box, name }))
    }
}

/// A command, wherever it is.
#[derive(Clone, Debug)]
pub enum Found {
    Settled(i64),
    Open(Box<Open>),
}

impl Queue {
    /// Returns the commands, settled and open.
    ///
    /// # Errors
    /// The store's, or the world's.
    pub async fn rows(&self, root: &Path, store: &Store, now: Time) -> Result<Rows> {
        // Files move on while we read, so they are looked for where they come from first: none is missed.
        let settled_before = store.last_claim()?;
        let outcome = self.state.map(QueueState::outcome);
        let mut opened = Opened { open: Vec::new(), cut: None, unread: Vec::new() };
        if !matches!(outcome, Some(Some(_))) {
            opened = self.open(root, store, now).await?;
        }
        let Opened { open, cut, unread } = opened;
        let mut rows = Vec::new();
        let settled = !matches!(outcome, Some(None));
        if settled {
            rows = store.ipc_rows(
                &IpcFilter {
                    group: self.group.clone(),
                    outcome: outcome.flatten(),
                    from: self.from,
                    since: self.since,
                    until: self.until,
                    limit: self.limit,
                },
                now,
            )?;
        }
        let moved_on = MovedOn::since(store, settled_before, &open, now)?;
        if settled {
            self.add_settled_since(&mut rows, &moved_on, now);
        }
        rows.extend(
            open.into_iter()
                .map(|open| open.row)
                .filter(|row| !moved_on.has(row) && self.state.is_none_or(|state| row.state == state))
                .filter(|row| self.is_of_the_time(row, now)),
        );
        if let Some(limit) = self.limit {
            rows.drain(..rows.len().saturating_sub(limit));
        }
        Ok(Rows { rows, cut, unread })
    }

    fn is_of_the_time(&self, row: &IpcRow, now: Time) -> bool {
        let at = now.plus_ms(-row.age_ms);
        self.since.is_none_or(|since| at >= since) && self.until.is_none_or(|until| at < until)
    }

    /// A command that was settled since the receipts were read is no open one any more: it is listed as settled.
    fn add_settled_since(&self, rows: &mut Vec<IpcRow>, moved_on: &MovedOn, now: Time) {
        let known: BTreeSet<Option<i64>> = rows.iter().map(|row| row.id).collect();
        let since = moved_on.settled.iter().filter(|row| {
            !known.contains(&row.id)
                && row.id >= Some(self.from)
                && self.group.as_ref().is_none_or(|group| row.group == *group)
                && self.state.is_none_or(|state| row.state == state)
                && self.is_of_the_time(row, now)
        });
        rows.extend(since.cloned());
        rows.sort_by_key(|row| row.id);
    }

    /// Returns the commands that are not settled, of boxes that can be read.
    ///
    /// # Errors
    /// The store's, and the world's over claimed files.
    pub async fn open_rows(&self, root: &Path, store: &Store, now: Time) -> Result<Vec<IpcRow>> {
        let opened = self.open(root, store, now).await?;
        Ok(opened.open.into_iter().map(|open| open.row).collect())
    }

    async fn open(&self, root: &Path, store: &Store, now: Time) -> Result<Opened> {
        let data = root.join("data");
        let mut groups: Vec<Folder> = store.groups().await?.into_iter().map(|group| group.folder).collect();
        groups.retain(|folder| self.group.as_deref().is_none_or(|group| folder.as_str() == group));
        let waiting = peek::waiting(&data, &groups, MOST_WAITING);
        let cut = waiting.is_cut().then(|| {
            let more = if waiting.partial { " or more" } else { "" };
            OpError::new(OpCode::Failed, format!("{}{more} commands wait", waiting.seen))
                .hint(format!("the list is cut after the oldest {}", waiting.files.len()))
        });
        let holds = Holds::new(store.holds()?);
        let claimed = peek::claimed(&data)?;
        let of_group = |lying: &Lying| self.group.as_deref().is_none_or(|group| lying.group == group);
        let mut read = 0;
        let open = claimed
            .into_iter()
            .filter(of_group)
            .chain(waiting.files)
            .map(|lying| {
                read += 1;
                let head = (read <= MOST_READ).then(|| peek::head(&data, &lying)).flatten();
                let row = row(&lying, head.as_deref(), &holds, now);
                Open { lying, row }
            })
            .collect();
        Ok(Opened { open, cut, unread: waiting.unread })
    }
}

/// What was settled while the folders were read.
struct MovedOn {
    settled: Vec<IpcRow>,
    claims: BTreeSet<i64>,
    files: BTreeSet<(String, String, String)>,
}

impl MovedOn {
    fn since(store: &Store, settled_before: i64, open: &[Open], now: Time) -> Result<Self> {
        let first = open.iter().filter_map(|open| open.lying.claim).min();
        let from = first.unwrap_or(i64::MAX).min(settled_before + 1);
        let settled = store.ipc_rows(&IpcFilter { from, ..IpcFilter::default() }, now)?;
        let claims = settled.iter().filter_map(|row| row.id).collect();
        let place = |row: &IpcRow| (row.group.clone(), row.box_name.clone(), row.name.clone());
        let files = settled
            .iter()
            .filter(|row| row.id.is_some_and(|id| id > settled_before))
            .map(place)
            .chain(open.iter().filter(|open| open.lying.claim.is_some()).map(|open| place(&open.row)))
            .collect();
        Ok(Self { settled, claims, files })
    }

    fn has(&self, row: &IpcRow) -> bool {
        match row.id {
            Some(id) => self.claims.contains(&id),
            None => self.files.contains(&(row.group.clone(), row.box_name.clone(), row.name.clone())),
        }
    }
}

fn row(lying: &Lying, head: Option<&[u8]>, holds: &Holds, now: Time) -> IpcRow {
    let in_box = in_box(lying);
    let held = lying.claim.is_none()
        && Folder::parse(&lying.group).is_ok_and(|group| {
            holds.file(&group, in_box, std::os::unix::ffi::OsStrExt::as_bytes(lying.file.as_os_str()))
        });
    let (kind, request_id) = head.map(asked).unwrap_or_default();
    IpcRow {
        id: lying.claim,
        group: lying.group.clone(),
        box_name: in_box.to_owned(),
        name: lying.name.clone(),
        kind,
        request_id,
        state: match lying.claim {
            Some(_) => QueueState::Claimed,
            None if held => QueueState::Held,
            None => QueueState::Waiting,
        },
        age_ms: now.ms_since(lying.since).max(0),
        code: None,
        reason: lying.is_directory.then(|| "a directory, which only its writer can remove".into()),
    }
}

/// Returns the row of a claimed command, if there is one of this id.
///
/// # Errors
/// The store's and the world's.
pub fn claimed_row(root: &Path, store: &Store, id: i64, now: Time) -> Result<Option<IpcRow>> {
    let data = root.join("data");
    let holds = Holds::new(store.holds()?);
    let lying = peek::claimed(&data)?.into_iter().find(|lying| lying.claim == Some(id));
    Ok(lying.map(|lying| row(&lying, peek::head(&data, &lying).as_deref(), &holds, now)))
}

/// Returns the row of a command that was put into its box just now.
///
/// # Errors
/// The store's.
pub fn row_of_new(
    store: &Store,
    group: &Folder,
    in_box: CommandBox,
    name: &str,
    bytes: &[u8],
) -> Result<IpcRow> {
    let held = Holds::new(store.holds()?).file(group, in_box.as_str(), name.as_bytes());
    let (kind, request_id) = asked(bytes);
    Ok(IpcRow {
        id: None,
        group: group.to_string(),
        box_name: in_box.to_string(),
        name: name.to_owned(),
        kind,
        request_id,
        state: if held { QueueState::Held } else { QueueState::Waiting },
        age_ms: 0,
        code: None,
        reason: None,
    })
}

/// What a command asks for, and by which request id, as far as its first bytes say.
fn asked(head: &[u8]) -> (Option<String>, Option<String>) {
    match envelope::parse(head) {
        Ok(known) => {
            (Some(known.command.type_name().to_owned()), known.request_id.map(|id| id.as_str().to_owned()))
        }
        Err(rejected) => (rejected.type_name, rejected.request_id.map(|id| id.as_str().to_owned())),
    }
}

/// Finds the command that `what` names: an id, a request id, or a file. Of several that are settled the newest is meant;
/// of several that wait, none is.
///
/// # Errors
/// There is no such command, or several could be meant; the store's and the world's.
pub async fn find(root: &Path, store: &Store, what: &str, now: Time) -> Result<Found> {
    look_for(root, store, what, now).await?.ok_or_else(|| {
        OpError::not_found(format!("no command is called {}", escaped(what)))
            .hint("`g2 ipc list` shows all commands")
    })
}

/// Like [`find`]; `None` when there is no command of that name.
///
/// # Errors
/// Several could be meant, or it was removed; the store's and the world's.
pub async fn look_for(root: &Path, store: &Store, what: &str, now: Time) -> Result<Option<Found>> {
    let data = root.join("data");
    let holds = Holds::new(store.holds()?);
    let look_into = |lying: Lying| {
        let row = row(&lying, peek::head(&data, &lying).as_deref(), &holds, now);
        Open { lying, row }
    };
    let claimed = peek::claimed(&data)?;
    if let Ok(id) = what.parse::<i64>() {
        if store.settled_file(id)?.is_some() {
            return Ok(Some(Found::Settled(id)));
        }
        if let Some(lying) = claimed.iter().find(|lying| lying.claim == Some(id)) {
            return Ok(Some(Found::Open(Box::new(look_into(lying.clone())))));
        }
    }
    let is_place = |group: &str, in_box: &str, name: &str| {
        name == what || format!("{group}/{name}") == what || format!("{group}/{in_box}/{name}") == what
    };
    let is_file = |lying: &Lying| is_place(&lying.group, in_box(lying), &lying.name);
    let mut found: Vec<Open> = claimed
        .into_iter()
        .map(look_into)
        .filter(|open| is_file(&open.lying) || open.row.request_id.as_deref() == Some(what))
        .collect();
    let (mut unread, mut cause) = (0, None);
    if let Some(lying) = file_at(&data, what) {
        found.push(look_into(lying));
    } else {
        let groups: Vec<Folder> = store.groups().await?.into_iter().map(|group| group.folder).collect();
        let may_be_an_id = RequestId::parse(what).is_ok();
        let mut read = 0;
        let missed = peek::each_waiting(&data, &groups, |lying| {
            let is_file = is_file(&lying);
            if !is_file && (!may_be_an_id || read >= MOST_SEARCHED) {
                unread += usize::from(may_be_an_id);
                return;
            }
            read += usize::from(!is_file);
            let open = look_into(lying);
            if found.len() < SHOWN && (is_file || open.row.request_id.as_deref() == Some(what)) {
                found.push(open);
            }
        });
        // Without them, it may be any of those that wait there.
        cause = missed.unread.into_iter().next();
        unread += usize::from(missed.partial);
    }
    if found.len() > 1 {
        let place = |open: &Open| format!("{}/{}/{}", open.row.group, open.row.box_name, open.row.name);
        let all: Vec<String> = found.iter().map(place).collect();
        return Err(OpError::invalid(format!("{what} names several commands: {}", all.join(", ")))
            .hint("name one as GROUP/BOX/NAME"));
    }
    if let Some(open) = found.pop() {
        return Ok(Some(Found::Open(Box::new(open))));
    }
    let name = what.rsplit('/').next().unwrap_or(what);
    let settled = store.commands_called(if what.contains('/') { name } else { what }, now)?;
    let named = |row: &&IpcRow| {
        is_place(&row.group, &row.box_name, &row.name) || row.request_id.as_deref() == Some(what)
    };
    if let Some(id) = settled.iter().rev().find(named).and_then(|row| row.id) {
        return Ok(Some(Found::Settled(id)));
    }
    if let Some(cause) = cause {
        return Err(cause.into());
    }
    if unread > 0 {
        return Err(OpError::not_found(format!(
            "no command called {} was found, but too many wait to look at all of them",
            escaped(what)
        ))
        .hint("name it as GROUP/BOX/NAME"));
    }
    if let Some(id) = what.parse().ok().filter(|id| store.was_given(History::Receipts, *id).unwrap_or(false))
    {
        return Err(missing(store, History::Receipts, id));
    }
    Ok(None)
}

/// Returns the file that waits at `GROUP/BOX/NAME`.
fn file_at(data: &Path, what: &str) -> Option<Lying> {
    let (group, rest) = what.split_once('/')?;
    let (in_box, name) = rest.split_once('/')?;
    peek::waiting_file(data, &Folder::parse(group).ok()?, CommandBox::parse(in_box.as_bytes())?, name)
}

fn in_box(lying: &Lying) -> &'static str {
    lying.in_box.map_or("-", |b| b.as_str())
}
