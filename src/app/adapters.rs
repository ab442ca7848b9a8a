//! The channels that the settings ask for: this machine's terminals, and an adapter for each account.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    channels::{
        Channel, Channels, NAMES,
        local::Local,
        remote::{Ground, NotReady, Patience, Ready, Remote},
    },
    config::{Config, Environment, OWN_ADAPTERS, with_secrets},
    domain::{host::errors::chain, platforms::accounts::Account},
};

/// How many characters of the instance's id begin our ids of texts.
const INSTALL: usize = 6;

/// Returns every channel's name.
#[must_use]
pub(super) fn names(config: &Config) -> Vec<String> {
    NAMES
        .iter()
        .map(|name| (*name).to_owned())
        .chain(config.channels.iter().map(|a| a.name.clone()))
        .collect()
}

/// Makes every channel; none is connected yet.
pub(super) fn channels(root: &Path, config: &Config, instance: &str, local: &Local) -> Channels {
    let mut all: Vec<Box<dyn Channel>> = vec![Box::new(local.clone())];
    let ground = Ground {
        program: own_program(),
        home: root.join("data/channels"),
        install: instance.chars().filter(char::is_ascii_alphanumeric).take(INSTALL).collect(),
        patience: Patience::default(),
    };
    let environment = Environment::of_process();
    for account in &config.channels {
        let (root, name, environment) = (root.to_owned(), account.name.clone(), environment.clone());
        let load = Arc::new(move || load(&root, &name, &environment));
        all.push(Box::new(Remote::new(&account.name, ground.clone(), load)));
    }
    Channels::new(all)
}

/// Returns the path of this program.
pub(super) fn own_program() -> PathBuf {
    std::env::current_exe().unwrap_or_else(|_| PathBuf::from("g2"))
}

/// Reads the settings and the secrets of an account as they are now.
///
/// # Errors
/// What is missing.
pub fn load(root: &Path, name: &str, environment: &Environment) -> Result<Ready, NotReady> {
    let not_ready = |why: String, hint: &str| NotReady { why, hint: hint.to_owned() };
    let config = Config::load(root, &Environment::default())
        .map_err(|error| not_ready(chain(&error), "correct g2.toml"))?;
    let account = config.channels.into_iter().find(|account| account.name == name);
    let account = account.ok_or_else(|| {
        not_ready(
            format!("g2.toml has no table [channels.{name}] any more"),
            "restart the daemon, or add the account again",
        )
    })?;
    let config = with_secrets(&account, root, environment).map_err(|error| {
        not_ready(chain(&error), "put the secret there, or `g2 channels add` the account again")
    })?;
    Ok(Ready { account: at_place(account), config })
}

/// The adapters of G2 itself lie beside this program.
fn at_place(mut account: Account) -> Account {
    if let Some(program) = account.command.first_mut().filter(|program| *program == OWN_ADAPTERS) {
        let beside = own_program().with_file_name(OWN_ADAPTERS);
        if beside.is_file() {
            *program = beside.display().to_string();
        }
    }
    account
}
