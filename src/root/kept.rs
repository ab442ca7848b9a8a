//! `data/done/` and `data/dead/`: what is kept of settled commands.
#![expect(clippy::disallowed_methods, reason = "the door to files that no container can write")]

use std::path::Path;

/// Returns what is kept of a settled command, from `data/done/` or `data/dead/`.
#[must_use]
pub fn read_kept_command(root: &Path, group: &str, id: i64) -> Option<String> {
    let group = ipc_handlers::Folder::parse(group).ok()?;
    ["done", "dead"].iter().find_map(|place| {
        let path = root.join("data").join(place).join(group.as_str()).join(format!("{id}.json"));
        std::fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    })
}

/// Returns the bytes that are kept of a settled command: of a dead one from `data/dead/`, else from `data/done/`.
#[must_use]
pub fn read_kept_bytes(data: &Path, group: &ipc_handlers::Folder, id: i64, is_dead: bool) -> Option<Vec<u8>> {
    let place = if is_dead { "dead" } else { "done" };
    std::fs::read(data.join(place).join(group.as_str()).join(format!("{id}.json"))).ok()
}
