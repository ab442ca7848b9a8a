//! Tasks: the same decisions and the same effects as the commands of agents have, with main's rights for the owner.

use ipc_handlers::{Command, Folder, Outcome, Time, reply};

use super::{By, Done, OpError, Site, commands::act};
use crate::{domain::rows::Task, store::Transcripts};

pub mod add;
pub mod cancel;
pub mod pause;
pub mod resume;
pub mod run;
pub mod update;

/// There is no such task.
fn none(id: &str) -> OpError {
    OpError::not_found(format!("task {id} does not exist"))
}

/// Returns whose task it is: `group`'s, or that of the only one that has a task of this id.
///
/// # Errors
/// No group has one, or several have.
pub fn group_of(store: &crate::store::Store, id: &str, group: Option<&Folder>) -> Result<Folder, OpError> {
    if let Some(group) = group {
        return Ok(group.clone());
    }
    let groups = store.groups_of_task(id)?;
    match groups.as_slice() {
        [only] => Ok(only.clone()),
        [] => Err(none(id)),
        several => {
            let names: Vec<&str> = several.iter().map(Folder::as_str).collect();
            Err(OpError::invalid(format!("groups {} have a task {id}", names.join(", ")))
                .hint("say which with --group"))
        }
    }
}

/// Returns a task's row.
fn row(site: &Site<'_>, group: &Folder, id: &str) -> Result<Task, OpError> {
    site.store.task(group, id)?.ok_or_else(|| none(id))
}

/// Does something to a task of a group.
async fn change(
    site: &Site<'_>,
    by: &By,
    id: &str,
    group: Option<&Folder>,
    command: Command,
) -> Result<Done<Task>, OpError> {
    let group = group_of(site.store, id, group)?;
    let was = row(site, &group, id)?;
    // As its group: its own tasks come first.
    let outcome = act(site, by, &group, command, Transcripts::new()).await?.0;
    done(site, was, &outcome).await
}

/// Says what became of a task, by the clocks of its group. `was`: how it was before, for one that is gone.
async fn done(site: &Site<'_>, was: Task, outcome: &Outcome) -> Result<Done<Task>, OpError> {
    let zone = site.store.zone_of(&was.group, &site.config()?.zones).await?.zone;
    let local = |at: Time| reply::local(at, &zone);
    let id = &was.id;
    let says = match outcome {
        Outcome::TaskCreated { next_run, .. } if *next_run <= site.world.now() => {
            format!("task {id} is due already ({}): it runs now", local(*next_run))
        }
        Outcome::TaskCreated { next_run, .. } => format!("task {id} runs first at {}", local(*next_run)),
        Outcome::TaskChanged { status, next_run, .. } => {
            let next = next_run.map_or_else(|| "never".into(), local);
            format!("task {id} is {}, next run: {next}", status.as_str())
        }
        _ => format!("task {id} is cancelled"),
    };
    let now = site.store.task(&was.group, id)?;
    Ok(Done::new(now.unwrap_or(was), says))
}
