//! Conversations on the page: found, read, taken up again; and the devices that are signed in.

use super::{Paged, Visit};
use crate::support::wait_for;

#[test]
fn a_conversation_is_kept_found_read_taken_up_again_and_removed() {
    let paged = Paged::new("");
    let _daemon = paged.serve();
    let visit = Visit::new(&paged);
    assert!(visit.page("/conversations").contains("No conversation is archived."));
    paged.root.ask("local:main", "about <trains>");
    let live = wait_for("a session", || {
        Some(visit.page("/conversations?group=main")).filter(|page| page.contains("/do/sessions.archive"))
    });
    assert!(live.contains("local:main"), "{live}");
    let told = visit.ask(
        "sessions.archive",
        &[("arg-group", "main"), ("arg-name", "before <b>"), ("back", "/conversations?group=main")],
    );
    assert!(told.contains("g2 sessions archive main 'before &lt;b&gt;'"), "{told}");
    let row = paged.root.rows(&["sessions", "list", "--state", "archived"]).pop().unwrap();
    let id = row["id"].to_string();
    assert!(told.contains(&format!("href=\"/conversations/{id}\"")), "{told}");
    let one = visit.page(&format!("/conversations/{id}"));
    assert!(
        one.contains("<h1>before &lt;b&gt;</h1>") && one.contains(&format!("g2 sessions show {id}")),
        "{one}"
    );

    paged.root.change_store("UPDATE archives SET content = 'the \u{202e}night <train> to Rome'");
    let one = visit.page(&format!("/conversations/{id}"));
    assert!(one.contains("the night &lt;train&gt; to Rome"), "{one}");
    let told = visit
        .ask("sessions.resume", &[("arg-id", &id), ("arg-save_name", "now"), ("back", "/conversations")]);
    assert!(told.contains(&format!("g2 sessions resume {id} --save-name now")), "{told}");
    // It goes on, and the ones before are archived in its place.
    let row = paged.root.rows(&["sessions", "list", "--state", "archived"]).pop().unwrap();
    let id = row["id"].to_string();
    assert_eq!(row["name"], "now");
    let told = visit.ask("sessions.delete", &[("arg-id", &id), ("back", "/conversations")]);
    let loss = format!("With the box checked the text of archived session {id} (now) is removed for good");
    assert!(told.contains(&loss), "{told}");
    let sure = [("arg-id", id.as_str()), ("sure", "true"), ("back", "/conversations")];
    let told = visit.ask("sessions.delete", &sure);
    assert!(told.contains(&format!("archived session {id} of group main is deleted")), "{told}");
    assert_eq!(paged.get(&format!("/conversations/{id}"), &[("Cookie", &visit.cookie)]).status, 404);
    let audit = paged.root.g2(&["audit", "list", "--from", "page"]);
    for name in ["sessions.archive", "sessions.resume", "sessions.delete"] {
        assert!(audit.contains(name), "{name}: {audit}");
    }
}

#[test]
fn a_search_finds_what_was_said_in_one_group_or_in_all() {
    let paged = Paged::new("");
    paged.root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    for (group, said) in [("main", "the night train to Rome"), ("family", "a train set for <Ada>")] {
        paged.root.change_store(&format!(
            "INSERT INTO archives (group_folder, session_id, name, content, archived_at) VALUES ('{group}', 's-{group}', 'of {group}', '{said}', 1)"
        ));
    }
    let _daemon = paged.serve();
    let visit = Visit::new(&paged);
    let both = wait_for("both to be found", || {
        let page = visit.page("/conversations?find=train");
        (page.contains("of main") && page.contains("of family")).then_some(page)
    });
    assert!(both.contains("<mark>train</mark> set for &lt;Ada&gt;"), "{both}");
    assert!(both.contains("g2 sessions search train") && both.contains("/do/sessions.resume"), "{both}");
    // It is not made again by what changes elsewhere.
    assert!(!both.contains("hx-get"), "{both}");
    let one = visit.page("/conversations?find=train&group=family");
    assert!(one.contains("of family") && !one.contains("of main"), "{one}");
    assert!(one.contains("g2 sessions search train --group family"), "{one}");
    assert!(visit.page("/conversations?find=bus").contains("Nothing was found"));
    let long = format!("/conversations?find={}", "x+".repeat(300));
    assert_eq!(paged.get(&long, &[("Cookie", &visit.cookie)]).status, 400);
    assert_eq!(paged.get("/conversations?group=none", &[("Cookie", &visit.cookie)]).status, 404);
}

#[test]
fn to_begin_anew_in_a_chat_itself_leaves_its_threads() {
    let paged = Paged::new("");
    for (lane, thread) in [(71, ""), (72, "7")] {
        paged.root.change_store(&format!(
            "INSERT INTO lanes (id, group_folder, chat_jid, thread) VALUES ({lane}, 'main', 'local:main', '{thread}')"
        ));
        paged.root.change_store(&format!(
            "INSERT INTO sessions (lane_id, group_folder, chat_jid, thread, session_id) VALUES ({lane}, 'main', 'local:main', '{thread}', 's-{lane}')"
        ));
    }
    let _daemon = paged.serve();
    let visit = Visit::new(&paged);
    // As the form of the chat itself says it.
    let page = visit.page("/conversations?group=main");
    let form = page
        .split("<form")
        .find(|form| {
            form.contains("/do/sessions.clear")
                && !form.contains("value=\"7\"")
                && form.contains("local:main")
        })
        .unwrap();
    let fields: Vec<(&str, &str)> = form
        .split("<input type=\"hidden\" name=\"")
        .skip(1)
        .filter_map(|input| {
            input
                .split_once('"')?
                .1
                .split_once("value=\"")
                .map(|(_, value)| (input.split('"').next().unwrap(), value.split('"').next().unwrap()))
        })
        .filter(|(name, _)| name.starts_with("arg-"))
        .collect();
    let told = visit.ask("sessions.clear", &fields);
    assert!(
        told.contains("g2 sessions clear main --chat local:main --thread &#39;&#39;")
            || told.contains("--thread ''"),
        "{told}"
    );
    let left: Vec<_> = paged
        .root
        .rows(&["sessions", "list", "--state", "live"])
        .iter()
        .map(|row| row["session_id"].to_string())
        .collect();
    assert_eq!(left, ["\"s-72\""]);
}

#[test]
fn archived_ones_are_there_however_many_go_on() {
    let paged = Paged::new("");
    let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 210)";
    for rows in [
        "lanes (id, group_folder, chat_jid, thread) SELECT 1000 + i, 'main', 'local:main', 't' || i FROM n",
        "sessions (lane_id, group_folder, chat_jid, thread, session_id) SELECT 1000 + i, 'main', 'local:main', 't' || i, 's-' || i FROM n",
        "archives (group_folder, session_id, name, content, archived_at) SELECT 'main', 's', 'before', 'x', 1 FROM n WHERE i = 1",
    ] {
        paged.root.change_store(&format!("{many} INSERT INTO {rows}"));
    }
    let _daemon = paged.serve();
    let visit = Visit::new(&paged);
    let page = visit.page("/conversations");
    assert!(page.contains(">before</a>") && page.contains("The newest 200 of those that go on"), "{page}");
    assert!(!page.contains("No conversation is archived"), "{page}");
    // Of a long one the end is shown, whatever its letters.
    paged.root.change_store(
        "UPDATE archives SET content = 'begin' || replace(hex(zeroblob(150000)), '00', 'é') || 'end'",
    );
    let one = visit.page("/conversations/1");
    assert!(
        one.contains("éend</pre>") && !one.contains("begin") && one.contains("The end of it."),
        "{}",
        one.len()
    );
}

#[test]
fn browsers_that_are_signed_in_are_devices() {
    let paged = Paged::new("");
    let _daemon = paged.serve();
    let visit = Visit::new(&paged);
    let page = visit.page("/devices");
    assert!(page.contains("<h1>Devices</h1>") && page.contains("href=\"/devices\">Devices</a>"), "{page}");
    assert_eq!(paged.get("/sessions", &[("Cookie", &visit.cookie)]).status, 404);
}
