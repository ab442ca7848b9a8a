//! The page and the command line tell one story.

use serde_json::json;

use super::Paged;
use crate::support::wait_for;

#[test]
fn the_page_says_why_a_message_waits_as_the_command_line_does() {
    let paged = Paged::new("");
    let root = &paged.root;
    root.script(None, &json!([{"do": [{"heartbeat": true}, {"hang": true}]}]));
    root.g2(&["wirings", "add", "--group", "main", "--chat", "local:other"]);
    let _daemon = paged.serve();
    root.send("local:main", "one");
    wait_for("the run", || (root.json(&["status"])["running"] == 1).then_some(()));
    let seq = root.send("local:other", "two");
    root.judged(seq);
    let (cookie, _) = paged.enter();
    let same = |part: &str| {
        let answer = root.why(seq)["answer"].as_str().unwrap().to_owned();
        assert!(answer.contains(part), "{answer}");
        let page = paged.get(&format!("/why/{seq}"), &[("Cookie", &cookie)]).text();
        assert!(page.contains(part), "{page}");
    };
    same("other work");
    // The group is set aside, and the daemon that launched its run is gone.
    root.change_store("UPDATE runs SET owner = 'gone 0 0 0' WHERE status = 'running'");
    root.change_store("INSERT INTO holds (group_folder, reason, at, aside) VALUES ('main', 'it died', 1, 1)");
    same("its group to be released, which is set aside: `g2 ipc release main`");
}
