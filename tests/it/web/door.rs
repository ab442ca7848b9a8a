//! Who is let in at the page, and what of them is taken for a change.

use serde_json::{Value, json};

use super::{Paged, http};
use crate::support::{Root, wait_for};

/// A page, and a text that could not be said.
pub(super) fn with_a_failed_text() -> (Paged, crate::support::Daemon, i64) {
    let paged = Paged::new("");
    paged.root.g2(&["wirings", "add", "--group", "main", "--chat", "tg:-100", "--engage", "mention"]);
    let daemon = paged.serve();
    let far = json!({"type": "send_message", "chatJid": "tg:-100", "text": "hi", "requestId": "far"});
    paged.root.put_command("main", "messages", "0.json", &far);
    let id = wait_for("a text that can't be said", || {
        let rows = paged.root.rows(&["outbox", "list"]);
        rows.into_iter().find(|row| row["status"] == "failed")?["id"].as_i64()
    });
    (paged, daemon, id)
}

#[test]
fn without_a_setting_there_is_no_page() {
    let root = Root::new("");
    let _daemon = root.serve();
    assert_eq!(root.json(&["status"])["page"], Value::Null);
    let refused = root.run(&["web", "open"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(1) && said.contains("the page is off"), "{said}");
    assert!(!root.data("web.token").exists());
}

#[test]
fn a_ticket_lets_one_browser_in_once_and_its_session_can_be_ended() {
    let paged = Paged::new("");
    let _daemon = paged.serve();
    let closed = paged.get("/", &[]);
    assert!(closed.status == 401 && closed.text().contains("g2 web open"), "{}", closed.text());
    let url = paged.way_in();
    let path = url.strip_prefix(&paged.origin()).unwrap();
    let answer = paged.get(path, &[("User-Agent", "a browser")]);
    assert_eq!(answer.status, 200);
    let set = answer.header("set-cookie");
    for part in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"] {
        assert!(set.contains(part), "{set}");
    }
    let cookie = set.split(';').next().unwrap();
    assert_eq!(paged.get("/", &[("Cookie", cookie)]).status, 200);
    let again = paged.get(path, &[]);
    assert!(again.status == 401 && again.header("set-cookie").is_empty());
    assert_eq!(paged.get("/enter/0123456789abcdef0123456789abcdef", &[]).status, 401);

    // Neither ticket nor cookie is anywhere to be read.
    let ticket = path.strip_prefix("/enter/").unwrap();
    let secret = cookie.strip_prefix("g2=").unwrap();
    let store = std::fs::read(paged.root.data("g2.sqlite-wal")).unwrap();
    let changes = std::fs::read(paged.root.data("changes.log")).unwrap();
    for place in [store, changes, paged.root.log().into_bytes()] {
        for secret in [ticket, secret] {
            assert!(!place.windows(secret.len()).any(|part| part == secret.as_bytes()));
        }
    }
    let sessions = paged.root.rows(&["web", "sessions", "list"]);
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    assert!(sessions[0]["entered_at"].is_string() && sessions[0]["browser"] == "a browser", "{sessions:?}");
    paged.root.g2(&["web", "sessions", "revoke", &sessions[0]["id"].to_string()]);
    assert_eq!(paged.get("/", &[("Cookie", cookie)]).status, 401);
    let none = paged.root.run(&["web", "sessions", "revoke", "77"]);
    assert_eq!(none.status.code(), Some(1));
}

#[test]
fn tickets_and_sessions_end_by_themselves_and_there_are_not_many() {
    let paged = Paged::new("");
    let _daemon = paged.serve();
    let (cookie, _) = paged.enter();
    let late = paged.way_in();
    paged.root.change_store("UPDATE web_sessions SET ends_at = made_at");
    assert_eq!(paged.get("/", &[("Cookie", &cookie)]).status, 401);
    assert_eq!(paged.get(late.strip_prefix(&paged.origin()).unwrap(), &[]).status, 401);
    let refused = (0..70).find_map(|_| {
        let output = paged.root.run(&["web", "open"]);
        (!output.status.success()).then(|| String::from_utf8(output.stderr).unwrap())
    });
    assert!(refused.is_some_and(|said| said.contains("64 sessions")));
    assert!(paged.root.g2(&["web", "sessions", "revoke", "--all"]).contains("64 sessions"));
}

#[test]
fn a_foreign_name_is_never_answered() {
    let paged = Paged::new("");
    let _daemon = paged.serve();
    let (cookie, _) = paged.enter();
    let port = paged.port;
    for host in
        [format!("evil.example:{port}"), format!("localhost:{port}"), "g2.localhost".into(), String::new()]
    {
        for path in ["/", "/a/page.css", "/enter/0123456789abcdef0123456789abcdef", "/live?of=now&since=0"] {
            let answer = http::ask(port, "GET", path, &[("Host", &host), ("Cookie", &cookie)], "");
            assert_eq!(answer.status, 421, "{host} {path}: {}", answer.text());
        }
    }
    let by_address = format!("127.0.0.1:{port}");
    assert_eq!(http::ask(port, "GET", "/", &[("Host", &by_address), ("Cookie", &cookie)], "").status, 200);
}

#[test]
fn a_change_is_made_if_it_comes_from_the_page_and_otherwise_not() {
    let (paged, _daemon, id) = with_a_failed_text();
    let (cookie, token) = paged.enter();
    let (_, others) = paged.enter();
    let (ours, form) = (paged.origin(), format!("id={id}&back=/outbox&token={token}"));
    let site = "same-origin";
    let by_address = format!("http://127.0.0.1:{}", paged.port);
    let bad: Vec<(Vec<(&str, &str)>, String)> = vec![
        (vec![("Cookie", &cookie)], form.clone()),
        (vec![("Cookie", &cookie), ("Origin", &ours)], form.clone()),
        (vec![("Cookie", &cookie), ("Sec-Fetch-Site", site)], form.clone()),
        (vec![("Cookie", &cookie), ("Origin", "null"), ("Sec-Fetch-Site", site)], form.clone()),
        (vec![("Cookie", &cookie), ("Origin", &by_address), ("Sec-Fetch-Site", site)], form.clone()),
        (
            vec![("Cookie", &cookie), ("Origin", "http://evil.example"), ("Sec-Fetch-Site", "cross-site")],
            form.clone(),
        ),
        (vec![("Cookie", &cookie), ("Origin", &ours), ("Sec-Fetch-Site", "same-site")], form.clone()),
        (vec![("Origin", &ours), ("Sec-Fetch-Site", site)], form.clone()),
        (vec![("Cookie", &cookie), ("Origin", &ours), ("Sec-Fetch-Site", site)], format!("id={id}")),
        (
            vec![("Cookie", &cookie), ("Origin", &ours), ("Sec-Fetch-Site", site)],
            format!("id={id}&token={others}"),
        ),
    ];
    for (headers, form) in bad {
        let answer = paged.post_with("/do/outbox.drop", &form, &headers);
        assert!([401, 403].contains(&answer.status), "{headers:?} {form}: {}", answer.status);
        let answer = paged.post_with("/say", &format!("{form}&chat=local:main&text=hello&key=k"), &headers);
        assert!([401, 403].contains(&answer.status), "{headers:?} {form}: {}", answer.status);
    }
    assert!(paged.root.rows(&["messages", "list"]).is_empty());
    assert!(!std::fs::read_to_string(paged.root.data("changes.log")).unwrap().contains("page in session"));

    let answer = paged.post("/do/outbox.retry", &cookie, &form);
    assert_eq!(answer.status, 303, "{}", answer.text());
    let page = paged.get(answer.header("location"), &[("Cookie", &cookie)]).text();
    assert!(page.contains(&format!("g2 outbox retry {id}")), "{page}");
    let changes = std::fs::read_to_string(paged.root.data("changes.log")).unwrap();
    assert!(changes.contains(&format!("page in session 1 done: outbox.retry id={id}")), "{changes}");
    // What is refused is told, and so is what the page does not offer.
    let answer = paged.post("/do/outbox.retry", &cookie, &format!("id=7777&token={token}"));
    let page = paged.get(answer.header("location"), &[("Cookie", &cookie)]).text();
    assert!(page.contains("outbox row 7777 does not exist"), "{page}");
    assert_eq!(paged.post("/do/web.open", &cookie, &format!("token={token}")).status, 404);
}

#[test]
fn each_answer_forbids_what_is_not_ours() {
    let paged = Paged::new("");
    let _daemon = paged.serve();
    let (cookie, _) = paged.enter();
    let style = paged.get("/", &[("Cookie", &cookie)]).text();
    let style =
        style.split("rel=\"stylesheet\" href=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    for (path, status) in [("/", 200), ("/none", 404), (style.as_str(), 200), ("/enter/x", 401)] {
        let answer = paged.get(path, &[("Cookie", &cookie)]);
        assert_eq!(answer.status, status, "{path}");
        let policy = answer.header("content-security-policy");
        for part in ["default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"]
        {
            assert!(policy.contains(part) && !policy.contains("unsafe"), "{path}: {policy}");
        }
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(answer.header(name), value, "{path}");
        }
        let kept = if path == style { "public, max-age=31536000, immutable" } else { "no-store" };
        assert_eq!(answer.header("cache-control"), kept, "{path}");
    }
}

#[test]
fn what_strangers_wrote_is_text_and_nothing_in_it_hides() {
    let paged = Paged::new("");
    let _daemon = paged.serve();
    let (cookie, _) = paged.enter();
    let text = "<script>alert(1)</script><img src=x onerror=alert(2)> \u{202e}txt.exe \"'><b>bold";
    paged.root.ask("local:main", text);
    let page = paged.get("/chats/main?chat=local:main", &[("Cookie", &cookie)]).text();
    assert!(
        page.contains("&lt;script&gt;alert(1)&lt;/script&gt;&lt;img src=x onerror=alert(2)&gt; txt.exe"),
        "{page}"
    );
    assert!(!page.contains("<script>") && !page.contains("<img") && !page.contains('\u{202e}'));
    let none = paged.get("/runs?group=%3Cscript%3E", &[("Cookie", &cookie)]);
    assert!(none.status == 404 && !none.text().contains("<script>"), "{}", none.text());
}

#[test]
fn a_request_is_bounded() {
    let paged = Paged::new("");
    let _daemon = paged.serve();
    let (cookie, token) = paged.enter();
    let long = format!("token={token}&chat=local:main&key=k&text={}", "x".repeat(300 << 10));
    assert_eq!(paged.post("/say", &cookie, &long).status, 413);
    let head = "x".repeat(40 << 10);
    assert_eq!(paged.get("/", &[("Cookie", &cookie), ("X-Long", &head)]).status, 431);
    assert!(paged.root.rows(&["messages", "list"]).is_empty());
}
