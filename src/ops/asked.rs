//! Questions to a person before something is lost for good: a terminal asks them, or a form of the page.

use std::path::Path;

use ipc_handlers::Time;

use super::{Op, OpError, ipc::queue};
use crate::{
    domain::{shown::screen::counted, states::CommandOutcome},
    root,
    store::Store,
};

/// What an operation takes away for good, or lets an agent take away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// It, in a sentence without its end.
    pub says: String,
    /// What a form asks to be typed; `None`: a box is enough.
    pub named: Option<String>,
}

impl Op {
    /// Returns what a person is asked about before it is done; `None`: nothing. What will be refused is not asked about.
    ///
    /// # Errors
    /// Those of the store and the world, and that what goes is not to be found.
    pub async fn loss(&self, root: &Path, store: &Store, now: Time) -> Result<Option<Loss>, OpError> {
        let of = |says: String| Loss { says, named: None };
        Ok(match self {
            Self::GroupsSet(args) => {
                let group = store.group(&args.folder).await?;
                group.and_then(|group| args.writable(&group)).map(of)
            }
            Self::GroupsRemove(args) => match store.group(&args.folder).await?.filter(|group| !group.is_main)
            {
                Some(group) => {
                    let tasks = store.tasks(Some(&group.folder), None)?.len();
                    let says = format!(
                        "group {} is removed for good, with {} and {} and its members and mailbox; groups/{0} and archived sessions stay",
                        group.folder,
                        counted(group.chats.len(), "wiring"),
                        counted(tasks, "task"),
                    );
                    Some(Loss { says, named: Some(group.folder.to_string()) })
                }
                None => None,
            },
            Self::SessionsDelete(args) => store.archived_session(args.id, Some(0))?.map(|(found, _)| {
                let name = found.session.name;
                of(format!("the text of archived session {} ({name}) is removed for good", args.id))
            }),
            Self::IpcDrop(args) => {
                let found = queue::find(root, store, &args.what, now).await?;
                dead(root, store, &found)?
                    .map(|id| of(format!("the file of dead command {id} is removed for good")))
            }
            _ => None,
        })
    }
}

/// Returns the number of a dead command whose file is there. Other dropped commands are kept, and can be tried again.
fn dead(root: &Path, store: &Store, found: &queue::Found) -> Result<Option<i64>, OpError> {
    let queue::Found::Settled(id) = *found else { return Ok(None) };
    let Some(file) = store.settled_file(id)? else { return Ok(None) };
    let is_dead = file.outcome == CommandOutcome::Malformed;
    Ok((is_dead && root::read_kept_bytes(&root.join("data"), &file.group, id, true).is_some()).then_some(id))
}
