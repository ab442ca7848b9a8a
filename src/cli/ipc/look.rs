//! The queue as it is: settled commands by their receipts, what is claimed, what waits.

use std::{collections::BTreeSet, path::Path};

use anyhow::{Result, bail};
use ipc_handlers::{Folder, RequestId, Time, envelope};

use super::{super::prune::missing, Context};
use crate::{
    clock,
    domain::{holds::Holds, prune::History, rows::IpcRow, screen::escaped, states::QueueState},
    ipc::{
        CommandBox,
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

/// There is no command of this name.
#[derive(Debug, thiserror::Error)]
#[error("no command is called {0}; `g2 ipc list` names them all")]
pub(super) struct NoSuchCommand(String);

/// What of the queue is asked for.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) group: Option<String>,
    pub(super) state: Option<QueueState>,
    pub(super) limit: Option<usize>,
    /// Of the settled ones, only this id and later.
    pub(super) from: i64,
}

/// The rows that were asked for, oldest first.
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) rows: Vec<IpcRow>,
    /// Says so when more waits than is listed.
    pub(super) cut: Option<String>,
}

/// A command that is not settled.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub(super) lying: Lying,
    pub(super) row: IpcRow,
}

/// A command, wherever it is.
#[derive(Clone, Debug)]
pub(super) enum Found {
    Settled(i64),
    Open(Box<Open>),
}

impl Queue {
    pub(super) fn rows(&self, context: &Context, store: &Store) -> Result<Rows> {
        let now = clock::now();
        // Files move on while we read, so they are looked for where they come from first: none is missed.
        let settled_before = store.last_claim()?;
        let outcome = self.state.map(QueueState::outcome);
        let (mut open, mut cut) = (Vec::new(), None);
        if !matches!(outcome, Some(Some(_))) {
            (open, cut) = self.open(context, store, now)?;
        }
        let mut rows = Vec::new();
        let settled = !matches!(outcome, Some(None));
        if settled {
            rows = store.ipc_rows(
                &IpcFilter {
                    group: self.group.clone(),
                    outcome: outcome.flatten(),
                    from: self.from,
                    limit: self.limit,
                },
                now,
            )?;
        }
        let moved_on = MovedOn::since(store, settled_before, &open, now)?;
        if settled {
            self.add_settled_since(&mut rows, &moved_on);
        }
        rows.extend(
            open.into_iter()
                .map(|open| open.row)
                .filter(|row| !moved_on.has(row) && self.state.is_none_or(|state| row.state == state)),
        );
        if let Some(limit) = self.limit {
            rows.drain(..rows.len().saturating_sub(limit));
        }
        Ok(Rows { rows, cut })
    }

    /// What was settled since the receipts were read is no open command any more: it is listed as a settled one.
    fn add_settled_since(&self, rows: &mut Vec<IpcRow>, moved_on: &MovedOn) {
        let known: BTreeSet<Option<i64>> = rows.iter().map(|row| row.id).collect();
        let since = moved_on.settled.iter().filter(|row| {
            !known.contains(&row.id)
                && row.id >= Some(self.from)
                && self.group.as_ref().is_none_or(|group| row.group == *group)
                && self.state.is_none_or(|state| row.state == state)
        });
        rows.extend(since.cloned());
        rows.sort_by_key(|row| row.id);
    }

    /// Returns the commands that are not settled.
    pub(super) fn open_rows(&self, context: &Context, store: &Store) -> Result<Vec<IpcRow>> {
        let (open, _) = self.open(context, store, clock::now())?;
        Ok(open.into_iter().map(|open| open.row).collect())
    }

    fn open(&self, context: &Context, store: &Store, now: Time) -> Result<(Vec<Open>, Option<String>)> {
        let data = context.root.join("data");
        let mut groups: Vec<Folder> = store.groups()?.into_iter().map(|group| group.folder).collect();
        groups.retain(|folder| self.group.as_deref().is_none_or(|group| folder.as_str() == group));
        let waiting = peek::waiting(&data, &groups, MOST_WAITING)?;
        let cut = waiting.is_cut().then(|| {
            let more = if waiting.partial { " or more" } else { "" };
            format!(
                "{}{more} commands wait; the list is cut after the oldest {}",
                waiting.seen,
                waiting.files.len()
            )
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
        Ok((open, cut))
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
    let (kind, request_id) = match head.map(envelope::parse) {
        Some(Ok(known)) => {
            (Some(known.command.type_name().to_owned()), known.request_id.map(|id| id.as_str().to_owned()))
        }
        Some(Err(rejected)) => (rejected.type_name, rejected.request_id.map(|id| id.as_str().to_owned())),
        None => (None, None),
    };
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

/// Finds the command that `what` names: an id, a request id, or a file. Of several that are settled the newest is meant;
/// of several that wait, none is.
pub(super) fn find(context: &Context, store: &Store, what: &str) -> Result<Found> {
    let now = clock::now();
    let data = context.root.join("data");
    let holds = Holds::new(store.holds()?);
    let look_into = |lying: Lying| {
        let row = row(&lying, peek::head(&data, &lying).as_deref(), &holds, now);
        Open { lying, row }
    };
    let claimed = peek::claimed(&data)?;
    if let Ok(id) = what.parse::<i64>() {
        if store.settled_file(id)?.is_some() {
            return Ok(Found::Settled(id));
        }
        if let Some(lying) = claimed.iter().find(|lying| lying.claim == Some(id)) {
            return Ok(Found::Open(Box::new(look_into(lying.clone()))));
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
    let mut unread = 0;
    if let Some(lying) = file_at(&data, what) {
        found.push(look_into(lying));
    } else {
        let groups: Vec<Folder> = store.groups()?.into_iter().map(|group| group.folder).collect();
        let may_be_an_id = RequestId::parse(what).is_ok();
        let mut read = 0;
        let partial = peek::each_waiting(&data, &groups, |lying| {
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
        })?;
        unread += usize::from(partial);
    }
    if found.len() > 1 {
        let place = |open: &Open| format!("{}/{}/{}", open.row.group, open.row.box_name, open.row.name);
        let all: Vec<String> = found.iter().map(place).collect();
        bail!("{what} can be any of {}; name one as GROUP/BOX/NAME", all.join(", "));
    }
    if let Some(open) = found.pop() {
        return Ok(Found::Open(Box::new(open)));
    }
    let name = what.rsplit('/').next().unwrap_or(what);
    let settled = store.commands_called(if what.contains('/') { name } else { what }, now)?;
    let named = |row: &&IpcRow| {
        is_place(&row.group, &row.box_name, &row.name) || row.request_id.as_deref() == Some(what)
    };
    if let Some(id) = settled.iter().rev().find(named).and_then(|row| row.id) {
        return Ok(Found::Settled(id));
    }
    if unread > 0 {
        bail!(
            "no command that was looked at is called {}, but so many wait that not all were; name it as GROUP/BOX/NAME",
            escaped(what)
        );
    }
    if let Some(id) = what.parse().ok().filter(|id| store.was_given(History::Receipts, *id).unwrap_or(false))
    {
        return Err(missing(store, History::Receipts, id));
    }
    Err(NoSuchCommand(escaped(what)).into())
}

/// Returns what waits at `GROUP/BOX/NAME`.
fn file_at(data: &Path, what: &str) -> Option<Lying> {
    let (group, rest) = what.split_once('/')?;
    let (in_box, name) = rest.split_once('/')?;
    peek::waiting_file(data, &Folder::parse(group).ok()?, CommandBox::parse(in_box.as_bytes())?, name)
}

fn in_box(lying: &Lying) -> &'static str {
    lying.in_box.map_or("-", |b| b.as_str())
}
