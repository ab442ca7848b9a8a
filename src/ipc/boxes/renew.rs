//! Boxes that nothing can be put into, made anew between two containers.

use rustix::io::Errno;

use super::GroupBoxes;
use crate::ipc::{dir, names::BoxName, world_fault::WorldFault};

impl GroupBoxes {
    /// Tries each box, and removes those that refuse a file of ours for what their container did to them; returns those.
    /// Call it where there is no container, and open the group anew if there are any. One that is not empty stays.
    ///
    /// # Errors
    /// [`WorldFault`] when one can't be removed, or the machine has no room.
    pub fn renew(&self) -> Result<Vec<BoxName>, WorldFault> {
        let mut removed = Vec::new();
        for b in BoxName::ALL {
            let failed = |e| WorldFault::new("trying", self.path_of(b).display().to_string(), e);
            match self.try_box(b) {
                Ok(()) => continue,
                // The disk's fault: a new box would be no better.
                Err(
                    e @ (Errno::NOSPC
                    | Errno::DQUOT
                    | Errno::ROFS
                    | Errno::IO
                    | Errno::NOMEM
                    | Errno::MFILE
                    | Errno::NFILE),
                ) => return Err(failed(e)),
                Err(_) => {}
            }
            if self.set_back(b).and_then(|()| self.try_box(b)).is_ok() {
                continue;
            }
            let group = self.lend_group().map_err(failed)?;
            match dir::remove_dir(&group, b.as_str()) {
                Ok(()) => removed.push(b),
                Err(Errno::NOTEMPTY | Errno::NOENT) => {}
                Err(e) => return Err(failed(e)),
            }
        }
        Ok(removed)
    }

    fn try_box(&self, b: BoxName) -> rustix::io::Result<()> {
        let at = &*self.at(b)?;
        let name = self.host.files().hands().on_its_way();
        self.host.build(b"", self.owner()).map_err(|_| Errno::IO)?.place(at, &name)?;
        dir::unlink(at, name.as_str())
    }
}
