//! Replies in a group's box that nobody reads any more. The container writes there: what is removed is a name.

use std::ops::ControlFlow;

use ipc_handlers::Folder;
use rustix::io::Errno;

use super::{
    dir,
    files::{At, Fd},
    names::{BoxName, is_request_id},
    world_fault::WorldFault,
};

/// Returns the request ids of the replies in a group's box, of at most `most` names that are looked at.
///
/// # Errors
/// [`WorldFault`]: the box can't be read.
pub fn replies<'a>(data: impl Into<At<'a>>, group: &Folder, most: usize) -> Result<Vec<String>, WorldFault> {
    let data = data.into();
    let Some(held) = open(data, group)? else { return Ok(Vec::new()) };
    let (mut ids, mut looked_at) = (Vec::new(), 0);
    dir::each_name_of(&held, |name, _| {
        let id = name.to_str().ok().and_then(|name| name.strip_suffix(".json"));
        ids.extend(id.filter(|id| is_request_id(id.as_bytes())).map(str::to_owned));
        looked_at += 1;
        if looked_at < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })
    .map_err(|e| failed("reading", data, group, e))?;
    Ok(ids)
}

/// Removes the replies to these requests.
///
/// # Errors
/// [`WorldFault`]: one can't be removed.
pub fn remove_replies<'a>(data: impl Into<At<'a>>, group: &Folder, ids: &[String]) -> Result<(), WorldFault> {
    let data = data.into();
    let Some(held) = open(data, group)? else { return Ok(()) };
    for id in ids.iter().filter(|id| is_request_id(id.as_bytes())) {
        match dir::unlink(&held, format!("{id}.json").as_str()) {
            // A folder, which the next run removes.
            Ok(()) | Err(Errno::ISDIR | Errno::PERM) => {}
            Err(error) => return Err(failed("emptying", data, group, error)),
        }
    }
    Ok(())
}

fn open(data: At<'_>, group: &Folder) -> Result<Option<Fd>, WorldFault> {
    let opened = data
        .files
        .at(&data.path.join("ipc"))
        .open()
        .and_then(|ipc| dir::open_dir(&ipc, format!("{group}/{}", BoxName::Responses.as_str()).as_str()));
    match opened {
        Ok(held) => Ok(Some(held)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(failed("opening", data, group, error)),
    }
}

fn failed(doing: &'static str, data: At<'_>, group: &Folder, error: Errno) -> WorldFault {
    WorldFault::new(
        doing,
        data.path.join("ipc").join(group.as_str()).join("responses").display().to_string(),
        error,
    )
}
