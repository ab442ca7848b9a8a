//! A `CLAUDE.md` on the page: saved, refused when it is another by then, and put back.

use std::{fs, os::unix::fs::symlink, path::PathBuf};

use super::{
    Paged, Visit,
    browser::{Scripts, has_browser, inside},
};

fn file(paged: &Paged, group: &str) -> PathBuf {
    paged.root.path().join("groups").join(group).join("CLAUDE.md")
}

/// The digest that the page's form carries.
fn digest(page: &str) -> String {
    page.split("name=\"arg-was\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
}

#[test]
fn a_memory_is_saved_with_its_command_and_the_text_before_is_kept_and_put_back() {
    let paged = Paged::new("");
    let _daemon = paged.serve();
    let visit = Visit::new(&paged);
    for (whose, words) in [("main", "main"), ("global", "--global")] {
        fs::write(file(&paged, whose), "\nYou are <Bo>.\n").unwrap();
        let path = format!("/groups/{whose}/memory");
        let page = visit.page(&path);
        assert!(page.contains("\n\nYou are &lt;Bo&gt;.\n</textarea>"), "{page}");
        let mut of = vec![("arg-text", "You are Bo.\r\nBe kind.\r\n"), ("back", path.as_str())];
        if whose == "main" {
            of.push(("arg-folder", "main"));
        }
        let was = digest(&page);
        let told = visit.ask("groups.edit", &[&of[..], &[("arg-was", was.as_str())]].concat());
        let command =
            if whose == "main" { "g2 groups edit --file - main" } else { "g2 groups edit --global --file -" };
        assert!(told.contains(command) && !told.contains("<code>Be kind"), "{told}");
        assert_eq!(fs::read_to_string(file(&paged, whose)).unwrap(), "You are Bo.\nBe kind.\n");
        let rows: Vec<_> = paged.root.rows(&["groups", "history", words]);
        assert_eq!(rows.len(), 1, "{rows:?}");
        assert_eq!((rows[0]["version"].as_u64(), rows[0]["is"].as_str()), (Some(1), Some("replaced")));
        assert_eq!(paged.root.g2(&["groups", "history", words, "--show", "1"]), "\nYou are <Bo>.\n");
        assert!(visit.page(&format!("{path}/1")).contains("You are &lt;Bo&gt;."));
        let was = digest(&visit.page(&path));
        let mut of = vec![("arg-to", "1"), ("arg-was", was.as_str()), ("back", path.as_str())];
        if whose == "main" {
            of.push(("arg-folder", "main"));
        }
        let told = visit.ask("groups.back", &of);
        assert!(told.contains(&format!("g2 groups back {words} --to 1")), "{told}");
        assert_eq!(fs::read_to_string(file(&paged, whose)).unwrap(), "\nYou are <Bo>.\n");
        assert_eq!(paged.root.rows(&["groups", "history", words]).len(), 2);
    }
    let audit = paged.root.g2(&["audit", "list", "--from", "page"]);
    assert!(
        audit.contains("groups.edit") && audit.contains("groups.back") && !audit.contains("kind"),
        "{audit}"
    );
    assert_eq!(paged.get("/groups/none/memory", &[("Cookie", &visit.cookie)]).status, 404);
    assert_eq!(paged.get("/groups/main/memory/77", &[("Cookie", &visit.cookie)]).status, 404);
}

#[test]
fn a_memory_that_its_agent_changed_meanwhile_stays_and_both_texts_are_kept() {
    let paged = Paged::new("");
    let _daemon = paged.serve();
    let visit = Visit::new(&paged);
    let was = digest(&visit.page("/groups/main/memory"));
    fs::write(file(&paged, "main"), "what the agent remembers").unwrap();
    let form = [
        ("arg-folder", "main"),
        ("arg-was", was.as_str()),
        ("arg-text", "mine"),
        ("back", "/groups/main/memory"),
    ];
    let told = visit.ask("groups.edit", &form);
    assert!(
        told.contains("was changed meanwhile") && told.contains("your text is kept with the number 1"),
        "{told}"
    );
    assert!(told.contains("what the agent remembers</textarea>") && told.contains("was not saved"), "{told}");
    assert_eq!(fs::read_to_string(file(&paged, "main")).unwrap(), "what the agent remembers");
    assert!(visit.page("/groups/main/memory/1").contains("mine"));
    // To put it back is to have seen the text of now.
    let stale =
        visit.ask("groups.back", &[("arg-folder", "main"), ("arg-to", "1"), ("arg-was", was.as_str())]);
    assert!(stale.contains("was changed meanwhile"), "{stale}");
    let now = digest(&visit.page("/groups/main/memory"));
    visit.ask("groups.back", &[("arg-folder", "main"), ("arg-to", "1"), ("arg-was", now.as_str())]);
    assert_eq!(fs::read_to_string(file(&paged, "main")).unwrap(), "mine");
}

#[test]
fn nothing_that_an_agent_puts_there_leads_the_page_elsewhere_or_hides_in_it() {
    let paged = Paged::new("");
    let _daemon = paged.serve();
    let visit = Visit::new(&paged);
    let secret = paged.root.path().join("secret");
    fs::write(&secret, "hush").unwrap();
    fs::remove_file(file(&paged, "main")).unwrap();
    symlink(&secret, file(&paged, "main")).unwrap();
    let page = visit.page("/groups/main/memory");
    assert!(
        page.contains("no plain file") && !page.contains("hush") && !page.contains("<textarea"),
        "{page}"
    );
    let told = visit.ask("groups.edit", &[("arg-folder", "main"), ("arg-text", "x"), ("arg-was", "")]);
    assert!(told.contains("no plain file"), "{told}");
    assert_eq!(fs::read_to_string(&secret).unwrap(), "hush");
    fs::remove_file(file(&paged, "main")).unwrap();
    fs::write(file(&paged, "main"), "safe\u{202e}evil</textarea><b>").unwrap();
    let page = visit.page("/groups/main/memory");
    assert!(page.contains("safeevil&lt;/textarea&gt;&lt;b&gt;</textarea>"), "{page}");
    assert!(page.contains("Some characters hide") && !page.contains('\u{202e}'), "{page}");
    // What is too long for a page is not sent to it; what is as long as may be is saved, whatever its letters.
    fs::write(file(&paged, "main"), "x".repeat((256 << 10) + 1)).unwrap();
    let page = visit.page("/groups/main/memory");
    assert!(page.contains("too much for a page") && page.len() < 100_000, "{}", page.len());
    fs::write(file(&paged, "main"), "short").unwrap();
    let was = digest(&visit.page("/groups/main/memory"));
    let long = "é".repeat(128 << 10);
    let told = visit.ask("groups.edit", &[("arg-folder", "main"), ("arg-text", &long), ("arg-was", &was)]);
    assert!(told.contains("has a new CLAUDE.md"), "{}", &told[..2_000]);
    assert_eq!(fs::read_to_string(file(&paged, "main")).unwrap(), long);
    let form = format!("token={}&arg-text={}", visit.token, "x".repeat(2 << 20));
    assert_eq!(paged.post("/do/groups.edit", &visit.cookie, &form).status, 413);
}

#[test]
fn a_text_as_long_as_an_agent_reads_is_kept_when_another_takes_its_place() {
    let paged = Paged::new("");
    let _daemon = paged.serve();
    let visit = Visit::new(&paged);
    fs::write(file(&paged, "main"), "one").unwrap();
    let was = digest(&visit.page("/groups/main/memory"));
    let edit = [("arg-folder", "main"), ("arg-text", "two"), ("arg-was", was.as_str())];
    visit.ask("groups.edit", &[&edit[..], &[("back", "/groups/main/memory")]].concat());
    let long = "x".repeat(1 << 20);
    fs::write(file(&paged, "main"), &long).unwrap();
    let was = digest(&visit.page("/groups/main/memory"));
    let told = visit.ask("groups.back", &[("arg-folder", "main"), ("arg-to", "1"), ("arg-was", &was)]);
    assert!(told.contains("the text before is kept"), "{told}");
    assert_eq!(paged.root.g2(&["groups", "history", "main", "--show", "2"]), long);
    // A page has the beginning of it.
    let page = visit.page("/groups/main/memory/2");
    assert!(page.contains("The beginning of it.") && page.len() < (300 << 10), "{}", page.len());
}

#[test]
fn what_is_typed_is_kept_whatever_the_file_has_become() {
    let paged = Paged::new("");
    let _daemon = paged.serve();
    let visit = Visit::new(&paged);
    let was = digest(&visit.page("/groups/main/memory"));
    let secret = paged.root.path().join("secret");
    fs::write(&secret, "hush").unwrap();
    let become_of = |file: &std::path::Path, n: usize| match n {
        1 => symlink(&secret, file).unwrap(),
        2 => fs::create_dir(file).unwrap(),
        3 => fs::write(file, [0xff, 0xfe]).unwrap(),
        _ => fs::write(file, "x".repeat((1 << 20) + 1)).unwrap(),
    };
    for n in 1..=4 {
        let file = file(&paged, "main");
        match file.is_dir() {
            true => fs::remove_dir(&file).unwrap(),
            false => fs::remove_file(&file).unwrap(),
        }
        become_of(&file, n);
        let text = format!("typed for an hour, {n}");
        let form = [("arg-folder", "main"), ("arg-text", text.as_str()), ("arg-was", &was)];
        let told = visit.ask("groups.edit", &[&form[..], &[("back", "/groups/main/memory")]].concat());
        assert!(told.contains(&format!("your text is kept with the number {n}")), "{n}: {told}");
        assert!(visit.page(&format!("/groups/main/memory/{n}")).contains(&text), "{n}");
    }
    assert_eq!(fs::read_to_string(&secret).unwrap(), "hush");
}

#[test]
fn a_text_that_came_where_none_was_shown_is_not_replaced_by_an_earlier_one() {
    let paged = Paged::new("");
    let _daemon = paged.serve();
    let visit = Visit::new(&paged);
    fs::write(file(&paged, "main"), "one").unwrap();
    let was = digest(&visit.page("/groups/main/memory"));
    visit.ask("groups.edit", &[("arg-folder", "main"), ("arg-text", "two"), ("arg-was", &was)]);
    fs::remove_file(file(&paged, "main")).unwrap();
    let was = digest(&visit.page("/groups/main/memory"));
    assert_eq!(was, "");
    fs::write(file(&paged, "main"), "what the agent remembers").unwrap();
    let told = visit.ask("groups.back", &[("arg-folder", "main"), ("arg-to", "1"), ("arg-was", &was)]);
    assert!(told.contains("was changed meanwhile"), "{told}");
    assert_eq!(fs::read_to_string(file(&paged, "main")).unwrap(), "what the agent remembers");
}

#[test]
fn what_is_typed_stays_while_things_change_and_is_refused_when_the_file_did() {
    if !has_browser() {
        return;
    }
    let paged = Paged::new("");
    let _daemon = paged.serve();
    let browser = inside(&paged, Scripts::On, &[]);
    browser.open(&format!("{}/groups/main/memory", paged.origin()));
    browser.until("the page to be live", "return document.body?.dataset.live === 'on'");
    browser.run("document.querySelector('textarea').focus(); document.querySelector('textarea').select()");
    browser.keys("You are Bo");
    fs::write(file(&paged, "main"), "by the agent").unwrap();
    paged.root.g2(&["groups", "set", "main", "name=Home"]);
    paged.root.ask("local:main", "hello");
    assert_eq!(browser.run("return document.querySelector('textarea').value"), "You are Bo");
    browser.click("form[action='/do/groups.edit'] button");
    browser.sees("was changed meanwhile");
    browser.until("the text of now", "return document.querySelector('textarea').value === 'by the agent'");
    browser.run("document.querySelector('textarea').focus(); document.querySelector('textarea').select()");
    browser.keys("You are Bo");
    browser.click("form[action='/do/groups.edit'] button");
    browser.sees("group main has a new CLAUDE.md");
    browser
        .until("the text as it is saved", "return document.querySelector('textarea').value === 'You are Bo'");
    assert_eq!(fs::read_to_string(file(&paged, "main")).unwrap(), "You are Bo");
    assert!(browser.complaints().is_empty());
}
