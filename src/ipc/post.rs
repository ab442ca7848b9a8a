//! Putting a command into a box as its agent would: a temporary name in the same box, then a rename.

use ipc_handlers::Folder;
use rustix::{fs::Mode, io::Errno};

use super::{
    dir,
    files::At,
    host::give_to,
    names::{CommandBox, is_one_component},
    world_fault::WorldFault,
};

/// Why a command was not put into its box.
#[derive(Debug, thiserror::Error)]
pub enum PostError {
    #[error("{0:?} can't be a command's name: one that ends in .json, without a slash")]
    BadName(String),
    #[error("group {0} has no boxes")]
    NoBox(Folder),
    #[error("something named {0} is in the box already")]
    Taken(String),
    #[error(transparent)]
    World(#[from] WorldFault),
}

impl PostError {
    /// How boxes come about.
    pub const NO_BOX: &str = "`g2 init` makes them, and so does the daemon when it starts";
}

/// Puts `bytes` into a box under `name`, which must be free. The file belongs to whom the box belongs to. Neither name
/// is ever opened where something stands already, so no link there is followed.
///
/// # Errors
/// [`PostError`]; the box is then as it was.
pub fn post<'a>(
    data: impl Into<At<'a>>,
    group: &Folder,
    in_box: CommandBox,
    name: &str,
    bytes: &[u8],
) -> Result<(), PostError> {
    let At { files, path } = data.into();
    if !files.hands().is_command_name(name.as_ref()) || !is_one_component(name.as_ref()) {
        return Err(PostError::BadName(name.to_owned()));
    }
    let path = path.join("ipc").join(group.as_str()).join(in_box.as_str());
    let world = |doing| {
        let what = path.display().to_string();
        move |e: Errno| WorldFault::new(doing, what, e)
    };
    let held = match files.at(&path).open_itself() {
        Ok(held) => held,
        Err(Errno::NOENT) => return Err(PostError::NoBox(group.clone())),
        Err(e) => return Err(world("opening")(e).into()),
    };
    let of_box = held.stat().map_err(world("looking at"))?;
    let temporary = format!(".{name}.tmp");
    let file = match dir::create_new(&held, temporary.as_str(), Mode::from_raw_mode(0o600)) {
        Ok(file) => file,
        Err(Errno::EXIST) => return Err(PostError::Taken(temporary)),
        Err(e) => return Err(world("writing into")(e).into()),
    };
    let written = dir::write_all(&file, bytes)
        .map_err(|e| WorldFault::new("writing into", path.display().to_string(), e))
        .and_then(|()| give_to(&file, Some((of_box.st_uid, of_box.st_gid))).map_err(world("writing into")));
    drop(file);
    let placed = written.map_err(PostError::from).and_then(|()| {
        match dir::rename_once(&held, temporary.as_str(), &held, name) {
            Err(Errno::EXIST) => Err(PostError::Taken(name.to_owned())),
            other => other.map_err(|e| world("placing into")(e).into()),
        }
    });
    if placed.is_err() {
        let _ = dir::unlink(&held, temporary.as_str()); // It is ours, and no command.
    }
    placed
}
