//! Each page in a real browser, in both themes and on a phone: nothing breaks the policy, and nobody is shut out.
//!
//! With `G2_PICTURES=DIR` pictures of the pages are put there (`docs/pictures.sh`).

use std::{fs, path::Path};

use serde_json::{Value, json};

use super::{
    Paged,
    browser::{Browser, Scripts, has_browser},
};
use crate::support::{Daemon, wait_for};

/// Each page of a root that is lived in, by a name for its picture.
const PAGES: [(&str, &str); 22] = [
    ("now", "/"),
    ("chats", "/chats"),
    ("chat", "/chats/family?chat=local:family"),
    ("why", "/why/1"),
    ("groups", "/groups"),
    ("group", "/groups/family"),
    ("memory", "/groups/family/memory"),
    ("conversations", "/conversations?group=family"),
    ("conversation", "/conversations/1"),
    ("runs", "/runs"),
    ("run", "/runs/1"),
    ("tasks", "/tasks"),
    ("task", "/tasks/family/good-morning"),
    ("mailbox", "/mailbox?state=refused"),
    ("dead", "/mailbox?state=dead"),
    ("command", "/mailbox/1"),
    ("outbox", "/outbox"),
    ("people", "/people"),
    ("channels", "/channels"),
    ("usage", "/usage?days=30"),
    ("doctor", "/doctor"),
    ("devices", "/devices"),
];

/// A root in which something of everything is to be seen.
pub(super) fn lived_in() -> (Paged, Daemon) {
    let paged = Paged::new("[channels.telegram]\ncommand = [\"/bin/false\"]\n");
    let root = &paged.root;
    root.g2(&["groups", "add", "family", "--chat", "local:family", "--name", "Family"]);
    root.g2(&["groups", "add", "workshop", "--chat", "local:workshop", "--name", "Workshop"]);
    root.g2(&["wirings", "add", "--group", "family", "--chat", "tg:-100", "--engage", "mention"]);
    root.g2(&["wirings", "add", "--group", "family", "--chat", "dc:1/2", "--engage", "mention"]);
    root.g2(&["wirings", "add", "--group", "workshop", "--chat", "local:side", "--pattern", "."]);
    root.g2(&["chats", "set", "local:side", "policy=request_approval"]);
    root.g2(&["users", "add", "tg:1001", "--name", "Ada"]);
    root.g2(&["users", "role", "tg:1001", "admin", "--group", "family"]);
    root.g2(&[
        "tasks",
        "add",
        "--group",
        "family",
        "--chat",
        "local:family",
        "--id",
        "good-morning",
        "--cron",
        "0 7 * * 1-5",
        "--output",
        "chat",
        "Say good morning, and what is in the calendar today.",
    ]);
    root.g2(&[
        "tasks",
        "add",
        "--group",
        "workshop",
        "--chat",
        "local:workshop",
        "--id",
        "mail",
        "--every",
        "2h",
        "Look whether an order came in by mail.",
    ]);
    root.g2(&["tasks", "pause", "mail"]);
    let daemon = paged.serve();
    root.ask("local:family", "Who feeds the cat while we are away?");
    root.ask("local:family", "And on Sunday?");
    root.ask("local:workshop", "How much oak is left?");
    root.g2(&["send", "--chat", "local:side", "--as", "bob", "May I ask you something?"]);
    wait_for("the question", || (root.rows(&["approvals", "list"]).len() == 1).then_some(()));
    let far = json!({"type": "send_message", "chatJid": "tg:-100", "text": "The train is late.", "requestId": "far"});
    root.put_command("family", "messages", "0.json", &far);
    // No channel reaches this one.
    let lost = json!({"type": "send_message", "chatJid": "dc:1/2", "text": "Dinner is at seven.", "requestId": "lost"});
    root.put_command("family", "messages", "1.json", &lost);
    let foreign = json!({"type": "register_group", "requestId": "no", "jid": "tg:5", "name": "x", "folder": "x", "trigger": "@x"});
    root.put_command("workshop", "tasks", "1.json", &foreign);
    root.put_bytes("workshop", "messages", "2.json", b"{\"type\": \"send_mess");
    root.settled(4);
    wait_for("the text that can't be said", || {
        root.rows(&["outbox", "list"]).into_iter().any(|row| row["status"] == "failed").then_some(())
    });
    root.g2(&["sessions", "archive", "family", "before the holidays"]);
    root.g2(&["ipc", "hold", "workshop", "--reason", "it asks for too much"]);
    use_up(&paged);
    (paged, daemon)
}

/// Gives the runs a past of four weeks.
fn use_up(paged: &Paged) {
    let quarter = 900_000_i64;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    let now = i64::try_from(now).unwrap() / quarter * quarter;
    for day in 0..28_i64 {
        for (group, model, run, share) in
            [("family", "claude-opus-4", 1, 3), ("workshop", "claude-haiku-4", 3, 1)]
        {
            let tokens = (day * 7_919 % 11 + 2) * 1_300 * share;
            paged.root.change_store(&format!(
                "INSERT INTO usage VALUES ({run}, '{group}', '{model}', {}, {}, 0, 0, {tokens}, {}, {}, {})",
                now - day * 96 * quarter,
                tokens / 2_000 + 1,
                tokens / 3,
                tokens * 4,
                tokens / 9,
            ));
        }
    }
}

/// Waits until the page's own script runs and the page follows what changes.
fn settle(browser: &Browser) {
    browser.until(
        "the page to be live",
        "return document.body.dataset.live === 'on' || !document.getElementById('live')",
    );
}

/// The serious faults that axe finds, a line each.
fn faults(browser: &Browser, axe: &str) -> Vec<String> {
    browser.run(&format!("{axe}; window.axe = axe;"));
    let found = browser.run_later(
        "const done = arguments[arguments.length - 1];
         axe.run(document, {resultTypes: ['violations']}).then(
           (found) => done(found.violations.map((v) => ({impact: v.impact, id: v.id, nodes: v.nodes.map((n) => n.html + ' ' + n.failureSummary)}))),
           (error) => done(String(error)));",
    );
    let all = found.as_array().unwrap_or_else(|| panic!("axe: {found}"));
    let serious = all.iter().filter(|fault| fault["impact"] == "serious" || fault["impact"] == "critical");
    serious.map(Value::to_string).collect()
}

/// axe, where `src/adapters/tests/peers.sh` has put it.
fn axe() -> Option<String> {
    let target = std::env::current_exe().unwrap().ancestors().nth(3).unwrap().to_owned();
    let axe = fs::read_to_string(target.join("peers/axe/node_modules/axe-core/axe.min.js")).ok();
    assert!(axe.is_some() || std::env::var_os("G2_REQUIRE_BROWSER").is_none(), "axe-core is not installed");
    if axe.is_none() {
        eprintln!("skipped: no axe-core");
    }
    axe
}

#[test]
fn each_page_keeps_the_policy_and_shuts_nobody_out_in_both_themes_and_on_a_phone() {
    if !has_browser() {
        return;
    }
    let (paged, _daemon) = lived_in();
    let axe = axe();
    let pictures = std::env::var_os("G2_PICTURES");
    let browser = Browser::start(Scripts::On, &[]);
    browser.open(&paged.origin());
    browser.sees("Not signed in");
    // The one complaint of the console so far: a page that nobody may see.
    assert!(browser.complaints().iter().all(|complaint| complaint.contains("401")));
    browser.open(&paged.way_in());
    browser.until("the page", "return location.pathname === '/'");
    for (name, path) in PAGES {
        for (theme, width) in [("light", 1280), ("dark", 1280), ("light", 390)] {
            browser.look(width, 860, theme);
            browser.open(&format!("{}{path}", paged.origin()));
            settle(&browser);
            let complaints = browser.complaints();
            assert!(complaints.is_empty(), "{name} {theme}: {complaints:#?}");
            let wide = browser.run("return document.documentElement.scrollWidth - innerWidth");
            assert!(wide.as_i64().unwrap() <= 0, "{name} is {wide} too wide at {width}");
            assert_eq!(
                browser.run("return document.querySelectorAll('main p.command code').length"),
                1,
                "{name}"
            );
            // A form that shares its id is made anew at each refresh.
            let ids = "return [...document.querySelectorAll('[id]')].map((one) => one.getAttribute('id')).filter((id, at, all) => all.indexOf(id) !== at)";
            assert_eq!(browser.run(ids), serde_json::json!([]), "{name} {theme} {width}");
            if let Some(axe) = &axe {
                let faults = faults(&browser, axe);
                assert!(faults.is_empty(), "{name} {theme} {width}: {faults:#?}");
            }
            if let Some(folder) = &pictures {
                let screen = if width < 600 { "phone" } else { theme };
                fs::create_dir_all(folder).unwrap();
                fs::write(Path::new(folder).join(format!("{name}-{screen}.png")), browser.picture()).unwrap();
            }
        }
    }
}
