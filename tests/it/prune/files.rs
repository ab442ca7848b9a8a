//! Files that nothing needs any more: by age, by size, dead at each step, and where a container has laid traps.

use std::{
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::*;

const DAY: std::time::Duration = std::time::Duration::from_hours(24);

/// Ids of sessions: one that a lane has, one that is archived, one that nothing needs, and one of somebody else.
const LIVE: &str = "11111111-1111-4111-8111-111111111111";
const ARCHIVED: &str = "22222222-2222-4222-8222-222222222222";
const OLD: &str = "33333333-3333-4333-8333-333333333333";

fn home(root: &Root) -> PathBuf {
    root.data("sessions/main/.claude")
}

/// Writes a file below `.claude`, that many days old.
fn put(root: &Root, path: &str, bytes: usize, days: u32) {
    let path = home(root).join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, vec![b'x'; bytes]).unwrap();
    set_age(&path, days);
}

fn set_age(path: &Path, days: u32) {
    let at = SystemTime::now() - DAY * days;
    let file = fs::File::open(path).unwrap();
    file.set_times(fs::FileTimes::new().set_modified(at).set_accessed(at)).unwrap();
}

/// Every name below `.claude`.
fn names(root: &Root) -> Vec<String> {
    fn below(at: &Path, top: &Path, all: &mut Vec<String>) {
        for entry in fs::read_dir(at).into_iter().flatten() {
            let path = entry.unwrap().path();
            all.push(path.strip_prefix(top).unwrap().to_string_lossy().into_owned());
            if !path.is_symlink() && path.is_dir() {
                below(&path, top, all);
            }
        }
    }
    let mut all = Vec::new();
    below(&home(root), &home(root), &mut all);
    all.sort();
    all
}

/// A root with sessions and their files, 40 days old: the lane of `local:main` has one session, another is archived.
fn with_sessions(toml: &str) -> Root {
    let root = Root::new(toml);
    let store = store(&root);
    store
        .execute_batch(&format!(
            "INSERT INTO lanes (group_folder, chat_jid, thread) VALUES ('main', 'local:main', '');
             INSERT INTO sessions (lane_id, group_folder, chat_jid, thread, session_id) SELECT id, 'main', 'local:main', '', '{LIVE}' FROM lanes;
             INSERT INTO archives (group_folder, session_id, name, content, archived_at) VALUES ('main', '{ARCHIVED}', 'old times', '', 1);"
        ))
        .unwrap();
    for id in [LIVE, ARCHIVED, OLD] {
        put(&root, &format!("projects/-workspace-group/{id}.jsonl"), 100, 40);
        put(&root, &format!("projects/-workspace-group/{id}/subagents/agent-a1.jsonl"), 100, 40);
        put(&root, &format!("todos/{id}-agent-{id}.json"), 10, 40);
        put(&root, &format!("file-history/{id}/a@v1"), 10, 40);
    }
    for kept in
        ["projects/-workspace-group/memory/MEMORY.md", "skills/x/SKILL.md", "settings.json", "CLAUDE.md"]
    {
        put(&root, kept, 10, 400);
    }
    put(&root, "debug/a.txt", 10, 40);
    put(&root, "debug/b.txt", 10, 1);
    put(&root, "shell-snapshots/snapshot-bash-1.sh", 10, 40);
    for folder in [
        format!("projects/-workspace-group/{OLD}/subagents"),
        format!("projects/-workspace-group/{OLD}"),
        format!("file-history/{OLD}"),
    ] {
        set_age(&home(&root).join(folder), 40);
    }
    root
}

/// The names that go of [`with_sessions`].
fn going() -> Vec<String> {
    let project = "projects/-workspace-group";
    [
        "debug/a.txt".to_owned(),
        format!("file-history/{OLD}"),
        format!("file-history/{OLD}/a@v1"),
        format!("{project}/{OLD}"),
        format!("{project}/{OLD}.jsonl"),
        format!("{project}/{OLD}/subagents"),
        format!("{project}/{OLD}/subagents/agent-a1.jsonl"),
        "shell-snapshots/snapshot-bash-1.sh".to_owned(),
        format!("todos/{OLD}-agent-{OLD}.json"),
    ]
    .into()
}

#[test]
fn old_transcripts_and_debug_files_go_and_what_a_session_or_an_agent_needs_stays() {
    let root = with_sessions("");
    let before = names(&root);
    let dry = root.json(&["prune", "--dry-run"]);
    assert_eq!((removed(&dry, "files_of_sessions"), names(&root)), (6, before.clone()), "{dry}");
    let said = root.g2(&["prune", "--yes"]);
    assert!(said.contains("files of sessions took"), "{said}");
    let expected: Vec<String> = before.into_iter().filter(|name| !going().contains(name)).collect();
    assert_eq!(names(&root), expected);
    assert_eq!(removed(&root.json(&["prune", "--yes"]), "files_of_sessions"), 0);
    // Once the archive is gone, nothing needs its files.
    store(&root).execute("DELETE FROM archives", []).unwrap();
    assert_eq!(removed(&root.json(&["prune", "--yes"]), "files_of_sessions"), 4);
    assert!(!names(&root).iter().any(|name| name.contains(ARCHIVED) && name.ends_with(".jsonl")));
}

#[test]
fn the_oldest_go_above_the_bound_and_what_a_live_run_wrote_stays() {
    let root = Root::new("[housekeeping]\nsessions_days = 0\nsessions_mib = 3\n");
    for (name, days) in [("a", 9), ("b", 8), ("c", 7), ("d", 6), ("e", 0)] {
        put(&root, &format!("debug/{name}.txt"), 1 << 20, days);
    }
    root.g2(&["prune", "--yes"]);
    let left = || names(&root).into_iter().filter(|name| name.ends_with(".txt")).collect::<Vec<_>>();
    assert_eq!(left(), ["debug/c.txt", "debug/d.txt", "debug/e.txt"]);
    // A run is under way for longer than files c and d are there.
    store(&root)
        .execute(
            "INSERT INTO runs (group_folder, chat_jid, kind, for_lane, status, sandbox, generation, created_at)
             VALUES ('main', 'local:main', 'message', 1, 'queued', 'process', 0, (unixepoch() - 7 * 86400 - 3600) * 1000)",
            [],
        )
        .unwrap();
    put(&root, "debug/f.txt", 1 << 20, 0);
    put(&root, "debug/g.txt", 1 << 20, 30);
    assert_eq!(removed(&root.json(&["prune", "--yes"]), "files_of_sessions"), 1);
    assert_eq!(left(), ["debug/c.txt", "debug/d.txt", "debug/e.txt", "debug/f.txt"]);
}

#[test]
fn files_of_runs_go_by_age_and_size_their_rows_stay_and_the_count_of_their_group_follows() {
    let root = lived_with("[housekeeping]\nruns_days = 41\nruns_mib = 0\n");
    let ended = |root: &Root| root.rows(&["runs", "list"]).len();
    let runs = ended(&root);
    let folders = run_folders(&root);
    assert_eq!(removed(&root.json(&["prune", "--yes", "--older-than", "41"]), "files_of_runs"), 0);
    root.settings("[housekeeping]\nruns_days = 40\nruns_mib = 0\n");
    let pruned = root.json(&["prune", "--yes", "--older-than", "41"]);
    assert_eq!(removed(&pruned, "files_of_runs"), i64::try_from(folders).unwrap(), "{pruned}");
    assert!(pruned["files_bytes"].as_i64().unwrap() > 0);
    assert_eq!((ended(&root), run_folders(&root)), (runs, 0));
    let with_files: i64 =
        store(&root).query_row("SELECT count(*) FROM runs WHERE files_bytes > 0", [], |r| r.get(0)).unwrap();
    assert_eq!(with_files, 0);
    let told = told(&root, &["runs", "logs", "1"]);
    assert!(told.contains("housekeeping.runs_days"), "{told}");
    let doctor = root.run(&["doctor"]);
    let doctor = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(!doctor.contains("counted wrongly"), "{doctor}");
}

#[test]
fn wherever_it_dies_the_next_pass_does_the_rest() {
    if !crate::support::fail_points() {
        return;
    }
    let toml = "[housekeeping]\nruns_days = 30\nsessions_days = 30\n";
    let mut died = 0;
    for point in ["housekeeping.run", "housekeeping.runs", "old.removed"] {
        for nth in 1.. {
            let root = with_sessions(toml);
            for run in 1..=3 {
                store(&root)
                    .execute(
                        "INSERT INTO runs (group_folder, chat_jid, kind, for_lane, status, sandbox, generation, created_at, ended_at, files_bytes)
                         VALUES ('main', 'local:main', 'message', 1, 'succeeded', 'process', 0, 1, ?1, 10)",
                        [if run == 3 { i64::MAX / 2 } else { 1 }],
                    )
                    .unwrap();
                fs::create_dir_all(root.data(&format!("runs/{run}"))).unwrap();
                fs::write(root.data(&format!("runs/{run}/prompt.txt")), "0123456789").unwrap();
            }
            let needed: Vec<String> =
                names(&root).into_iter().filter(|name| !going().contains(name)).collect();
            let arguments = ["prune", "--yes", "--older-than", "36500"];
            let output =
                root.command(&arguments).env("G2_FAILPOINT", format!("{point}:{nth}")).output().unwrap();
            if output.status.signal() != Some(9) {
                assert!(output.status.success(), "{output:?}");
                break;
            }
            died += 1;
            assert!(needed.iter().all(|name| names(&root).contains(name)), "{point}:{nth}");
            sound(&root);
            root.g2(&arguments);
            // A folder that was emptied just before is young.
            let is_left = |name: &String| needed.contains(name) || home(&root).join(name).is_dir();
            assert!(names(&root).iter().all(is_left), "{point}:{nth}: {:?}", names(&root));
            assert!(needed.iter().all(|name| names(&root).contains(name)), "{point}:{nth}");
            let left: Vec<(i64, i64)> = store(&root)
                .prepare("SELECT id, files_bytes FROM runs ORDER BY id")
                .unwrap()
                .query_map([], |r| Ok((r.get(0)?, r.get(1)?)))
                .unwrap()
                .map(Result::unwrap)
                .collect();
            assert_eq!(left, [(1, 0), (2, 0), (3, 10)], "{point}:{nth}");
            assert_eq!([1, 2, 3].map(|run| root.data(&format!("runs/{run}")).exists()), [false, false, true]);
            let stored: i64 = store(&root)
                .query_row("SELECT bytes FROM stored WHERE group_folder = 'main'", [], |r| r.get(0))
                .unwrap();
            assert_eq!(stored, 3 * 512 + 10 + 512 + 9, "{point}:{nth}");
        }
    }
    assert_eq!(died, 2 + 1 + 6 + 3, "it died at each step");
}

#[test]
fn a_container_that_lays_traps_loses_its_own_files_at_most() {
    let root = with_sessions("");
    let outside = root.path().join("outside");
    fs::create_dir(&outside).unwrap();
    for name in ["a.jsonl", &format!("{OLD}.jsonl")] {
        fs::write(outside.join(name), "precious").unwrap();
        set_age(&outside.join(name), 400);
    }
    let home = home(&root);
    fs::create_dir_all(home.join("projects/-x")).unwrap();
    symlink(&outside, home.join("projects/link")).unwrap();
    symlink(&outside, home.join(format!("projects/-x/{OLD}"))).unwrap();
    symlink(&outside, home.join("logs")).unwrap();
    symlink(outside.join("a.jsonl"), home.join("debug/latest")).unwrap();
    fs::hard_link(outside.join("a.jsonl"), home.join("debug/hard")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, home.join("debug/pipe"), rustix::fs::Mode::RWXU).unwrap();
    let mut deep = home.join("debug");
    for _ in 0..40 {
        deep.push("d");
        fs::create_dir(&deep).unwrap();
    }
    fs::write(deep.join("x"), "x").unwrap();
    root.g2(&["prune", "--yes"]);
    for name in ["a.jsonl", &format!("{OLD}.jsonl")] {
        assert_eq!(fs::read_to_string(outside.join(name)).unwrap(), "precious");
    }
    assert!(!home.join("debug/hard").exists(), "a name of its own is the group's");
    assert!(home.join("logs").is_symlink() && home.join("projects/link").is_symlink());
    // The whole folder is another one.
    fs::rename(&home, root.data("sessions/main/away")).unwrap();
    symlink(&outside, &home).unwrap();
    root.g2(&["prune", "--yes"]);
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 2);
}

#[test]
fn a_crowd_of_files_is_removed_in_steps() {
    let count = std::env::var("G2_HOSTILE_FILES").ok().and_then(|n| n.parse().ok()).unwrap_or(5_000);
    let root = Root::new("");
    let folder = home(&root).join("debug");
    fs::create_dir_all(&folder).unwrap();
    for n in 0..count {
        fs::write(folder.join(format!("{n}.txt")), "").unwrap();
        set_age(&folder.join(format!("{n}.txt")), 31);
    }
    put(&root, "debug/young.txt", 1, 1);
    assert_eq!(removed(&root.json(&["prune", "--yes"]), "files_of_sessions"), count);
    assert_eq!(names(&root), ["debug", "debug/young.txt"]);
}

#[test]
fn a_daemon_removes_files_by_itself_and_shows_which_groups_take_most() {
    let toml = "[limits]\nkeep_first_minutes = 0\npoll_interval_ms = 100\nmin_free_mib = 1\n";
    let root = with_sessions(toml);
    fs::write(root.path().join("groups/main/large"), vec![1; 3 << 20]).unwrap();
    let _daemon = root.serve();
    wait_for("old files to be gone", || {
        (!names(&root).iter().any(|name| going().contains(name))).then_some(())
    });
    wait_for("the log to say so", || {
        root.log().contains("files that nothing needs any more are removed").then_some(())
    });
    let disk = wait_for("the groups to be weighed", || {
        root.json(&["status"])["disk"].as_array().unwrap().first().cloned()
    });
    assert_eq!(disk["group"], "main");
    assert!(disk["working_folder"].as_i64().unwrap() >= 3 << 20, "{disk}");
    let shown = root.json(&["groups", "show", "main"])["disk"].clone();
    assert!(
        shown["working_folder"].as_i64().unwrap() >= 3 << 20 && shown["sessions"].as_i64().unwrap() > 0,
        "{shown}"
    );
    let shown = root.g2(&["status"]);
    let named = shown.lines().find(|line| line.contains("main: 3.")).unwrap_or_else(|| panic!("{shown}"));
    assert!(named.ends_with(" MiB (working folder 3.0 MiB)"), "{shown}");
    assert!(root.g2(&["groups", "show", "main"]).contains("  working folder  3.0 MiB"));
}
