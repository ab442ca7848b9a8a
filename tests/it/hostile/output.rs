//! What a container writes on its stdout and stderr, however it is meant.

use serde_json::json;

use super::scene::ask;
use crate::support::{Root, wait_for};

/// A root with a hostile group and its neighbour.
fn two_groups(toml: &str) -> Root {
    let root = Root::new(toml);
    for group in ["evil", "good"] {
        root.g2(&["groups", "add", group, "--chat", &format!("local:{group}")]);
    }
    root
}

#[test]
fn what_a_record_forges_is_one_line_of_the_log_in_which_nothing_acts() {
    let root = two_groups("");
    let forged = "\u{1b}[2J\u{1b}]0;t\u{7}\u{9b}31m\u{202e}X\r\n2026-11-22T00:00:00Z ERROR forged";
    let record = json!({"status": forged}).to_string();
    let garbage = format!("---G2_OUTPUT_START---\n{record}\n---G2_OUTPUT_END---\n");
    let rules = json!([{"when": {}, "do": [{"print": garbage}, {"say": "said"}]}]);
    root.script(Some("evil"), &rules);
    let _daemon = root.serve();
    root.ask("local:evil", "begin");
    ask(&root, "good", "beside-it");
    let log =
        wait_for("the garbage to be told of", || Some(root.log()).filter(|log| log.contains("garbage")));
    assert!(
        log.lines().all(
            |line| line.starts_with("20") && !line.contains("Z ERROR forged") || line.contains("garbage")
        )
    );
    assert!(!log.chars().any(|c| c != '\n' && (c.is_control() || c == '\u{202e}')), "{log:?}");
    assert!(log.lines().any(|line| line.contains("unknown variant") && line.contains("forged")), "{log}");
}
