//! Holding a group's commands, or one waiting command: it is not claimed until it is released.

use std::os::unix::ffi::OsStrExt as _;

use ipc_handlers::Folder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{By, Done, OpError, Operation, Site},
    queue::{Found, find, look_for},
    shown,
};
use crate::{
    domain::{mailbox::holds::Hold, shown::screen::escaped},
    ipc::display_name,
};

/// Hold a group's commands, or one waiting command: it is not claimed until `release`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Group by its folder, or waiting command by its request id or file.
    #[arg(value_name = "GROUP|COMMAND")]
    pub what: String,
    /// Reason, shown by `g2 ipc trace`.
    #[arg(long)]
    pub reason: Option<String>,
}

/// A hold, or one that was released.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Held {
    pub group: Folder,
    /// The box of the held file; `null`: all commands of the group.
    #[serde(rename = "box")]
    pub box_name: Option<String>,
    /// The file's name, escaped where it is no plain text.
    pub name: Option<String>,
    /// Whether it is held now.
    pub held: bool,
    pub reason: Option<String>,
}

/// A group or a file that can be held.
pub(super) struct Target {
    pub(super) group: Folder,
    /// The file's box, and the bytes of its name; `None`: all commands of the group.
    pub(super) file: Option<(String, Vec<u8>)>,
}

impl Target {
    pub(super) async fn of(site: &Site<'_>, what: &str) -> Result<Self, OpError> {
        let (root, store) = (site.root, site.store);
        if let Ok(group) = Folder::parse(what)
            && store.group(&group).await?.is_some()
        {
            return Ok(Self { group, file: None });
        }
        // A held file may be gone.
        if let Some(hold) = store.holds()?.into_iter().find(|hold| shown(hold) == what) {
            return Ok(Self { group: hold.group, file: hold.file });
        }
        match look_for(root, store, what, site.world.now()).await? {
            Some(Found::Open(open)) => match open.waiting_file()? {
                Some(file) => {
                    Ok(Self { group: file.group, file: Some((file.in_box.to_string(), file.name)) })
                }
                None => Err(OpError::refused(format!("{what} is claimed already"))
                    .hint(format!("`g2 ipc drop {what}` sets it aside"))),
            },
            Some(Found::Settled(id)) => Err(OpError::refused(format!("command {id} is settled already"))
                .hint(format!("see `g2 ipc trace {id}`"))),
            None => Err(OpError::not_found(format!(
                "there is neither a group nor a command called {}",
                escaped(what)
            ))
            .hint("`g2 groups list` names the groups, `g2 ipc list` the commands")),
        }
    }

    pub(super) fn row(&self, held: bool, reason: Option<String>) -> Held {
        let name = |(_, name): &(String, Vec<u8>)| display_name(std::ffi::OsStr::from_bytes(name));
        Held {
            group: self.group.clone(),
            box_name: self.file.as_ref().map(|(in_box, _)| in_box.clone()),
            name: self.file.as_ref().map(name),
            held,
            reason,
        }
    }
}

impl Operation for Args {
    type Row = Held;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<Held>, OpError> {
        let Self { what, reason } = self;
        let target = Target::of(site, &what).await?;
        let (group, file) = (target.group.clone(), target.file.clone());
        let is_file = file.is_some();
        let hold = Hold { group, file, reason: reason.clone(), at: site.world.now(), aside: false };
        let name = shown(&hold);
        site.store.hold(hold).await?;
        site.keeper.changed(Some(&target.group)).await?;
        // It may have been claimed before anybody was told.
        if is_file && !waits(site, &name).await? {
            site.store.release(target.group.clone(), target.file.clone()).await?;
            return Err(OpError::refused(format!("{name} was claimed meanwhile"))
                .hint(format!("see `g2 ipc trace {name}`")));
        }
        let says = format!("{name} is held until `g2 ipc release {name}`");
        Ok(Done::new(target.row(true, reason), says))
    }
}

async fn waits(site: &Site<'_>, name: &str) -> Result<bool, OpError> {
    match find(site.root, site.store, name, site.world.now()).await {
        Ok(Found::Open(open)) => Ok(open.waiting_file()?.is_some()),
        Ok(Found::Settled(_)) | Err(_) => Ok(false),
    }
}
