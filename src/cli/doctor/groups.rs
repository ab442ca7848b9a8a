//! The groups: one main, each with its folder and its boxes, wired to something by rules that work.

use std::{collections::BTreeSet, os::unix::fs::MetadataExt as _, path::Path};

use ipc_handlers::Folder;

use super::{
    Subject,
    row::{Row, chain},
};

use crate::{
    domain::{
        problems::{checks::Check, mend::Mend},
        rows::Group,
        shown::screen::counted,
    },
    ipc::{
        BoxName, FileKind, Owner,
        peek::{self, Lies, LiesAs},
    },
};

/// User and group of agents when the daemon is root.
const AGENT: Owner = (1000, 1000);

pub(super) fn check(subject: &Subject) -> Vec<Row> {
    let Some(store) = &subject.store else { return Vec::new() };
    let mut rows: Vec<Row> = main_group(&subject.groups).into_iter().collect();
    rows.extend(folders(&subject.root, &subject.groups, &store.filled_folders().unwrap_or_default()));
    rows.extend(boxes(subject));
    rows.extend(archives(subject, store));
    rows.extend(media(subject, store));
    rows.push(stored(subject, store));
    rows.extend(wired(&subject.groups));
    rows.push(Row::ok(Check::EngagePattern, "every pattern can be used"));
    rows.push(Row::ok(Check::AnswersTwice, "no chat has two groups that answer everything"));
    rows
}

/// Returns the bad rows, or that all is well.
fn all_or(check: Check, bad: Vec<Row>, well: String) -> Vec<Row> {
    if bad.is_empty() { vec![Row::ok(check, well)] } else { bad }
}

fn main_group(groups: &[Group]) -> Option<Row> {
    let main = groups.iter().find(|group| group.is_main)?;
    Some(Row::ok(Check::MainGroup, format!("{} is the main group", main.folder)))
}

fn folders(root: &Path, groups: &[Group], filled: &BTreeSet<Folder>) -> Vec<Row> {
    let bad = groups
        .iter()
        // One that was lost is a problem of the list.
        .filter(|group| !filled.contains(&group.folder))
        .filter_map(|group| {
            let path = root.join("groups").join(group.folder.as_str());
            let shown = path.display();
            match std::fs::symlink_metadata(&path) {
                Err(_) => Some(
                    Row::warn(
                        Check::GroupFolder,
                        format!("{shown} is missing, the folder of group {}", group.folder),
                        format!("the next run makes an empty folder (`mkdir {shown}`)"),
                    )
                    .of(group.folder.as_str())
                    .mended_by(Mend::MakeFolder(group.folder.clone())),
                ),
                // A file in the place of a folder is a problem of the list.
                Ok(_) => None,
            }
        })
        .collect();
    all_or(Check::GroupFolder, bad, format!("{}, each with its folder", counted(groups.len(), "group")))
}

fn boxes(subject: &Subject) -> Vec<Row> {
    let Ok(meta) = std::fs::symlink_metadata(&subject.data) else { return Vec::new() };
    // The user that serves the root owns `data/`. Root gives the boxes to the agents' user, another user keeps them.
    let uid =
        |folder| subject.store.as_ref().and_then(|store| store.group_uid(folder).ok()).unwrap_or_default();
    let mut bad = Vec::new();
    for group in &subject.groups {
        let owner = if meta.uid() == 0 { uid(&group.folder).owner(AGENT) } else { (meta.uid(), meta.gid()) };
        match peek::boxes(&subject.data, &group.folder) {
            Ok(lying) => bad.extend(judge_boxes(
                &subject.data.join("ipc").join(group.folder.as_str()),
                &lying,
                owner,
                if subject.daemon.is_some() { Daemon::Up } else { Daemon::Down },
            )),
            Err(error) => {
                bad.push(Row::fail(Check::Boxes, chain(&error), "run g2 as the user that owns the root"))
            }
        }
    }
    let well = match subject.daemon {
        Some(_) => "each group has its five boxes",
        None => "the boxes that exist are in order; the start makes the missing ones",
    };
    all_or(Check::Boxes, bad, well.into())
}

/// Says so when the files beside messages near their limit.
fn media(subject: &Subject, store: &crate::store::Store) -> Option<Row> {
    let bytes = match store.media_bytes() {
        Ok(bytes) => bytes,
        Err(error) => return Some(Row::fail(Check::Media, chain(&error), "see the store's row")),
    };
    judge_media(bytes, subject.config.media.limits().all)
}

fn judge_media(bytes: u64, most: u64) -> Option<Row> {
    (bytes / 4 >= most / 5).then(|| {
        Row::warn(
            Check::Media,
            format!("the files beside messages have {} MiB; at most {} MiB are kept", bytes >> 20, most >> 20),
            "`g2 prune` removes old history with its files; raise media.store_mib in g2.toml, or set limits.keep_days",
        )
    })
}

fn archives(subject: &Subject, store: &crate::store::Store) -> Vec<Row> {
    let (most, bytes) = (subject.config.limits.archives, subject.config.limits.archives_bytes);
    let mut bad = Vec::new();
    for group in &subject.groups {
        match store.archives_kept(&group.folder) {
            Ok(kept) => {
                let kept = (kept.0.unsigned_abs(), kept.1.unsigned_abs());
                bad.extend(judge_archives(
                    &group.folder,
                    kept,
                    most,
                    bytes,
                    subject.config.limits.stored_bytes,
                ));
            }
            Err(error) => bad.push(Row::fail(Check::Archives, chain(&error), "see the store's row")),
        }
    }
    all_or(Check::Archives, bad, "each group has room for more archived sessions".into())
}

/// What each group has in the store, and whether that is counted rightly.
fn stored(subject: &Subject, store: &crate::store::Store) -> Row {
    let (counted, there) = match store.counted().and_then(|counted| Ok((counted, store.recounted()?))) {
        Ok(both) => both,
        Err(error) => return Row::fail(Check::Stored, chain(&error), "see the store's row"),
    };
    // A daemon may write between the two looks.
    if subject.daemon.is_some() || counted == there {
        return Row::ok(Check::Stored, "no group is at its limit in the store");
    }
    Row::warn(
        Check::Stored,
        "what groups have in the store is counted wrongly, so limits on it and on tasks take effect too early or too late",
        "this is a bug of g2: report it",
    )
    .of("the count")
}

/// From how many archived sessions on a group's are told of, where no limit is set.
const MANY_ARCHIVES: u64 = 1_000;

/// Decides on one group's archived sessions: how many there are, and of how many bytes. Where no limit is set, they are told
/// of from a quarter of what may be stored of a group.
fn judge_archives(
    group: &ipc_handlers::Folder,
    kept: (u64, u64),
    most: Option<usize>,
    bytes: Option<u64>,
    stored: u64,
) -> Option<Row> {
    let has = format!("group {group} has {} archived sessions of {} MiB", kept.0, kept.1 >> 20);
    let nearly = |is: u64, limit: Option<u64>| {
        limit.is_some_and(|limit| is.saturating_mul(10) >= limit.saturating_mul(9))
    };
    if nearly(kept.0, most.map(|most| most as u64)) || nearly(kept.1, bytes) {
        let limit = |limit: Option<u64>, unit: &str| limit.map(|limit| format!("{limit}{unit}"));
        let limits = [limit(most.map(|most| most as u64), ""), limit(bytes.map(|bytes| bytes >> 20), " MiB")];
        return Some(Row::warn(
            Check::Archives,
            format!(
                "{has}; beyond {} the oldest are removed",
                limits.into_iter().flatten().collect::<Vec<_>>().join(" or ")
            ),
            "raise limits.archives or limits.archives_mib, or remove some: `g2 sessions remove ID`",
        ));
    }
    (most.is_none() && kept.0 >= MANY_ARCHIVES || bytes.is_none() && kept.1 >= stored / 4).then(|| {
        Row::warn(
            Check::Archives,
            format!("{has}, and G2 removes none by itself"),
            "remove some: `g2 sessions remove ID`; or set limits.archives or limits.archives_mib",
        )
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Daemon {
    Up,
    Down,
}

/// Decides on one group's boxes.
fn judge_boxes(folder: &Path, lying: &[Lies], owner: Owner, daemon: Daemon) -> Vec<Row> {
    let path = |which: BoxName| folder.join(which.as_str()).display().to_string();
    let mut rows = Vec::new();
    for Lies { which, as_what } in lying {
        let at = path(*which);
        match as_what {
            None if daemon == Daemon::Up => rows.push(Row::fail(
                Check::Boxes,
                format!("{at} is missing although the daemon is up"),
                "the daemon makes it again within seconds, and a live run goes on with the old one; if it does not, read its log",
            )),
            None => {}
            Some(LiesAs { kind, .. }) if *kind != FileKind::Directory => rows.push(Row::fail(
                Check::Boxes,
                format!("{at} is a {kind} where a folder belongs"),
                format!("stop g2 and remove it: `rm {at}`"),
            )),
            Some(LiesAs { owner: is, mode, marked, .. }) => {
                if is.0 != owner.0 {
                    rows.push(Row::fail(
                        Check::Boxes,
                        format!("{at} belongs to user {}, and its agent runs as {}", is.0, owner.0),
                        format!("`chown {}:{} {at}`", owner.0, owner.1),
                    ));
                    mendable(&mut rows, daemon);
                }
                if mode & 0o777 != 0o700 {
                    rows.push(Row::fail(
                        Check::Boxes,
                        format!("{at} has mode {mode:04o}; only its agent may use it"),
                        format!("`chmod 700 {at}`"),
                    ));
                    mendable(&mut rows, daemon);
                }
                if *marked {
                    rows.push(Row::fail(
                        Check::Boxes,
                        format!(
                            "{at} has flags or a project that its parent folder lacks, and may refuse files"
                        ),
                        "the daemon resets them within seconds; if it does not, read its log",
                    ));
                }
            }
        }
    }
    rows
}

/// The newest row is mended by `--fix` while no daemon does so.
fn mendable(rows: &mut [Row], daemon: Daemon) {
    if let (Some(Row::Found(found)), Daemon::Down) = (rows.last_mut(), daemon) {
        found.mend = Some(Mend::LayOutBoxes);
    }
}

fn wired(groups: &[Group]) -> Vec<Row> {
    let bad = groups
        .iter()
        .filter(|group| group.chats.is_empty())
        .map(|group| {
            Row::warn(
                Check::Wirings,
                format!("group {} is wired to no chat: nobody can talk to it", group.folder),
                format!("`g2 wirings add --group {0} --chat local:{0} --engage pattern`, or `g2 groups remove {0}`", group.folder),
            )
        })
        .collect();
    all_or(Check::Wirings, bad, "each group is wired to a chat".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_of_from_four_fifths_of_their_limit_on() {
        assert_eq!(judge_media(799 << 20, 1_000 << 20), None);
        let row = judge_media(800 << 20, 1_000 << 20).unwrap();
        assert_eq!(row.told().detail, "the files beside messages have 800 MiB; at most 1000 MiB are kept");
    }

    #[test]
    fn archives_are_told_of_before_their_limit_and_as_they_grow_where_there_is_none() {
        let group = ipc_handlers::Folder::parse("g").unwrap();
        let of = |kept, most, bytes| {
            judge_archives(&group, kept, most, bytes, 400).map(|row| row.told().detail.to_owned())
        };
        assert_eq!(of((8, 80), Some(10), Some(100)), None);
        assert!(of((9, 0), Some(10), None).unwrap().contains("beyond 10 the oldest are removed"));
        assert!(of((0, 90), None, Some(100)).is_some());
        assert_eq!(of((999, 99), None, None), None);
        assert!(of((1_000, 0), None, None).unwrap().contains("G2 removes none by itself"));
        assert!(of((0, 100), None, None).is_some());
    }

    #[test]
    fn a_box_is_missed_only_while_a_daemon_should_have_made_it() {
        let folder = Path::new("/r/data/ipc/a");
        let missing = [Lies { which: BoxName::Tasks, as_what: None }];
        assert!(judge_boxes(folder, &missing, (0, 0), Daemon::Down).is_empty());
        assert_eq!(judge_boxes(folder, &missing, (0, 0), Daemon::Up)[0].told().status, "fail");
    }

    #[test]
    fn a_box_of_another_owner_mode_or_kind_is_told_with_its_mend() {
        let folder = Path::new("/r/data/ipc/a");
        let at = |kind, uid, mode| {
            [Lies {
                which: BoxName::Tasks,
                as_what: Some(LiesAs { kind, owner: (uid, uid), mode, marked: false }),
            }]
        };
        let fix = |lies: [Lies; 1]| {
            let rows = judge_boxes(folder, &lies, (1000, 1000), Daemon::Up);
            rows.iter().filter_map(|row| row.told().fix.map(str::to_owned)).collect::<Vec<_>>()
        };
        assert!(fix(at(FileKind::Directory, 1000, 0o700)).is_empty());
        assert_eq!(fix(at(FileKind::Directory, 0, 0o700)), ["`chown 1000:1000 /r/data/ipc/a/tasks`"]);
        assert_eq!(fix(at(FileKind::Directory, 1000, 0o755)), ["`chmod 700 /r/data/ipc/a/tasks`"]);
        assert_eq!(fix(at(FileKind::Link, 1000, 0o777)), ["stop g2 and remove it: `rm /r/data/ipc/a/tasks`"]);
    }
}
