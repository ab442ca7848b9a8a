//! Putting an earlier text of a memory back.

use ipc_handlers::Folder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{By, Done, OpError, Operation, Site},
    edit::{Edited, of_memory, replace},
};
use crate::{
    ipc::{MemoryOf, read_memory},
    root::kept_memory,
};

/// Put an earlier CLAUDE.md of a group back.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Folder of the group; none: the CLAUDE.md that all groups share.
    #[serde(default)]
    pub folder: Option<Folder>,
    /// Number of the text, as `g2 groups history` shows it.
    #[arg(long, value_name = "VERSION")]
    pub to: u64,
    /// SHA-256 of the text that it takes the place of, in hex digits, as for `groups.edit`; left out: whatever is there.
    #[serde(default)]
    #[arg(skip)]
    pub was: Option<String>,
}

impl Operation for Args {
    type Row = Edited;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<Edited>, OpError> {
        let Self { folder, to, was } = self;
        if let Some(folder) = &folder {
            site.group(folder).await?;
        }
        let (root, of) = (site.root.to_owned(), folder.clone());
        let read = move || {
            let kept = kept_memory(&root, of.as_ref(), to);
            (kept, read_memory(&root, MemoryOf::named(of.as_ref())))
        };
        let (kept, now) = site
            .world
            .blocking(read)
            .await
            .map_err(|fault| OpError::refused(format!("our own fault: {fault}")))?;
        let kept = kept.map_err(|error| {
            OpError::new(super::super::OpCode::Failed, format!("data/memories can't be read: {error}"))
        })?;
        let Some((_, text)) = kept else {
            return Err(OpError::not_found(format!("no CLAUDE.md is kept with the number {to}")).hint(
                format!(
                    "`g2 groups history {}` lists those that are",
                    folder.as_ref().map_or("--global", Folder::as_str)
                ),
            ));
        };
        let was = match was {
            Some(was) => was,
            None => now.map_err(|error| of_memory(&error, folder.as_ref()))?.digest,
        };
        replace(site, folder, text, was).await
    }
}
