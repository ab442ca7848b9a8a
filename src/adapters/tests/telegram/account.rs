//! How the account stands: its token, its connection, other programs.

use super::*;

#[test]
fn it_says_who_it_is_and_leaves_when_it_is_told_to() {
    let fake = Fake::start();
    let (mut account, hello) = Account::polling(&fake);
    assert_eq!((hello.v, hello.myself.id.as_str(), hello.myself.handle.as_str()), (1, "424242", "@g2bot"));
    assert_eq!((hello.text.max, hello.caption_max, hello.buttons.press_bytes), (4096, 1024, 64));
    let state = account.state(|state| state.inbound == Light::Ok);
    assert_eq!((state.transport, state.outbound), (Light::Ok, Light::Ok));
    account.say(&json!({"op": "ping", "r": 3}));
    assert_eq!(account.next(), Up::Pong { r: 3 });
    account.say(&json!({"op": "stop"}));
    assert_eq!(account.exit(), Some(0));
    let (mut account, _) = Account::polling(&fake);
    account.input = None;
    assert_eq!(account.exit(), Some(0), "the end of the input is the order to leave");
}

#[test]
fn a_token_that_telegram_does_not_know_waits_for_a_person() {
    let fake = Fake::start();
    for token in ["424242:another-token-token", "424242-none-of-them", ""] {
        let home = tempfile::tempdir().unwrap();
        let mut account = Account::start_with(&fake, json!({"token": token}), BTreeMap::new(), home);
        let state = account.state(|state| state.inbound == Light::Refused);
        assert!(state.hint.contains("@BotFather") && state.hint.contains("g2 channels restart telegram"));
        assert_eq!(account.exit(), Some(1));
        let log: Vec<String> = account.log.iter().collect();
        assert!(token.is_empty() || !log.concat().contains(token), "{log:?}");
    }
}

#[test]
fn a_token_that_is_taken_back_is_noticed_and_texts_wait() {
    let fake = Fake::start();
    let config = json!({"token": TOKEN, "sure_after_s": 0});
    let mut account = Account::start_with(&fake, config, BTreeMap::new(), tempfile::tempdir().unwrap());
    account.hello();
    account.until_polling();
    fake.wait("getUpdates", 2);
    fake.ask("token", &json!({"token": "424242:a-new-token-a-new-token"}));
    let done = account.send(GROUP, json!({"text": "x"}));
    assert_eq!(done.not, Some(channel_protocol::NotSent::Offline));
    // The poll that is open ends with an update that it is still given.
    fake.text(GROUP, "hello");
    let event = account.told();
    account.took(&event);
    let state = account.state(|state| state.inbound == Light::Waiting && !state.why.is_empty());
    assert!(
        state.why.contains("does not know the bot's token") && state.hint.contains("@BotFather"),
        "{state:?}"
    );
    account.state(|state| state.inbound == Light::Refused);
    assert_eq!(account.exit(), Some(1));
}

#[test]
fn a_platform_that_denies_us_once_is_asked_again_and_the_account_goes_on() {
    let fake = Fake::start();
    let (mut account, _) = Account::polling(&fake);
    for (n, (code, text)) in [(401, "Unauthorized"), (404, "Not Found")].into_iter().enumerate() {
        fake.text(GROUP, &format!("before {n}"));
        assert_eq!(account.event().text, format!("before {n}"));
        fake.answers("getUpdates", 1, code, text, json!({}));
        // It says so a second time, too, a moment later.
        fake.answers("getMe", 1, code, text, json!({}));
        fake.text(GROUP, &format!("ends the poll {n}"));
        assert_eq!(account.event().text, format!("ends the poll {n}"));
        fake.text(GROUP, &format!("after {n}"));
        assert_eq!(account.event().text, format!("after {n}"));
    }
    assert!(account.states.iter().all(|state| state.inbound != Light::Refused), "{:?}", account.states);
    assert!(account.states.iter().any(|state| state.why.contains("asked again")), "{:?}", account.states);
    assert!(fake.calls("getMe") >= 5);
}

#[test]
fn of_two_programs_with_one_bot_one_gives_way_and_the_other_goes_on() {
    let fake = Fake::start();
    let (mut first, _) = Account::polling(&fake);
    let (mut second, _) = Account::polling(&fake);
    let state = first.state(|state| state.inbound == Light::Refused);
    assert!(state.why.contains("another program") && state.hint.contains("/revoke"), "{state:?}");
    assert_eq!(first.exit(), Some(1));
    fake.text(GROUP, "who hears me");
    assert_eq!(second.event().text, "who hears me");
}

#[test]
fn a_webhook_that_another_program_left_is_removed() {
    let fake = Fake::start();
    let mut stream = TcpStream::connect(fake.url.strip_prefix("http://").unwrap()).unwrap();
    let path = format!("/bot{TOKEN}/setWebhook?url=https%3A%2F%2Fa.example");
    write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    stream.read_to_string(&mut String::new()).unwrap();
    let (mut account, _) = Account::polling(&fake);
    fake.text(GROUP, "x");
    assert_eq!(account.event().text, "x");
}

#[test]
fn a_broken_connection_is_said_and_made_again() {
    let fake = Fake::start();
    let (mut account, _) = Account::polling(&fake);
    fake.fault("getUpdates", 2, json!("cut_before"));
    fake.text(GROUP, "one");
    assert_eq!(account.event().text, "one");
    let state = account.state(|state| state.inbound == Light::Waiting && !state.why.is_empty());
    assert!(!state.why.contains("fake-token"), "{state:?}");
    fake.text(GROUP, "two");
    assert_eq!(account.event().text, "two");
    assert_eq!(account.states.last().unwrap().inbound, Light::Ok);
}

#[test]
fn a_server_that_is_not_there_is_waited_for_and_the_host_is_heard_meanwhile() {
    let fake = Fake::start();
    fake.fault("getMe", 1, json!("cut_before"));
    fake.answers("getMe", 1, 502, "Bad Gateway", json!({}));
    fake.answers("getMe", 1, 429, "Too Many Requests", json!({"retry_after": 1}));
    let mut account = Account::start(&fake);
    account.say(&json!({"op": "ping", "r": 1}));
    assert_eq!(account.next(), Up::Pong { r: 1 });
    account.state(|state| state.inbound == Light::Waiting);
    account.hello();
    let nobody = fake.gone();
    let mut gone = Account::start(&nobody);
    gone.state(|state| state.transport == Light::Waiting);
    gone.say(&json!({"op": "stop"}));
    assert_eq!(gone.exit(), Some(0));
}

#[test]
fn the_menu_of_commands_is_set_once_and_after_the_first_poll() {
    let fake = Fake::start();
    let (mut home, mut cursor) = (tempfile::tempdir().unwrap(), BTreeMap::new());
    for (says, times) in [("what I can do", 1), ("what I can do", 1), ("other words", 2)] {
        let config = json!({"token": TOKEN, "commands": {"help": says}});
        let mut account = Account::start_with(&fake, config, cursor, home);
        account.hello();
        account.until_polling();
        // The menu is set before the second poll, which brings this.
        fake.text(GROUP, "x");
        account.event();
        assert_eq!(fake.calls("setMyCommands"), times);
        account.say(&json!({"op": "stop"}));
        account.exit();
        home = std::mem::replace(&mut account.home, tempfile::tempdir().unwrap());
        cursor = account.cursor.clone();
    }
    let calls = fake.ask("state", &json!({}))["calls"].clone();
    let methods: Vec<&str> =
        calls.as_array().unwrap().iter().map(|call| call["method"].as_str().unwrap()).collect();
    assert_eq!(methods[..4], ["getMe", "deleteWebhook", "getUpdates", "setMyCommands"]);
}

#[test]
fn a_bot_with_its_privacy_mode_on_says_so_and_in_which_groups_it_is_an_admin() {
    let fake = Fake::start();
    let (_, hello) = Account::polling(&fake);
    assert_eq!(hello.hears_all, Some(true));
    fake.ask("privacy", &json!({"on": true}));
    fake.ask("chat", &json!({"id": -66, "type": "supergroup", "title": "Admins", "is_admin": true}));
    let chats = json!({"tg:-55": "1", "tg:-66": "2", "tg:12345": "3", "tg:-99": "4", "tg:x": "5"});
    let mut account = Account::start_in(&fake, chats);
    assert_eq!(account.hello().hears_all, Some(false));
    let told: BTreeMap<String, Option<bool>> = (0..2)
        .map(|_| match account.next() {
            Up::Chat(chat) => (chat.chat, chat.hears_all),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(told, [("tg:-55".to_owned(), Some(false)), ("tg:-66".to_owned(), Some(true))].into());
    // Chats with one person are not asked about, and one that is gone spoils none.
    fake.wait("getChat", 3);
    for status in ["administrator", "member"] {
        let member = json!({"my_chat_member": {"chat": {"id": GROUP}, "from": {"id": ADA}, "date": 1,
            "old_chat_member": {"status": "member"}, "new_chat_member": {"status": status}}});
        fake.ask("update", &member);
        let Up::Chat(chat) = account.next() else { panic!() };
        assert_eq!((&chat.chat[..], chat.hears_all), ("tg:-55", Some(status == "administrator")));
        let Up::Event(nothing) = account.next() else { panic!() };
        account.took(&nothing);
    }
}
