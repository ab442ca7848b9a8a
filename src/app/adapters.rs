//! The channels that the settings ask for: this machine's terminals, and an adapter for each account.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use channel_protocol::Command;
use serde_json::{Map, Value};

use crate::{
    channels::{
        Channels, NAMES,
        local::Local,
        remote::{Ground, NotReady, Patience, Ready, Remote},
    },
    config::{
        Config, ConfigError, Environment, OWN_ADAPTERS, Proxy, WHATSAPP, account_in, hide_secrets,
        with_secrets,
    },
    domain::{
        heard::chat_commands::Word,
        platforms::{
            accounts::Account,
            addresses::{Addresses, Forms, Platform},
        },
        shown::errors::chain,
    },
    store::Names,
    system::{leftovers::Notes, media::Media, world::World},
};

/// How many characters of the instance's id begin our ids of texts.
const INSTALL: usize = 6;
/// Where programs that the daemon shuts in are noted, below the root.
pub(super) const CHILDREN: &str = "data/children";

/// Returns every channel's name.
#[must_use]
pub(super) fn names(config: &Config) -> Vec<String> {
    NAMES
        .iter()
        .map(|name| (*name).to_owned())
        .chain(config.channels.iter().map(|a| a.name.clone()))
        .collect()
}

/// The accounts of a daemon. They come and go with their tables in the settings.
pub(super) struct Accounts {
    root: PathBuf,
    ground: Ground,
    environment: Environment,
    /// What the settings said last.
    known: BTreeSet<String>,
    /// The words that platforms list as commands.
    commands: Vec<Command>,
    pub(super) channels: Arc<Channels>,
    names: Names,
}

impl Accounts {
    /// Makes every channel; none is connected yet. `names` is kept up with them; `known`: how addresses
    /// read as far as accounts have told.
    pub(super) fn new(
        world: &World,
        root: &Path,
        config: &Config,
        instance: &str,
        local: &Local,
        media: &Arc<Media>,
        (names, known): (Names, &Addresses),
    ) -> Self {
        let ground = Ground {
            world: world.clone(),
            program: own_program(),
            home: root.join("data/channels"),
            notes: root.join(CHILDREN),
            install: instance.chars().filter(char::is_ascii_alphanumeric).take(INSTALL).collect(),
            patience: Patience::default(),
            media: Arc::clone(media),
        };
        let mut this = Self {
            root: root.to_owned(),
            ground,
            environment: Environment::of_process(),
            known: BTreeSet::new(),
            commands: commands(config),
            channels: Arc::new(Channels::new(vec![Box::new(local.clone())])),
            names,
        };
        for account in &config.channels {
            this.add(account, known);
        }
        this
    }

    fn add(&mut self, Account { name, prefix, .. }: &Account, known: &Addresses) {
        let (root, of, environment) = (self.root.clone(), name.clone(), self.environment.clone());
        let load = Arc::new(move || load(&root, &of, &environment));
        let forms = known.named(name).map_or(Forms::NONE, |account| account.forms().clone());
        let account = Platform::new(name, prefix, forms);
        self.channels.add(Box::new(Remote::new(account, self.ground.clone(), load)));
        self.known.insert(name.clone());
    }

    /// Takes up the accounts that the settings name now, and lets go of the others. Where other words are commands now, all are
    /// started anew: each platform has a list of them.
    pub(super) async fn follow(&mut self, config: &Config) {
        let commands = commands(config);
        if commands != std::mem::replace(&mut self.commands, commands.clone()) {
            self.known.iter().for_each(|name| self.channels.restart(name));
        }
        let wanted: BTreeSet<String> = config.channels.iter().map(|account| account.name.clone()).collect();
        if wanted == self.known {
            return;
        }
        for account in &config.channels {
            if !self.known.contains(&account.name) {
                tracing::info!(channel = account.name, "an account is taken up");
                // What it told before is read as it is started.
                self.add(account, &Addresses::default());
            }
        }
        for name in &self.known - &wanted {
            self.channels.remove(&name).await;
            self.known.remove(&name);
            tracing::info!(channel = name, "an account is let go");
        }
        self.names.set(self.channels.names());
    }
}

/// Kills the adapters and hooks of an earlier daemon, and what they started.
pub(super) async fn kill_left(root: &Path) {
    match Notes(&root.join(CHILDREN)).kill_all().await {
        Ok(0) => {}
        Ok(groups) => tracing::warn!(groups, "killed what programs of an earlier daemon left running"),
        Err(error) => {
            tracing::error!(error = %chain(&error), "what programs of an earlier daemon left running can't be killed");
        }
    }
}

/// Returns the path of this program.
pub(super) fn own_program() -> PathBuf {
    std::env::current_exe().unwrap_or_else(|_| PathBuf::from("g2"))
}

/// Reads the settings and the secrets of an account as they are now.
///
/// # Errors
/// The missing part.
fn load(root: &Path, name: &str, environment: &Environment) -> Result<Ready, NotReady> {
    let not_ready = |why: String, hint: &str| NotReady { why, hint: hint.to_owned() };
    let config =
        Config::load(root, environment).map_err(|error| not_ready(chain(&error), "correct g2.toml"))?;
    let variables = config.proxy.as_ref().map(Proxy::variables).unwrap_or_default();
    let commands = commands(&config);
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
    let account = at_place(account);
    match without_adapters(&account) {
        Some(missing) => Err(missing),
        None => Ok(Ready { commands, ..ready(account, config, variables) }),
    }
}

/// Says so where an account's adapter is one of G2's own, and these are not installed.
#[must_use]
pub fn without_adapters(account: &Account) -> Option<NotReady> {
    let program = account.command.first().filter(|program| is_own(program))?;
    #[expect(clippy::disallowed_methods, reason = "where programs are, not a setting")]
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_found = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    (!is_found).then(|| NotReady {
        why: match &program[..] {
            WHATSAPP => format!("the adapter of WhatsApp is not installed: there is no {WHATSAPP} beside g2"),
            _ => format!(
                "the adapters of chat platforms are not installed: there is no {OWN_ADAPTERS} beside g2"
            ),
        },
        hint: match &program[..] {
            WHATSAPP => "`cargo install --path src/adapters/whatsapp --locked` in the checkout of g2 brings it; it belongs into the folder of g2",
            _ => "`cargo install --path . --locked` in the checkout of g2 brings both; they belong into one folder",
        }
        .to_owned(),
    })
}

/// Returns an account that is on trial, before it has a table in the settings.
///
/// # Errors
/// Its table says something that it can't.
pub fn on_trial(
    name: &str,
    table: &str,
    token: Option<&str>,
    proxy: Option<&Proxy>,
) -> Result<Ready, ConfigError> {
    let mut account = account_in(name, table)?;
    // It is at hand, and not where it will be kept.
    account.secrets.clear();
    let mut config = account.config.clone();
    config.extend(token.map(|token| ("token".to_owned(), token.into())));
    let variables = proxy.map(Proxy::variables).unwrap_or_default();
    Ok(ready(at_place(account), config, variables))
}

/// Returns an account with the secrets that its adapter is given: those that were read for it, and those that its settings tell of.
fn ready(account: Account, config: Map<String, Value>, variables: Vec<(String, String)>) -> Ready {
    let values: Vec<&str> = variables.iter().map(|(_, value)| value.as_str()).collect();
    let mut given = serde_json::json!([config, account.command, values]);
    let named = account.secrets.iter().filter_map(|(name, _)| config.get(name)?.as_str());
    let secrets: Vec<String> = named.map(str::to_owned).chain(hide_secrets(&mut given)).collect();
    // Two tokens in one text are two secrets, too. A short word of a text is none.
    let words = secrets.iter().flat_map(|secret| secret.split_whitespace()).filter(|word| word.len() >= 16);
    let words: Vec<String> =
        words.filter(|word| !secrets.iter().any(|secret| secret == word)).map(str::to_owned).collect();
    let secrets = secrets.into_iter().chain(words).collect();
    // An account on trial changes nothing on its platform.
    Ready { account, config, variables, secrets, commands: Vec::new() }
}

/// Returns the words that platforms list as commands.
fn commands(config: &Config) -> Vec<Command> {
    let command = |(name, word): (String, Word)| Command {
        name,
        does: word.does().to_owned(),
        takes: word.takes_name().then(|| "name".to_owned()),
    };
    config.words.listed().into_iter().map(command).collect()
}

/// Whether a program has adapters of G2 itself.
fn is_own(program: &str) -> bool {
    [OWN_ADAPTERS, WHATSAPP].contains(&program)
}

/// The adapters of G2 itself lie beside this program.
fn at_place(mut account: Account) -> Account {
    if let Some(program) = account.command.first_mut().filter(|program| is_own(program)) {
        let beside = own_program().with_file_name(&program);
        if beside.is_file() {
            *program = beside.display().to_string();
        }
    }
    account
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::platforms::accounts::SecretPlace;

    #[test]
    fn an_adapter_may_say_again_what_was_read_for_it_and_what_its_settings_tell_of() {
        let secrets = vec![("login".to_owned(), SecretPlace::Variable("L".into()))];
        let command = ["adapter", "--api-key", "in-command"].map(str::to_owned).to_vec();
        let config = serde_json::json!({"login": "in-file and-a-long-second-one", "on": true, "nested": [{"password": "in-table"}]});
        let ready = ready(
            Account { name: "toy".into(), secrets, command, ..Account::default() },
            config.as_object().unwrap().clone(),
            vec![("HTTPS_PROXY".into(), "http://ada:hush@p:1".into())],
        );
        let mut secrets = ready.secrets;
        secrets.sort();
        assert_eq!(
            secrets,
            ["ada:hush@", "and-a-long-second-one", "in-command", "in-file and-a-long-second-one", "in-table"]
        );
    }
}
