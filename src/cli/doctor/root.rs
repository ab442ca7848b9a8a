//! Whether the root is laid out and can be written to.

use std::path::Path;

use rustix::{
    fs::{Access, access},
    io::Errno,
};

use super::row::Row;
use crate::root::{Standing, open_to_others, standing};

/// What a root has, below it.
const PARTS: [&str; 3] = ["groups", "data", "data/g2.sqlite"];

pub(super) fn check(root: &Path) -> Vec<Row> {
    let shown = root.display();
    let look = |part: &str| access(root.join(part), Access::EXISTS);
    let closed = |part: &Path| {
        let fix =
            format!("run g2 as the user that owns it, or give it to yours: `chown -R \"$USER\" {shown}`");
        Row::fail("root", format!("{} can't be looked into by this user", part.display()), fix)
    };
    if look("") == Err(Errno::ACCESS) || access(root, Access::EXEC_OK) == Err(Errno::ACCESS) {
        return vec![closed(root)];
    }
    let mut missing = Vec::new();
    for part in PARTS {
        match look(part) {
            Ok(()) => {}
            Err(Errno::ACCESS) => return vec![closed(&root.join(part))],
            Err(_) => missing.push(part),
        }
    }
    if let Standing::WithoutStore { trace } = standing(root) {
        let detail =
            format!("the store {shown}/data/g2.sqlite is gone, and {} is of its time", trace.display());
        let fix = format!(
            "mount its disk or bring it back from a backup; `g2 --root {shown} init --fresh` begins anew without it"
        );
        return vec![Row::fail("root", detail, fix)];
    }
    if !missing.is_empty() {
        let detail = format!("{shown} is not laid out: {} missing", missing.join(", "));
        return vec![Row::fail("root", detail, format!("lay it out with `g2 --root {shown} init`"))];
    }
    let no_folder = ["groups", "data"].into_iter().find(|part| !root.join(part).is_dir());
    if let Some(part) = no_folder {
        let detail = format!("{} is no folder", root.join(part).display());
        return vec![Row::fail("root", detail, format!("move it away and run `g2 --root {shown} init`"))];
    }
    let refused: Vec<Row> = ["", "groups", "data", "data/g2.sqlite"]
        .into_iter()
        .filter_map(|part| {
            let path = root.join(part);
            let why = access(&path, Access::WRITE_OK).err()?;
            let fix = match why {
                Errno::ROFS => {
                    "mount the file system for writing, or choose another root with --root".to_owned()
                }
                _ => format!(
                    "run g2 as the user that owns it, or give it to yours: `chown -R \"$USER\" {shown}`"
                ),
            };
            let why = std::io::Error::from(why);
            Some(Row::fail("root", format!("{} can't be written: {why}", path.display()), fix))
        })
        .collect();
    if refused.is_empty() {
        vec![Row::ok("root", format!("{shown} is laid out and can be written"))]
    } else {
        refused
    }
}

/// How many files and folders that are open to others are named.
const NAMED: usize = 5;

/// Looks whether other users can read messages, memories or settings; of `.env` its own check says so.
pub(super) fn private(root: &Path) -> Option<Row> {
    let mut open = open_to_others(root);
    open.retain(|(path, _)| !path.ends_with(".env"));
    let (path, _) = open.first()?;
    let all: Vec<String> =
        open.iter().map(|(path, mode)| format!("{} (mode {mode:04o})", path.display())).collect();
    let more = all.len().saturating_sub(NAMED);
    let mut named = all[..all.len() - more].join(", ");
    if more > 0 {
        named.push_str(&format!(" and {more} more"));
    }
    let fix = format!("start g2, which closes what is its user's, or `chmod go= {}`", path.display());
    Some(Row::fail("root", format!("other users may look into {named}"), fix))
}
