//! `g2 channels test` tries the adapters of Telegram, Discord and Matrix, each on servers of our own and of others.

use std::path::Path;

use g2_fakes::{
    discord::{self, world},
    peers::Crabline,
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
