//! `data/token.key`: runs' tokens are signed with it.
#![expect(clippy::disallowed_methods, reason = "the door to files that no container can write")]

use std::path::Path;

use super::make_private;

/// Returns the key that runs' tokens are signed with, `data/token.key`; makes it when there is none.
///
/// # Errors
/// The operating system's; or the file is no key: then it is left as it is, as live runs may have tokens of another.
pub fn token_key(data: &Path) -> std::io::Result<ipc_handlers::token::Key> {
    use std::{
        io::{Read as _, Write as _},
        os::unix::fs::OpenOptionsExt as _,
    };
    let path = data.join("token.key");
    if std::fs::symlink_metadata(&path).is_err() {
        let mut key = [0_u8; 32];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut key)?;
        let made = data.join("token.key.new");
        let mut file =
            std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&made)?;
        file.write_all(&key)?;
        file.sync_all()?;
        // Whole or not there: half a key would be no key for good.
        std::fs::rename(&made, &path)?;
        std::fs::File::open(data)?.sync_all()?;
    }
    make_private(&path)?;
    let bytes = std::fs::read(&path)?;
    let key = bytes.as_slice().try_into().map_err(|_| {
        std::io::Error::other(
            "it does not hold 32 bytes; remove it, and a new one is made (runs that live lose their tokens)",
        )
    })?;
    Ok(ipc_handlers::token::Key(key))
}
