//! Putting another text in the place of a memory: `CLAUDE.md` of a group, or of all.

use std::{io, path::Path};

use ipc_handlers::{Folder, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use super::super::{By, Done, OpCode, OpError, Operation, Site};
use crate::{
    domain::{kept::memories::KeptAs, shown::errors::chain},
    ipc::{self, MemoryError, MemoryOf},
    root::keep_memory,
};

/// Held while a memory is replaced: the texts that are kept are numbered.
static REPLACING: Mutex<()> = Mutex::const_new(());

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
    /// The number by which the text before is kept; `null`: there was none, or it is the same.
    pub before: Option<u64>,
}

/// Why a memory has no other text now.
enum Failed {
    /// It can't be read or written, or was changed meanwhile. The new text is kept by this number; `None`: it is too long.
    Memory(MemoryError, Option<u64>),
    /// No text can be kept.
    Keeping(io::Error),
}

impl Operation for Args {
    type Row = Edited;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<Edited>, OpError> {
        let Self { folder, text, was } = self;
        if let Some(folder) = &folder {
            site.group(folder).await?;
        }
        replace(site, folder, text, was).await
    }
}

/// Puts a text in the place of a memory that is the one of `was`, which is kept. If that is another one by now, or nothing that
/// can be replaced, it stays, and the text is kept.
pub(super) async fn replace(
    site: &Site<'_>,
    folder: Option<Folder>,
    text: String,
    was: String,
) -> Result<Done<Edited>, OpError> {
    let (root, of, now) = (site.root.to_owned(), folder.clone(), site.world.now());
    let turn = REPLACING.lock().await;
    let write = move || put(&root, of.as_ref(), &was, &text, now);
    let put = site.world.blocking(write).await;
    drop(turn);
    let before = match put {
        Ok(Ok(before)) => before,
        Ok(Err(failed)) => return Err(of_failure(&failed, folder.as_ref())),
        Err(fault) => return Err(OpError::refused(format!("our own fault: {fault}"))),
    };
    let says = match &folder {
        None => "all groups have a new CLAUDE.md; each run that begins reads it".to_owned(),
        Some(folder) => match site.store.active_run_of(folder)? {
            Some(_) => format!(
                "group {folder} has a new CLAUDE.md; its live run goes on with the old one until `g2 groups restart {folder}`"
            ),
            None => format!("group {folder} has a new CLAUDE.md; its next run reads it"),
        },
    };
    let whose = folder.as_ref().map_or("--global", Folder::as_str);
    let kept =
        before.map(|n| format!("the text before is kept: `g2 groups back {whose} --to {n}` puts it back"));
    Ok(Done::new(Edited { folder, before }, says).noting(kept))
}

/// Keeps the text that is there, then puts the new one in its place. Returns the number of the one before.
fn put(root: &Path, of: Option<&Folder>, was: &str, text: &str, now: Time) -> Result<Option<u64>, Failed> {
    let memory = MemoryOf::named(of);
    // Somebody has typed it, and a page does not show it again.
    let unsaved = |error| match keep_memory(root, of, KeptAs::Unsaved, text, now) {
        Ok(unsaved) => Failed::Memory(error, unsaved),
        Err(error) => Failed::Keeping(error),
    };
    let there = ipc::read_memory(root, memory).map_err(unsaved)?;
    let before = match there.digest == was && !there.text.is_empty() && there.text != text {
        true => keep_memory(root, of, KeptAs::Replaced, &there.text, now).map_err(Failed::Keeping)?,
        false => None,
    };
    ipc::write_memory(root, memory, was, text).map_err(unsaved)?;
    Ok(before)
}

fn of_failure(failed: &Failed, folder: Option<&Folder>) -> OpError {
    match failed {
        Failed::Memory(error, None) => of_memory(error, folder),
        Failed::Memory(error, Some(n)) => {
            let refused = of_memory(error, folder);
            let before = match (error, refused.hint.as_str()) {
                (MemoryError::Changed(_), _) => "it stays as it is now".to_owned(),
                (_, "") => "nothing was written".to_owned(),
                (_, hint) => hint.to_owned(),
            };
            let whose = folder.map_or("--global", Folder::as_str);
            refused.hint(format!(
                "{before}; your text is kept with the number {n}, and `g2 groups history {whose} --show {n}` shows it"
            ))
        }
        Failed::Keeping(error) => OpError::new(
            OpCode::Failed,
            format!("nothing was written, for no text can be kept in data/memories: {}", chain(error)),
        ),
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
            OpError::new(OpCode::Failed, chain(error))
        }
    }
}
