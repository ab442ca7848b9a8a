//! Putting another text in the place of a memory: `CLAUDE.md` of a group, or of all.

use ipc_handlers::Folder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::{By, Done, OpError, Operation, Site};
use crate::ipc::{self, MemoryError, MemoryOf};

/// Change the CLAUDE.md of a group in $VISUAL or $EDITOR.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Folder of the group; left out: the CLAUDE.md that all groups share.
    #[serde(default)]
    pub folder: Option<Folder>,
    /// The whole new text, at most 1 MiB.
    #[arg(skip)]
    pub text: String,
    /// SHA-256 of the text that it takes the place of, in hex digits; empty: there is no CLAUDE.md. Another text stays.
    #[serde(default)]
    #[arg(skip)]
    pub was: String,
}

/// The memory that was changed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Edited {
    /// Folder of its group; `null`: all groups share it.
    pub folder: Option<Folder>,
}

impl Operation for Args {
    type Row = Edited;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<Edited>, OpError> {
        let Self { folder, text, was } = self;
        if let Some(folder) = &folder {
            site.group(folder).await?;
        }
        let (root, of) = (site.root.to_owned(), folder.clone());
        let write = move || ipc::write_memory(&root, MemoryOf::named(of.as_ref()), &was, &text);
        match site.world.blocking(write).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(of_memory(&error, folder.as_ref())),
            Err(fault) => return Err(OpError::refused(format!("our own fault: {fault}"))),
        }
        let says = match &folder {
            None => "all groups have a new CLAUDE.md; each run that begins reads it".to_owned(),
            Some(folder) => match site.store.active_run_of(folder)? {
                Some(_) => format!(
                    "group {folder} has a new CLAUDE.md; its live run goes on with the old one until `g2 groups restart {folder}`"
                ),
                None => format!("group {folder} has a new CLAUDE.md; its next run reads it"),
            },
        };
        Ok(Done::new(Edited { folder }, says))
    }
}

/// Why a memory can't be read or written, and how that is mended. `None`: it is the one that all groups share.
#[must_use]
pub fn of_memory(error: &MemoryError, folder: Option<&Folder>) -> OpError {
    let refused = OpError::refused(error.to_string());
    let again = folder.map_or("--global", Folder::as_str);
    match error {
        MemoryError::NotAFile(_) => refused.hint(format!(
            "nothing was read or written there; look at it with `ls -l`, move it away, then `g2 groups edit {again}`"
        )),
        MemoryError::TooLong(_) => {
            refused.hint("an agent reads all of it in each run: move parts of it into files of their own")
        }
        MemoryError::NoText(_) => refused.hint("move it away, and begin with a new one"),
        MemoryError::Changed(_) => {
            refused.hint("nothing was written, so that no change is lost; open it again and merge the two")
        }
        MemoryError::NoFolder(_) => refused.hint(match folder {
            Some(folder) => {
                format!("`g2 groups restore {folder}` or `g2 groups renew {folder}` brings it back")
            }
            None => "`g2 init` makes it".to_owned(),
        }),
        MemoryError::World(error) => {
            OpError::new(super::super::OpCode::Failed, crate::domain::shown::errors::chain(error))
        }
    }
}
