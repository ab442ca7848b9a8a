//! Putting a command's bytes back among the claimed ones, and taking away what was kept of one.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};

use ipc_handlers::Folder;

use super::{Claimed, Claims, SOURCE, Source};
use crate::ipc::world_fault::WorldFault;

impl Claims {
    /// Puts `bytes` among the claimed files under `id`, as if they had been claimed from where `source` says. A file of
    /// its own, so that it has an origin of its own.
    ///
    /// # Errors
    /// [`WorldFault`]; then nothing is there.
    pub fn put_back(
        &self,
        id: i64,
        folder: &Folder,
        source: Option<Source>,
        bytes: &[u8],
    ) -> Result<Claimed, WorldFault> {
        let mut claimed = Claimed::new(&self.host, id, folder, source);
        let failed = |e: rustix::io::Errno| claimed.world("putting back", e);
        let built = self.host.build(bytes, None)?;
        if let Some(source) = &claimed.source {
            // Best effort, as for every claim: after a restart it is shown to people.
            let value = format!("{}/{}", source.in_box, source.name);
            let _ = built.file().set_attribute(SOURCE, value.as_bytes());
        }
        built.place_new(&self.host.claimed, &claimed.file_name()).map_err(failed)?;
        self.look_at(&mut claimed);
        Ok(claimed)
    }

    /// Removes the kept file of a dead command; returns whether there was one.
    ///
    /// # Errors
    /// [`WorldFault`] when it can't be removed.
    pub fn discard_dead(&self, folder: &Folder, id: i64) -> Result<bool, WorldFault> {
        self.aside.forget_dead(&self.host, &Claimed::new(&self.host, id, folder, None))
    }
}

impl Source {
    /// Where a command stood, from its row; `None` when that is not known.
    #[must_use]
    pub fn of_row(in_box: &str, name: &str) -> Option<Self> {
        let in_box = super::CommandBox::parse(OsStr::new(in_box).as_bytes())?;
        Some(Self { in_box, name: name.to_owned() })
    }
}
