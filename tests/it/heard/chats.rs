//! Facts about chats.

use g2::{
    domain::{
        heard::access::UnknownSenders,
        platforms::chats::{ChatInfo, ChatKind},
        rows::{ChatChanges, Inbound},
    },
    store::{NewGroup, NewWiring, Store},
};
use ipc_handlers::effect::EngageMode;
use ipc_handlers::effect::IgnoredMessages;
use ipc_handlers::effect::SenderScope;
use ipc_handlers::{Folder, Time};
use serde_json::json;

use crate::support::{Root, telegram, telegram_has_told};

const NOW: Time = Time(1_800_000_000_000);

async fn came(store: &Store, chat: &str, key: &str, info: Option<ChatInfo>) {
    let inbound = Inbound {
        chat_jid: chat.into(),
        replay_key: key.into(),
        id: key.into(),
        sender: "42".into(),
        text: "hi".into(),
        chat: info,
        ..Inbound::default()
    };
    store.accept(inbound, NOW).await.unwrap();
}

#[tokio::test]
async fn a_channels_facts_about_a_chat_are_kept_current_and_a_person_s_policy_stays() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("g2.sqlite")).unwrap();
    let look = async || {
        let chat = store.chat("tg:-5").await.unwrap().unwrap();
        (chat.name, chat.kind.as_str(), chat.threaded, chat.unknown_sender_policy.as_str())
    };
    let is = |name: &str, kind, threaded, policy| (name.to_owned(), kind, threaded, policy);
    came(&store, "tg:-5", "1", None).await;
    assert_eq!(look().await, is("tg:-5", "group", false, "request_approval"));
    let info = |name: &str, kind, threaded| {
        Some(ChatInfo { name: name.into(), kind, threaded, members: None, hears_all: None })
    };
    came(&store, "tg:-5", "2", info("Home", ChatKind::Group, true)).await;
    assert_eq!(look().await, is("Home", "group", true, "request_approval"));
    store
        .set_chat("tg:-5", ChatChanges { policy: Some(UnknownSenders::Strict), ..ChatChanges::default() })
        .await
        .unwrap();
    came(&store, "tg:-5", "3", info("Home, renamed", ChatKind::Direct, false)).await;
    assert_eq!(look().await, is("Home, renamed", "direct", false, "strict"));
    came(&store, "tg:-5", "4", info("", ChatKind::Direct, false)).await;
    came(&store, "tg:-5", "5", None).await;
    assert_eq!(look().await, is("Home, renamed", "direct", false, "strict"));
    // The same event again says nothing new.
    came(&store, "tg:-5", "2", info("Home", ChatKind::Group, true)).await;
    assert_eq!(look().await, is("Home, renamed", "direct", false, "strict"));
}

#[tokio::test]
async fn a_chat_that_is_wired_before_its_first_message_has_the_kind_of_its_address() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("g2.sqlite")).unwrap();
    let folder = Folder::parse("a").unwrap();
    let wiring = NewWiring {
        group: folder.clone(),
        chat_jid: "tg:42".into(),
        engage_mode: EngageMode::Mention,
        engage_pattern: None,
        sender_scope: SenderScope::All,
        ignored_message_policy: IgnoredMessages::Drop,
    };
    let group = NewGroup { folder, name: "a".into(), is_main: false, trigger: "@G2".into() };
    store.add_group(group, vec![wiring], NOW).await.unwrap();
    let look = async || {
        let chat = store.chat("tg:42").await.unwrap().unwrap();
        (chat.kind.as_str(), chat.channel)
    };
    assert_eq!(look().await, ("group", "tg".to_owned()), "no account has told of such addresses yet");
    let account = store.know_account("telegram", "tg").await.unwrap();
    assert_eq!((account.prefix(), look().await), ("tg", ("group", "telegram".to_owned())));
    store.learn_addresses(telegram()).await.unwrap();
    assert_eq!(look().await, ("direct", "telegram".to_owned()));
    // What a person or the platform says of it holds.
    let info =
        ChatInfo { name: "x".into(), kind: ChatKind::Group, threaded: false, members: None, hears_all: None };
    came(&store, "tg:42", "1", Some(info)).await;
    store.learn_addresses(telegram()).await.unwrap();
    assert_eq!(look().await.0, "group");
}

#[test]
fn a_person_changes_facts_about_a_chat_whether_the_daemon_is_up_or_down() {
    let root = Root::new("");
    for daemon in [None, Some(root.serve())] {
        root.g2(&[
            "chats",
            "set",
            "local:main",
            "policy=strict",
            "kind=group",
            "name=The hall",
            "threaded=true",
        ]);
        assert_eq!(
            root.rows(&["chats", "list"]),
            [json!({
                "jid": "local:main", "channel": "local", "name": "The hall", "kind": "group", "threaded": true,
                "unknown_sender_policy": "strict",
            })]
        );
        root.g2(&["chats", "set", "local:main", "policy=public", "kind=direct", "threaded=false"]);
        drop(daemon);
    }
    for (setting, mend) in [
        ("policy=open", "strict, request_approval or public"),
        ("kind=room", "direct or group"),
        ("threaded=yes", "true or false"),
        ("name=", "any text"),
        ("colour=red", "policy, kind, name and threaded"),
        ("policy", "KEY=VALUE"),
    ] {
        let output = root.run(&["chats", "set", "local:main", "kind=group", setting]);
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(1) && told.contains(mend), "{setting}: {told}");
    }
    assert_eq!(root.rows(&["chats", "list"])[0]["kind"], "direct", "all of it or nothing");
    assert_eq!(root.run(&["chats", "set", "tg:1", "policy=strict"]).status.code(), Some(1));
}

#[test]
fn a_wiring_without_a_mode_engages_as_fits_the_kind_of_its_chat() {
    let root = Root::new("");
    telegram_has_told(&root);
    root.g2(&["groups", "add", "ops", "--chat", "tg:-1"]);
    root.g2(&["groups", "add", "ann", "--chat", "tg:1"]);
    root.g2(&["chats", "set", "tg:-1", "threaded=true"]);
    root.g2(&["wirings", "add", "--group", "ann", "--chat", "tg:-1"]);
    root.g2(&["wirings", "add", "--group", "ann", "--chat", "local:ann"]);
    root.g2(&["wirings", "add", "--group", "ann", "--chat", "dc:1", "--pattern", "^ann"]);
    let engages: Vec<(String, String, String)> = root
        .rows(&["wirings", "list"])
        .iter()
        .skip(1)
        .map(|w| {
            let text = |name: &str| w[name].as_str().unwrap_or("-").to_owned();
            (text("chat_jid"), text("engage_mode"), text("engage_pattern"))
        })
        .collect();
    let expected = [
        ("tg:-1", "mention", "-"),
        ("tg:1", "pattern", "."),
        ("tg:-1", "mention-sticky", "-"),
        ("local:ann", "pattern", "."),
        ("dc:1", "pattern", "^ann"),
    ];
    assert_eq!(engages, expected.map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned())));
}
