//! Files that people send by the page.

use std::fs;

use super::{
    Paged,
    browser::{Scripts, has_browser, inside},
    http,
};
use crate::support::wait_for;

/// A form in parts: fields, then files with their names.
fn form(fields: &[(&str, &str)], files: &[(&str, &str)]) -> String {
    let mut body = String::new();
    for (name, value) in fields {
        body.push_str(&format!(
            "--xyz\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
        ));
    }
    for (name, contents) in files {
        body.push_str(&format!("--xyz\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\nContent-Type: text/plain\r\n\r\n{contents}\r\n"));
    }
    format!("{body}--xyz--\r\n")
}

impl Paged {
    fn send_parts(&self, cookie: &str, body: &str) -> http::Answer {
        let (host, origin) = (self.host(), self.origin());
        let headers = [
            ("Host", host.as_str()),
            ("Content-Type", "multipart/form-data; boundary=xyz"),
            ("Cookie", cookie),
            ("Origin", &origin),
            ("Sec-Fetch-Site", "same-origin"),
        ];
        http::ask(self.port, "POST", "/say", &headers, body)
    }

    /// Whether no file of a message is on its way any more.
    fn nothing_is_left(&self) -> bool {
        fs::read_dir(self.root.data("incoming")).map_or(true, |mut left| left.next().is_none())
    }
}

const CHAT: &str = "local:main";

#[test]
fn files_come_with_a_message_once_and_can_be_saved_again() {
    let paged = Paged::new("");
    let _daemon = paged.serve();
    let (cookie, token) = paged.enter();
    let fields =
        [("token", token.as_str()), ("back", "/chats"), ("chat", CHAT), ("key", "k1"), ("text", "look")];
    let body = form(&fields, &[("a.txt", "one\r\n--xy"), ("../../a.txt", "two"), ("", "")]);
    for _ in 0..2 {
        let answer = paged.send_parts(&cookie, &body);
        assert_eq!((answer.status, answer.header("location")), (303, "/chats"), "{}", answer.text());
    }
    wait_for("the answer", || (paged.root.said(CHAT).len() == 1).then_some(()));
    assert_eq!(paged.root.rows(&["messages", "list"]).len(), 1);
    for (n, contents) in [(1, "one\r\n--xy"), (2, "two")] {
        let file = paged.get(&format!("/files/heard/1/{n}"), &[("Cookie", &cookie)]);
        assert_eq!((file.status, file.text().as_str()), (200, contents));
        assert_eq!(file.header("x-content-type-options"), "nosniff");
    }
    let seen = paged.seen("/chats/main?chat=local:main", &cookie);
    assert!(seen.contains(">a.txt</a>") && seen.contains(">2-a.txt</a>"), "{seen}");
    assert!(paged.nothing_is_left());
    // Files alone are a message too.
    let alone = [("token", token.as_str()), ("chat", CHAT), ("key", "k2"), ("text", "")];
    assert_eq!(paged.send_parts(&cookie, &form(&alone, &[("b.txt", "x")])).header("location"), "/");
    assert_eq!(paged.root.rows(&["messages", "list"]).len(), 2);
}

#[test]
fn what_is_foreign_too_large_or_too_much_is_refused_and_leaves_nothing() {
    let paged = Paged::new("[media]\nlargest_mib = 1\n");
    let _daemon = paged.serve();
    let (cookie, token) = paged.enter();
    let ours =
        [("token", token.as_str()), ("back", "/chats"), ("chat", CHAT), ("key", "k1"), ("text", "look")];
    let foreign = [("token", "another"), ("chat", CHAT), ("key", "k1"), ("text", "look")];
    let late = [("text", "look"), ("token", token.as_str()), ("chat", CHAT), ("key", "k1")];
    for body in [
        form(&foreign, &[("a.txt", "x")]),
        form(&foreign, &[]),
        form(&[], &[("a.txt", "x")]),
        form(&late, &[]),
    ] {
        assert_eq!(paged.send_parts(&cookie, &body).status, 403);
    }
    assert_eq!(paged.send_parts("g2=none", &form(&ours, &[("a.txt", "x")])).status, 401);
    let large = "x".repeat((1 << 20) + 1);
    let many: Vec<(&str, &str)> = vec![("a.txt", "x"); 11];
    let key = [("token", token.as_str()), ("chat", CHAT), ("key", "../k"), ("text", "look")];
    let far = [("token", token.as_str()), ("chat", "tg:-100"), ("key", "k3"), ("text", "look")];
    let long = "y".repeat(300 << 10);
    let keyless = [("token", token.as_str()), ("back", "/chats"), ("chat", CHAT), ("text", "look")];
    let behind = form(&keyless, &[("a.txt", "x")]).replace("--xyz--", form(&[("key", "k5")], &[]).trim_end());
    let crowd: Vec<(&str, &str)> = [ours.to_vec(), vec![("", ""); 28]].concat();
    let texts = [("token", token.as_str()), ("chat", CHAT), ("key", "k4"), ("text", long.as_str())];
    for (body, why) in [
        (form(&ours, &[("large.txt", &large)]), "large.txt has more than 1 MiB"),
        (form(&ours, &many), "at most 10 files go with a message"),
        (form(&key, &[("a.txt", "x")]), "the message has no usable key"),
        (form(&far, &[("a.txt", "x")]), "is no local chat"),
        (form(&texts, &[]), "has more than 262144 bytes"),
        (form(&keyless, &[("a.txt", "x")]), "the form has no key before its files"),
        (behind, "the form has no key before its files"),
        (form(&crowd, &[]), "the form has more than 32 texts"),
        (form(&ours, &[("a.txt", "x")]).replace("--xyz--", ""), "the form ended before its end"),
    ] {
        let answer = paged.send_parts(&cookie, &body);
        assert_eq!(answer.status, 303, "{why}: {}", answer.text());
        let seen = paged.seen(answer.header("location"), &cookie);
        assert!(seen.contains("data-failed") && seen.contains(why), "{why}: {seen}");
        assert!(paged.nothing_is_left(), "{why}");
    }
    assert!(paged.root.rows(&["messages", "list"]).is_empty());
}

#[test]
fn beside_a_picture_stands_a_small_one_of_its_pixels_and_no_byte_of_it() {
    const PICTURE: &[u8] = include_bytes!("../../../src/domain/platforms/pictures/samples/filters.png");
    let paged = Paged::new("");
    let _daemon = paged.serve();
    let (cookie, _) = paged.enter();
    let folder = tempfile::tempdir().unwrap();
    let picture = [PICTURE, b"and a secret behind its end"].concat();
    let files = [("a.png", &picture[..]), ("b.png", &PICTURE[..60]), ("c.txt", b"plain")];
    let paths = files.map(|(name, contents)| {
        let path = folder.path().join(name);
        fs::write(&path, contents).unwrap();
        path.to_str().unwrap().to_owned()
    });
    let [a, b, c] = &paths;
    paged.root.g2(&["send", "--file", a, "--file", b, "--file", c, "look"]);
    let seen = paged.seen("/chats/main?chat=local:main", &cookie);
    assert!(seen.contains("<img class=\"small\" src=\"/small/heard/1/1\""), "{seen}");
    assert!(!seen.contains("/small/heard/1/3"), "{seen}");
    for _ in 0..2 {
        let small = paged.get("/small/heard/1/1", &[("Cookie", &cookie)]);
        assert_eq!((small.status, small.header("content-type")), (200, "image/png"), "{}", small.text());
        assert_eq!(
            (small.header("x-content-type-options"), small.header("cache-control")),
            ("nosniff", "no-store")
        );
        assert!(small.body.starts_with(b"\x89PNG") && !small.text().contains("secret"));
    }
    for path in
        ["/small/heard/1/2", "/small/heard/1/3", "/small/heard/1/4", "/small/heard/9/1", "/small/said/1/1"]
    {
        assert_eq!(paged.get(path, &[("Cookie", &cookie)]).status, 404, "{path}");
    }
    assert_eq!(paged.get("/small/heard/1/1", &[]).status, 401);
    let left = fs::read_dir(paged.root.data("small")).unwrap().count();
    assert_eq!(left, 0);
}

#[test]
fn what_is_typed_stays_where_no_answer_comes_and_the_page_says_so() {
    if !has_browser() {
        return;
    }
    let paged = Paged::new("");
    let daemon = paged.serve();
    let browser = inside(&paged, Scripts::On, &[]);
    browser.open(&format!("{}/chats/main?chat=local:main", paged.origin()));
    browser.until("the page to be live", "return document.body?.dataset.live === 'on'");
    drop(daemon);
    browser.run(
        "document.getElementById('message').value = 'a long story';
         document.querySelector('form.composer').requestSubmit()",
    );
    browser.sees("No answer came");
    assert_eq!(browser.run("return document.getElementById('message').value"), "a long story");
}

#[test]
fn a_file_is_chosen_in_a_browser_and_sent_with_the_line_beside_it() {
    if !has_browser() {
        return;
    }
    let paged = Paged::new("");
    let _daemon = paged.serve();
    let browser = inside(&paged, Scripts::On, &[]);
    browser.open(&format!("{}/chats/main?chat=local:main", paged.origin()));
    browser.until("the page to be live", "return document.body?.dataset.live === 'on'");
    browser.run(
        "const chosen = new DataTransfer();
         chosen.items.add(new File(['minutes of the meeting'], 'minutes.txt', {type: 'text/plain'}));
         document.querySelector('input[name=file]').files = chosen.files;
         document.getElementById('message').value = 'read this';
         document.querySelector('form.composer').requestSubmit()",
    );
    browser.sees("minutes.txt");
    browser.sees("echo: read this");
    assert_eq!(browser.run("return [document.getElementById('message').value, document.querySelector('input[name=file]').files.length]"), serde_json::json!(["", 0]));
    assert!(browser.complaints().is_empty());
}
