//! Groups on the page: made, changed in every way that `g2 groups set` knows, and removed by name.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
};

use super::{
    Paged, Visit,
    browser::{Scripts, has_browser, inside},
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
    assert!(
        told.contains("type family, and group family is removed for good")
            && told.contains("href=\"/groups/family\""),
        "{told}"
    );
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
fn the_file_of_a_dead_command_is_dropped_with_the_box_checked() {
    let paged = Paged::new("");
    let _daemon = paged.serve();
    let visit = Visit::new(&paged);
    fs::write(paged.root.path().join("data/ipc/main/messages/bad.json"), "{").unwrap();
    let dead = || paged.root.rows(&["ipc", "list", "--state", "dead"]).pop();
    let id = wait_for("a dead command", dead)["id"].to_string();
    let page = visit.page("/mailbox?state=dead");
    assert!(page.contains("name=\"sure\" value=\"true\" required"), "{page}");
    let told = visit.ask("ipc.drop", &[("arg-what", &id)]);
    let loss = format!("With the box checked the file of dead command {id} is removed for good");
    assert!(told.contains(&loss) && dead().is_some(), "{told}");
    let told = visit.ask("ipc.drop", &[("arg-what", &id), ("sure", "true")]);
    assert!(told.contains("is dropped"), "{told}");
}

#[test]
fn a_list_that_was_changed_meanwhile_is_not_replaced_from_an_old_view() {
    let paged = Paged::new("");
    let _daemon = paged.serve();
    let visit = Visit::new(&paged);
    let seen = |page: &str| {
        page.split("name=\"arg-was.mounts\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
    };
    let mounts = |path: &str| format!("[\r\n {{\"hostPath\": \"{path}\", \"readonly\": true}}\r\n]");
    let set = |value: &str, was: &str| {
        let form = [("arg-folder", "main"), ("arg-settings.mounts", value), ("arg-was.mounts", was)];
        visit.ask("groups.set", &form)
    };
    let old = seen(&visit.page("/groups/main"));
    let told = set(&mounts("/srv/a"), &old);
    // As it can be typed.
    assert!(told.contains("g2 groups set main mounts='[{"), "{told}");
    let told = set(&mounts("/srv/b"), &old);
    assert!(told.contains("mounts of group main was changed meanwhile"), "{told}");
    let now = || paged.root.json(&["groups", "show", "main"])["config"]["additionalMounts"].clone();
    assert_eq!(now()[0]["hostPath"], "/srv/a");
    set(&mounts("/srv/b"), &seen(&visit.page("/groups/main")));
    assert_eq!(now()[0]["hostPath"], "/srv/b");
    let audit = paged.root.g2(&["audit", "list", "--from", "page"]);
    assert!(!audit.contains(&old), "{audit}");
}

#[test]
fn a_group_whose_folder_can_t_be_looked_at_is_still_there_to_be_changed() {
    let paged = Paged::new("");
    paged.root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    let _daemon = paged.serve();
    let visit = Visit::new(&paged);
    let folder = paged.root.path().join("groups/family");
    fs::set_permissions(&folder, Permissions::from_mode(0o000)).unwrap();
    let page = visit.page("/groups/family");
    fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
    assert!(page.contains("arg-settings.model") && page.contains("/do/groups.remove"), "{page}");
    // Root looks into any.
    let is_root = rustix::process::geteuid().is_root();
    assert!(is_root || page.contains("looking at"), "{page}");
}

#[test]
fn each_setting_of_a_wiring_has_a_button_of_its_own() {
    let paged = Paged::new("");
    let _daemon = paged.serve();
    let visit = Visit::new(&paged);
    let page = visit.page("/groups/main");
    let forms: Vec<&str> =
        page.split("<form").filter(|form| form.contains("action=\"/do/wirings.set\"")).collect();
    assert_eq!(forms.len(), 3);
    for field in ["arg-engage", "arg-sender_scope", "arg-ignored"] {
        assert_eq!(forms.iter().filter(|form| form.contains(field)).count(), 1, "{field}");
    }
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
    let browser = inside(&paged, Scripts::On, &[]);
    browser.open(&format!("{}/groups", paged.origin()));
    browser.until("the groups", "return document.querySelector('td a')?.innerText === 'main'");
    browser.click("td a");
    browser.until(
        "the page to be live",
        "return location.pathname === '/groups/main' && document.body?.dataset.live === 'on'",
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
