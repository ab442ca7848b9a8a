//! An owner is told of problems on their phone, and by other ways where no account works.

use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::gateway::host::{Host, response};

/// Has the daemon look for problems soon.
fn looks(home: &Home) {
    home.root.ask("local:main", "hello");
}

#[test]
fn a_problem_is_told_once_in_the_owner_s_own_chat_and_a_restart_does_not_tell_it_again() {
    let town = Town::telegram(0);
    let home = Home::engaged(&town, "", "mention");
    home.root.g2(&["users", "add", &town.ada(), "--dm", &town.ada()]);
    home.root.g2(&["users", "role", &town.ada(), "owner"]);
    let env = home.root.path().join(".env");
    std::fs::write(&env, "TZ=UTC\n").unwrap();
    let daemon = home.serve(&town);
    // The start closes what is open.
    std::fs::set_permissions(&env, std::fs::Permissions::from_mode(0o644)).unwrap();
    looks(&home);
    let told = wait_for("the problem", || town.texts().into_iter().next());
    assert!(told.starts_with("Warning: ") && told.contains(".env") && told.contains(" Fix: "), "{told}");
    assert!(!told.contains('`') && told.lines().count() == 1, "{told}");
    let Town::Telegram(fake) = &town else { panic!() };
    assert_eq!(fake.said()[0]["chat"]["id"], telegram::ADA);
    let row = home.root.rows(&["notices", "list"]).into_iter().find(|row| row["check"] == "secrets").unwrap();
    assert_eq!(row["state"], "told");
    assert_eq!(daemon.terminate(), Some(0));
    let _daemon = home.serve(&town);
    std::fs::set_permissions(&env, std::fs::Permissions::from_mode(0o644)).unwrap();
    looks(&home);
    // A trial goes the same way, behind whatever would have been told.
    let tried = home.root.json(&["notices", "try"]);
    assert_eq!(tried["to"], town.ada());
    town.until_said(&[&told, "This is a trial: I tell you here of problems."]);
    // A problem that its owner knows of counts no more, until that is taken back. Its check alone names it.
    for (more, count) in [(&[][..], 0), (&["--undo"][..], 1)] {
        let acked = home.root.run(&[&["status", "ack", "secrets"], more].concat());
        assert!(acked.status.success(), "{acked:?}");
        let status = home.root.json(&["status"]);
        let noted = status["findings"][0]["noted"] == true;
        assert_eq!(
            (status["problems"].as_array().map(Vec::len), noted),
            (Some(count), count == 0),
            "{status}"
        );
    }
    let unknown = home.root.run(&["status", "ack", "backup"]);
    let why = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(!unknown.status.success() && why.contains("there are: secrets/"), "{why}");
}

#[test]
fn where_no_account_works_a_program_and_an_address_get_the_text() {
    let town = Town::telegram(0);
    let host = Host::always(response("200 OK", "", "{}"));
    let out = tempfile::tempdir().unwrap();
    let more = format!(
        "[notify]\ncommand = [\"/bin/sh\", \"-c\", \"cat >>$0\", {:?}]\nwebhook = \"{}/hook?key=1\"\n",
        out.path().join("told").display().to_string(),
        host.url()
    );
    let home = Home::engaged(&town, &more, "mention");
    home.root.g2(&["users", "add", &town.ada(), "--dm", &town.ada()]);
    home.root.g2(&["users", "role", &town.ada(), "owner"]);
    home.keep(&town, "424242:another");
    let _daemon = home.root.serve();
    home.until("telegram", |row| row["connection"] == "refused");
    looks(&home);
    let text = wait_for("the program", || {
        std::fs::read_to_string(out.path().join("told")).ok().filter(|text| text.contains("Fix: "))
    });
    assert!(text.contains("telegram"), "{text}");
    let seen = wait_for("the post", || host.seen().into_iter().next());
    assert!(seen.head.starts_with("post /hook?key=1 "), "{}", seen.head);
    let body: Value = serde_json::from_slice(&seen.body).unwrap();
    assert_eq!(body["text"], text);
    wait_for("both to be done", || home.column("SELECT text FROM pushes").is_empty().then_some(()));
    assert_eq!(town.texts(), Vec::<String>::new());
    let shown = String::from_utf8(home.root.run(&["config", "show"]).stdout).unwrap();
    assert!(!shown.contains("hook?key"), "{shown}");
}
