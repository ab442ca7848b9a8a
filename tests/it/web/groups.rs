//! Groups on the page: made, changed in every way that `g2 groups set` knows, and removed by name.

use super::{
    Paged, Visit,
    browser::{Browser, Scripts, has_browser},
};
use crate::support::wait_for;

#[test]
fn a_group_is_made_changed_and_removed_and_each_change_has_its_command() {
    let paged = Paged::new("");
    let _daemon = paged.serve();
    let visit = Visit::new(&paged);
    let form = [
        ("arg-folder", "family"),
        ("arg-chat", "local:family"),
        ("arg-name", "Us all"),
        ("arg-from", "family"),
        ("back", "/groups"),
    ];
    let told = visit.ask("groups.add", &form);
    assert!(
        told.contains("g2 groups add family --chat local:family --name 'Us all' --from family"),
        "{told}"
    );
    assert!(told.contains("href=\"/groups/family\"") && told.contains("Us all"), "{told}");
    let memory = std::fs::read_to_string(paged.root.path().join("groups/family/CLAUDE.md")).unwrap();
    assert!(memory.contains("list"), "{memory}");

    // Every setting is there, with its meaning, and what holds where the group has none of its own.
    let page = visit.page("/groups/family");
    let help = paged.root.g2(&["groups", "set", "--help"]);
    for key in [
        "name",
        "provider",
        "model_fallback",
        "memory_mib",
        "network",
        "seen",
        "budget.money",
        "mounts",
        "mcp",
    ] {
        assert!(page.contains(&format!("name=\"arg-settings.{key}\"")), "{key}: {page}");
        assert!(help.contains(key), "{key}");
    }
    assert!(page.contains("default: 2048") && page.contains("memory of the container, MiB"), "{page}");
    let told = visit.ask("groups.set", &[("arg-folder", "family"), ("arg-settings.memory_mib", "512")]);
    assert!(told.contains("g2 groups set family memory_mib=512"), "{told}");
    let config = || paged.root.json(&["groups", "show", "family"])["config"].clone();
    assert_eq!(config()["memory_mib"], 512);
    let told = visit.ask("groups.set", &[("arg-folder", "family"), ("arg-settings.memory_mib", "x")]);
    assert!(told.contains("whole number"), "{told}");
    visit.ask("groups.set", &[("arg-folder", "family"), ("arg-settings.memory_mib", "")]);
    assert_eq!(config().get("memory_mib"), None);
    let servers = "{\"mcpServers\": {\r\n \"docs\": {\"type\": \"http\", \"url\": \"https://d.example\", \"headers\": {\"A\": \"hush\"}}}}";
    let told = visit.ask("groups.set", &[("arg-folder", "family"), ("arg-settings.mcp", servers)]);
    assert!(told.contains("g2 groups set family mcp=@.mcp.json"), "{told}");
    assert_eq!(config()["mcp"]["docs"]["url"], "https://d.example");
    let audit = paged.root.g2(&["audit", "list", "--from", "page"]);
    assert!(audit.contains("groups.set") && !audit.contains("hush"), "{audit}");

    let told =
        visit.ask("groups.remove", &[("arg-folder", "family"), ("sure", "famly"), ("back", "/groups")]);
    assert!(told.contains("type family to remove") && told.contains("href=\"/groups/family\""), "{told}");
    let told =
        visit.ask("groups.remove", &[("arg-folder", "family"), ("sure", "family"), ("back", "/groups")]);
    assert!(told.contains("group family is removed") && !told.contains("href=\"/groups/family\""), "{told}");
    assert_eq!(paged.get("/groups/family", &[("Cookie", &visit.cookie)]).status, 404);
    // Main stays, and is not offered.
    assert!(!visit.page("/groups/main").contains("/do/groups.remove"));
    let told = visit.ask("groups.remove", &[("arg-folder", "main"), ("sure", "main")]);
    assert!(told.contains("is the main group"), "{told}");
}

#[test]
fn a_mount_that_can_be_written_needs_the_box_as_it_needs_yes_on_the_command_line() {
    let paged = Paged::new("");
    let _daemon = paged.serve();
    let visit = Visit::new(&paged);
    let mounts = r#"[{"hostPath": "/srv/x", "readonly": false}]"#;
    let form = [("arg-folder", "main"), ("arg-settings.mounts", mounts)];
    let config = || paged.root.json(&["groups", "show", "main"])["config"].clone();
    let told = visit.ask("groups.set", &form);
    assert!(told.contains("can change and remove everything in /srv/x"), "{told}");
    assert_eq!(config(), serde_json::json!({}));
    let told = visit.ask("groups.set", &[form[0], form[1], ("sure", "true")]);
    assert!(told.contains("group main is changed"), "{told}");
    assert_eq!(config()["additionalMounts"][0]["hostPath"], "/srv/x");
    // What it has already, and what it may only read, is no question.
    let more = r#"[{"hostPath": "/srv/x", "readonly": false}, {"hostPath": "/srv/y", "readonly": true}]"#;
    let told = visit.ask("groups.set", &[form[0], ("arg-settings.mounts", more)]);
    assert!(told.contains("group main is changed"), "{told}");
}

#[test]
fn chats_and_people_of_a_group_are_added_changed_and_removed() {
    let paged = Paged::new("");
    let _daemon = paged.serve();
    let visit = Visit::new(&paged);
    let wiring = [("arg-group", "main"), ("arg-chat", "tg:-100")];
    let told = visit.ask("wirings.add", &[wiring[0], wiring[1], ("arg-engage", "mention")]);
    assert!(told.contains("g2 wirings add --group main --chat tg:-100 --engage mention"), "{told}");
    let set = [
        ("arg-engage", "pattern"),
        ("arg-pattern", "^hey"),
        ("arg-sender_scope", "known"),
        ("arg-ignored", "accumulate"),
    ];
    let told = visit.ask("wirings.set", &[&wiring[..], &set[..]].concat());
    assert!(told.contains("is changed"), "{told}");
    let row = || paged.root.rows(&["wirings", "list", "--chat", "tg:-100"]).pop();
    let now = row().unwrap();
    assert_eq!(
        [&now["engage_pattern"], &now["sender_scope"], &now["ignored_message_policy"]],
        ["^hey", "known", "accumulate"]
    );
    let page = visit.page("/groups/main");
    assert!(page.contains("^hey") && page.contains("/do/wirings.remove"), "{page}");
    visit.ask("wirings.remove", &wiring);
    assert_eq!(row(), None);

    let member = [("arg-group", "main"), ("arg-user", "tg:7")];
    visit.ask("members.add", &member);
    assert!(visit.page("/groups/main").contains("<code>tg:7</code>"));
    visit.ask("users.role", &[("arg-id", "tg:7"), ("arg-role", "admin"), ("arg-group", "main")]);
    let page = visit.page("/groups/main");
    assert!(page.contains("<td>admin</td>"), "{page}");
    visit.ask("members.remove", &member);
    assert!(paged.root.rows(&["members", "list", "--group", "main"]).iter().all(|row| row["user"] != "tg:7"));
}

#[test]
fn a_setting_is_changed_in_the_browser_and_the_page_follows() {
    if !has_browser() {
        return;
    }
    let paged = Paged::new("");
    let _daemon = paged.serve();
    let browser = Browser::start(Scripts::On, &[]);
    browser.open(&paged.way_in());
    browser.until("the page", "return location.pathname === '/'");
    browser.open(&format!("{}/groups", paged.origin()));
    browser.until("the groups", "return document.querySelector('td a')?.innerText === 'main'");
    browser.click("td a");
    browser.until(
        "the page to be live",
        "return location.pathname === '/groups/main' && document.body.dataset.live === 'on'",
    );
    browser.run("document.querySelector('[name=\"arg-settings.timezone\"]').focus()");
    browser.keys("Asia/Tokyo\u{e007}");
    browser.sees("g2 groups set main timezone=Asia/Tokyo");
    wait_for("the setting", || {
        (paged.root.json(&["groups", "show", "main"])["config"]["timezone"] == "Asia/Tokyo").then_some(())
    });
    // A change elsewhere is seen.
    paged.root.g2(&["groups", "set", "main", "name=Home sweet home"]);
    browser.sees("Home sweet home");
    assert!(browser.complaints().is_empty());
}
