//! Whether signal-cli has the account.

use channel_protocol::{Format, Light, SentTwice, Unit};
use g2_fakes::signal::OUR_ACI;

use super::*;

fn refused(mut adapter: Adapter, why: &str, hint: &str) {
    let state =
        std::iter::repeat_with(|| adapter.state()).find(|state| state.transport == Light::Refused).unwrap();
    assert!(state.why.contains(why) && state.hint.contains(hint), "{state:?}");
    assert_eq!(adapter.exit(), Some(1));
}

#[test]
fn hello_says_who_the_account_is_and_what_signal_can() {
    let fake = Fake::start();
    let hello = start_with(&fake.base, json!({"account": US})).hello();
    assert_eq!((&hello.myself.id[..], &hello.myself.name[..], &hello.myself.handle[..]), (OUR_ACI, "G2", US));
    assert_eq!((hello.text.max, hello.text.unit, hello.text.format), (2000, Unit::Chars, Format::Spans));
    assert_eq!(hello.sent_twice, SentTwice::Never);
    assert!(hello.addresses.unwrap().direct.len() <= channel_protocol::LONGEST_DIRECT);
}

#[test]
fn an_account_that_is_not_there_or_not_named_is_refused_with_a_way_out() {
    let fake = Fake::start();
    refused(
        start_with(&fake.base, json!({"account": "+4955555"})),
        "does not have the account +4955555",
        "link or register",
    );
    refused(start_with(&fake.base, json!({})), "has 2 accounts", "`account`");
    refused(start_with(&fake.base, json!({"account": "Ada"})), "no number", "`account`");
    fake.world().accounts = Some(vec![]);
    refused(start_with(&fake.base, json!({})), "has no account", "link or register");
    refused(start_with("http://192.0.2.1:8080", json!({})), "only this machine", "`url`");
    // An account that went while it runs.
    fake.world().accounts = Some(vec![US.into()]);
    let mut adapter = start_with(&fake.base, json!({"sure_after_s": 0}));
    adapter.ready();
    fake.world().accounts = Some(vec!["+4930900001".into()]);
    fake.cut();
    refused(adapter, "does not have the account", "listAccounts");
}

#[test]
fn the_only_account_needs_no_name_and_one_that_is_not_told_does() {
    let fake = Fake::start();
    fake.world().accounts = Some(vec![US.into()]);
    let mut adapter = start_with(&fake.base, json!({}));
    assert_eq!(adapter.hello().myself.handle, US);
    fake.world().accounts = None;
    refused(start_with(&fake.base, json!({})), "does not say which", "`account`");
    let mut adapter = start_with(&fake.base, json!({"account": US}));
    adapter.ready();
    fake.say(ADA, "hello");
    assert_eq!(adapter.next_event().text, "hello");
    // Another account's messages are not ours.
    let mut adapter = start_with(&fake.base, json!({"account": "+4930900001"}));
    adapter.ready();
    fake.say(ADA, "for the first one");
    fake.world().tell(
        &json!({"account": "+4930900001", "envelope": {"sourceUuid": EVE, "timestamp": 4_100_000_000_000_u64,
        "dataMessage": {"timestamp": 4_100_000_000_000_u64, "message": "for the second one"}}}),
    );
    assert!(adapter.next_event().unread.contains("`account` in g2.toml is +4930900001"));
    assert_eq!(adapter.next_event().text, "for the second one");
}

#[test]
fn a_signal_cli_that_is_not_there_yet_is_waited_for() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let mut adapter = start_with(&base, json!({"account": US}));
    let state = adapter.state();
    assert_eq!((state.transport, state.hint.contains("signal-cli daemon --http")), (Light::Waiting, true));
}

#[test]
fn an_idle_adapter_takes_little_memory() {
    let (fake, mut adapter) = connected();
    fake.say(ADA, "hello");
    adapter.next_event();
    assert!(adapter.memory() < 12 << 10, "{} KiB", adapter.memory());
}
