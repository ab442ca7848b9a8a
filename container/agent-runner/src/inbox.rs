//! `input/`: follow-ups for the live run.
//!
//! | name in `input/` | means |
//! |---|---|
//! | `<id>.json` | waits; the host may still take it back |
//! | `<id>.claimed` | taken by us (our rename won) and in the agent's hands |
//! | gone | the agent has finished with it and a record said so |
//! | `<id>.json.bad` | could not be understood; reported, and in nobody's way |
//! | `_close` | finish the turn, take nothing more, leave |
//!
//! Never decides that a batch is handled: that is for the provider to say.

use std::{
    collections::HashSet,
    ffi::{OsStr, OsString},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use ipc_handlers::wire::{CLOSE_FILE, Input, Kind, Record};

use crate::{
    files::FileError,
    records::Records,
    runner::chain,
    turns::Turn,
    world::{Folder, World},
};

/// The most that is read of one input file, bytes.
const INPUT_LIMIT: u64 = 64 << 20;

/// What the folder holds for us at the moment.
pub(crate) enum Found {
    /// A follow-up, claimed.
    Turn(Turn),
    /// The host wants us gone.
    Close,
    Nothing,
}

/// The box that the host fills.
pub(crate) struct Inbox {
    dir: Box<dyn Folder>,
    records: Arc<Records>,
    /// Every id that was ever taken in this life.
    taken: Mutex<HashSet<String>>,
}

/// Why an input file is of no use.
#[derive(Debug, thiserror::Error)]
enum Bad {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("its name is not UTF-8")]
    Name,
    #[error("it is not an input document")]
    Json(#[source] serde_json::Error),
    #[error("its type is {0:?}, not \"message\"")]
    Type(String),
    #[error("it says that its id is {0:?}, which is not its name")]
    Id(String),
}

impl Inbox {
    /// Opens `<ipc>/input`, removes a `_close` that was meant for an earlier life, and counts the batch that came
    /// with the launch as taken.
    pub(crate) fn open(
        world: &Arc<dyn World>,
        ipc: &Path,
        launched_with: Option<&str>,
        records: Arc<Records>,
    ) -> Result<Self, FileError> {
        let dir = world.made_folder(&ipc.join("input"))?;
        dir.remove(OsStr::new(CLOSE_FILE))?;
        let taken = Mutex::new(launched_with.map(str::to_owned).into_iter().collect());
        Ok(Self { dir, records, taken })
    }

    /// Returns the folder, to be watched.
    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Looks at the folder once and claims the next follow-up, if there is one.
    ///
    /// # Errors
    /// [`FileError`] when the folder can't be read at all; faulty files are reported and set aside.
    pub(crate) fn look(&self) -> Result<Found, FileError> {
        let close = OsStr::new(CLOSE_FILE);
        if self.dir.has(close) {
            // One that can't be removed has been heard all the same.
            let _ = self.dir.remove(close);
            return Ok(Found::Close);
        }
        let mut waiting: Vec<OsString> = self.dir.names()?;
        waiting.retain(|name| {
            let name = name.as_encoded_bytes();
            name.ends_with(b".json") && !name.starts_with(b".")
        });
        waiting.sort_by_cached_key(|name| order(name));
        for name in waiting {
            if let Some(turn) = self.take(&name) {
                return Ok(Found::Turn(turn));
            }
        }
        Ok(Found::Nothing)
    }

    /// Removes a claimed file after its batch was named in `handled`.
    pub(crate) fn finished(&self, id: &str) {
        if let Err(e) = self.dir.remove(&claimed(id)) {
            eprintln!("{}", chain(&e));
        }
    }

    fn take(&self, name: &OsStr) -> Option<Turn> {
        let Some(id) = name.to_str().and_then(|name| name.strip_suffix(".json")) else {
            self.set_aside(name, name, &Bad::Name);
            return None;
        };
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.contains(id) {
            if let Err(e) = self.dir.remove(name) {
                self.set_aside(name, name, &Bad::File(e));
            }
            return None;
        }
        match self.dir.rename(name, &claimed(id)) {
            Ok(true) => {}
            // The host has claimed it back: it was never ours.
            Ok(false) => return None,
            Err(e) => {
                self.set_aside(name, name, &Bad::File(e));
                return None;
            }
        }
        taken.insert(id.to_owned());
        match self.read(id) {
            Ok(prompt) => Some(Turn { batch: Some(id.to_owned()), prompt }),
            Err(bad) => {
                self.set_aside(&claimed(id), name, &bad);
                None
            }
        }
    }

    /// Returns the prompt in a claimed file.
    fn read(&self, id: &str) -> Result<String, Bad> {
        let bytes = self.dir.read(&claimed(id), INPUT_LIMIT)?.unwrap_or_default();
        let input: Input = serde_json::from_slice(&bytes).map_err(Bad::Json)?;
        if input.kind != "message" {
            return Err(Bad::Type(input.kind));
        }
        match input.id {
            Some(other) if other != id => Err(Bad::Id(other)),
            _ => Ok(input.text),
        }
    }

    fn set_aside(&self, at: &OsStr, name: &OsStr, why: &Bad) {
        let mut bad = name.to_owned();
        bad.push(".bad");
        // A name may be too long to be made longer.
        let gone = self.dir.rename(at, &bad).or_else(|_| self.dir.remove(at).map(|()| true));
        let text = format!("input file {} was set aside: {}", name.display(), chain(why));
        eprintln!("{text}");
        // One that can't be moved is met again at every look, which must not become a flood of records.
        if gone.is_ok_and(|found| found) {
            let _ =
                self.records.write(Record { kind: Kind::Progress, result: Some(text), ..Record::default() });
        }
    }
}

fn claimed(id: &str) -> OsString {
    OsString::from(format!("{id}.claimed"))
}

/// Batch ids count up; whatever else there is comes after them by name.
fn order(name: &OsStr) -> (u128, OsString) {
    let number = name.to_str().and_then(|name| name.strip_suffix(".json")?.parse().ok());
    (number.unwrap_or(u128::MAX), name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_ordered_as_numbers_and_come_before_names() {
        let mut names: Vec<OsString> =
            ["b.json", "10.json", "9.json", "1704-a.json", "100.json"].iter().map(OsString::from).collect();
        names.sort_by_cached_key(|name| order(name));
        assert_eq!(names, ["9.json", "10.json", "100.json", "1704-a.json", "b.json"]);
    }
}
