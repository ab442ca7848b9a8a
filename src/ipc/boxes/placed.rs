//! Follow-ups on their way into `input/`, with notes of it in the folder where they are claimed back.
//!
//! A runner of version 2 removes a follow-up once it has finished with it, one of version 1 as soon as it has taken it. So a file that
//! is not there tells nothing to a daemon that adopts the run; the notes do. They need no `fsync`: no container outlives a power loss.

use std::{collections::BTreeSet, ops::ControlFlow, path::Path};

use rustix::fs::Mode;

use super::{GroupBoxes, input::make_kept, put::PutError};
use crate::{
    domain::{runs::placed::Placed, shown::errors::chain},
    ipc::{
        dir,
        files::Fd,
        names::{BoxName, is_batch_id},
        world_fault::WorldFault,
    },
    system::failpoint,
};

/// Written before the run has a container: from then on notes are complete. An older version wrote none.
const NOTED: &str = "noted";

/// Written before the file is placed.
const BEGUN: &str = "begun-";
/// Written after it.
const PLACED: &str = "placed-";
/// Written before it is placed once more, though the first one may have been taken.
const AGAIN: &str = "again-";

impl GroupBoxes {
    /// Begins to note what is placed, before the run has its container.
    ///
    /// # Errors
    /// [`WorldFault`] when the note can't be written.
    pub fn begin_notes(&self, kept: &Path) -> Result<(), WorldFault> {
        let noting = |e| WorldFault::new("noting a run in", kept.display().to_string(), e);
        note(&make_kept(self.host.files().at(kept)).map_err(noting)?, NOTED).map_err(noting)
    }

    /// Puts a follow-up into `input/`, and notes it in `kept`, the folder of [`Self::claim_back_inputs`] of the same run.
    ///
    /// # Errors
    /// [`PutError`]
    pub fn place_input(&self, kept: &Path, batch_id: &str, json: &[u8]) -> Result<(), PutError> {
        self.place_noting(kept, batch_id, json, BEGUN)
    }

    /// Does it once more, where nobody knows whether the first one was taken: if this one is there at the end of the run, that proves
    /// nothing.
    ///
    /// # Errors
    /// [`PutError`]
    pub fn place_input_again(&self, kept: &Path, batch_id: &str, json: &[u8]) -> Result<(), PutError> {
        self.place_noting(kept, batch_id, json, AGAIN)
    }

    fn place_noting(&self, kept: &Path, batch_id: &str, json: &[u8], before: &str) -> Result<(), PutError> {
        if !is_batch_id(batch_id.as_bytes()) {
            return Err(PutError::BadName(batch_id.to_owned()));
        }
        let noting = |e| WorldFault::new("noting a follow-up in", kept.display().to_string(), e);
        let folder = make_kept(self.host.files().at(kept)).map_err(noting)?;
        let begun = format!("{before}{batch_id}");
        note(&folder, &begun).map_err(noting)?;
        failpoint::reach("input.begun");
        if let Err(error) = self.put_input(batch_id, json) {
            let is_not_there = matches!(error, PutError::InTheWay(_)) || !self.has_input(batch_id);
            if is_not_there && let Err(error) = dir::unlink(&folder, begun.as_str()) {
                tracing::warn!(error = %chain(&error), batch_id, "the note about a follow-up that is not placed stays");
            }
            return Err(error);
        }
        failpoint::reach("input.placed");
        if let Err(error) = note(&folder, &format!("{PLACED}{batch_id}")) {
            // The runner has it: a daemon that adopts the run looks in the box.
            tracing::warn!(error = %chain(&error), batch_id, "a follow-up is placed, and no note says so");
        }
        Ok(())
    }

    /// Returns whether a follow-up was placed in a run, by the notes in `kept` and by what lies in the box.
    ///
    /// # Errors
    /// [`WorldFault`] when a folder can't be read.
    pub fn placed(&self, kept: &Path, batch_id: &str) -> Result<Placed, WorldFault> {
        let looking = |e| WorldFault::new("looking for a follow-up in", kept.display().to_string(), e);
        let folder = match self.host.files().at(kept).open_itself() {
            Ok(folder) => folder,
            Err(rustix::io::Errno::NOENT) => return Ok(Placed::Maybe),
            Err(error) => return Err(looking(error)),
        };
        let has = |folder: &Fd, name: String| match dir::stat(folder, name.as_str()) {
            Ok(_) => Ok(true),
            Err(rustix::io::Errno::NOENT) => Ok(false),
            Err(error) => Err(error),
        };
        let noted = |note: &str| has(&folder, format!("{note}{batch_id}")).map_err(looking);
        let input = self.at(BoxName::Input).map_err(|e| self.world(BoxName::Input, e))?;
        for end in ["json", "claimed"] {
            let name = format!("{batch_id}.{end}");
            if has(&input, name.clone()).map_err(|e| self.world(BoxName::Input, e))?
                || has(&folder, name).map_err(looking)?
            {
                return Ok(Placed::Surely);
            }
        }
        if noted(AGAIN)? {
            return Ok(Placed::Maybe);
        }
        if noted(PLACED)? {
            return Ok(Placed::Surely);
        }
        let is_complete = has(&folder, NOTED.to_owned()).map_err(looking)?;
        Ok(if noted(BEGUN)? || !is_complete { Placed::Maybe } else { Placed::Never })
    }
}

fn note(folder: &Fd, name: &str) -> rustix::io::Result<()> {
    match dir::create_new(folder, name, Mode::RUSR | Mode::WUSR) {
        Ok(_) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns the batches that were placed once more, by their notes in the folder.
pub(super) fn placed_again(kept: &Fd) -> rustix::io::Result<BTreeSet<String>> {
    let mut again = BTreeSet::new();
    dir::each_name(kept, |name, _| {
        let id = name.to_str().ok().and_then(|name| name.strip_prefix(AGAIN));
        again.extend(id.filter(|id| is_batch_id(id.as_bytes())).map(str::to_owned));
        ControlFlow::Continue(())
    })?;
    Ok(again)
}
