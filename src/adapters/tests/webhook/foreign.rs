//! Requests that programs of others signed are believed, and what the adapter signs is believed by them.

use std::process::Stdio;

use g2_fakes::peers::{node, python};

use super::*;

const KEYED: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

#[test]
fn the_library_of_standard_webhooks_signs_what_is_taken_and_believes_what_goes_out() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/foreign/standardwebhooks_judge.py");
    let judge = |arguments: &[&str]| {
        let mut python = python("webhook", "standardwebhooks")?;
        let judge = python.arg(script).args(arguments).stdout(Stdio::piped()).output().unwrap();
        assert!(judge.status.success(), "{}", String::from_utf8_lossy(&judge.stderr));
        Some(String::from_utf8(judge.stdout).unwrap())
    };
    let receiver = receiver(&["204 No Content"]);
    let mut adapter = ready(&json!({"token": KEYED, "reply_url": receiver.url}));
    let body = r#"{"text":"hello 🎈"}"#;
    let Some(signed) = judge(&["sign", KEYED, "msg_1", body]) else { return };
    let mut signed: BTreeMap<String, String> = serde_json::from_str(&signed).unwrap();
    signed.insert("content-type".into(), "application/json".into());
    let request = json!({"op": "request", "r": 1, "path": "home", "headers": signed, "body": body});
    assert_eq!(taken(&mut adapter, &request).text, "hello 🎈");
    let send = json!({"op": "send", "r": 2, "key": "g2.1.1", "chat": "hook:home", "text": "hi 🎈"});
    assert_eq!(adapter.done(&send).ids, Some(vec!["g2.1.1".into()]));
    let (headers, body) = receiver.next();
    let headers = serde_json::to_string(&headers).unwrap();
    assert_eq!(judge(&["verify", KEYED, &headers, &body]).unwrap().trim(), "believed");
}

#[test]
fn what_the_library_of_github_signs_is_taken() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/foreign/octokit_sign.mjs");
    let body = r#"{"action":"opened","repository":{"full_name":"a/b"},"sender":{"login":"ada"}}"#;
    let Some(mut node) = node("@octokit/webhooks-methods") else { return };
    let signed = node.args([script, SECRET, body]).stdout(Stdio::piped()).output().unwrap();
    assert!(signed.status.success(), "{}", String::from_utf8_lossy(&signed.stderr));
    let signature = String::from_utf8(signed.stdout).unwrap();
    let mut adapter = ready(&json!({}));
    let headers = [
        ("x-hub-signature-256", signature.trim()),
        ("x-github-event", "issues"),
        ("x-github-delivery", "72d3162e"),
        ("content-type", "application/json"),
    ];
    let event = taken(&mut adapter, &request(1, "github", &headers, body));
    assert!(event.text.starts_with("GitHub: issues opened in a/b by ada\n\n{"), "{}", event.text);
}
