//! `data/web.token`: what gathers metrics shows it to the operator's page.
#![expect(clippy::disallowed_methods, reason = "the door to files that no container can write")]

use std::path::Path;

use super::{make_private, make_private_file};
use crate::system::world::World;

/// Returns the token that reads figures, `data/web.token`; makes it when there is none.
///
/// # Errors
/// The operating system's; or the file holds no token.
pub fn web_token(world: &World, data: &Path) -> std::io::Result<String> {
    let path = data.join("web.token");
    if std::fs::symlink_metadata(&path).is_err() {
        let token = world.secret()?;
        make_private_file(&path, format!("{token}\n").as_bytes())?;
    }
    make_private(&path)?;
    let text = std::fs::read_to_string(&path)?;
    let token = text.trim();
    match token.len() {
        16..=512 => Ok(token.to_owned()),
        _ => Err(std::io::Error::other("it holds no token; remove it, and a new one is made")),
    }
}

/// Removes `data/web.token`, if it is there.
///
/// # Errors
/// The operating system's.
pub fn remove_web_token(data: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(data.join("web.token")) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
