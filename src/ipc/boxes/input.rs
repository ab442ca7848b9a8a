//! `input/` when its run is over, and the boxes before the next one.
//!
//! The batch's row is the truth about a follow-up; what lies here is evidence, of which only the ids are read.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{CStr, CString},
    ops::ControlFlow,
    path::Path,
};

use rustix::io::Errno;

use super::{GroupBoxes, placed::placed_again};
use crate::ipc::{
    dir,
    files::{At, Fd},
    names::{BoxName, FileKind, is_batch_id, is_request_id, without_hand},
    world_fault::WorldFault,
};

/// At most this many follow-ups are claimed back; a host never leaves more, so the rest is a container's own litter.
const MOST: usize = 10_000;
/// How often `input/` is gone through: a rename under way can hide a name from one pass, not from the next.
const PASSES: usize = 8;
/// How many entries are removed of claimed-back follow-ups, each with its notes.
const FORGET_BUDGET: usize = 5 * MOST;
/// How many entries are removed from the boxes in one go.
const EMPTY_BUDGET: usize = 50_000;
/// How large the replies are together that stay, bytes. A container may have put anything there under their names.
const KEPT_REPLIES: u64 = 4 << 20;

/// A follow-up that was in `input/` when it was claimed back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputLeft {
    /// From the file's name, so from the container: look it up, never trust it.
    pub batch_id: String,
    pub state: InputState,
}

/// How far the runner got with a follow-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InputState {
    /// Still `<id>.json`.
    Unread,
    /// Renamed to `<id>.claimed`.
    Claimed,
}

/// How far the emptying of the boxes got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emptied {
    /// `input/`, `responses/` and `state/` are empty.
    All,
    /// There was too much for one go; call again before anything is created.
    More,
}

impl GroupBoxes {
    /// Takes every follow-up out of `input/` into `dest`, removes everything else there, and returns what `dest` holds.
    ///
    /// `dest` is a host-only folder on the same file system, made here if absent; its parent must exist. It keeps what
    /// was taken until [`Self::forget_inputs`], so a crash before the judgement is committed loses no evidence: calling
    /// again returns it too. Each is first renamed in its box, which wins or loses against the runner's own, never both.
    ///
    /// # Errors
    /// [`WorldFault`] when a folder can't be read or a file can't be moved.
    pub fn claim_back_inputs(&self, dest: &Path) -> Result<Vec<InputLeft>, WorldFault> {
        let kept = make_kept(self.host.files().at(dest))
            .map_err(|e| WorldFault::new("making", dest.display().to_string(), e))?;
        let moving = |e| self.world(BoxName::Input, e);
        let input = &*self.at(BoxName::Input).map_err(moving)?;
        let mut taken = 0;
        for _ in 0..PASSES {
            let names = self.first_names(BoxName::Input, MOST + 1).map_err(moving)?;
            if names.is_empty() {
                break;
            }
            for name in names {
                if taken < MOST && parse(&name).is_some() && self.take(input, &name, &kept).map_err(moving)? {
                    taken += 1;
                } else {
                    self.host.remove_entry(input, &name).map_err(moving)?;
                }
            }
        }
        evidence(&kept).map_err(|e| WorldFault::new("reading", dest.display().to_string(), e))
    }

    /// Whether a follow-up still lies in `input/`, taken or not. A v1 runner unlinks what it has taken.
    #[must_use]
    pub fn has_input(&self, batch_id: &str) -> bool {
        let Ok(input) = self.at(BoxName::Input) else { return false };
        ["json", "claimed"].iter().any(|end| dir::stat(&input, format!("{batch_id}.{end}").as_str()).is_ok())
    }

    /// Whether a follow-up lies in `input/` as it was put there: the runner has not taken it.
    #[must_use]
    pub fn is_unread(&self, batch_id: &str) -> bool {
        let Ok(input) = self.at(BoxName::Input) else { return false };
        dir::stat(&input, format!("{batch_id}.json").as_str()).is_ok()
    }

    /// Whether the heartbeat changed since the runner took a follow-up. Both stamps are the kernel's own change times,
    /// which no container can set.
    #[must_use]
    pub fn has_beaten_since_taken(&self, batch_id: &str) -> bool {
        let changed = |b: BoxName, name: &str| {
            let stat = dir::stat(&*self.at(b).ok()?, name).ok()?;
            Some((stat.st_ctime, stat.st_ctime_nsec))
        };
        let taken = changed(BoxName::Input, &format!("{batch_id}.claimed"));
        let beaten = changed(BoxName::State, "heartbeat");
        taken.is_some() && beaten >= taken
    }

    /// Removes a folder of claimed-back follow-ups, once what they prove is committed.
    ///
    /// # Errors
    /// [`WorldFault`] when it can't be removed.
    pub fn forget_inputs(&self, dest: &Path) -> Result<(), WorldFault> {
        let failed = |e| WorldFault::new("removing", dest.display().to_string(), e);
        let dest = self.host.files().at(dest);
        let kept = match dest.open_itself() {
            Ok(kept) => kept,
            Err(Errno::NOENT) => return Ok(()),
            Err(e) => return Err(failed(e)),
        };
        // Ours, and hardly more than what was taken: no need for the trash.
        let mut left = FORGET_BUDGET;
        while self.host.empty_once(&kept, &mut left).map_err(failed)?.is_continue() {
            match dest.remove() {
                Ok(()) | Err(Errno::NOENT) => return Ok(()),
                // Reading while removing may skip names.
                Err(Errno::NOTEMPTY) => left = left.saturating_sub(1),
                Err(e) => return Err(failed(e)),
            }
        }
        Err(failed(Errno::NOTEMPTY))
    }

    /// Empties `input/`, `responses/` and `state/` before a container is created; never call it at an adoption.
    ///
    /// The replies to `kept` requests stay, as far as they are files: those named first, with 4 MiB in all. Which those are is
    /// asked for after a look at what is there, so a reply that is put meanwhile stays too. Files are unlinked,
    /// directories moved to the trash whole, so depth does not matter.
    ///
    /// # Errors
    /// [`WorldFault`] when something can't be removed, and that of `kept`.
    pub fn empty_before_create<E: From<WorldFault>>(
        &self,
        kept: impl Fn() -> Result<Vec<String>, E>,
    ) -> Result<Emptied, E> {
        let mut left = EMPTY_BUDGET;
        for b in [BoxName::Input, BoxName::State] {
            if self.empty(b, &mut left).map_err(|e| self.world(b, e))?.is_break() {
                return Ok(Emptied::More);
            }
        }
        let failed = |e| self.world(BoxName::Responses, e);
        let there = self.first_names(BoxName::Responses, left + 1).map_err(failed)?;
        if there.is_empty() {
            return Ok(Emptied::All);
        }
        let stay = self.replies_that_stay(&kept()?).map_err(failed)?;
        let responses = &*self.at(BoxName::Responses).map_err(failed)?;
        let are_all = there.len() <= left;
        for name in there.iter().filter(|name| !stay.contains(*name)) {
            self.host.remove_entry(responses, name).map_err(failed)?;
        }
        Ok(if are_all { Emptied::All } else { Emptied::More })
    }

    /// Removes what is in a box. Breaks off when the budget is used up.
    fn empty(&self, b: BoxName, left: &mut usize) -> rustix::io::Result<ControlFlow<()>> {
        let tree = &*self.at(b)?;
        // Reading while removing may skip names.
        while !self.first_names(b, 1)?.is_empty() {
            if self.host.empty_once(tree, left)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            *left = left.saturating_sub(1);
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Returns names of a box, at most `most`.
    fn first_names(&self, b: BoxName, most: usize) -> rustix::io::Result<Vec<CString>> {
        let mut names = Vec::new();
        dir::each_name(&*self.at(b)?, |name, _| {
            names.push(name.to_owned());
            if names.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        Ok(names)
    }

    /// Returns the names of the replies to these requests that are there and may stay.
    fn replies_that_stay(&self, kept: &[String]) -> rustix::io::Result<BTreeSet<CString>> {
        let mut stay = BTreeSet::new();
        let mut left = KEPT_REPLIES;
        let responses = self.at(BoxName::Responses)?;
        for id in kept.iter().filter(|id| is_request_id(id.as_bytes())) {
            let Ok(name) = CString::new(format!("{id}.json")) else { continue };
            let bytes = match dir::stat(&responses, name.as_c_str()) {
                Ok(stat) if FileKind::of(&stat) == FileKind::File => {
                    u64::try_from(stat.st_size).unwrap_or(u64::MAX)
                }
                Ok(_) | Err(_) => continue,
            };
            if let Some(rest) = left.checked_sub(bytes) {
                left = rest;
                stay.insert(name);
            }
        }
        Ok(stay)
    }

    /// Moves one follow-up to `kept`; false when it is no file and has to be removed some other way.
    fn take(&self, input: &Fd, name: &CStr, kept: &Fd) -> rustix::io::Result<bool> {
        match dir::stat(input, name) {
            Ok(stat) if FileKind::of(&stat) == FileKind::File => {}
            Ok(_) => return Ok(false),
            Err(Errno::NOENT) => return Ok(true),
            Err(other) => return Err(other),
        }
        let known = without_hand(dir::os(name));
        // What was taken before says the same, and this goes like everything else here.
        if dir::stat(kept, known).is_ok() {
            return Ok(false);
        }
        match self.host.take_out(input, dir::os(name), kept, known) {
            Ok(()) | Err(Errno::NOENT) => Ok(true),
            Err(other) => Err(other),
        }
    }
}

pub(super) fn make_kept(dest: At<'_>) -> rustix::io::Result<Fd> {
    dest.make(0o700)?;
    dest.open_itself()
}

/// What the claimed-back files say: their ids, and `Claimed` where a batch is there in both states. One that was placed once more and
/// lies there says nothing: the first one may have been taken, and removed when it was done.
fn evidence(kept: &Fd) -> rustix::io::Result<Vec<InputLeft>> {
    let mut found = BTreeMap::new();
    let again = placed_again(kept)?;
    dir::each_name(kept, |name, _| {
        if let Some((id, state)) = parse(name)
            && dir::stat(kept, name).is_ok_and(|s| FileKind::of(&s) == FileKind::File)
        {
            let known = found.entry(id).or_insert(state);
            *known = state.max(*known);
        }
        ControlFlow::Continue(())
    })?;
    found.retain(|id, state| *state != InputState::Unread || !again.contains(id));
    Ok(found.into_iter().map(|(batch_id, state)| InputLeft { batch_id, state }).collect())
}

/// The batch id and state that a name in `input/` stands for, or stood for when it was taken in hand.
fn parse(name: &CStr) -> Option<(String, InputState)> {
    let name = without_hand(dir::os(name)).to_str()?;
    let (id, suffix) = name.split_once('.')?;
    let state = match suffix {
        "json" => InputState::Unread,
        "claimed" => InputState::Claimed,
        _ => return None,
    };
    is_batch_id(id.as_bytes()).then(|| (id.to_owned(), state))
}
