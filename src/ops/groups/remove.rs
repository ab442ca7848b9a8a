//! Removing a group: its run leaves, its boxes are emptied, then its rows and its boxes go. Its folder under `groups/`
//! stays, and so does what the agent keeps of its sessions.

use std::time::Duration;

use ipc_handlers::Folder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::super::{By, Done, OpError, Operation, World};
use crate::{domain::rows::Group, ipc::peek, store::StoreError, system::failpoint};

/// For how long the group is emptied again where a message began another run meanwhile.
const AGAIN: Duration = Duration::from_secs(30);

/// Which group.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    pub folder: Folder,
}

impl Operation for Args {
    type Row = Group;

    async fn run(self, world: &World<'_>, _: &By) -> Result<Done<Group>, OpError> {
        let Self { folder } = self;
        let row = world.group(&folder).await?;
        if row.is_main {
            return Err(OpError::refused(format!(
                "group {folder} is the main group, which can't be removed"
            ))
            .hint("a chat is taken away from it with `g2 wirings remove`"));
        }
        let tasks = world.store.tasks(Some(&folder), None)?.len();
        // Nothing is started in it meanwhile, whatever waits there.
        world.keeper.keep_out(&folder)?;
        let removed = remove(world, &folder).await;
        if removed.is_err() {
            // It stays, and has a mailbox; the next start makes one that can't be made now.
            let _ = world.keeper.changed(Some(&folder)).await;
        }
        world.keeper.let_in(&folder);
        let unread = match removed? {
            0 => String::new(),
            1 => "; 1 command that waited went unread".to_owned(),
            more => format!("; {more} commands that waited went unread"),
        };
        let tasks = match tasks {
            0 => String::new(),
            1 => " with 1 task".to_owned(),
            more => format!(" with {more} tasks"),
        };
        Ok(Done::new(row, format!("group {folder} is removed{tasks}{unread}; groups/{folder} stays")))
    }
}

/// Returns how many commands went unread.
async fn remove(world: &World<'_>, folder: &Folder) -> Result<usize, OpError> {
    let deadline = Instant::now() + AGAIN;
    let unread = loop {
        world.group(folder).await?;
        check_nothing_is_held(world, folder)?;
        // What waits is counted anew each time.
        let unread = world.keeper.empty(folder).await?;
        failpoint::reach("op.group_emptied");
        match world.store.remove_group(folder.clone()).await {
            Ok(()) => break unread,
            // A message came in meanwhile and began another run.
            Err(StoreError::Refused(_)) if world.keeper.is_serving() && Instant::now() < deadline => {}
            Err(error) => return Err(error.into()),
        }
    };
    failpoint::reach("op.group_removed");
    world.keeper.changed(Some(folder)).await?;
    Ok(unread)
}

/// Refuses to remove a group with held commands: they would be lost with their box.
fn check_nothing_is_held(world: &World<'_>, folder: &Folder) -> Result<(), OpError> {
    let held = world.store.holds()?.iter().any(|hold| hold.group == *folder);
    if !held {
        return Ok(());
    }
    let waiting = peek::waiting(&world.root.join("data"), [folder], 1).whole()?;
    if waiting.seen > waiting.directories {
        return Err(OpError::refused(format!("commands of group {folder} are held")).hint(format!(
            "release them with `g2 ipc release {folder}` or drop them, then remove the group"
        )));
    }
    Ok(())
}
