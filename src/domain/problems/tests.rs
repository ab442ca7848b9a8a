use ipc_handlers::Folder;

use super::{causes::in_order, *};
use crate::runs::hindrance::Hindrance;
use crate::shown::screen::acts;
use Problem::{
    Disk, Engine, FolderLost, GroupFolder, GroupSettings, Held, Inodes, NoImage, NoKey, NoModelKey, Rests,
    RunsFail, StoreWaits, Unreadable, Zone,
};

fn held(count: usize) -> Problem {
    let (chat, group, reason) = ("local:a".into(), "main".into(), "too much work".into());
    Held { count, seq: 3, chat, group, reason }
}

fn zone() -> Problem {
    Zone { name: "Mars/Base".into(), meant: None, used: "UTC".into() }
}

fn disk(stopped: Vec<Folder>) -> Problem {
    Disk { path: "/r".into(), free: 1, wanted: 2, stopped }
}

/// The new and the gone problems.
fn changes(known: &[Problem], found: Vec<Problem>) -> (Vec<Finding>, Vec<Finding>) {
    let Compared { new, gone, .. } = compare(known, found);
    (new, gone)
}

#[test]
fn a_problem_is_told_when_it_appears_and_when_it_is_gone_and_not_when_it_only_grows() {
    for (known, found, new, gone) in [
        (vec![], vec![held(1)], vec![held(1)], vec![]),
        (vec![held(1)], vec![held(2)], vec![], vec![]),
        (vec![held(1), zone()], vec![zone()], vec![], vec![held(1)]),
        (vec![held(1)], vec![zone()], vec![zone()], vec![held(1)]),
    ] {
        assert_eq!(changes(&known, found), (in_order(&new), in_order(&gone)));
    }
}

#[test]
fn a_refusal_of_the_models_host_explains_what_fails_and_rests_and_names_its_groups() {
    let refused = |what| Problem::Refused {
        what,
        why: "https://h does not take the key (401)".into(),
        since: Time(0),
        until: None,
        groups: vec![main()],
    };
    let found = vec![RunsFail(failing(None, 5, 0)), refused(Hindrance::Key)];
    let told = sort_out(found);
    assert_eq!(told.iter().map(|one| one.code.as_str()).collect::<Vec<_>>(), ["model_refuses"]);
    assert!(
        told[0].text.contains("does not take the key (401); since 1970") && told[0].text.contains("main")
    );
    assert!(told[0].fix.contains(".env") && told[0].fix.contains("gateway.token_file"));
    let no_key = NoModelKey { why: "none".into(), remedy: "put one", groups: vec![main()] };
    assert_eq!(sort_out(vec![refused(Hindrance::NoKey), no_key.clone()]), [no_key.finding()]);
}

#[test]
fn the_reason_of_a_pause_is_a_sentence() {
    for (why, text) in [
        ("failed 8 times in a row", "is paused: it failed 8 times in a row"),
        ("its schedule can't be read", "is paused: its schedule can't be read"),
    ] {
        let halted = TaskTrouble { group: main(), task: "t".into(), then: Halted::Paused(why.into()) };
        assert!(Problem::TaskHalted(halted).finding().text.ends_with(text));
    }
}

#[test]
fn what_is_hidden_or_not_looked_at_is_not_gone_and_stays_in_the_list() {
    let image = || NoImage { image: "i".into(), groups: vec![main()] };
    let engine = || Engine { why: "x".into() };
    let fails = || RunsFail(failing(None, 5, 0));
    let inodes = || Inodes { path: "/r".into(), free: 1, all: 2 };
    let broken = || Unreadable { what: "the ledger", why: "x".into() };
    for (known, found, cause) in [
        // Nothing of it was mended by a low disk, nor by an engine that went away later.
        (fails(), vec![disk(vec![]), fails()], disk(vec![])),
        (fails(), vec![disk(vec![main()]), fails()], disk(vec![main()])),
        (fails(), vec![engine(), fails()], engine()),
        // These are not looked at meanwhile.
        (image(), vec![engine()], engine()),
        (inodes(), vec![disk(vec![])], disk(vec![])),
        (fails(), vec![broken()], broken()),
    ] {
        let later = compare(std::slice::from_ref(&known), found);
        assert_eq!((&later.new, &later.gone), (&vec![cause.finding()], &vec![]), "{known:?}");
        assert!(later.now.contains(&known.finding()), "{known:?}");
        // Once the cause is mended, it is either still there or gone.
        let still = compare(&later.known, vec![known.clone()]);
        assert_eq!((still.new, still.gone), (vec![], vec![cause.finding()]));
        assert_eq!(compare(&later.known, vec![]).gone.len(), 2);
    }
    // What comes after its cause is still left out.
    let later = compare(&[engine()], vec![engine(), image(), fails()]);
    assert_eq!((later.now.len(), later.new.len()), (1, 0));
}

fn main() -> Folder {
    Folder::parse("main").unwrap()
}

fn failing(task: Option<&str>, times: i64, at: i64) -> Failing {
    let (task, error) = (task.map(str::to_owned), Some("exited with code 3".into()));
    Failing { group: main(), task, times, run: 9, at: Time(at), error }
}

#[test]
fn what_fails_each_time_is_told_and_what_failed_once_or_long_ago_is_not() {
    let now = Time(10 * DAY_MS);
    for (one, told) in [
        (failing(None, EACH_TIME, now.0), true),
        (failing(None, EACH_TIME - 1, now.0), false),
        (failing(None, EACH_TIME, now.0 - DAY_MS), false),
        // One that is due once a week fails on all other days too.
        (failing(Some("t"), EACH_TIME, now.0 - 6 * DAY_MS), true),
        (failing(Some("t"), EACH_TIME - 1, now.0), false),
    ] {
        let ledger = Ledger { failing: vec![one.clone()], ..Ledger::default() };
        assert_eq!(of_ledger(ledger, now) == [RunsFail(one.clone())], told, "{one:?}");
    }
}

#[test]
fn a_platform_that_refuses_is_told_at_once_and_one_out_of_reach_after_a_minute() {
    let since = Time(DAY_MS);
    for (state, after_ms, told) in [
        (Connection::Connected, DAY_MS, None),
        (Connection::Offline, OUT_OF_REACH_MS - 1, None),
        (Connection::Offline, OUT_OF_REACH_MS, Some((Severity::Warn, "tg has been out of reach since"))),
        (Connection::Connecting, OUT_OF_REACH_MS, Some((Severity::Warn, "it did not say why"))),
        (Connection::Refused, 0, Some((Severity::Fail, "tg has refused the connection since"))),
    ] {
        let one = ChannelState {
            channel: "tg".into(),
            state,
            inbound: Lamp::Unknown,
            outbound: Lamp::Unknown,
            why: None,
            hint: None,
            since,
            last_in: None,
            last_out: None,
            starts: 0,
            wanted: 0,
            unknown_kinds: 0,
            passed_over: 2,
            passed_over_at: Some(since.plus_ms(after_ms - DAY_MS)),
            hears_all: None,
        };
        let found = of_channels(vec![one], since.plus_ms(after_ms));
        let shown = found.first().map(|problem| problem.finding());
        assert_eq!(shown.is_some(), told.is_some(), "{state}");
        if let (Some(shown), Some((severity, words))) = (shown, told) {
            assert_eq!((shown.severity, shown.about.as_str()), (severity, "tg"));
            assert!(shown.text.contains(words), "{}", shown.text);
        }
    }
}

#[test]
fn a_cause_is_named_once_and_what_follows_from_it_is_not() {
    let now = Time(DAY_MS);
    let resting = || Resting { group: main(), chat: "local:main".into(), thread: String::new(), until: now };
    let follows = || {
        let failing = vec![failing(None, 5, now.0), failing(Some("t"), 5, now.0)];
        of_ledger(Ledger { failing, resting: vec![resting()], ..Ledger::default() }, now)
    };
    let groups = || vec![main()];
    let other = || vec![Folder::parse("other").unwrap()];
    let (why, path) = (String::from("x"), String::from("/r"));
    let image = |groups| NoImage { image: "i".into(), groups };
    for (cause, codes) in [
        (vec![], &["runs_fail"][..]),
        // A disk that is low has nothing launched: what failed, failed for another reason, unless it was stopped.
        (vec![disk(vec![])], &["disk", "runs_fail"]),
        (vec![disk(groups())], &["disk"]),
        (vec![Engine { why: why.clone() }, image(groups())], &["docker"]),
        (vec![image(groups())], &["image"]),
        (vec![image(other())], &["image", "runs_fail"]),
        (vec![NoModelKey { why: why.clone(), remedy: "y", groups: groups() }], &["model_key"]),
        (vec![NoKey { path: path.clone(), why: None, groups: groups() }], &["key"]),
        (vec![GroupSettings { group: main(), why: why.clone() }], &["group_settings"]),
        (vec![GroupFolder { group: main(), path: path.clone() }], &["group_folder"]),
        (vec![FolderLost { group: main(), path: path.clone() }], &["group_folder"]),
    ] {
        let found = sort_out([cause, follows()].concat());
        assert_eq!(found.iter().map(|f| f.code.as_str()).collect::<Vec<_>>(), codes, "{found:#?}");
    }
    // A disk without room is one problem; the lock that another program holds is another one.
    let waits = |by| StoreWaits(writing::HeldUp { since: now, by });
    for (by, codes) in
        [(writing::Obstacle::NoRoom, &["disk"][..]), (writing::Obstacle::Lock, &["disk", "store_writer"])]
    {
        let found = sort_out(vec![disk(vec![]), waits(by)]);
        assert_eq!(found.iter().map(|f| f.code.as_str()).collect::<Vec<_>>(), codes, "{found:#?}");
    }
    // A task's failures are its own.
    let found = sort_out(vec![Rests(resting()), RunsFail(failing(Some("t"), 5, now.0))]);
    assert_eq!(found.len(), 2, "{found:#?}");
    let paused = TaskTrouble {
        group: main(),
        task: "t".into(),
        then: Halted::Paused("failed 8 times in a row, the last time: \u{1b}[31mx".into()),
    };
    let tasks = vec![paused.clone(), TaskTrouble { then: Halted::Rests(now), ..paused }];
    let found = sort_out(of_ledger(Ledger { tasks, ..Ledger::default() }, now));
    assert_eq!(found.iter().map(|f| f.code.as_str()).collect::<Vec<_>>(), ["task_paused", "task_rests"]);
    assert!(
        found[0].text.ends_with("is paused: it failed 8 times in a row, the last time:  [31mx"),
        "{found:?}"
    );
}

#[test]
fn the_worst_stands_first_each_once_and_nothing_foreign_acts_or_is_long() {
    let twice = || Zone { name: "a\u{1b}[31m\nb".into(), meant: None, used: "UTC".into() };
    let why = "x".repeat(10_000);
    let found = sort_out(vec![twice(), twice(), Engine { why }]);
    assert_eq!(found.iter().map(|f| f.code.as_str()).collect::<Vec<_>>(), ["docker", "time_zone"]);
    assert!(found[0].text.chars().count() < 400);
    assert!(found.iter().all(|f| !format!("{}{}{}", f.about, f.text, f.fix).chars().any(acts)));
}

#[test]
fn a_problem_that_only_a_newer_daemon_knows_is_told_all_the_same() {
    let newer = r#"{"code":"moon","about":"","severity":"fail","text":"it is full","fix":"wait"}"#;
    let found: Finding = serde_json::from_str(newer).unwrap();
    assert_eq!((found.code, &*found.text, &*found.fix), (Check::Other, "it is full", "wait"));
}

#[test]
fn an_event_that_was_passed_over_is_told_of_for_a_day() {
    let state = |at: i64| ChannelState {
        channel: "tg".into(),
        state: Connection::Connected,
        inbound: Lamp::Ok,
        outbound: Lamp::Ok,
        why: None,
        hint: None,
        since: Time(0),
        last_in: None,
        last_out: None,
        starts: 1,
        wanted: 0,
        unknown_kinds: 0,
        passed_over: 2,
        passed_over_at: Some(Time(at)),
        hears_all: None,
    };
    let found = of_channels(vec![state(1)], Time(DAY_MS));
    assert_eq!(found, [Problem::PassedOver { channel: "tg".into(), count: 2 }]);
    assert!(found[0].finding().fix.contains("g2 channels log tg"));
    assert_eq!(of_channels(vec![state(0)], Time(DAY_MS)), []);
}

#[test]
fn what_has_a_problem_or_could_not_be_looked_at_is_not_called_right() {
    let checks = |found: &[Finding]| right(found).into_iter().map(|one| one.code).collect::<Vec<_>>();
    let channel = Problem::ManyChats { channel: "tg".into() };
    for (problem, hides) in [
        (channel, &[Check::ManyChats][..]),
        (Engine { why: "x".into() }, &[Check::Docker, Check::Image]),
        (disk(vec![]), &[Check::Disk, Check::Inodes, Check::SearchIndex]),
    ] {
        let left = checks(&[problem.finding()]);
        let missing: Vec<_> = checks(&[]).into_iter().filter(|check| !left.contains(check)).collect();
        assert_eq!(missing, hides, "{problem:?}");
    }
    assert!(!checks(&[Problem::StoreClosed { why: "x".into() }.finding()]).contains(&Check::RunsFail));
}

#[test]
fn what_a_platform_keeps_from_a_bot_is_said_with_both_ways_out() {
    let group = Folder::parse("family").unwrap();
    let found = Problem::TooLittleTold { channel: "telegram".into(), group, chat: "tg:-5".into() }.finding();
    assert_eq!(
        (found.code, &found.about[..], found.severity),
        (Check::Privacy, "family in tg:-5", Severity::Warn)
    );
    assert!(
        ["/setprivacy", "g2 channels restart telegram", "admin"].iter().all(|way| found.fix.contains(way))
    );
}
