//! Accounts that come and go while the daemon runs.

use std::{io::Write as _, process::Stdio};

use super::*;
use crate::support::{Socket, Terminal};

/// Adds an account by the command line, its token on standard input.
fn add(root: &Root, arguments: &[&str], token: &str) -> std::process::Output {
    let all: Vec<&str> = ["channels", "add"].iter().chain(arguments).copied().collect();
    let mut command = root.command(&all);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    writeln!(child.stdin.take().unwrap(), "{token}").unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn an_account_is_taken_up_and_let_go_by_a_daemon_that_runs() {
    adapters();
    let town = Town::telegram(0);
    let Town::Telegram(fake) = &town else { panic!() };
    let home = Home { root: Root::new("") };
    let root = &home.root;
    let _daemon = root.serve();
    let before = std::fs::read_to_string(root.path().join("g2.toml")).unwrap();
    let upstream = format!("upstream={}", fake.url);
    let wrong = add(root, &["telegram", "--set", &upstream], "424242:another-token-token");
    assert_eq!(wrong.status.code(), Some(1));
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(
        said.contains("not added") && !said.contains("channels restart") && !said.contains("another-token"),
        "{said}"
    );
    assert_eq!(std::fs::read_to_string(root.path().join("g2.toml")).unwrap(), before);
    assert!(!root.data("secrets/telegram.token").exists());

    for round in 0..2 {
        let added = add(root, &["telegram", "--set", &upstream], telegram::TOKEN);
        let said = String::from_utf8_lossy(&added.stdout).into_owned();
        assert!(added.status.success() && said.contains("@g2bot"), "{added:?}");
        home.until_connected("telegram");
        if round == 0 {
            let near = root.run(&["groups", "add", "near", "--chat", "tg:77"]);
            assert!(near.status.success() && near.stderr.is_empty(), "the account reaches it: {near:?}");
            home.wire(&town.chat(), "pattern");
        }
        town.says(&format!("hello {round}"));
        wait_for("an answer", || town.texts().contains(&format!("echo: hello {round}")).then_some(()));
        let again = add(root, &["telegram", "--set", &upstream], telegram::TOKEN);
        assert!(String::from_utf8_lossy(&again.stderr).contains("already"), "{again:?}");
        let status = root.json(&["status"]);
        let row =
            status["channels"].as_array().unwrap().iter().find(|row| row["name"] == "telegram").unwrap();
        assert_eq!((&row["connection"], &row["unsent"]), (&json!("connected"), &json!(0)), "{row}");
        assert!(row["last_in"].is_string() && row["oldest_unsent"].is_null(), "{row}");
        let seq: i64 = home.column("SELECT max(seq) || '' FROM messages")[0].parse().unwrap();
        assert_eq!(root.why(seq)["channel"]["name"], "telegram");
        root.g2(&["channels", "remove", "telegram"]);
        assert!(!root.data("channels/telegram").exists() && !root.data("secrets/telegram.token").exists());
        assert_eq!(std::fs::read_to_string(root.path().join("g2.toml")).unwrap().trim(), before.trim());
        assert!(
            root.json(&["status"])["channels"].as_array().unwrap().iter().all(|row| row["name"] == "local")
        );
    }
    let log = std::fs::read_to_string(root.data("changes.log")).unwrap();
    assert!(log.contains("channels.add name=telegram") && !log.contains(telegram::TOKEN), "{log}");
}

#[test]
fn a_platform_without_an_adapter_is_told_in_one_line_and_nothing_is_added() {
    let root = Root::new("");
    let daemon = root.serve();
    let before = std::fs::read_to_string(root.path().join("g2.toml")).unwrap();
    for name in ["teams", "viber.work", "telegramm"] {
        for more in [&[][..], &["--no-token"], &["--no-check"]] {
            let refused = add(&root, &[&[name], more].concat(), "424242:a-token-of-somebody");
            let said = String::from_utf8(refused.stderr).unwrap();
            assert_eq!(refused.status.code(), Some(1), "{said}");
            let platform = name.split('.').next().unwrap();
            assert!(
                said.contains(&format!("{name} is not added: G2 has no adapter for {platform}")),
                "{said}"
            );
            assert_eq!(said.lines().count(), 1, "{said}");
        }
    }
    let said = Socket::connect(&root)
        .call(&json!({"op": "op", "do": {"name": "channels.add", "args": {"name": "teams"}}}));
    assert!(said.to_string().contains("no adapter for teams"), "{said}");
    assert_eq!(std::fs::read_to_string(root.path().join("g2.toml")).unwrap(), before);
    assert!(!root.data("secrets").exists());
    drop(daemon);
}

#[test]
fn an_adapter_that_ends_at_once_shows_the_last_line_of_its_log_as_the_reason() {
    let script = "echo starting >&2; echo 'No module named toy' >&2; echo >&2; exit 3";
    let root = Root::new(&format!("[channels.toy]\ncommand = [\"/bin/sh\", \"-c\", \"{script}\"]\n"));
    let _daemon = root.serve();
    let wanted = "it ended with exit status: 3: No module named toy";
    let of =
        |rows: &[Value]| rows.iter().find(|row| row["name"] == "toy")?["why"].as_str().map(str::to_owned);
    // While it is started again, there is no reason.
    wait_for("the reason", || of(&root.rows(&["channels", "list"])).filter(|why| why == wanted));
    wait_for("the reason in status", || {
        let status = root.json(&["status"]);
        of(status["channels"].as_array().unwrap()).filter(|why| why == wanted)
    });
    // One that is tried before it is added says it, too.
    let program = ["/bin/sh", "-c", script].map(|word| format!("--program={word}"));
    let arguments: Vec<&str> =
        ["toy2", "--no-token"].into_iter().chain(program.iter().map(String::as_str)).collect();
    let refused = add(&root, &arguments, "");
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("its adapter ended: No module named toy"), "{said}");
}

#[test]
fn an_adapter_knows_of_the_proxy_by_the_usual_variables() {
    let script = "echo $HTTPS_PROXY $https_proxy $NO_PROXY >&2; exit 3";
    let root = Root::new(&format!(
        "[network]\nproxy = \"http://127.0.0.1:9\"\nno_proxy = \"lan\"\n[channels.toy]\ncommand = [\"/bin/sh\", \"-c\", \"{script}\"]\n"
    ));
    let _daemon = root.serve();
    let wanted =
        "it ended with exit status: 3: http://127.0.0.1:9 http://127.0.0.1:9 lan,localhost,127.0.0.1,::1";
    wait_for("the adapter's word", || {
        let rows = root.rows(&["channels", "list"]);
        (rows.iter().find(|row| row["name"] == "toy")?["why"] == wanted).then_some(())
    });
}

#[test]
fn a_table_that_a_person_writes_or_removes_counts_without_a_restart() {
    let town = Town::telegram(0);
    let home = Home::new(&town, "");
    home.root.settings("");
    let _daemon = home.root.serve();
    home.root.settings(&town.table());
    home.until_connected("telegram");
    town.says("hello");
    town.until_said(&["echo: hello"]);
    home.root.settings("");
    wait_for("the account to be let go", || home.root.log().contains("an account is let go").then_some(()));
}

#[test]
fn a_token_is_not_shown_as_it_is_typed() {
    adapters();
    let town = Town::telegram(0);
    let Town::Telegram(fake) = &town else { panic!() };
    let root = Root::new("");
    let mut terminal = Terminal::open();
    let upstream = format!("upstream={}", fake.url);
    let mut child = terminal.start(root.command(&["channels", "add", "telegram", "--set", &upstream]));
    terminal.until("Token of telegram: ");
    wait_for("the echo to be off", || (!terminal.is_plain()).then_some(()));
    terminal.keys(&format!("{}\n", telegram::TOKEN));
    let shown = terminal.until("telegram is added");
    assert!(child.wait().unwrap().success() && terminal.is_plain());
    assert!(!shown.contains("fake-token"), "{shown}");
}

#[test]
fn a_text_that_waits_for_an_account_is_said_by_the_one_that_takes_its_place() {
    let town = Town::telegram(0);
    let Town::Telegram(fake) = &town else { panic!() };
    let home = Home { root: Root::new("") };
    let root = &home.root;
    adapters();
    let _daemon = root.serve();
    // Its server is not there.
    let away = root.run(&[
        "channels",
        "add",
        "telegram",
        "--no-check",
        "--no-token",
        "--set",
        "upstream=http://127.0.0.1:9",
        "--set",
        "token=1:x",
    ]);
    assert!(away.status.success(), "{away:?}");
    home.wire(&town.chat(), "pattern");
    let far = json!({"type": "send_message", "chatJid": town.chat(), "text": "hi", "requestId": "far"});
    root.put_command("main", "messages", "0.json", &far);
    root.reply("main", "far");
    root.g2(&["channels", "remove", "telegram"]);
    wait_for("it to be refused", || {
        root.rows(&["outbox", "list"]).into_iter().any(|row| row["status"] == "failed").then_some(())
    });
    let added = add(root, &["telegram", "--set", &format!("upstream={}", fake.url)], telegram::TOKEN);
    assert!(added.status.success(), "{added:?}");
    let id = root.rows(&["outbox", "list"]).pop().unwrap()["id"].to_string();
    root.g2(&["outbox", "retry", &id]);
    town.until_said(&["hi"]);
}

#[test]
fn two_accounts_of_one_platform_keep_their_chats_apart() {
    let (one, two) = (Town::telegram(0), Town::telegram(0));
    let Town::Telegram(second) = &two else { panic!() };
    let chat = format!("tg.work:{}", telegram::GROUP);
    let table = format!(
        "[channels.\"telegram.work\"]\ntoken_file = \"telegram.token\"\nupstream = {:?}\n",
        second.url
    );
    let home = Home::new(&one, &table);
    let root = &home.root;
    root.g2(&["groups", "add", "work", "--chat", &chat]);
    root.g2(&["wirings", "set", "--group", "work", "--chat", &chat, "engage=pattern", "pattern=."]);
    root.g2(&["chats", "set", &chat, "policy=public"]);
    let _daemon = home.serve(&one);
    home.until_connected("telegram.work");
    one.says("for home");
    two.says("for work");
    one.until_said(&["echo: for home"]);
    two.until_said(&["echo: for work"]);
    let chats = home.column("SELECT chat_jid || ' ' || text FROM messages ORDER BY chat_jid");
    assert_eq!(chats, [format!("{chat} for work"), format!("{} for home", one.chat())]);
}
