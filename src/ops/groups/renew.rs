//! Giving a group that has lost its folder a new one.

use ipc_handlers::Folder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{By, Done, OpError, Operation, Site},
    check_lost,
};
use crate::{domain::rows::Group, ipc, system::failpoint};

/// Give a group that has lost its folder a new one.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Folder of the group.
    pub folder: Folder,
}

impl Operation for Args {
    type Row = Group;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<Group>, OpError> {
        let Self { folder } = self;
        let group = site.group(&folder).await?;
        check_lost(site, &folder)?;
        // No folder can be made there, and the group is to stay lost.
        let path = site.root.join("groups").join(folder.as_str());
        if std::fs::symlink_metadata(path).is_ok_and(|there| there.is_symlink()) {
            return Err(OpError::refused(format!(
                "groups/{folder} is a link, and no folder can be made there"
            ))
            .hint("remove the link, or bring back what it leads to"));
        }
        // A daemon that dies from here on makes the folder when it starts.
        site.store.note_folders(vec![(folder.clone(), false)]).await?;
        failpoint::reach("op.folder_given_up");
        ipc::lay_out_group(site.root, &folder, site.box_owner)?;
        site.keeper.has_its_folder(&folder);
        Ok(Done::new(group, format!("group {folder} has a new folder; its work goes on")))
    }
}
