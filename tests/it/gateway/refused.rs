//! A model's host that refuses: it is told, costs nothing, and work goes on by itself.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests play the user")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    fs,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use serde_json::json;

use super::{
    super::support::{Root, wait_for},
    host::{Host, message, response},
    scene::{Scene, ask},
};

const BAD: &str = "sk-ant-api03-the-bad-one";
const GOOD: &str = "sk-ant-api03-the-good-one";

/// An error of the Messages API.
fn error(status: &str, kind: &str, message: &str) -> String {
    let body = json!({"type": "error", "error": {"type": kind, "message": message}});
    response(status, "content-type: application/json\r\n", &body.to_string())
}

/// A host that takes the good key only.
fn host() -> Host {
    Host::start(|seen, out| {
        let answer = match seen.header("x-api-key") {
            Some(GOOD) => message("m", 1, 2),
            _ => error("401 Unauthorized", "authentication_error", "invalid\u{1b} x-api-key"),
        };
        out.write_all(answer.as_bytes()).is_ok()
    })
}

/// A root whose agents ask the model; what rests rests for `rest_ms` first. `None`: there is no python3.
fn root(host: &Host, rest_ms: u32) -> Option<Root> {
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("skipped: no python3");
        return None;
    }
    let runner = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/asking_runner.py");
    Some(Root::new(&format!(
        "[sandbox]\nkind = \"process\"\nallow_unsandboxed = true\n[agent]\nprovider = \"claude\"\ncommand = [\"python3\", \"{runner}\"]\n\
         [limits]\nretry_base_ms = {rest_ms}\npoll_interval_ms = 100\nmin_free_mib = 1\n[gateway]\nupstream = \"{}\"\n",
        host.url()
    )))
}

fn key(root: &Root, key: &str) {
    fs::write(root.path().join(".env"), format!("ANTHROPIC_API_KEY={key}\n")).unwrap();
}

/// The problems of `status` that say this.
fn problems(root: &Root, says: &str) -> Vec<String> {
    let status = root.json(&["status"]);
    let texts = status["problems"].as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned());
    texts.filter(|text| text.contains(says)).collect()
}

/// A problem that is the host's, by what it says of those that wait.
const REFUSES: &str = "the messages and tasks of ";

fn is_told(root: &Root) -> Vec<String> {
    wait_for("the refusal to be a problem", || {
        Some(problems(root, REFUSES)).filter(|found| !found.is_empty())
    })
}

#[test]
fn a_limit_of_the_model_is_told_with_its_end_costs_no_try_and_another_key_ends_it() {
    let host = Host::start(|seen, out| {
        let answer = match seen.header("x-api-key") {
            Some(GOOD) => message("m", 1, 2),
            _ => {
                let body =
                    json!({"type": "error", "error": {"type": "rate_limit_error", "message": "used up"}});
                let headers = "content-type: application/json\r\nretry-after: 7200\r\n";
                response("429 Too Many Requests", headers, &body.to_string())
            }
        };
        out.write_all(answer.as_bytes()).is_ok()
    });
    let Some(root) = root(&host, 5_000) else { return };
    key(&root, BAD);
    let _daemon = root.serve();
    let seq = root.send("local:main", "hello");
    let told = is_told(&root);
    for part in [
        "says that the limit of the key is reached (429: rate_limit_error: used up)",
        "until ",
        "of main wait",
    ] {
        assert!(told[0].contains(part), "{part}: {told:?}");
    }
    let said =
        wait_for("the chat to be told", || Some(root.said("local:main")).filter(|said| !said.is_empty()));
    assert!(
        said.len() == 1 && said[0].contains("the limit of my model is reached. I keep your message"),
        "{said:?}"
    );
    let wiring = &root.why(seq)["wirings"][0];
    assert_eq!((&wiring["tries"], &wiring["batch_state"]), (&json!(0), &json!("returned")));
    assert!(
        wiring["waited_for"].as_str().unwrap().contains("the end of a limit of the model, at "),
        "{wiring}"
    );
    assert_eq!(root.rows(&["runs", "list"]).len(), 1);
    key(&root, GOOD);
    wait_for("the message to be answered", || {
        (root.said("local:main").last()? == "answered to 1").then_some(())
    });
}

const TOLD: &str = "I can't answer now because the host of my model does not take my key. I keep your message, and answer it by myself when \
                    that is put right.";

#[test]
fn a_refused_key_is_told_with_the_first_run_costs_no_try_and_work_goes_on_when_the_key_changes() {
    let host = host();
    // Nothing goes on because a rest is over.
    let Some(root) = root(&host, 600_000) else { return };
    key(&root, BAD);
    root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    let _daemon = root.serve();
    let seq = root.send("local:main", "hello");
    let told = is_told(&root);
    assert_eq!(told.len(), 1, "{told:?}");
    for part in [host.url().as_str(), "401", "authentication_error: invalid", "x-api-key", "of main wait"] {
        assert!(told[0].contains(part), "{part}: {told:?}");
    }
    assert_eq!(root.rows(&["runs", "list"]).len(), 1);
    wait_for("the chat to be told", || (root.said("local:main") == [TOLD]).then_some(()));
    let why = root.why(seq);
    let wiring = &why["wirings"][0];
    let waits = wiring["waited_for"].as_str().unwrap();
    assert!(waits.contains("does not take the key") && waits.contains("until this is put right"), "{why}");
    assert_eq!((&wiring["tries"], &wiring["batch_state"]), (&json!(0), &json!("returned")));
    let doctor = String::from_utf8(root.run(&["doctor"]).stdout).unwrap();
    for part in ["does not take the key", "put a key that works into .env"] {
        assert!(doctor.contains(part) && !doctor.contains(BAD), "{doctor}");
    }
    assert!(!doctor.contains('\u{1b}') && !root.log().contains(BAD));

    // Another message of the owner has it tried again, and another group has the same problem.
    root.send("local:main", "still there?");
    root.send("local:family", "hello");
    root.g2(&[
        "tasks",
        "add",
        "--group",
        "family",
        "--id",
        "t",
        "--type",
        "once",
        "--value",
        &crate::support::due(),
        "p",
    ]);
    let both = wait_for("the other group to be refused, too", || {
        let found = problems(&root, REFUSES);
        found[0].contains("family, main").then_some(found)
    });
    assert_eq!(both.len(), 1, "{both:?}");
    wait_for("the other chat to be told", || (root.said("local:family") == [TOLD]).then_some(()));
    wait_for("the task to be put off", || {
        root.json(&["tasks", "show", "t"])["last_result"]
            .as_str()?
            .contains("does not take the key")
            .then_some(())
    });
    assert_eq!(root.json(&["tasks", "show", "t"])["status"], "active");
    assert_eq!(root.said("local:main"), [TOLD], "told once");

    key(&root, GOOD);
    wait_for("the messages to be answered", || {
        let answered = [TOLD, "answered to 1", "answered to 1"];
        (root.said("local:main") == answered && root.said("local:family") == answered[..2]).then_some(())
    });
    wait_for("the task to be done", || {
        (root.json(&["tasks", "show", "t"])["status"] == "completed").then_some(())
    });
    wait_for("the problem to be gone", || problems(&root, REFUSES).is_empty().then_some(()));
    assert!(root.rows(&["runs", "list"]).iter().all(|run| run["status"] != "cancelled"));
}

#[test]
fn what_waits_for_a_key_goes_on_after_a_restart_and_a_key_that_was_missing_is_waited_for() {
    let host = host();
    let Some(root) = root(&host, 600_000) else { return };
    let daemon = root.serve();
    root.send("local:main", "hello");
    wait_for("the chat to be told", || {
        root.said("local:main").iter().any(|said| said.contains("I have no key for my model")).then_some(())
    });
    assert_eq!(problems(&root, "no key is set").len(), 1, "one cause is one problem");
    assert!(host.seen().is_empty());
    key(&root, BAD);
    // The new key is tried at once.
    wait_for("the new key to be refused", || problems(&root, "(401").first().map(drop));
    daemon.kill();
    key(&root, GOOD);
    let _daemon = root.serve();
    wait_for("the answer", || (root.said("local:main").last()? == "answered to 1").then_some(()));
}

#[test]
fn a_host_that_refuses_for_a_while_is_asked_again_by_itself_and_no_try_is_spent() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    // More often than a message is tried.
    let host = Host::start(move |_, out| {
        let answer = match count.fetch_add(1, Ordering::Relaxed) {
            0..9 => error("403 Forbidden", "permission_error", "not from there"),
            _ => message("m", 1, 2),
        };
        out.write_all(answer.as_bytes()).is_ok()
    });
    let Some(root) = root(&host, 5) else { return };
    key(&root, GOOD);
    let _daemon = root.serve();
    root.send("local:main", "hello");
    let said = wait_for("the answer", || Some(root.said("local:main")).filter(|said| said.len() == 2));
    assert!(said[0].contains("the host of my model does not let me ask it"), "{said:?}");
    assert_eq!(said[1], "answered to 1");
    assert_eq!(root.rows(&["runs", "list"]).len(), 10);
    wait_for("the problem to be gone", || problems(&root, REFUSES).is_empty().then_some(()));
}

#[test]
fn a_refusal_is_known_from_the_head_of_an_answer_and_over_with_the_next_one() {
    let good = Arc::new(AtomicUsize::new(0));
    let is_good = Arc::clone(&good);
    let host = Host::start(move |_, out| {
        let answer = match is_good.load(Ordering::Relaxed) {
            0 => error("400 Bad Request", "invalid_request_error", "Your credit balance is too low"),
            1 => message("m", 1, 2),
            2 => error("403 Forbidden", "permission_error", "no access to this model"),
            // It packs even this.
            _ => response("401 Unauthorized", "content-encoding: gzip\r\n", "x"),
        };
        out.write_all(answer.as_bytes()).is_ok()
    });
    let scene = Scene::new(&host);
    let socket = scene.open(1);
    let why = || scene.gateway.refused(1).map(|refused| refused.why);
    assert_eq!((why(), scene.gateway.another_key().is_some()), (None, false));
    assert_eq!(ask(&socket, "{}").status, 400);
    let said = wait_for("the whole answer", why);
    assert!(said.contains("has no credit (400: invalid_request_error: Your credit balance"), "{said}");
    assert!(scene.gateway.refused_for_good(1).is_none(), "an agent may have other things to do");
    fs::write(scene.path().join(".env"), format!("ANTHROPIC_API_KEY={GOOD}\n")).unwrap();
    assert!(scene.gateway.another_key().is_some());
    good.store(1, Ordering::Relaxed);
    assert_eq!((ask(&socket, "{}").status, why()), (200, None));
    // What it may not do beside what it may do is its own business; a key that is refused is not.
    good.store(2, Ordering::Relaxed);
    assert_eq!((ask(&socket, "{}").status, why()), (403, None));
    good.store(3, Ordering::Relaxed);
    assert_eq!(ask(&socket, "{}").status, 502);
    assert!(why().unwrap().contains("does not take the key (401)"));
    assert!(scene.gateway.another_key().is_none());
}
