//! What a group's next launch will meet: its settings, its key, its extra mounts, its folder's owner.

use std::os::unix::fs::MetadataExt as _;

use super::{Subject, row::Row};
use crate::{
    allowlists::mounts::{self, NoList},
    config::dotenv,
    domain::{
        problems::checks::Check,
        rows::Group,
        runs::{
            mounts::MountRequest,
            run_settings::{Credentials, Provider, RunSettings},
        },
    },
};

pub(super) fn check(subject: &Subject) -> Vec<Row> {
    let (mut rows, mut known) = (Vec::new(), Vec::new());
    for group in &subject.groups {
        // One whose settings can't be used is a problem of the list.
        if let Ok((settings, own)) = subject.config.run_settings().for_group(group) {
            known.push((group, settings, own.mounts));
        }
    }
    rows.push(Row::ok(Check::GroupSettings, "every group's own settings can be used"));
    rows.extend(keys(subject, &known));
    rows.extend(extra(subject, &known));
    rows.extend(owners(subject));
    rows.extend(uids(subject));
    rows
}

type Known<'a> = (&'a Group, RunSettings, Vec<MountRequest>);

/// Which key agents are given; that of the others is the gateway's. One that is missing is a problem of the list.
fn keys(subject: &Subject, known: &[Known<'_>]) -> Option<Row> {
    let given = known.iter().filter(|(_, settings, _)| {
        settings.provider == Provider::Claude && settings.credentials == Credentials::Stdin
    });
    let groups: Vec<&str> = given.map(|(group, ..)| group.folder.as_str()).collect();
    if groups.is_empty() {
        return None;
    }
    let secrets = dotenv::secrets(&subject.root).ok()?;
    let key = dotenv::key(&secrets)?;
    Some(Row::ok(Check::Key, format!("{key} is given to the agents of {}", groups.join(", "))))
}

/// Which extra mounts are made.
fn extra(subject: &Subject, known: &[Known<'_>]) -> Vec<Row> {
    let wanted = known.iter().any(|(_, _, mounts)| !mounts.is_empty());
    let mut rows = match (mounts::read_list(&subject.config), wanted) {
        (Ok(list), _) => {
            let roots = list.allowed_roots.len();
            vec![Row::ok(Check::MountAllowlist, format!("it can be read, and allows {roots} roots"))]
        }
        (Err(NoList::Missing { .. } | NoList::NoHome), false) => {
            vec![Row::ok(Check::MountAllowlist, "there is none, and no group asks for mounts")]
        }
        // A problem of the list.
        (Err(NoList::Broken { .. }), _) => Vec::new(),
        // Each mount below says it.
        (Err(_), true) => Vec::new(),
    };
    for (group, _, requests) in known {
        // One that is not made is a problem of the list.
        let granted = mounts::extra(&subject.config, &subject.root, requests, group.is_main).granted;
        rows.extend(granted.iter().map(|mount| {
            let how = if mount.writable { "writable" } else { "read-only" };
            let detail = format!("{} sees {} at {}, {how}", group.folder, mount.host.display(), mount.inside);
            Row::ok(Check::Mount, detail).of(format!("{} {}", group.folder, mount.host.display()))
        }));
    }
    rows
}

/// Whether each agent can be a user of its own, where that is asked for.
fn uids(subject: &Subject) -> Option<Row> {
    let base = subject.config.sandbox.uid_base?;
    let data = std::fs::symlink_metadata(&subject.data).ok()?;
    Some(match data.uid() {
        0 => Row::ok(
            Check::UidBase,
            format!("each group's agent runs as a user of its own, above {base}, from its next run on"),
        ),
        user => Row::warn(
            Check::UidBase,
            format!(
                "sandbox.uid_base is set, but {} belongs to user {user}: all agents run as that user",
                subject.data.display()
            ),
            "run the daemon as root, or set sandbox.uid_base = 0",
        ),
    })
}

/// Folders that the agent's user can't write to, where nobody can give them away.
fn owners(subject: &Subject) -> Vec<Row> {
    let Ok(data) = std::fs::symlink_metadata(&subject.data) else { return Vec::new() };
    // Root gives a group's folder to its agent at each launch.
    if data.uid() == 0 {
        return Vec::new();
    }
    let folders = subject.groups.iter().flat_map(|group| {
        ["groups", "data/sessions"].map(|place| subject.root.join(place).join(group.folder.as_str()))
    });
    let foreign = folders.filter_map(|folder| {
        let meta = std::fs::symlink_metadata(&folder).ok()?;
        (meta.uid() != data.uid()).then(|| {
            Row::warn(
                Check::GroupOwner,
                format!(
                    "{} belongs to user {}, and its agent runs as {}",
                    folder.display(),
                    meta.uid(),
                    data.uid()
                ),
                format!("`sudo chown -R {}:{} {}`", data.uid(), data.gid(), folder.display()),
            )
        })
    });
    foreign.collect()
}
