//! `g2 import` of other programs' installations, end to end.
#![expect(clippy::disallowed_methods, reason = "a test looks at what was written")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
};

use serde_json::{Value, json};

use super::{samples::Sample, written::rows};
use crate::support::Root;

/// Imports with the home of the installation's user, in whose configuration its lists are.
fn import(root: &Root, sample: &Sample, more: &[&str]) -> String {
    let arguments =
        [&["import", sample.program.as_str(), sample.dir.path().to_str().unwrap()], more].concat();
    let output = root.command(&arguments).env("HOME", sample.path("home")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn imported(root: &Root, sample: &Sample, more: &[&str]) -> Value {
    serde_json::from_str(&import(root, sample, &[more, &["--json"]].concat())).unwrap()
}

/// What an export of a root says now, without what each root has of its own.
fn state(root: &Root, kind: &str) -> Vec<Value> {
    let out = tempfile::tempdir().unwrap();
    root.g2(&["export", out.path().join("x").to_str().unwrap()]);
    rows(&out.path().join("x")).into_iter().filter(|row| row["row"] == kind).collect()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn an_installation_of_the_first_version_moves_in_and_twice_changes_nothing() {
    let (root, sample) = (Root::new(""), Sample::of("nanoclaw"));
    fs::write(sample.path(".env"), "TELEGRAM_BOT_TOKEN=tg-secret\nTZ=Europe/Berlin\nASSISTANT_NAME=Andy\n")
        .unwrap();
    symlink("/etc/passwd", sample.path("groups/family/passwd")).unwrap();
    let first = imported(&root, &sample, &[]);
    for (kind, count) in [("group", 3), ("wiring", 4), ("message", 17), ("task", 5), ("run", 2), ("lane", 4)]
    {
        // The main group is here already, and takes over the one there.
        let new = first["new"][kind].as_u64().unwrap_or(0);
        assert!(new >= count, "{kind}: {first}");
    }
    assert!(!first.to_string().contains("tg-secret"));
    assert_eq!(first["held_back"]["messages"], 2, "{first}");
    let told = first["findings"]["kept"].to_string();
    assert!(told.contains("passwd"), "{told}");
    assert!(!root.path().join("groups/family/passwd").exists());
    assert_eq!(read(&root.path().join("groups/family/notes/cake.txt")), "chocolate\n");
    let transcript =
        "sessions/family/.claude/projects/-workspace-group/0b7c2f6e-2222-4a7b-8f00-000000000002.jsonl";
    assert!(read(&root.data(transcript)).contains("remind us on Saturday"));
    assert!(read(&root.path().join(".env")).contains("TELEGRAM_BOT_TOKEN=tg-secret"));
    let settings = read(&root.path().join("g2.toml"));
    assert!(settings.contains("TELEGRAM_BOT_TOKEN") && !settings.contains("tg-secret"), "{settings}");

    let tasks = state(&root, "task");
    let output: Vec<&Value> = tasks.iter().map(|task| &task["output"]).collect();
    assert_eq!(output, [&json!("chat"); 5]);
    let family = state(&root, "wiring").into_iter().find(|wiring| wiring["group"] == "family").unwrap();
    assert_eq!(
        (&family["engage_mode"], &family["ignored_messages"]),
        (&json!("mention"), &json!("accumulate"))
    );
    let lanes = state(&root, "lane");
    assert!(lanes.iter().any(|lane| lane["session"] == "0b7c2f6e-2222-4a7b-8f00-000000000002"), "{lanes:?}");

    let before = (state(&root, "message"), state(&root, "task"), state(&root, "wiring"));
    let again = imported(&root, &sample, &[]);
    assert_eq!(
        again["new"].as_object().unwrap().values().filter_map(Value::as_u64).sum::<u64>(),
        0,
        "{again}"
    );
    assert_eq!((state(&root, "message"), state(&root, "task"), state(&root, "wiring")), before);
}

/// A copy of the other program's store is private, and does not outlive the import that was killed and a start.
#[test]
fn what_a_killed_import_leaves_goes_with_the_next_start() {
    let (root, sample) = (Root::new(""), Sample::of("nanoclaw"));
    let mut command = root.command(&["import", "nanoclaw", sample.dir.path().to_str().unwrap()]);
    let died = command.env("HOME", sample.path("home")).env("G2_FAILPOINT", "moving.taken").output().unwrap();
    assert!(!died.status.success(), "{died:?}");
    let left = || -> Vec<String> {
        let names = fs::read_dir(root.data("tmp")).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("moving-")).collect()
    };
    assert!(!left().is_empty());
    for name in left() {
        let mode = fs::metadata(root.data("tmp").join(&name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{name}");
    }
    let daemon = root.serve();
    assert_eq!(left(), [""; 0]);
    assert_eq!(daemon.terminate(), Some(0));
}

/// A person who looks around first moves in a second time: what went on there meanwhile goes on here, unless it went on here already.
#[test]
fn a_conversation_that_went_on_there_goes_on_from_its_end() {
    const OLD: &str = "0b7c2f6e-2222-4a7b-8f00-000000000002";
    let (root, sample) = (Root::new(""), Sample::of("nanoclaw"));
    import(&root, &sample, &[]);
    let there = sample.path(&format!("data/sessions/family/.claude/projects/-workspace-group/{OLD}.jsonl"));
    let here = root.data(&format!("sessions/family/.claude/projects/-workspace-group/{OLD}.jsonl"));
    let first = read(&there);
    let session = |group: &str| {
        let lanes = state(&root, "lane");
        let lane = lanes.iter().find(|lane| lane["group"] == group && lane["thread"].is_null()).unwrap();
        lane["session"].as_str().unwrap().to_owned()
    };
    assert_eq!(session("family"), OLD);

    // The same conversation, longer.
    fs::write(&there, format!("{first}{{\"more\": 1}}\n")).unwrap();
    imported(&root, &sample, &[]);
    assert_eq!(read(&here), format!("{first}{{\"more\": 1}}\n"));
    // Another one.
    let project = there.parent().unwrap().to_owned();
    fs::write(project.join("aa-1.jsonl"), "{\"new\": 1}\n").unwrap();
    sample.sql("store/messages.db", "UPDATE sessions SET session_id = 'aa-1' WHERE group_folder = 'family'");
    imported(&root, &sample, &[]);
    assert_eq!(session("family"), "aa-1");
    assert_eq!(read(&here.with_file_name("aa-1.jsonl")), "{\"new\": 1}\n");

    // One that went on here stays, with its transcript and as the session.
    fs::write(here.with_file_name("aa-1.jsonl"), "{\"new\": 1}\n{\"here\": 1}\n").unwrap();
    fs::write(project.join("aa-1.jsonl"), "{\"new\": 1}\n{\"there\": 1}\n").unwrap();
    rusqlite::Connection::open(root.data("g2.sqlite"))
        .unwrap()
        .execute("UPDATE sessions SET active_at = 1790000000000 WHERE session_id = 'aa-1'", [])
        .unwrap();
    sample.sql("store/messages.db", "UPDATE sessions SET session_id = 'bb-2' WHERE group_folder = 'family'");
    let last = imported(&root, &sample, &[]);
    assert_eq!(session("family"), "aa-1");
    assert!(read(&here.with_file_name("aa-1.jsonl")).contains("here"));
    assert!(!here.with_file_name("aa-1.jsonl.imported").exists());
    let told = last["findings"]["kept"].to_string();
    assert!(
        told.contains("which went on, and stays alone") && told.contains("that conversation stays"),
        "{told}"
    );
    // What is no transcript is a file as any other.
    fs::create_dir_all(project.join("memory")).unwrap();
    fs::write(project.join("memory/MEMORY.md"), "new").unwrap();
    imported(&root, &sample, &[]);
    fs::write(project.join("memory/MEMORY.md"), "newer").unwrap();
    imported(&root, &sample, &[]);
    let memory = here.with_file_name("memory");
    assert_eq!(
        (read(&memory.join("MEMORY.md")).as_str(), read(&memory.join("MEMORY.md.imported")).as_str()),
        ("new", "newer")
    );
    // Without the files no other session is taken.
    sample.sql("store/messages.db", "UPDATE sessions SET session_id = 'cc-3' WHERE group_folder = 'main'");
    let before = session("main");
    imported(&root, &sample, &["--only", "sessions"]);
    assert_eq!(session("main"), before);
}

/// A home in which folders are links, as some keep their settings; and a list that nobody can read is no reason to hear everybody.
#[test]
fn lists_behind_a_link_in_the_home_are_read_and_one_that_leads_out_stops_the_import() {
    let sample = Sample::of("nanoclaw");
    let list = sample.path("home/.config/nanoclaw");
    fs::rename(&list, sample.path("home/dot")).unwrap();
    symlink("../dot", &list).unwrap();
    assert!(imported(&Root::new(""), &sample, &[])["new"]["list"].as_u64().unwrap() >= 1);
    fs::remove_file(&list).unwrap();
    let outside = tempfile::tempdir().unwrap();
    fs::rename(sample.path("home/dot"), outside.path().join("dot")).unwrap();
    symlink(outside.path().join("dot"), &list).unwrap();
    let (root, path) = (Root::new(""), sample.dir.path().to_str().unwrap().to_owned());
    let refused =
        root.command(&["import", "nanoclaw", &path]).env("HOME", sample.path("home")).output().unwrap();
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && told.contains("everybody would be heard"), "{told}");
    assert!(state(&root, "message").is_empty());
}

/// What was unanswered waits for the owner: a daemon that starts wakes nobody by it.
#[test]
fn nobody_is_woken_by_what_moved_in() {
    let (root, sample) = (Root::new(""), Sample::of("nanoclaw"));
    import(&root, &sample, &["--only", "groups,people,messages,sessions"]);
    let daemon = root.serve();
    root.ask("local:main", "hello");
    let runs = root.rows(&["runs", "list"]);
    assert!(runs.iter().all(|run| run["lane"] == "local:main"), "{runs:?}");
    let held = root.g2(&["restored", "list"]);
    assert!(held.contains("which is warmer"), "{held}");
    assert_eq!(daemon.terminate(), Some(0));
}

#[test]
fn patterns_of_the_typescript_program_find_in_any_case_and_its_archives_come_along() {
    let (root, sample) = (Root::new(""), Sample::of("g2"));
    imported(&root, &sample, &["--only", "groups,people,messages,sessions,tasks"]);
    let explained =
        root.json(&["engage", "explain", "--chat", "120363041111111111@g.us", "Is the COMPUTER awake?"]);
    assert!(explained.to_string().contains("wake"), "{explained}");
    let archives = state(&root, "archive");
    assert!(archives.iter().any(|archive| archive["name"] == "trip to Rome"
        && archive["content"].as_str().unwrap().contains("night train")));
    let lost = state(&root, "task").into_iter().find(|task| task["id"] == "task-2").unwrap();
    assert!(lost["next_run"].is_string(), "{lost}");
}

#[test]
fn the_second_version_moves_in_with_its_rules_people_and_container_settings() {
    for name in ["nanoclaw-v2", "nanoclaw-v2-april"] {
        let (root, sample) = (Root::new(""), Sample::of(name));
        imported(&root, &sample, &["--only", "groups,people,messages,sessions,tasks,files"]);
        let wirings = state(&root, "wiring");
        let rule = |group: &str, chat: &str| {
            let wiring =
                wirings.iter().find(|wiring| wiring["group"] == group && wiring["chat"] == chat).unwrap();
            let pattern = wiring["engage_pattern"].as_str().unwrap_or_default();
            let mode = wiring["engage_mode"].as_str().unwrap();
            format!("{mode} {pattern} {}", wiring["sender_scope"].as_str().unwrap())
        };
        assert_eq!(rule("home", "tg:42"), "pattern . all", "{name}");
        assert_eq!(rule("home", "tg:-1005550001"), "pattern ^home[,:] all", "{name}");
        let sticky = if name == "nanoclaw-v2" { "mention-sticky  known" } else { "mention  known" };
        assert_eq!(rule("club", "tg:-1005550001"), sticky, "{name}");
        let roles = state(&root, "role");
        assert!(roles.iter().any(|role| role["user"] == "tg:42" && role["role"] == "owner"), "{roles:?}");
        assert!(roles.iter().any(|role| role["user"] == "dc:555" && role["group"] == "ops"), "{roles:?}");
        let home = state(&root, "group").into_iter().find(|group| group["folder"] == "home").unwrap();
        assert_eq!(home["trigger"], "@Hob", "{home}");
        assert_eq!(
            home["config"]["mcp"]["notes"]["args"],
            json!(["/workspace/group/mcp/notes.js"]),
            "{home}"
        );
        assert!(read(&root.path().join("groups/home/CLAUDE.md")).contains("two lights"));
        let transcript =
            "sessions/home/.claude/projects/-workspace-group/7e570000-1111-4a7b-8f00-000000000021.jsonl";
        assert!(read(&root.data(transcript)).contains("turn the light on"), "{name}");
        let texts = state(&root, "text");
        assert!(texts.iter().any(|text| text["text"] == "It is on."), "{texts:?}");
    }
}

#[test]
fn a_look_says_what_becomes_what_and_a_rehearsal_what_wakes_whom() {
    let (root, sample) = (Root::new(""), Sample::of("nanoclaw"));
    fs::write(sample.path(".env"), "DISCORD_BOT_TOKEN=dc-secret\nTZ=America/New_York\n").unwrap();
    let look = import(&root, &sample, &["--dry-run"]);
    for words in [
        "NanoClaw v1 at ",
        "group family (Family 🏡); its conversation goes on; 1 messages are unanswered",
        "in 120363041234567890@g.us: a mention, or @Andy at the start wakes it",
        "group main (Main), the main group",
        "task task-1775030400000-morning of main: cron 30 7 * * 1-5, active",
        "secret DISCORD_BOT_TOKEN (its value is not shown)",
        "list sender-allowlist.json",
        "What will act differently",
        "(sandbox.network): docs/differences.md#containers",
        "Dry run: nothing was written",
    ] {
        assert!(look.contains(words), "{words}: {look}");
    }
    assert!(!look.contains("dc-secret") && !look.contains("whatsapp has no adapter here"));
    let json = imported(&root, &sample, &["--dry-run"]);
    let task = json["look"]["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .find(|task| task["id"] == "task-1775030400000-morning")
        .unwrap()
        .clone();
    assert_eq!(
        (task["before"].as_array().unwrap().len(), task["after"].as_array().unwrap().len()),
        (3, 3),
        "{task}"
    );
    assert!(!root.path().join("groups/family").exists());
    let rehearsal = imported(&root, &sample, &["--rehearse"]);
    assert_eq!(rehearsal["messages"], 17, "{rehearsal}");
    assert!(import(&root, &sample, &["--rehearse"]).contains("17 messages: "));
}

/// An agent can write into its own `.claude`, and a link there stands in the way of all below.
#[test]
fn a_link_above_a_folder_leads_nowhere_and_the_folder_comes_once_it_is_one() {
    let (root, sample) = (Root::new(""), Sample::of("nanoclaw"));
    let projects = sample.path("data/sessions/family/.claude/projects");
    fs::remove_dir_all(&projects).unwrap();
    symlink("../../main/.claude/projects", &projects).unwrap();
    fs::remove_dir_all(sample.path("groups/work")).unwrap();
    symlink("/etc", sample.path("groups/work")).unwrap();
    fs::remove_dir_all(sample.path("groups/chess_club")).unwrap();
    fs::write(sample.path("groups/chess_club"), "no folder").unwrap();
    let first = imported(&root, &sample, &[]);
    for (inner, why) in [
        ("data/sessions/family/.claude/projects/-workspace-group", "it is a link, or lies behind one"),
        ("groups/work", "it is a link, or lies behind one"),
        ("groups/chess_club", "it is no folder"),
    ] {
        let mut findings = first["findings"]["kept"].as_array().unwrap().iter();
        let told = findings.find(|finding| finding["key"].as_str().unwrap().ends_with(inner));
        assert_eq!(told.map(|told| &told["why"]), Some(&json!(why)), "{inner}: {first}");
    }
    let transcripts = root.data("sessions/family/.claude/projects/-workspace-group");
    assert!(!transcripts.exists() && !root.path().join("groups/work/hostname").exists());

    fs::remove_file(&projects).unwrap();
    fs::create_dir_all(projects.join("-workspace-group")).unwrap();
    fs::write(projects.join("-workspace-group/own.jsonl"), "own\n").unwrap();
    imported(&root, &sample, &[]);
    assert_eq!(read(&transcripts.join("own.jsonl")), "own\n");
}

#[test]
fn a_look_reckons_in_the_zone_that_will_hold_here() {
    for (zone, next) in [(None, "T00:00:00"), (Some("UTC"), "T09:00:00")] {
        let (root, sample) = (Root::new(""), Sample::of("nanoclaw"));
        if let Some(zone) = zone {
            root.g2(&["config", "set", "timezone", zone]);
        }
        fs::write(sample.path(".env"), "TZ=Asia/Tokyo\n").unwrap();
        sample.sql(
            "store/messages.db",
            "UPDATE scheduled_tasks SET schedule_type = 'cron', schedule_value = '0 9 * 7 *', status = 'active', \
             next_run = '2026-05-01T00:00:00.000Z'",
        );
        let look = imported(&root, &sample, &["--dry-run"]);
        let after = look["look"]["tasks"][0]["after"][0].to_string();
        assert!(after.contains(next), "{next}: {look}");
    }
}

#[test]
fn times_that_passed_meanwhile_are_reckoned_in_the_zone_that_comes_along() {
    let (root, sample) = (Root::new(""), Sample::of("nanoclaw"));
    fs::write(sample.path(".env"), "TZ=Asia/Tokyo\n").unwrap();
    sample.sql(
        "store/messages.db",
        "UPDATE scheduled_tasks SET schedule_type = 'cron', schedule_value = '0 9 * * *', status = 'active', \
         next_run = '2026-05-01T00:00:00.000Z'",
    );
    imported(&root, &sample, &[]);
    let next: Vec<String> = state(&root, "task").iter().map(|task| task["next_run"].to_string()).collect();
    // Nine in the morning there.
    assert!(!next.is_empty() && next.iter().all(|next| next.contains("T00:00:00")), "{next:?}");
}

/// The group of a root that is the main one.
fn main_of(root: &Root) -> Vec<String> {
    let groups = root.rows(&["groups", "list"]).into_iter();
    groups.filter(|group| group["is_main"] == true).map(|group| group["folder"].to_string()).collect()
}

#[test]
fn a_plain_group_is_no_main_group_here_whatever_its_folder_is_called() {
    let (root, sample) = (Root::new(""), Sample::of("nanoclaw-v2"));
    sample.sql("data/v2.db", "UPDATE agent_groups SET folder = 'main' WHERE id = 'ag-ops'");
    fs::rename(sample.path("groups/ops"), sample.path("groups/main")).ok();
    imported(&root, &sample, &["--only", "groups,people"]);
    assert_eq!(main_of(&root), Vec::<String>::new(), "it had no rights of that kind there");

    // Where the main group is at work, nothing of a plain one goes to it.
    let busy = Root::new("");
    let daemon = busy.serve();
    busy.ask("local:main", "hello");
    assert_eq!(daemon.terminate(), Some(0));
    let told = imported(&busy, &sample, &["--only", "groups,people"]);
    assert_eq!(main_of(&busy), ["\"main\""]);
    assert!(told["findings"].to_string().contains("what is of a plain group does not go to it"), "{told}");
    let wired = busy.rows(&["wirings", "list"]);
    let of_main: Vec<&Value> = wired.iter().filter(|wiring| wiring["group"] == "main").collect();
    assert!(of_main.iter().all(|wiring| wiring["chat_jid"] == "local:main"), "{of_main:?}");
}

#[test]
fn what_is_closed_here_is_opened_by_no_import() {
    let (root, sample) = (Root::new(""), Sample::of("nanoclaw"));
    let chat = state_of_source(&sample);
    root.g2(&["groups", "add", "guard", "--chat", &chat]);
    root.g2(&["chats", "set", &chat, "policy=strict"]);
    imported(&root, &sample, &["--only", "groups,people"]);
    let kept = root.rows(&["chats", "list"]).into_iter().find(|row| row["jid"] == chat.as_str()).unwrap();
    assert!(kept.to_string().contains("strict"), "{kept}");
}

/// The address of a chat that is registered there.
fn state_of_source(sample: &Sample) -> String {
    let (rows, _) = sample.read();
    let wiring = rows.into_iter().find_map(|keyed| match keyed.row {
        g2::domain::moved::rows::Row::Wiring(wiring) => Some(wiring.chat),
        _ => None,
    });
    wiring.unwrap()
}
