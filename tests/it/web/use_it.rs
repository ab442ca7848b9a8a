//! The page in use: by mouse, by keyboard, without scripts, over the daemon's death, from a foreign page.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
};

use super::{
    Paged,
    browser::{Browser, Scripts, has_browser, inside},
};
use crate::support::{fail_points, wait_for};

const TAB: &str = "\u{e004}";
const ENTER: &str = "\u{e007}";

#[test]
fn a_message_is_sent_and_its_answer_comes_without_a_new_page() {
    if !has_browser() {
        return;
    }
    let paged = Paged::new("");
    let _daemon = paged.serve();
    let browser = inside(&paged, Scripts::On, &[]);
    browser.open(&format!("{}/chats/main?chat=local:main", paged.origin()));
    browser.until("the page to be live", "return document.body?.dataset.live === 'on'");
    browser.run("window.same = true; document.getElementById('message').focus()");
    browser.keys("hello there");
    browser.keys(ENTER);
    browser.sees("echo: hello there");
    assert_eq!(browser.run("return window.same && document.getElementById('message').value"), "");
    // What is half typed stays, whatever comes meanwhile.
    browser.keys("half a line");
    paged.root.ask("local:main", "from elsewhere");
    browser.sees("echo: from elsewhere");
    assert_eq!(browser.run("return document.getElementById('message').value"), "half a line");
    let messages = paged.root.rows(&["messages", "list"]);
    assert_eq!((messages[0]["sender"].as_str(), messages.len()), (Some("local:me"), 2));
    assert!(browser.complaints().is_empty());
}

#[test]
fn a_question_is_answered_by_its_button_and_what_waited_is_answered() {
    if !has_browser() {
        return;
    }
    let paged = Paged::new("");
    paged.root.g2(&["chats", "set", "local:main", "policy=request_approval"]);
    let _daemon = paged.serve();
    let browser = inside(&paged, Scripts::On, &[]);
    browser.until("the page to be live", "return document.body?.dataset.live === 'on'");
    paged.root.g2(&["send", "--as", "bob", "may I?"]);
    browser.sees("bob");
    browser.until("the card", "return document.querySelector('form[action=\"/do/approvals.approve\"] button')?.innerText === 'Allow'");
    browser.click("form[action='/do/approvals.approve'] button");
    browser.sees("g2 approvals approve 1");
    wait_for("the answer", || {
        paged.root.said("local:main").iter().any(|said| said.contains("may I?")).then_some(())
    });
    browser
        .until("the card to go", "return !document.querySelector('form[action=\"/do/approvals.approve\"]')");
    let changes = std::fs::read_to_string(paged.root.data("changes.log")).unwrap();
    assert!(changes.contains("page in session 1 done: approvals.approve id=1"), "{changes}");
}

#[test]
fn a_page_whose_daemon_is_gone_is_dimmed_as_a_whole() {
    if !has_browser() {
        return;
    }
    let paged = Paged::new("");
    let daemon = paged.serve();
    let browser = inside(&paged, Scripts::On, &[]);
    browser.until("the page to be live", "return document.body?.dataset.live === 'on'");
    let dims = "return Number(getComputedStyle(document.querySelector('main')).opacity)";
    assert_eq!(browser.run(dims), 1);
    drop(daemon);
    browser.until("the page to be dimmed", &format!("{dims} < 1"));
    let _daemon = paged.serve();
    browser
        .until("the page to be live again", &format!("{dims} === 1 && document.body?.dataset.live === 'on'"));
}

#[test]
fn what_is_half_typed_or_half_pressed_stays_when_the_page_is_refreshed() {
    if !has_browser() {
        return;
    }
    let paged = Paged::new("");
    paged.root.g2(&["users", "add", "tg:1", "--name", "Ann"]);
    let _daemon = paged.serve();
    let browser = inside(&paged, Scripts::On, &[]);
    browser.open(&format!("{}/people", paged.origin()));
    browser.until("the page to be live", "return document.body?.dataset.live === 'on'");
    browser.run(
        "window.forms = [...document.querySelectorAll('form.act')];
         document.querySelector('form[action=\"/do/users.add\"] input[name=arg-id]').value = 'tg:7';
         document.querySelector('form[action=\"/do/users.add\"] input[name=arg-name]').focus()",
    );
    browser.keys("Bo");
    paged.root.g2(&["users", "add", "tg:2", "--name", "Cid"]);
    browser.sees("Cid");
    assert_eq!(browser.run("return forms.length > 2 && forms.every((form) => form.isConnected)"), true);
    // One who is removed elsewhere takes their forms with them: no other one's has their place, nor is it open as theirs was.
    let opened = browser.run(
        "const ann = [...document.querySelectorAll('tr')].find((row) => row.innerText.includes('Ann'));
         ann.querySelector('details').open = true;
         return document.querySelectorAll('details[open]').length",
    );
    assert_eq!(opened, 1);
    // The page hears of both at once.
    let mut socket = crate::support::Socket::connect(&paged.root);
    for (name, args) in [
        ("users.remove", serde_json::json!({"id": "tg:1"})),
        ("users.add", serde_json::json!({"id": "tg:3", "name": "Dan"})),
    ] {
        let told = socket.call(&serde_json::json!({"op": "op", "do": {"name": name, "args": args}}));
        assert_eq!(told["is"], "op_done", "{told}");
    }
    browser.until(
        "Dan in Ann's place",
        "return !document.body.innerText.includes('Ann') && document.body.innerText.includes('Dan')",
    );
    assert_eq!(browser.run("return document.querySelectorAll('details[open]').length"), 0);
    assert_eq!(
        browser.run("return forms.filter((form) => form.isConnected).map((form) => form.getAttribute('id'))"),
        serde_json::json!(["users.role/role/id=local%3Ame", "users.remove//id=local%3Ame", "users.add/id"])
    );
    browser.keys("b");
    browser.keys(ENTER);
    browser.sees("g2 users add tg:7 --name Bob");
    assert_eq!(
        browser.run("return ['arg-id', 'arg-name'].map((name) => document.querySelector(`form[action='/do/users.add'] [name=${name}]`).value)"),
        serde_json::json!(["", ""])
    );
}

#[test]
fn a_page_is_right_again_after_the_daemon_was_killed() {
    if !has_browser() {
        return;
    }
    let paged = Paged::new("");
    let daemon = paged.serve();
    let browser = inside(&paged, Scripts::On, &[]);
    browser.open(&format!("{}/chats/main?chat=local:main", paged.origin()));
    browser.until("the page to be live", "return document.body?.dataset.live === 'on'");
    daemon.kill();
    browser.until("the page to say so", "return document.body?.dataset.live === 'off'");
    let _daemon = paged.serve();
    paged.root.ask("local:main", "said meanwhile");
    // Nobody loads it again: it comes back by itself, and shows what it missed.
    browser.sees("echo: said meanwhile");
    browser.until("the page to be live", "return document.body?.dataset.live === 'on'");
}

#[test]
fn all_can_be_read_and_done_without_scripts() {
    if !has_browser() {
        return;
    }
    let paged = Paged::new("");
    let _daemon = paged.serve();
    let browser = inside(&paged, Scripts::Off, &[]);
    assert!(browser.source().contains("Needs you"));
    browser.open(&format!("{}/chats/main?chat=local:main", paged.origin()));
    browser.click("#message");
    browser.keys("by hand");
    browser.click("form.composer button");
    wait_for("the answer", || {
        paged.root.said("local:main").iter().any(|said| said == "echo: by hand").then_some(())
    });
    browser.open(&format!("{}/chats/main?chat=local:main", paged.origin()));
    assert!(browser.source().contains("echo: by hand"));
    paged.root.g2(&["ipc", "hold", "main"]);
    browser.open(&paged.origin());
    browser.click("form[action='/do/ipc.release'] button");
    wait_for("the hold to go", || {
        paged.root.json(&["status"])["held"].as_array().unwrap().is_empty().then_some(())
    });
    assert!(browser.source().contains("g2 ipc release main"));
}

#[test]
fn work_that_is_set_aside_goes_on_by_its_button() {
    if !has_browser() || !fail_points() {
        return;
    }
    let paged = Paged::new("");
    let _daemon = paged.serve_with(&[("G2_FAILPOINT", "deliver.saying:1+2+3+4+5:panic")]);
    let browser = inside(&paged, Scripts::Off, &[]);
    paged.root.send("local:main", "hello");
    wait_for("the chat to be set aside", || {
        let rows = paged.root.rows(&["loops", "list"]);
        rows.iter().any(|row| row["loop"] == "deliver" && row["state"] == "set_aside").then_some(())
    });
    assert_eq!(paged.root.said("local:main"), [""; 0]);
    wait_for("the page to name it", || {
        browser.open(&paged.origin());
        browser.source().contains("/do/loops.release").then_some(())
    });
    browser.click("form[action='/do/loops.release'] button");
    wait_for("it to be said", || (paged.root.said("local:main") == ["echo: hello"]).then_some(()));
    assert!(browser.source().contains("g2 loops release deliver local:main"), "{}", browser.source());
    browser.open(&paged.origin());
    wait_for("the page to name it no more", || {
        browser.open(&paged.origin());
        (!browser.source().contains("/do/loops.release")).then_some(())
    });
    let changes = std::fs::read_to_string(paged.root.data("changes.log")).unwrap();
    assert!(changes.contains("page in session 1 done: loops.release"), "{changes}");
}

#[test]
fn the_keyboard_alone_is_enough() {
    if !has_browser() {
        return;
    }
    let paged = Paged::new("");
    let _daemon = paged.serve();
    let browser = inside(&paged, Scripts::On, &[]);
    let focused = |browser: &Browser| browser.run("return document.activeElement.innerText.trim()");
    browser.keys(TAB);
    assert_eq!(focused(&browser), "To the page");
    // Every link of the way is reached, and seen to be.
    let mut reached = Vec::new();
    while reached.len() < 40 && reached.last().is_none_or(|last| last != "Sign out") {
        browser.keys(TAB);
        reached.push(focused(&browser).as_str().unwrap().to_owned());
        let seen = browser.run("return getComputedStyle(document.activeElement).outlineStyle !== 'none'");
        assert_eq!(seen, true, "{reached:?}");
    }
    for name in [
        "Now",
        "Chats",
        "Groups",
        "Conversations",
        "Runs",
        "Tasks",
        "Mailbox",
        "Outbox",
        "People",
        "Channels",
        "Usage",
        "Doctor",
        "Egress",
        "Budgets",
        "Audit",
        "Backups",
    ] {
        assert!(reached.iter().any(|text| text == name), "{name}: {reached:?}");
    }
    browser.run("document.querySelector('a[href=\"/chats\"]').focus()");
    browser.keys(ENTER);
    browser.until(
        "the chats",
        "return location.pathname === '/chats' && document.querySelector('ul.chats a') !== null",
    );
    browser.run("document.querySelector('ul.chats a').focus()");
    browser.keys(ENTER);
    browser.until("the chat", "return document.getElementById('message') !== null");
}

#[test]
fn nine_tabs_are_all_right_when_they_are_looked_at() {
    if !has_browser() {
        return;
    }
    let paged = Paged::new("");
    let _daemon = paged.serve();
    let browser = inside(&paged, Scripts::On, &[]);
    for _ in 0..8 {
        browser.tab();
        browser.open(&format!("{}/chats/main?chat=local:main", paged.origin()));
    }
    paged.root.ask("local:main", "for all tabs");
    for tab in browser.tabs().iter().skip(1) {
        browser.to_tab(tab);
        browser.sees("echo: for all tabs");
    }
}

#[test]
fn a_foreign_page_changes_and_learns_nothing() {
    if !has_browser() {
        return;
    }
    let paged = Paged::new("");
    let _daemon = paged.serve();
    paged.root.g2(&["ipc", "hold", "main"]);
    let browser = inside(&paged, Scripts::On, &["evil.example", "rebound.example"]);
    // Its name leads to our address, as after a rebinding.
    browser.open(&format!("http://rebound.example:{}/", paged.port));
    browser.sees("only reached by its own name");
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let target = paged.origin();
    std::thread::spawn(move || {
        let page = format!(
            "<!doctype html><title>evil</title><form id=f method=post action='{target}/do/ipc.release'><input name=what value=main></form>"
        );
        // A browser opens connections beforehand, and says nothing on them.
        for mut stream in listener.incoming().flatten() {
            let page = page.clone();
            std::thread::spawn(move || {
                let _ = stream.read(&mut [0; 4096]);
                let length = page.len();
                let _ = write!(
                    stream,
                    "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{page}"
                );
            });
        }
    });
    for name in ["evil.example", "127.0.0.1", "other.localhost"] {
        browser.open(&format!("http://{name}:{port}/"));
        let read = browser.run_later(&format!(
            "const done = arguments[0]; fetch('{}/', {{credentials: 'include'}}).then((r) => r.text()).then((t) => done('read ' + t), (e) => done('refused'))",
            paged.origin()
        ));
        assert_eq!(read, "refused", "{name}");
        let sent = browser.run_later(&format!(
            "const done = arguments[0]; fetch('{}/do/ipc.release', {{method: 'POST', mode: 'no-cors', credentials: 'include', body: new URLSearchParams({{what: 'main'}})}}).then(() => done('sent'), () => done('refused'))",
            paged.origin()
        ));
        assert!(sent == "sent" || sent == "refused", "{sent}");
        browser.run("document.getElementById('f').submit()");
        browser
            .until("the answer", "return document.body?.innerText.includes('does not come from the page')");
    }
    assert_eq!(paged.root.json(&["status"])["held"], serde_json::json!(["main"]));
}

const PNG: &[u8] = b"\x89PNG\r\n\x1a\nand more";

#[test]
fn files_of_a_chat_are_taken_down_by_who_is_let_in_and_by_nobody_else() {
    let paged = Paged::new("");
    let _daemon = paged.serve();
    let (cookie, _) = paged.enter();
    let name = "<i>ü \"x\".png";
    let at = paged.root.path().join("groups/main").join(name);
    std::fs::write(&at, PNG).unwrap();
    let command = serde_json::json!({
        "type": "media", "chatJid": "local:main", "filePath": format!("/workspace/group/{name}"), "mediaType": "image",
        "requestId": "r1",
    });
    paged.root.put_command("main", "messages", "r1.json", &command);
    assert_eq!(paged.root.reply("main", "r1")["ok"], true);
    let page = paged.get("/chats/main?chat=local:main", &[("Cookie", &cookie)]).text();
    let path = page.split("href=\"/files/").nth(1).unwrap().split('"').next().unwrap();
    assert!(page.contains("&lt;i&gt;ü &quot;x&quot;.png") && !page.contains("<i>"), "{page}");
    let path = format!("/files/{path}");
    let file = paged.get(&path, &[("Cookie", &cookie)]);
    assert_eq!((file.status, &file.body[..]), (200, PNG));
    for (header, value) in [
        ("content-type", "application/octet-stream"),
        ("content-disposition", "attachment; filename=\"_i___x_.png\"; filename*=UTF-8''_i_%C3%BC__x_.png"),
        ("x-content-type-options", "nosniff"),
        ("cache-control", "no-store"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        let said = file.header(header);
        if header == "content-disposition" {
            assert!(said.starts_with("attachment; filename=\"") && !said.contains(['<', '\n']), "{said}");
        } else {
            assert_eq!(said, value, "{header}");
        }
    }
    assert_eq!(paged.get(&path, &[]).status, 401);
    let (said, _) = path.rsplit_once('/').unwrap();
    for wrong in [
        format!("{said}/0"),
        format!("{said}/2"),
        "/files/said/999/1".into(),
        "/files/heard/1/1".into(),
        "/files/said/..%2f..%2fg2.toml/1".into(),
        format!("{said}/18446744073709551615"),
    ] {
        let status = paged.get(&wrong, &[("Cookie", &cookie)]).status;
        assert!(status == 404 || status == 400, "{wrong}: {status}");
    }
    // The row leads to a file that is gone: it is an error, and nothing else is read.
    let kept = std::fs::read_dir(paged.root.data("media")).unwrap().map(|entry| entry.unwrap().path());
    let kept = kept.filter(|folder| !folder.ends_with("new"));
    for file in kept.flat_map(|folder| std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path())) {
        std::fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink(paged.root.path().join("g2.toml"), &file).unwrap();
    }
    assert_eq!(paged.get(&path, &[("Cookie", &cookie)]).status, 500);
}

#[test]
fn an_agent_is_shown_with_its_marks_and_a_person_as_it_was_typed() {
    let paged = Paged::new("");
    let _daemon = paged.serve();
    let (cookie, _) = paged.enter();
    paged.root.ask("local:main", "**loud** <b>tag</b> ![x](https://example.org/x.png)");
    let page = paged.get("/chats/main?chat=local:main", &[("Cookie", &cookie)]).text();
    assert!(page.contains("<p class=\"text\">**loud** &lt;b&gt;tag&lt;/b&gt;"), "{page}");
    assert!(page.contains("<strong>loud</strong> &lt;b&gt;tag&lt;/b&gt;"), "{page}");
    assert!(
        page.contains("<a href=\"https://example.org/x.png\" rel=\"noopener noreferrer nofollow\">x</a>"),
        "{page}"
    );
    assert!(!page.contains("<img"), "{page}");
}

#[test]
fn a_new_chat_goes_to_a_group_that_somebody_chose_and_main_is_the_last_of_them() {
    let paged = Paged::new("");
    paged.root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    for act in ["add", "remove"] {
        paged.root.g2(&["wirings", act, "--group", "main", "--chat", "tg:-100"]);
    }
    let _daemon = paged.serve();
    let (cookie, token) = paged.enter();
    paged.root.change_store(
        "INSERT INTO approvals (kind, chat_jid, sender, sender_name, state, approver, card_chat, options, created_at, expires_at)
         VALUES ('channel', 'tg:-100', 'tg:42', 'Bob', 'pending', 'local:me', 'local:main', '[]', 1, 9000000000000)",
    );
    for page in ["/", "/people", "/chats/main?chat=local:main"] {
        let text = paged.get(page, &[("Cookie", &cookie)]).text();
        let offered = "<select name=\"arg-group\" required><option value=\"\">Choose a group</option>\
                       <option value=\"family\">family</option>\
                       <option value=\"main\">Main (can act in every chat)</option></select>";
        assert!(text.contains(offered), "{page}: {text}");
    }
    let wired = || {
        let rows = paged.root.rows(&["wirings", "list"]);
        rows.iter().find(|row| row["chat_jid"] == "tg:-100").map(|row| row["group"].clone())
    };
    let answer = |group: &str| {
        let form = format!("arg-id=1&arg-group={group}&token={token}");
        let answer = paged.post("/do/approvals.approve", &cookie, &form);
        paged.get(answer.header("location"), &[("Cookie", &cookie)]).text()
    };
    let told = answer("");
    assert!(told.contains("say which group") && wired().is_none(), "{told}");
    answer("family");
    assert_eq!(wired(), Some("family".into()));
}

#[test]
fn an_answer_grows_on_the_page_and_a_stream_tells_of_it() {
    let paged = Paged::new("");
    paged.root.g2(&["groups", "set", "main", "say=stream"]);
    paged.root.script(
        None,
        &serde_json::json!([{"do": [{"so_far": "One"}, {"so_far": "One **two** and"}, {"hang": true}]}]),
    );
    let _daemon = paged.serve();
    let (cookie, _) = paged.enter();
    paged.root.send("local:main", "count");
    let page = || paged.get("/chats/main?chat=local:main", &[("Cookie", &cookie)]).text();
    let grown =
        wait_for("the beginning", || Some(page()).filter(|page| page.contains("<strong>two</strong> and")));
    // It is one line of the chat, and none that waits to be sent.
    assert!(grown.matches("id=\"o").count() == 1 && !grown.contains("data-is=\"pending\""), "{grown}");
    paged.root.send("local:main", "/stop");
    let stopped = wait_for("the stop", || Some(page()).filter(|page| page.contains("I was told to stop")));
    assert!(stopped.contains("<strong>two</strong> and"), "{stopped}");
}
