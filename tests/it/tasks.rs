//! Scheduled prompts as people make and see them.

use serde_json::{Value, json};

use crate::support::{Root, wait_for};

#[test]
fn an_id_that_several_groups_have_is_told_apart_by_the_group() {
    let root = Root::new("");
    root.g2(&["init"]);
    root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    for group in ["main", "family"] {
        let schedule = ["--type", "interval", "--value", "3600000", "--id", "t", group];
        let made = root.json(&[&["tasks", "add", "--group", group], &schedule[..]].concat());
        assert_eq!((&made["id"], &made["group"]), (&json!("t"), &json!(group)));
    }
    for command in ["show", "pause", "resume", "cancel", "run", "history"] {
        let refused = root.run(&["tasks", command, "t"]);
        let told = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{command}");
        assert!(told.contains("groups family, main have a task t; say which with --group"), "{told}");
    }
    assert_eq!(root.json(&["tasks", "pause", "t", "--group", "family"])["status"], "paused");
    assert_eq!(root.json(&["tasks", "update", "t", "--group", "family", "--prompt", "new"])["prompt"], "new");
    assert_eq!(root.json(&["tasks", "show", "t", "--group", "main"])["status"], "active");
    root.g2(&["tasks", "cancel", "t", "--group", "main"]);
    assert_eq!(root.json(&["tasks", "show", "t"])["group"], "family");
    assert_eq!(root.run(&["tasks", "show", "t", "--group", "main"]).status.code(), Some(1));
}

#[test]
fn a_schedule_is_said_in_plain_words_and_its_next_three_times_come_before_the_task_is_made() {
    let root = Root::new("");
    root.g2(&["init"]);
    root.g2(&["groups", "set", "main", "timezone=Europe/Paris"]);
    let add = |schedule: &[&str]| {
        let made = root.run(&[&["tasks", "add", "--group", "main"], schedule, &["stretch"]].concat());
        assert!(made.status.success(), "{made:?}");
        String::from_utf8(made.stderr).unwrap()
    };
    let told = add(&["--cron", "0 9 * * 1-5"]);
    assert!(told.starts_with("g2: weekdays at 09:00 Europe/Paris: "), "{told}");
    assert_eq!(told.matches(" 09:00, ").count(), 2, "{told}");
    assert!(add(&["--every", "1d12h"]).starts_with("g2: every 1 day 12 hours: "));
    assert!(add(&["--at", "tomorrow 9:00"]).starts_with("g2: once on "));
    assert!(add(&["--type", "interval", "--value", "900000"]).starts_with("g2: every 15 minutes: "));
    let gap = add(&["--at", "2099-03-29 02:30"]);
    assert_eq!(
        gap,
        "g2: once on 2099-03-29 at 03:30 Europe/Paris: Sun 2099-03-29 03:30 (DST gap: moved from 02:30 to 03:30)\n"
    );
    let rows = root.rows(&["tasks", "list"]);
    let said: Vec<&str> = rows.iter().map(|row| row["schedule"].as_str().unwrap()).collect();
    assert_eq!(said[0], "weekdays at 09:00 Europe/Paris");
    assert_eq!((said[1], said[3]), ("every 1 day 12 hours", "every 15 minutes"));
    assert!(said[2].starts_with("once on ") && said[2].ends_with(" at 09:00 Europe/Paris"), "{said:?}");
    assert_eq!(root.json(&["tasks", "show", "task-1"])["schedule"], said[0]);
    assert!(root.g2(&["tasks", "list"]).contains("weekdays at 09:00 Europe/Paris"));
    for (wrong, code, told) in [
        (&["--every", "soon"][..], 1, "is no duration"),
        (&["--every", "11d9999999999h"], 1, "longer than 10 years"),
        (&["--at", "in a while"], 1, "is no duration"),
        (&["--at", "someday"], 1, "is not a date and time that exists"),
        (&["--every", "2h", "--cron", "0 9 * * *"], 2, "cannot be used with"),
        (&["--type", "cron"], 2, "--value"),
        (&[], 2, "required"),
    ] {
        let refused = root.run(&[&["tasks", "add", "--group", "main"], wrong, &["stretch"]].concat());
        let error = String::from_utf8(refused.stderr).unwrap();
        assert!(refused.status.code() == Some(code) && error.contains(told), "{wrong:?}: {error}");
    }
    assert_eq!(root.rows(&["tasks", "list"]).len(), 5);
}

#[test]
fn intervals_and_dates_are_previewed_as_cron_expressions_are() {
    let root = Root::new("");
    let next = |expression: &str, after: &str, count: &str| {
        let args =
            ["schedule", "next", expression, "--tz", "America/New_York", "--after", after, "--count", count];
        let rows = root.rows(&args);
        let row = |row: &Value| {
            (row["local"].as_str().unwrap().to_owned(), row["note"].as_str().map(str::to_owned))
        };
        rows.iter().map(row).collect::<Vec<_>>()
    };
    let spring = "2026-03-07T12:00:00Z";
    let note = |text: &str| Some(text.to_owned());
    let moved = || note("DST gap: moved from 02:30 to 03:30");
    assert_eq!(next("30 2 * * *", spring, "1"), [("2026-03-08T03:30:00".into(), moved())]);
    assert_eq!(next("2026-03-08 02:30", spring, "3"), [("2026-03-08T03:30:00".into(), moved())]);
    assert_eq!(
        next("1h", "2026-11-01T04:30:00Z", "2"),
        [
            ("2026-11-01T01:30:00".into(), note("DST fold: the first of two 01:30")),
            ("2026-11-01T01:30:00".into(), note("DST fold: the second of two 01:30"))
        ]
    );
    assert_eq!(next("tomorrow 9:00", spring, "5"), [("2026-03-08T09:00:00".into(), None)]);
    assert_eq!(
        next("2020-01-01", spring, "1"),
        [("2020-01-01T00:00:00".into(), note("in the past: a task of it is refused"))]
    );
}

#[test]
fn a_catch_up_window_is_written_as_a_duration() {
    let root = Root::new("");
    let add = ["tasks", "add", "--group", "main", "--every", "2h", "--id", "t", "--catch-up-window"];
    let made = root.json(&[&add[..], &["1d12h", "p"]].concat());
    assert_eq!(made["catch_up_window_ms"], 129_600_000);
    for (text, ms) in [("7d", 604_800_000), ("12h", 43_200_000), ("60000", 60_000)] {
        let changed = root.json(&["tasks", "update", "t", "--catch-up-window", text]);
        assert_eq!(changed["catch_up_window_ms"], ms);
    }
    for (wrong, code) in [("soon", 2), ("7 days", 2), ("1s", 1), ("20s", 1), ("600w", 2)] {
        let output = root.run(&["tasks", "update", "t", "--catch-up-window", wrong]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(code) && told.contains("window"), "{wrong}: {output:?}");
    }
}

#[test]
fn the_calendar_shows_what_runs_when_and_what_meets() {
    let root = Root::new("");
    root.g2(&["init"]);
    root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    for (group, id, schedule) in [
        ("main", "a", "0 9 * * *"),
        ("main", "b", "0 9,21 * * *"),
        ("family", "c", "0 9 * * *"),
        ("main", "often", "*/5 * * * *"),
        ("main", "rests", "0 9 * * *"),
    ] {
        root.g2(&["tasks", "add", "--group", group, "--id", id, "--cron", schedule, "stretch"]);
    }
    root.g2(&["tasks", "pause", "rests"]);
    let rows = root.rows(&["tasks", "calendar", "--days", "2"]);
    let of = |id: &str| rows.iter().filter(|row| row["task"] == id).collect::<Vec<_>>();
    assert_eq!(
        [of("a").len(), of("b").len(), of("c").len(), of("often").len(), of("rests").len()],
        [2, 4, 2, 1, 0]
    );
    assert!(rows.is_sorted_by_key(|row| row["utc"].as_str().unwrap()));
    for row in of("a") {
        assert!(row["local"].as_str().unwrap().ends_with(" 09:00"));
        assert_eq!((&row["overlaps"], &row["schedule"]), (&json!(["b"]), &json!("every day at 09:00 UTC")));
    }
    assert_eq!(of("b").iter().filter(|row| row["overlaps"] == json!(["a"])).count(), 2);
    assert_eq!((&of("c")[0]["overlaps"], &of("often")[0]["note"]), (&json!([]), &json!("and so on")));
    assert_eq!(root.rows(&["tasks", "calendar", "--group", "family"]).len(), 7);
    wait_for("two calendars between which nothing was due", || {
        let rows = root.rows(&["tasks", "calendar"]);
        (root.rows(&["tasks", "calendar", "--limit", "3"]) == rows[..3]).then_some(())
    });
    assert_eq!(root.run(&["tasks", "calendar", "--group", "none"]).status.code(), Some(1));
}
