//! Giving a group that has lost its folder the one of a backup.

use std::path::PathBuf;

use ipc_handlers::Folder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{By, Done, OpError, Operation, Site},
    check_lost,
};
use crate::{
    backup::{restore_folder, restore_newest_folder},
    domain::{kept::folders::There, rows::Group},
    ipc,
};

/// Give a group that has lost its folder the one of a backup.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Folder of the group.
    pub folder: Folder,
    /// Backup to take it from [default: the newest in backup.to that has it].
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,
}

impl Operation for Args {
    type Row = Group;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<Group>, OpError> {
        let Self { folder, from } = self;
        let group = site.group(&folder).await?;
        check_lost(site, &folder)?;
        let to = match &from {
            Some(file) if file.is_relative() => {
                return Err(OpError::invalid(format!("{} is no whole path", file.display())));
            }
            Some(_) => None,
            None => site.config()?.backup.to.clone(),
        };
        let (root, of) = (site.root.to_owned(), folder.clone());
        let restoring = move || match (from, to) {
            (Some(file), _) => Some(restore_folder(&root, &of, &file)),
            (None, Some(to)) => Some(restore_newest_folder(&root, &of, &to)),
            (None, None) => None,
        };
        let hint = format!(
            "name a backup with `g2 groups restore {folder} --from FILE`, or begin anew with `g2 groups renew {folder}`"
        );
        let restored = match site.world.blocking(restoring).await {
            Ok(Some(Ok(restored))) => restored,
            Ok(Some(Err(error))) => return Err(OpError::refused(format!("{error:#}")).hint(hint)),
            Ok(None) => {
                return Err(OpError::refused("no backup is made by itself: backup.to is not set").hint(hint));
            }
            Err(fault) => return Err(OpError::refused(format!("our own fault: {fault}"))),
        };
        let has_files = ipc::look_at_folder(site.root, &folder)? == There::HasFiles;
        site.store.note_folders(vec![(folder.clone(), has_files)]).await?;
        site.keeper.has_its_folder(&folder);
        let says = format!(
            "group {folder} has the folder of {}, made at {}; its work goes on",
            restored.from.display(),
            restored.made_at
        );
        Ok(Done::new(group, says))
    }
}
