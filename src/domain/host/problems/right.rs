//! What is looked at and is as it should be.

use super::Finding;

/// Each kind of problem that is looked for, and how it reads where there is none. `About` says what it is read from.
const LOOKED_FOR: [(&str, About, &str); 49] = {
    use About::{Engine, Room, Settings, Store, World};
    [
        ("root", World, "the root is whole, and can be written"),
        ("store", World, "the store can be read and written"),
        ("store_writer", World, "nothing keeps changes from being stored"),
        ("settings", Settings, "the settings can be used, and none waits for a restart"),
        ("sandbox", World, "no agent runs without a sandbox that the settings ask for"),
        ("secrets", World, "nobody else can read files of secrets"),
        ("gateway", World, "the address of the model's host can be used"),
        ("model_key", Store, "the gateway has a key where agents need one"),
        ("model_refuses", Store, "the model's host refuses no group"),
        ("key", Store, "agents that need a key of their own have one"),
        ("docker", World, "the container engine answers, where it is used"),
        ("image", Engine, "every image that a group needs is there"),
        ("script", Store, "the scripts of scripted agents can be followed"),
        ("disk", World, "there is room on the disk"),
        ("inodes", Room, "the file system has room for more files"),
        ("open_files", Store, "the limit of open files is high enough"),
        ("file_events", World, "the kernel tells of new files in boxes"),
        ("search_index", Room, "archived sessions can be searched"),
        ("main_group", Store, "there is one main group"),
        ("group_folder", Store, "each group has its folder"),
        ("group_settings", Store, "the settings of each group can be used"),
        ("mount_allowlist", World, "the list of folders that may be mounted can be read"),
        ("sender_list", World, "the list of senders can be read"),
        ("engage_pattern", Store, "the pattern of each wiring can be used"),
        ("answers_twice", Store, "no chat is answered by two groups"),
        ("held_messages", Store, "no message is held because no rule could judge it"),
        ("approvals", Store, "questions about strangers find somebody, or are not asked"),
        ("channel", Store, "each platform is connected"),
        ("outbox", Store, "every text of the last day arrived"),
        ("runs_fail", Store, "no group fails each time"),
        ("task_fails", Store, "no task fails each time"),
        ("task_rests", Store, "no task rests after it got stuck"),
        ("task_paused", Store, "no task is paused after failures"),
        ("lane_rests", Store, "no conversation rests after a failure"),
        ("given_up", Store, "no message of the last day was given up"),
        ("set_aside", Store, "no group is set aside"),
        ("unowned_run", Store, "each run has an owner, or has ended"),
        ("loop", World, "each loop of the daemon looks at what is to be done"),
        ("loop_key", World, "no work of a loop fails again and again"),
        ("our_fault", World, "no fault of g2's own is in the way"),
        ("group_remains", World, "nothing is left of earlier groups"),
        ("stored", Store, "no group has too much in the store"),
        ("heartbeat", Store, "the tasks of each HEARTBEAT.md can be taken"),
        ("clock", World, "the clock shows a time that tasks can run by"),
        ("time_zone", World, "the time zone is known"),
        ("held_back", Store, "a restore holds nothing back"),
        ("backup", Store, "the last daily backup went well, if there is one"),
        ("backup_lacks", Store, "no group's folder is missing in the last daily backup"),
        ("many_chats", Store, "no account tells of more chats than are kept"),
    ]
};

/// What has to be in order before something can be looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum About {
    World,
    Settings,
    Store,
    Engine,
    Room,
}

impl About {
    /// The check without which there is nothing to look at.
    fn needs(self) -> Option<&'static str> {
        match self {
            Self::World | Self::Settings => None,
            Self::Store => Some("store"),
            Self::Engine => Some("docker"),
            Self::Room => Some("disk"),
        }
    }
}

/// Returns the checks that were looked at and found no problem, with a sentence each.
#[must_use]
pub fn right(findings: &[Finding]) -> Vec<(&'static str, &'static str)> {
    let has = |check: &str| findings.iter().any(|finding| finding.code == check);
    let looked_at = |about: About| !about.needs().is_some_and(has);
    LOOKED_FOR
        .iter()
        .filter(|(check, about, _)| !has(check) && looked_at(*about))
        .map(|(check, _, says)| (*check, *says))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(code: &'static str) -> Finding {
        Finding {
            code: code.into(),
            about: String::new(),
            severity: super::super::Severity::Fail,
            text: "x".into(),
            fix: String::new(),
        }
    }

    fn checks(findings: &[Finding]) -> Vec<&'static str> {
        right(findings).into_iter().map(|(check, _)| check).collect()
    }

    #[test]
    fn what_has_a_problem_or_could_not_be_looked_at_is_not_called_right() {
        assert_eq!(checks(&[]).len(), LOOKED_FOR.len());
        for (problem, hides) in [
            ("channel", &["channel"][..]),
            ("docker", &["docker", "image"]),
            ("disk", &["disk", "inodes", "search_index"]),
        ] {
            let left = checks(&[finding(problem)]);
            let missing: Vec<_> = checks(&[]).into_iter().filter(|check| !left.contains(check)).collect();
            let mut hidden = hides.to_vec();
            hidden.sort_unstable_by_key(|check| LOOKED_FOR.iter().position(|(known, ..)| known == check));
            assert_eq!(missing, hidden, "{problem}");
        }
        assert!(!checks(&[finding("store")]).contains(&"runs_fail"));
    }

    #[test]
    fn each_kind_of_problem_has_its_sentence() {
        let words = include_str!("words.rs");
        let named = |code: &str| words.contains(&format!("\"{code}\""));
        for (check, ..) in LOOKED_FOR {
            assert!(named(check), "no problem is called {check}");
            assert!(crate::host::pages::page(check).is_some(), "{check} has no page");
        }
        // A code stands alone on its line, or first in its tuple.
        for line in words.lines().map(str::trim) {
            let line = line.strip_prefix('(').unwrap_or(line);
            let code = line.strip_prefix('"').and_then(|line| line.split_once("\",")).map(|(code, _)| code);
            if let Some(code) = code
                .filter(|code| !code.is_empty() && code.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
            {
                assert!(LOOKED_FOR.iter().any(|(check, ..)| *check == code), "{code} has no sentence");
            }
        }
    }
}
