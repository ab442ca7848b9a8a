//! Whether Slack lets the account in.

use channel_protocol::{Light, NotSent, SentTwice};
use g2_fakes::slack::world::Fault;

use super::*;

fn refused(mut adapter: Adapter, why: &str, hint: &str) {
    let state =
        std::iter::repeat_with(|| adapter.state()).find(|state| state.transport == Light::Refused).unwrap();
    assert!(state.why.contains(why) && state.hint.contains(hint), "{state:?}");
    assert_eq!(adapter.exit(), Some(1));
}

#[test]
fn hello_says_what_slack_can() {
    let fake = Fake::start();
    let mut adapter = start(&fake.base, &tokens(), &BTreeMap::new());
    let hello = adapter.hello();
    assert_eq!((&hello.myself.id[..], &hello.myself.name[..], hello.text.max), ("U900", "g2", 3000));
    assert_eq!((hello.sent_twice, hello.pace.chat_ms), (SentTwice::Readback, 1000));
}

#[test]
fn tokens_that_are_missing_wrong_or_of_the_other_kind_are_refused_with_a_way_out() {
    let fake = Fake::start();
    let new = |tokens: &str| start(&fake.base, tokens, &BTreeMap::new());
    refused(new(""), "bot token", "OAuth & Permissions");
    refused(new(BOT_TOKEN), "app token", "Basic Information");
    refused(new(&format!("{APP_TOKEN} xoxb-wrong")), "bot token: Slack says invalid_auth", "api.slack.com");
    refused(new(&format!("xapp-wrong {BOT_TOKEN}")), "app token: Slack says invalid_auth", "api.slack.com");
    // Given apart, they are the same.
    let mut adapter =
        start_with(&fake.base, json!({"token": BOT_TOKEN, "app_token": APP_TOKEN}), &BTreeMap::new());
    adapter.ready();
    let no = |error: &str, needed: &str| {
        Fault::Answer(200, None, json!({"ok": false, "error": error, "needed": needed}))
    };
    fake.fault("apps.connections.open", no("missing_scope", "connections:write"));
    refused(new(&tokens()), "connections:write", "App-Level Tokens");
    fake.fault("auth.test", no("account_inactive", ""));
    refused(new(&tokens()), "account_inactive", "new tokens");
}

#[test]
fn a_token_that_is_revoked_while_it_runs_and_a_switch_that_is_off_are_told_to_a_person() {
    let fake = Fake::start();
    let sure = json!({"token": tokens(), "sure_after_s": 0});
    let mut adapter = start_with(&fake.base, sure.clone(), &BTreeMap::new());
    adapter.ready();
    fake.world().bot_token = "xoxb-another".into();
    assert_eq!(adapter.done(&send("k.1.1", "slack:C700", "x")).not, Some(NotSent::Offline));
    refused(adapter, "bot token", "new tokens");
    fake.world().bot_token = BOT_TOKEN.into();
    let mut adapter = start_with(&fake.base, sure, &BTreeMap::new());
    adapter.ready();
    fake.world().app_token = "xapp-another".into();
    fake.cut();
    refused(adapter, "app token", "new tokens");
    fake.world().app_token = APP_TOKEN.into();
    let mut adapter = start(&fake.base, &tokens(), &BTreeMap::new());
    adapter.ready();
    fake.line(&json!({"type": "disconnect", "reason": "link_disabled"}));
    refused(adapter, "Socket Mode is switched off", "Socket Mode");
}

#[test]
fn a_slack_that_denies_us_once_or_rests_is_asked_again_and_the_account_goes_on() {
    let (fake, mut adapter) = connected();
    let no = || Fault::Answer(200, None, json!({"ok": false, "error": "invalid_auth"}));
    let _ = fake.say(GENERAL, ADA, "before");
    let cursor = adapter.next_event().cursor;
    fake.wait("it is taken", |world| world.envelopes.is_empty());
    // The next socket is denied once.
    fake.fault("apps.connections.open", no());
    fake.cut();
    let _ = fake.say(GENERAL, ADA, "meanwhile");
    assert_eq!(adapter.next_event().text, "meanwhile");
    // A text is refused so.
    fake.fault("chat.postMessage", no());
    assert_eq!(adapter.done(&send("k.1.1", "slack:C700", "x")).not, Some(NotSent::Offline));
    assert!(adapter.done(&send("k.1.1", "slack:C700", "x")).ids.is_some());
    // And at the start of an account that was let in before.
    adapter.kill();
    fake.fault("auth.test", no());
    fake.fault(
        "apps.connections.open",
        Fault::Answer(429, Some("0"), json!({"ok": false, "error": "ratelimited"})),
    );
    let mut adapter = adapter.again(&cursor);
    let state = adapter.state();
    assert!(state.transport == Light::Waiting && state.why.contains("asked again"), "{state:?}");
    assert_eq!(adapter.next_event().text, "meanwhile");
}

#[test]
fn a_page_in_place_of_slacks_answer_refuses_nobody() {
    let fake = Fake::start();
    fake.fault("auth.test", Fault::Answer(302, None, json!("<html>")));
    let mut adapter = start(&fake.base, &tokens(), &BTreeMap::new());
    let state = adapter.state();
    assert!(state.transport == Light::Waiting && state.why.contains("302"), "{state:?}");
    adapter.ready();
}

#[test]
fn an_adapter_that_has_nothing_to_do_takes_little_memory() {
    let (fake, mut adapter) = connected();
    for n in 0..500 {
        let _ = fake.say(GENERAL, ADA, &n.to_string());
    }
    adapter.events(500);
    fake.wait("all is taken", |world| world.envelopes.is_empty());
    let kib = adapter.memory();
    assert!(kib <= 6 << 10, "{kib} KiB");
}
