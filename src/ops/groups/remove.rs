//! Removing a group: its run leaves, its boxes are emptied, its rows go, then its mailbox. Its name is taken until all that is
//! done. Its folder under `groups/` stays, and so does what the agent keeps of its sessions.

use std::time::Duration;

use ipc_handlers::Folder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::super::{By, Done, OpError, Operation, Site};
use crate::{domain::rows::Group, ipc::peek, store::StoreError, system::failpoint};

/// For how long the group is emptied again where a message began another run meanwhile.
const AGAIN: Duration = Duration::from_secs(30);

/// Remove a group with its mailbox; its folder and archived sessions stay.
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
        let row = site.group(&folder).await?;
        if row.is_main {
            return Err(OpError::refused(format!(
                "group {folder} is the main group, which can't be removed"
            ))
            .hint("a chat is taken away from it with `g2 wirings remove`"));
        }
        let tasks = site.store.tasks(Some(&folder), None)?.len();
        // Nothing is started in it meanwhile, whatever waits there.
        let kept_out = KeptOut::new(site, &folder)?;
        let removed = remove(site, &folder).await;
        let seen = site.keeper.changed(Some(&folder)).await;
        removed?;
        let put_away = site.keeper.put_away(&folder).await;
        drop(kept_out);
        seen?;
        let (unread, left) = match put_away {
            Ok(0) => (String::new(), None),
            Ok(1) => ("; 1 command that waited went unread".to_owned(), None),
            Ok(more) => (format!("; {more} commands that waited went unread"), None),
            Err(error) => (String::new(), Some(still_there(&folder, &error))),
        };
        let tasks = match tasks {
            0 => String::new(),
            1 => " with 1 task".to_owned(),
            more => format!(" with {more} tasks"),
        };
        let says = format!("group {folder} is removed{tasks}{unread}; groups/{folder} stays");
        Ok(Done::new(row, says).noting(left))
    }
}

/// A group in which nothing is started until this is dropped.
struct KeptOut<'a>(&'a Site<'a>, &'a Folder);

impl<'a> KeptOut<'a> {
    fn new(site: &'a Site<'_>, folder: &'a Folder) -> Result<Self, OpError> {
        site.keeper.keep_out(folder)?;
        Ok(Self(site, folder))
    }
}

impl Drop for KeptOut<'_> {
    fn drop(&mut self) {
        self.0.keeper.let_in(self.1);
    }
}

/// The note about a part of a group that could not be removed.
fn still_there(folder: &Folder, error: &OpError) -> String {
    let why = &error.message;
    format!(
        "something is left of it, which the daemon tries again to remove; until then no group is called {folder}: {why}"
    )
}

async fn remove(site: &Site<'_>, folder: &Folder) -> Result<(), OpError> {
    let deadline = Instant::now() + AGAIN;
    loop {
        site.group(folder).await?;
        check_nothing_is_held(site, folder)?;
        site.keeper.empty(folder).await?;
        failpoint::reach("op.group_emptied");
        match site.store.remove_group(folder.clone()).await {
            Ok(()) => break,
            // A message came in meanwhile and began another run.
            Err(StoreError::Refused { .. }) if site.keeper.is_serving() && Instant::now() < deadline => {}
            Err(error) => return Err(error.into()),
        }
    }
    failpoint::reach("op.group_removed");
    Ok(())
}

/// Refuses to remove a group with held commands: they would be lost with their box.
fn check_nothing_is_held(site: &Site<'_>, folder: &Folder) -> Result<(), OpError> {
    let held = site.store.holds()?.iter().any(|hold| hold.group == *folder);
    if !held {
        return Ok(());
    }
    let waiting = peek::waiting(&site.root.join("data"), [folder], 1).whole()?;
    if waiting.seen > waiting.directories {
        return Err(OpError::refused(format!("commands of group {folder} are held")).hint(format!(
            "release them with `g2 ipc release {folder}` or drop them, then remove the group"
        )));
    }
    Ok(())
}
