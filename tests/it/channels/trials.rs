//! `g2 channels test` tries the adapters of Telegram, Discord, Slack, Signal, Matrix and mail, each on servers of our own and of others.

use std::path::Path;

use g2_fakes::{
    discord::{self, world},
    mail,
    peers::Crabline,
    signal, slack,
    synapse::synapse,
    telegram,
};
use serde_json::{Value, json};

use crate::support::{Root, adapters};

/// What more of its gateway crabline is to be: as lenient as Discord's.
const LENIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/adapters/tests/foreign/crabline_gateway.mjs");
/// Discord's tokens begin with the bot's id.
const DISCORD_TOKEN: &str = "MTM1MDAwMDAwMDAwMDAwMDAx.of.the.tests";

fn keeps_to_every_rule(platform: &str, upstream: &str, config: &Value) {
    adapters();
    let program = Path::new(env!("CARGO_BIN_EXE_g2")).with_file_name("g2-channels").display().to_string();
    let (root, config) = (Root::new(""), config.to_string());
    let arguments =
        ["channels", "test", "--config", &config, "--upstream", upstream, "--", &program, platform];
    let output = root.run(&[&["--json"], &arguments[..]].concat());
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let broken: Vec<&Value> = rows.iter().filter(|row| row["ok"] != true).collect();
    assert!(
        output.status.success() && broken.is_empty() && rows.len() >= 20,
        "{upstream}: {broken:#?} of {rows:#?}"
    );
}

#[test]
fn telegrams_adapter_keeps_to_every_rule() {
    let fake = telegram::Fake::start();
    // More than may wait to be stored.
    for n in 0..70 {
        fake.text(telegram::GROUP, &n.to_string());
    }
    keeps_to_every_rule("telegram", &fake.url, &json!({"token": telegram::TOKEN}));
    let Some(crabline) = Crabline::start("telegram", None, telegram::TOKEN) else { return };
    keeps_to_every_rule("telegram", crabline.word("baseUrl"), &json!({"token": telegram::TOKEN}));
}

#[test]
fn discords_adapter_keeps_to_every_rule() {
    let fake = discord::Fake::start();
    keeps_to_every_rule("discord", &fake.base, &json!({"token": world::TOKEN}));
    let Some(crabline) = Crabline::start("discord", Some(LENIENT), DISCORD_TOKEN) else { return };
    keeps_to_every_rule("discord", crabline.word("baseUrl"), &json!({"token": DISCORD_TOKEN}));
}

#[test]
fn slacks_adapter_keeps_to_every_rule() {
    let fake = slack::Fake::start();
    let tokens = format!("{} {}", slack::world::APP_TOKEN, slack::world::BOT_TOKEN);
    keeps_to_every_rule("slack", &fake.base, &json!({"token": tokens}));
}

#[test]
fn signals_adapter_keeps_to_every_rule() {
    let fake = signal::Fake::start();
    // More than may wait to be stored.
    for n in 0..70 {
        fake.say(signal::ADA, &n.to_string());
    }
    keeps_to_every_rule("signal", &fake.base, &json!({"account": signal::US}));
    let Some(crabline) = Crabline::start("signal", None, "") else { return };
    keeps_to_every_rule("signal", crabline.word("baseUrl"), &json!({"account": crabline.word("account")}));
}

#[test]
fn matrixs_adapter_keeps_to_every_rule() {
    let Some(server) = synapse() else { return };
    let (ada, bot) = (server.person("trial-ada"), server.person("trial-bot"));
    let room = ada.room(&[&bot.id]);
    for n in 0..70 {
        ada.say(&room, &n.to_string());
    }
    let config = json!({"token": bot.token, "homeserver": server.base(), "invites_from": [ada.id]});
    keeps_to_every_rule("matrix", &server.base(), &config);
}

#[test]
fn mails_adapter_keeps_to_every_rule() {
    let fake = mail::Fake::start();
    let (imap, smtp) = fake.places();
    let config = json!({"token": mail::PASSWORD, "user": mail::USER, "imap": imap, "smtp": smtp, "authserv": mail::SERVER});
    keeps_to_every_rule("mail", "", &config);
}

#[test]
fn the_command_of_the_docs_works_as_it_stands() {
    let page = include_str!("../../../docs/channel-protocol.md");
    let block = page.split("```sh\n").nth(1).unwrap().split("```").next().unwrap();
    assert!(block.contains("g2 channels test"), "{block}");
    let toy = tempfile::tempdir().unwrap();
    let root = Root::new("");
    let programs = Path::new(env!("CARGO_BIN_EXE_g2")).parent().unwrap().display();
    let script = block.replace("/tmp/toy", toy.path().to_str().unwrap());
    let mut bash = std::process::Command::new("bash");
    bash.args(["-c", &script]).current_dir(env!("CARGO_MANIFEST_DIR")).env_clear();
    bash.env("PATH", format!("{programs}:/usr/bin:/bin")).env("G2_ROOT", root.path());
    let said = bash.output().unwrap();
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.status.success() && text.lines().count() > 20, "{text}{said:?}");
    assert!(!text.contains("false") && !text.contains("last words"), "{text}");
}

#[test]
fn an_adapter_that_breaks_a_rule_is_shown_with_its_own_last_words() {
    let root = Root::new("");
    let config = json!({"token": "hush-hush"}).to_string();
    let broken = r#"import sys
print("\033[31mone", file=sys.stderr)
sys.exit("the token hush-hush is no good")"#;
    let words = ["channels", "test", "--config", &config, "--", "python3", "-c", broken];
    let output = root.run(&words);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("no hello came"), "{text}");
    let last = "the adapter's own last words:\n   [31mone\n  the token … is no good\n";
    assert!(text.ends_with(last), "{text}");
    let output = root.run(&[&["--json"], &words[..]].concat());
    let rows: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(rows[0]["said"], json!([" [31mone", "the token … is no good"]), "{rows}");
    // One that says why it is refused is quoted, too.
    let refused = r#"import sys
sys.stdin.readline()
print('{"is":"state","transport":"refused","why":"no folder","hint":"make it"}', flush=True)
sys.exit(1)"#;
    let output = root.run(&["channels", "test", "--", "python3", "-c", refused]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("no hello came; no folder; make it"), "{text}");
}
