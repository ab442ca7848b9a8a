//! Each page in a real browser, in both themes and on a phone: nothing breaks the policy, and nobody is shut out.
//!
//! With `G2_PICTURES=DIR` pictures of the pages are put there (`docs/pictures.sh`).

use std::{fs, path::Path};

use serde_json::{Value, json};

use super::{
    Paged,
    browser::{Browser, Scripts, has_browser, inside},
};
use crate::support::{Daemon, wait_for};

/// Each page of a root that is lived in, by a name for its picture.
const PAGES: [(&str, &str); 27] = [
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
    ("egress", "/egress"),
    ("host", "/egress?group=family"),
    ("usage", "/usage?days=30"),
    ("budgets", "/budgets"),
    ("audit", "/audit"),
    ("backups", "/backups"),
    ("doctor", "/doctor"),
    ("devices", "/devices"),
];

/// A root in which something of everything is to be seen.
pub(super) fn lived_in() -> (Paged, Daemon) {
    let paged = Paged::new(
        "[channels.telegram]\ncommand = [\"/bin/false\"]\n[backup]\nto = \"shelf\"\n[egress]\nallow = [\"mirror.example.org\"]\n",
    );
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
    root.g2(&["groups", "set", "family", "budget.requests=40", "budget.minutes=60", "network=allowlist"]);
    root.g2(&["egress", "allow", "api.example.com", "--group", "family"]);
    root.g2(&["egress", "deny", "*.example.net", "--group", "family"]);
    let daemon = paged.serve();
    root.g2(&["backup", "--now"]);
    wait_for("a backup", || fs::read_dir(root.path().join("shelf")).ok()?.find(ends_as_backup).map(drop));
    root.ask("local:family", "Who feeds the cat while we are away?");
    root.ask("local:family", "And on Sunday?");
    let picture = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/pictures/usage.png");
    root.g2(&["send", "--chat", "local:family", "--file", picture, "--wait", "30", "Is this too much?"]);
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

fn ends_as_backup(file: &std::io::Result<fs::DirEntry>) -> bool {
    file.as_ref().is_ok_and(|file| file.path().extension().is_some_and(|end| end == "tar"))
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
        "return document.body?.dataset.live === 'on' || !document.getElementById('live')",
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

/// The pages, and each further one to which the way at the side leads, by a name for its picture.
fn pages(browser: &Browser) -> Vec<(String, String)> {
    let mut pages: Vec<(String, String)> =
        PAGES.iter().map(|(name, path)| ((*name).to_owned(), (*path).to_owned())).collect();
    let ways = browser
        .run("return [...document.querySelectorAll('.side nav a')].map((a) => a.getAttribute('href'))");
    for way in ways.as_array().unwrap() {
        let way = way.as_str().unwrap();
        let is_there = pages.iter().any(|(_, path)| path.split('?').next() == Some(way));
        if !is_there {
            pages.push((way.trim_start_matches('/').replace('/', "-"), way.to_owned()));
        }
    }
    pages
}

/// What is cut off or beyond the edge of the screen: entries of the way, cells of tables, fields and buttons.
const BEYOND: &str = "
    const wide = document.documentElement.clientWidth;
    const is_beyond = (one) => {
      const at = one.getBoundingClientRect();
      return at.width > 0 && (at.left < 0 || at.right > wide + 1);
    };
    const all = [...document.querySelectorAll('.side nav a, main td, main th, main h1, main h2, main button, main input, main select, main textarea, main summary, main svg')];
    const hidden = (one) => getComputedStyle(one).visibility === 'hidden' || one.parentElement.closest('details:not([open])') !== null && one.tagName !== 'SUMMARY';
    return all.filter((one) => is_beyond(one) && !hidden(one)).map((one) => one.outerHTML.slice(0, 200))";

/// Charts that do not say what their scale is.
const WITHOUT_SCALE: &str = "
    const says = (chart) => [...chart.querySelectorAll('.scale span, figcaption span')].filter((one) => /[0-9]/.test(one.innerText)).length >= 2;
    return [...document.querySelectorAll('main figure')].filter((chart) => !says(chart)).map((chart) => chart.outerHTML.slice(0, 200))";

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
    let mut faulty = Vec::new();
    for (name, path) in pages(&browser) {
        for (theme, width, screen) in [
            ("light", 1280, "light"),
            ("dark", 1280, "dark"),
            ("light", 390, "phone"),
            ("dark", 390, "phone-dark"),
        ] {
            browser.look(width, 860, theme);
            browser.open(&format!("{}{path}", paged.origin()));
            settle(&browser);
            browser.until(
                "its pictures",
                "return [...document.images].every((one) => one.complete && one.naturalWidth > 0)",
            );
            let mut found = |what: &str, is_right: bool, told: &Value| {
                if !is_right {
                    faulty.push(format!("{name} {screen}: {what}: {told:#}"));
                }
            };
            let complaints = browser.complaints();
            found("complaints", complaints.is_empty(), &json!(complaints));
            let wide = browser.run("return document.documentElement.scrollWidth - innerWidth");
            found("too wide", wide.as_i64().unwrap() <= 0, &wide);
            let commands = browser.run("return document.querySelectorAll('main p.command code').length");
            found("commands", commands == 1, &commands);
            // A form that shares its id is made anew at each refresh.
            let ids = browser.run("return [...document.querySelectorAll('[id]')].map((one) => one.getAttribute('id')).filter((id, at, all) => all.indexOf(id) !== at)");
            found("ids", ids == json!([]), &ids);
            let beyond = browser.run(BEYOND);
            found("beyond the edge", beyond == json!([]), &beyond);
            let scales = browser.run(WITHOUT_SCALE);
            found("charts without a scale", scales == json!([]), &scales);
            let edge = browser.run("return document.querySelector('main').getBoundingClientRect().left");
            found("no room at the edge", edge.as_f64().unwrap() >= 12.0, &edge);
            if let Some(axe) = &axe {
                let faults = faults(&browser, axe);
                found("axe", faults.is_empty(), &json!(faults));
            }
            if let Some(folder) = &pictures {
                fs::create_dir_all(folder).unwrap();
                let file = Path::new(folder).join(format!("{name}-{screen}"));
                fs::write(file.with_extension("png"), browser.picture("png")).unwrap();
                fs::write(file.with_extension("webp"), browser.picture("webp")).unwrap();
            }
        }
    }
    assert!(faulty.is_empty(), "{}", faulty.join("\n"));
}

#[test]
fn what_is_empty_says_so_on_every_page() {
    if !has_browser() {
        return;
    }
    let paged = Paged::new("");
    let _daemon = paged.serve();
    let browser = inside(&paged, Scripts::On, &[]);
    let ways = browser
        .run("return [...document.querySelectorAll('.side nav a')].map((a) => a.getAttribute('href'))");
    for way in ways.as_array().unwrap() {
        browser.open(&format!("{}{}", paged.origin(), way.as_str().unwrap()));
        let empty = browser.run(
            "return [...document.querySelectorAll('main tbody, main ul, main ol, main dl, main section')].filter((one) => one.innerText.trim() === '').map((one) => one.outerHTML)",
        );
        assert_eq!(empty, json!([]), "{way}");
        let says = browser.run("return document.querySelector('main').innerText.split('\\n').filter((line) => line.trim()).length");
        assert!(says.as_i64().unwrap() > 2, "{way}");
    }
}
