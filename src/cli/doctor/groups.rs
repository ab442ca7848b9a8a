//! The groups: one main, each with its folder and its boxes, wired to something by rules that work.

use std::{collections::BTreeMap, os::unix::fs::MetadataExt as _, path::Path};

use super::{
    Subject,
    row::{Row, chain},
};
use crate::{
    domain::{
        engage::takes_everything,
        js_regex::Pattern,
        rows::{Group, Wiring},
    },
    ipc::{
        BoxName, Kind, Owner,
        peek::{self, Lies, LiesAs},
    },
};

/// User and group of agents when the daemon is root.
const AGENT: Owner = (1000, 1000);

pub(super) fn check(subject: &Subject) -> Vec<Row> {
    let Some(store) = &subject.store else { return Vec::new() };
    let mut rows = vec![main_group(&subject.groups)];
    rows.extend(folders(&subject.root, &subject.groups));
    rows.extend(boxes(subject));
    rows.extend(archives(subject, store));
    match store.wirings() {
        Ok(wirings) => {
            rows.extend(wired(&subject.groups));
            rows.extend(patterns(&wirings));
            rows.extend(answered_twice(&wirings));
        }
        Err(error) => rows.push(Row::fail("wirings", chain(&error), "see the store's row")),
    }
    rows
}

/// Returns the bad rows, or that all is well.
fn all_or(check: &'static str, bad: Vec<Row>, well: String) -> Vec<Row> {
    if bad.is_empty() { vec![Row::ok(check, well)] } else { bad }
}

fn main_group(groups: &[Group]) -> Row {
    let main: Vec<&str> = groups.iter().filter(|g| g.is_main).map(|g| g.folder.as_str()).collect();
    match main.as_slice() {
        [one] => Row::ok("main_group", format!("{one} is the privileged group")),
        [] => Row::fail(
            "main_group",
            "no group is the privileged one, so nobody can register groups or see all of them",
            "`g2 groups add main --chat local:main --main` (any other folder will do)",
        ),
        several => Row::fail(
            "main_group",
            format!("{} groups are privileged: {}", several.len(), several.join(", ")),
            "remove all but one with `g2 groups remove`",
        ),
    }
}

fn folders(root: &Path, groups: &[Group]) -> Vec<Row> {
    let bad = groups
        .iter()
        .filter_map(|group| {
            let path = root.join("groups").join(group.folder.as_str());
            let shown = path.display();
            match std::fs::symlink_metadata(&path) {
                Err(_) => Some(Row::warn(
                    "group_folder",
                    format!("{shown} is not there: group {} has lost its memory", group.folder),
                    format!("put it back; else its next run makes an empty one (`mkdir {shown}`)"),
                )),
                Ok(_) if !path.is_dir() => Some(Row::fail(
                    "group_folder",
                    format!("{shown} is no folder, so group {} can't be run", group.folder),
                    format!("move it away and make the folder: `mkdir {shown}`"),
                )),
                Ok(_) => None,
            }
        })
        .collect();
    all_or("group_folder", bad, format!("{} groups, each with its folder", groups.len()))
}

fn boxes(subject: &Subject) -> Vec<Row> {
    let Ok(meta) = std::fs::symlink_metadata(&subject.data) else { return Vec::new() };
    // Whoever serves the root owns `data/`. Root gives the boxes to the agents' user, anybody else keeps them.
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
                bad.push(Row::fail("boxes", chain(&error), "run g2 as the user that owns the root"))
            }
        }
    }
    let well = match subject.daemon {
        Some(_) => "each group has its five boxes",
        None => "what is there is as it should be; the start makes what is missing",
    };
    all_or("boxes", bad, well.into())
}

fn archives(subject: &Subject, store: &crate::store::Store) -> Vec<Row> {
    let (most, bytes) = (subject.config.archives, subject.config.archives_bytes);
    let mut bad = Vec::new();
    for group in &subject.groups {
        match store.archives_kept(&group.folder) {
            Ok(kept) => bad.extend(judge_archives(&group.folder, kept, most, bytes)),
            Err(error) => bad.push(Row::fail("archives", chain(&error), "see the store's row")),
        }
    }
    all_or("archives", bad, format!("each group has fewer than {most} archived sessions, and room for more"))
}

/// Decides on one group's archived sessions: how many there are, and of how many bytes.
fn judge_archives(group: &ipc_handlers::Folder, kept: (i64, i64), most: usize, bytes: u64) -> Option<Row> {
    let nearly =
        |is: i64, limit: u64| u64::try_from(is).unwrap_or(0).saturating_mul(10) >= limit.saturating_mul(9);
    (nearly(kept.0, most as u64) || nearly(kept.1, bytes)).then(|| {
        Row::warn(
            "archives",
            format!(
                "group {group} has {} archived sessions of {} MiB; of more than {most}, or {} MiB, the oldest are put out",
                kept.0,
                kept.1 >> 20,
                bytes >> 20
            ),
            "raise limits.archives or limits.archives_mib, or delete some: `g2 sessions delete ID`",
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
                "boxes",
                format!("{at} is not there although the daemon is up"),
                "the daemon makes it anew within seconds, and a run that is under way goes on with the old one; if not, look into its log",
            )),
            None => {}
            Some(LiesAs { kind, .. }) if *kind != Kind::Directory => rows.push(Row::fail(
                "boxes",
                format!("{at} is a {kind} where a folder belongs"),
                format!("stop g2 and remove it: `rm {at}`"),
            )),
            Some(LiesAs { owner: is, mode, .. }) => {
                if is.0 != owner.0 {
                    rows.push(Row::fail(
                        "boxes",
                        format!("{at} belongs to user {}, and its agent runs as {}", is.0, owner.0),
                        format!("`chown {}:{} {at}`", owner.0, owner.1),
                    ));
                }
                if mode & 0o777 != 0o700 {
                    rows.push(Row::fail(
                        "boxes",
                        format!("{at} has mode {mode:04o}; only its agent may use it"),
                        format!("`chmod 700 {at}`"),
                    ));
                }
            }
        }
    }
    rows
}

fn wired(groups: &[Group]) -> Vec<Row> {
    let bad = groups
        .iter()
        .filter(|group| group.chats.is_empty())
        .map(|group| {
            Row::warn(
                "wirings",
                format!("group {} is wired to no chat: nobody can talk to it", group.folder),
                format!("`g2 wirings add --group {0} --chat local:{0} --engage pattern`, or `g2 groups remove {0}`", group.folder),
            )
        })
        .collect();
    all_or("wirings", bad, "each group is wired to a chat".into())
}

fn patterns(wirings: &[Wiring]) -> Vec<Row> {
    let bad = wirings
        .iter()
        .filter_map(|wiring| {
            let pattern = wiring.engage_pattern.as_deref()?;
            let why = Pattern::compile(pattern).err()?;
            Some(Row::fail(
                "engage_pattern",
                format!(
                    "group {} engages on every message of {}: {pattern:?}: {why}",
                    wiring.group, wiring.chat_jid
                ),
                format!("`g2 wirings set --group {} --chat {} 'pattern=…'`", wiring.group, wiring.chat_jid),
            ))
        })
        .collect();
    all_or("engage_pattern", bad, "every pattern can be used".into())
}

/// Chats in which every message is answered more than once.
fn answered_twice(wirings: &[Wiring]) -> Vec<Row> {
    let mut by_chat: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for wiring in wirings.iter().filter(|w| takes_everything(w.engage_pattern.as_deref())) {
        by_chat.entry(&wiring.chat_jid).or_default().push(wiring.group.as_str());
    }
    let bad = by_chat
        .into_iter()
        .filter(|(_, groups)| groups.len() > 1)
        .map(|(chat, groups)| {
            Row::warn(
                "answers_twice",
                format!("{} engage on every message of {chat}: each message is answered {} times", groups.join(" and "), groups.len()),
                format!("`g2 wirings set --group {} --chat {chat} engage=mention`, or remove one with `g2 wirings remove`", groups[groups.len() - 1]),
            )
        })
        .collect();
    all_or("answers_twice", bad, "no chat has two groups that answer everything".into())
}

#[cfg(test)]
mod tests {
    use ipc_handlers::Folder;

    use super::*;
    use crate::cli::doctor::row::Status;

    fn wiring(group: &str, pattern: Option<&str>) -> Wiring {
        Wiring {
            id: 1,
            group: Folder::parse(group).unwrap(),
            chat_jid: "tg:1".into(),
            engage_mode: if pattern.is_some() { "pattern" } else { "mention" }.into(),
            engage_pattern: pattern.map(str::to_owned),
            sender_scope: "all".into(),
            ignored_message_policy: "drop".into(),
            trigger: None,
            sticky: Vec::new(),
        }
    }

    #[test]
    fn two_groups_that_take_everything_in_one_chat_are_told_and_one_is_not() {
        let one = answered_twice(&[wiring("a", Some(".")), wiring("b", None)]);
        assert_eq!(one[0].status, Status::Ok);
        let two = answered_twice(&[wiring("a", Some(".")), wiring("b", Some(".*"))]);
        assert_eq!((two.len(), two[0].status), (1, Status::Warn));
    }

    #[test]
    fn a_box_is_missed_only_while_a_daemon_should_have_made_it() {
        let folder = Path::new("/r/data/ipc/a");
        let missing = [Lies { which: BoxName::Tasks, as_what: None }];
        assert!(judge_boxes(folder, &missing, (0, 0), Daemon::Down).is_empty());
        assert_eq!(judge_boxes(folder, &missing, (0, 0), Daemon::Up)[0].status, Status::Fail);
    }

    #[test]
    fn a_box_of_another_owner_mode_or_kind_is_told_with_its_mend() {
        let folder = Path::new("/r/data/ipc/a");
        let at = |kind, uid, mode| {
            [Lies { which: BoxName::Tasks, as_what: Some(LiesAs { kind, owner: (uid, uid), mode }) }]
        };
        let fix = |lies: [Lies; 1]| {
            let rows = judge_boxes(folder, &lies, (1000, 1000), Daemon::Up);
            rows.into_iter().filter_map(|row| row.fix).collect::<Vec<_>>()
        };
        assert!(fix(at(Kind::Directory, 1000, 0o700)).is_empty());
        assert_eq!(fix(at(Kind::Directory, 0, 0o700)), ["`chown 1000:1000 /r/data/ipc/a/tasks`"]);
        assert_eq!(fix(at(Kind::Directory, 1000, 0o755)), ["`chmod 700 /r/data/ipc/a/tasks`"]);
        assert_eq!(fix(at(Kind::Link, 1000, 0o777)), ["stop g2 and remove it: `rm /r/data/ipc/a/tasks`"]);
    }
}
