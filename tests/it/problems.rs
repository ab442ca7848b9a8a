//! The one list of what a person has to mend: `status`, `doctor` and the log say the same, with the daemon up or down.
#![expect(clippy::disallowed_methods, reason = "tests play the user")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use serde_json::Value;

use crate::support::{Root, wait_for};

/// The codes of what `status` finds, worst first, and its exit code.
fn found(root: &Root) -> (Vec<String>, Option<i32>) {
    let status = root.json(&["status"]);
    let findings = status["findings"].as_array().unwrap_or_else(|| panic!("{status}"));
    let texts: Vec<&Value> = findings.iter().map(|finding| &finding["text"]).collect();
    let problems = status["problems"].as_array().unwrap();
    assert!(problems.iter().collect::<Vec<_>>().ends_with(&texts), "{status}");
    for finding in findings {
        assert!(
            ["code", "about", "severity", "text", "fix"].iter().all(|f| finding[f].is_string()),
            "{finding}"
        );
    }
    let codes = findings.iter().map(|finding| finding["code"].as_str().unwrap().to_owned()).collect();
    (codes, root.run(&["status"]).status.code())
}

/// The rows of `doctor` that are not well, as check and detail.
fn unwell(root: &Root) -> Vec<(String, String)> {
    let rows = root.rows(&["doctor"]);
    let bad = rows.iter().filter(|row| row["status"] != "ok");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    // The machine's file system and the boundary that the suite goes without are nobody's fault.
    let machine = ["file_system", "file_handles", "inodes", "sandbox"];
    bad.map(|row| (text(&row["check"]), text(&row["detail"])))
        .filter(|(check, _)| !machine.contains(&check.as_str()))
        .collect()
}

#[test]
fn a_problem_is_told_by_status_doctor_and_once_by_the_log_until_it_is_mended() {
    let root = Root::new("");
    let codes = |all: &[&str]| all.iter().map(|code| (*code).to_owned()).collect::<Vec<_>>();
    let twin = ["wirings", "set", "--group", "twin", "--chat", "local:main"];
    root.g2(&["groups", "add", "twin", "--chat", "local:main"]);
    assert_eq!(found(&root), (codes(&["answers_twice"]), Some(3)), "with the daemon down");
    assert_eq!(unwell(&root).len(), 1, "{:?}", unwell(&root));
    let _daemon = root.serve();
    for _ in 0..3 {
        assert_eq!(found(&root), (codes(&["answers_twice"]), Some(1)));
    }
    assert_eq!(unwell(&root).len(), 1, "{:?}", unwell(&root));
    let people = String::from_utf8(root.run(&["status"]).stdout).unwrap();
    assert!(people.contains("mend: `g2 wirings set --group twin"), "{people}");
    let appeared = |log: &str| log.matches("a problem: main and twin engage").count();
    assert_eq!(appeared(&root.log()), 1, "{}", root.log());
    root.g2(&[&twin[..], &["engage=mention"]].concat());
    assert_eq!(found(&root), (codes(&[]), Some(0)));
    assert!(root.log().contains("a problem is gone: main and twin engage"), "{}", root.log());
    root.g2(&[&twin[..], &["engage=pattern", "pattern=."]].concat());
    assert_eq!(found(&root).1, Some(1));
    assert_eq!(appeared(&root.log()), 2);
}

#[test]
fn what_doctor_would_call_a_failure_is_in_the_log_from_the_start() {
    let root = Root::new("[limits]\nmin_free_mib = 4000000000\n[agent]\nscript = \"none.json\"\n");
    let _daemon = root.serve();
    for (code, says) in [("disk", "so no agent is launched"), ("script", "none.json")] {
        let told = |line: &str| line.contains("WARN") && line.contains("a problem: ") && line.contains(says);
        wait_for(code, || root.log().lines().any(told).then_some(()));
    }
    let (codes, exit) = found(&root);
    assert_eq!((codes, exit), (vec!["disk".to_owned(), "script".to_owned()], Some(1)));
    let rows = unwell(&root);
    assert_eq!(
        rows.iter().map(|(check, _)| check.as_str()).collect::<Vec<_>>(),
        ["disk", "script"],
        "{rows:?}"
    );
    std::fs::write(root.path().join("none.json"), "[]").unwrap();
    assert_eq!(found(&root).0, ["disk"]);
}
