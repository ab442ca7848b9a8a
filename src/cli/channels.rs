//! `g2 channels`.
#![expect(
    clippy::disallowed_methods,
    reason = "reads and writes the user's own g2.toml, and secrets of accounts"
)]

use std::{
    io::{IsTerminal as _, Read as _},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use clap::Subcommand;
use ipc_handlers::Time;
use serde::Serialize;

use super::{CliResult, Context, Failure, client::perform, out, show};
use crate::{
    app,
    channels::{NAMES, trial},
    config::Config,
    domain::{
        platforms::accounts::{Account, check_name},
        rows::ChannelState,
    },
    ops::channels::restart,
    store::Store,
};

/// How long the first start of an adapter may take.
const CHECK: Duration = Duration::from_secs(30);
/// The longest token that is read, bytes.
const LONGEST_TOKEN: u64 = 4096;

const STATES: &str = "\
A channel has three lights: connection (connecting, connected, offline, refused), inbound and
outbound (ok, waiting, failing, refused, unknown). A refused account is not tried again until its
settings change, or until `g2 channels restart`.

Examples:
  g2 channels list";

const SHOW: &str = "Examples:\n  g2 channels show telegram";

#[derive(Debug, Subcommand)]
pub(super) enum Channels {
    /// List channels with their lights, newest events and unsent texts
    #[command(after_help = STATES)]
    List,
    /// Show one channel
    #[command(after_help = SHOW)]
    Show {
        /// Channel, such as telegram or telegram.work
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Add an account on a platform: keep its token, write its table to g2.toml, and check it
    #[command(
        after_help = "The token is read from the terminal, from standard input, or from --token-file. It is kept in\ndata/secrets/, for this user only.\n\nExamples:\n  g2 channels add telegram\n  g2 channels add telegram.work --token-file token.txt\n  g2 channels add toy --no-token --program /usr/bin/python3 --program /opt/toy.py"
    )]
    Add {
        /// Platform, or platform and account: telegram, telegram.work
        #[arg(value_name = "NAME")]
        name: String,
        /// File that holds the token
        #[arg(long, value_name = "FILE", conflicts_with = "no_token")]
        token_file: Option<PathBuf>,
        /// The account has no token
        #[arg(long)]
        no_token: bool,
        /// Adapter's program, then each of its arguments [default: the adapter of G2 for this platform]
        #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
        program: Vec<String>,
        /// Write the table without a check of the account
        #[arg(long)]
        no_check: bool,
    },
    /// Remove an account: its table in g2.toml, its token, and what its adapter kept
    #[command(
        after_help = "Chats, messages and texts stay.\n\nExamples:\n  g2 channels remove telegram.work"
    )]
    Remove {
        /// Channel, such as telegram or telegram.work
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Start the adapter of an account anew, with its settings as they are now
    #[command(after_help = "Examples:\n  g2 channels restart telegram")]
    Restart {
        /// Channel, such as telegram or telegram.work
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Print the log of an account's adapter
    #[command(after_help = "Examples:\n  g2 channels log telegram")]
    Log {
        /// Channel, such as telegram or telegram.work
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Show what links an account, such as the text of a QR code
    #[command(after_help = "Examples:\n  g2 channels pair whatsapp")]
    Pair {
        /// Channel, such as whatsapp
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Test an adapter against the rules of the channel protocol
    #[command(
        after_help = "The exit code is 1 if a rule is broken. docs/channel-protocol.md has the rules.\n\nExamples:\n  g2 channels test --config '{\"folder\":\"/tmp/toy\"}' -- python3 docs/examples/folder_adapter.py"
    )]
    Test {
        /// Settings that the adapter is given, as a JSON object
        #[arg(long, value_name = "JSON", default_value = "{}")]
        config: String,
        /// Address of the platform for the adapter, instead of its own
        #[arg(long, value_name = "URL")]
        upstream: Option<String>,
        /// Adapter's program with its arguments
        #[arg(required = true, last = true, value_name = "CMD")]
        command: Vec<String>,
    },
}

/// A channel as people see it.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    connection: String,
    inbound: String,
    outbound: String,
    why: Option<String>,
    hint: Option<String>,
    since: Option<String>,
    last_in: Option<String>,
    last_out: Option<String>,
    unsent: i64,
    oldest_unsent: Option<String>,
    starts: i64,
    command: Vec<String>,
}

impl Row {
    fn of(
        name: &str,
        state: Option<ChannelState>,
        (unsent, oldest): (i64, Option<Time>),
        command: Vec<String>,
    ) -> Self {
        let shown = |at: Time| at.to_string();
        let word = |light: Option<String>| light.unwrap_or_else(|| "unknown".into());
        Self {
            name: name.to_owned(),
            connection: word(state.as_ref().map(|state| state.state.to_string())),
            inbound: word(state.as_ref().map(|state| state.inbound.to_string())),
            outbound: word(state.as_ref().map(|state| state.outbound.to_string())),
            why: state.as_ref().and_then(|state| state.why.clone()),
            hint: state.as_ref().and_then(|state| state.hint.clone()),
            since: state.as_ref().map(|state| shown(state.since)),
            last_in: state.as_ref().and_then(|state| state.last_in).map(shown),
            last_out: state.as_ref().and_then(|state| state.last_out).map(shown),
            unsent,
            oldest_unsent: oldest.map(shown),
            starts: state.map_or(0, |state| state.starts),
            command,
        }
    }
}

async fn rows(config: &Config, store: &Store) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for name in NAMES {
        let state = store.connection_of(name).await?;
        let mut row = Row::of(name, state, store.unsent(name).await?, Vec::new());
        // Terminals need no connection.
        (row.connection, row.inbound, row.outbound) = ("connected".into(), "ok".into(), "ok".into());
        rows.push(row);
    }
    for account in &config.channels {
        let state = store.connection_of(&account.name).await?;
        let unsent = store.unsent(&account.name).await?;
        rows.push(Row::of(&account.name, state, unsent, account.command.clone()));
    }
    Ok(rows)
}

impl Channels {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        match self {
            Self::List => {
                let rows = rows(&context.config()?, &context.store()?).await?;
                show::rows(
                    context,
                    &rows,
                    &[
                        "name",
                        "connection",
                        "inbound",
                        "outbound",
                        "last_in",
                        "last_out",
                        "unsent",
                        "starts",
                        "why",
                    ],
                )
            }
            Self::Show { name } => {
                let rows = rows(&context.config()?, &context.store()?).await?;
                let row = rows.into_iter().find(|row| row.name == name).ok_or_else(|| none(&name))?;
                show::object(context, &row)
            }
            Self::Add { name, token_file, no_token, program, no_check } => {
                let secret = if no_token { None } else { Some(token(&name, token_file.as_deref())?) };
                add(context, &name, secret, program, no_check).await
            }
            Self::Remove { name } => remove(context, &name).await,
            Self::Restart { name } => {
                account(&context.config()?, &name)?;
                show::answer(context, &perform(context, restart::Args { name }).await?)
            }
            Self::Log { name } => {
                account(&context.config()?, &name)?;
                let path = home(context, &name).join("adapter.log");
                let mut text = std::fs::read(path.with_extension("log.1")).unwrap_or_default();
                text.extend(std::fs::read(&path).unwrap_or_default());
                out::text(&String::from_utf8_lossy(&text))
            }
            Self::Pair { name } => {
                account(&context.config()?, &name)?;
                let text = std::fs::read_to_string(home(context, &name).join("pair.json")).map_err(|_| {
                    anyhow::anyhow!("nothing links {name} now: it is linked already, or its adapter does not run; `g2 channels show {name}` says how it stands")
                })?;
                let pair: channel_protocol::Pair =
                    serde_json::from_str(&text).context("reading what links it")?;
                show::object(context, &pair)
            }
            Self::Test { config, upstream, command } => test(context, &config, upstream, command).await,
        }
    }
}

fn none(name: &str) -> Failure {
    anyhow::anyhow!("there is no channel {name}; `g2 channels list` shows every channel").into()
}

fn account<'a>(config: &'a Config, name: &str) -> Result<&'a Account, Failure> {
    config.channels.iter().find(|account| account.name == name).ok_or_else(|| none(name))
}

fn home(context: &Context, name: &str) -> PathBuf {
    context.root.join("data/channels").join(name)
}

/// Reads the token of a new account.
fn token(name: &str, file: Option<&Path>) -> anyhow::Result<String> {
    let mut text = String::new();
    match file {
        Some(path) => {
            let file = std::fs::File::open(path).with_context(|| format!("reading {}", path.display()))?;
            file.take(LONGEST_TOKEN)
                .read_to_string(&mut text)
                .with_context(|| format!("reading {}", path.display()))?;
        }
        None if std::io::stdin().is_terminal() => {
            out::ask(&format!("Token of {name}: "));
            std::io::stdin().read_line(&mut text).context("reading the token")?;
        }
        None => {
            std::io::stdin().take(LONGEST_TOKEN).read_to_string(&mut text).context("reading the token")?;
        }
    }
    let token = text.trim();
    anyhow::ensure!(!token.is_empty(), "the token is empty");
    anyhow::ensure!(!token.chars().any(|c| c.is_whitespace() || c.is_control()), "a token is one word");
    Ok(token.to_owned())
}

/// Where the secret of an account is kept, below the root.
fn secret_place(name: &str) -> String {
    format!("data/secrets/{name}.token")
}

fn table(name: &str, has_token: bool, program: &[String]) -> String {
    let quoted = |text: &str| toml::Value::from(text).to_string();
    let mut text = format!("\n[channels.{}]\n", quoted(name));
    if has_token {
        text.push_str(&format!("token_file = {}\n", quoted(&secret_place(name))));
    }
    if !program.is_empty() {
        let words: Vec<String> = program.iter().map(|word| quoted(word)).collect();
        text.push_str(&format!("command = [{}]\n", words.join(", ")));
    }
    text
}

async fn add(
    context: &Context,
    name: &str,
    token: Option<String>,
    program: Vec<String>,
    no_check: bool,
) -> CliResult {
    app::check_root(&context.root)?;
    check_name(name).map_err(anyhow::Error::from)?;
    if context.config()?.channels.iter().any(|account| account.name == name) {
        let why = format!(
            "there is a channel {name} already; `g2 channels remove {name}` first, or choose another name such as {name}.work"
        );
        return Err(anyhow::anyhow!(why).into());
    }
    let (settings, secret) = (context.root.join("g2.toml"), context.root.join(secret_place(name)));
    if let Some(token) = &token {
        keep_secret(&secret, token).with_context(|| format!("writing {}", secret.display()))?;
    }
    let before = std::fs::read_to_string(&settings).unwrap_or_default();
    let after = format!("{before}{}", table(name, token.is_some(), &program));
    replace(&settings, &after)?;
    let checked = match app::load_account(&context.root, name, &context.environment) {
        Err(error) => Err(error.to_string()),
        Ok(_) if no_check => Ok(None),
        Ok(ready) => trial::greet(&ready, CHECK).await.map(Some).map_err(|error| error.to_string()),
    };
    match checked {
        Ok(hello) => {
            let who = hello
                .map(|hello| format!(" as {} {}", hello.myself.name, hello.myself.handle))
                .unwrap_or_default();
            let platform = crate::domain::platforms::addresses::Platform::of_account(name);
            show::done(
                context,
                &format!(
                    "{name} is added{who}\nNow restart the daemon, write to the bot, and answer the question about the new chat (`g2 approvals list`).\nOr wire a chat yourself: g2 wirings add --group main --chat {}:ID",
                    platform.prefix()
                ),
            )
        }
        Err(why) => {
            replace(&settings, &before)?;
            if token.is_some() {
                let _ = std::fs::remove_file(&secret);
            }
            Err(anyhow::anyhow!("{name} is not added: {why}").into())
        }
    }
}

async fn remove(context: &Context, name: &str) -> CliResult {
    account(&context.config()?, name)?;
    let settings = context.root.join("g2.toml");
    let before = std::fs::read_to_string(&settings).context("reading g2.toml")?;
    let after = without(&before, name);
    replace(&settings, &after)?;
    if context.config()?.channels.iter().any(|account| account.name == name) {
        replace(&settings, &before)?;
        return Err(anyhow::anyhow!(
            "the table of {name} in g2.toml is not written as `g2 channels add` writes it; remove it there"
        )
        .into());
    }
    context.store()?.forget_channel(name).await?;
    let _ = std::fs::remove_file(context.root.join(secret_place(name)));
    let _ = std::fs::remove_dir_all(home(context, name));
    show::done(
        context,
        &format!("{name} is removed; a daemon that runs stops its adapter with its next start"),
    )
}

/// Returns the settings without the table of an account.
fn without(text: &str, name: &str) -> String {
    let heads = [format!("[channels.{name}]"), format!("[channels.\"{name}\"]")];
    let mut inside = false;
    let mut kept = String::new();
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with('[') {
            inside = heads.iter().any(|head| line.trim() == head);
        }
        if !inside {
            kept.push_str(line);
        }
    }
    kept
}

/// Writes a token down for this user only.
fn keep_secret(path: &Path, token: &str) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    if let Some(folder) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let _ = std::fs::remove_file(path);
    crate::system::process::write_private(path, token.as_bytes())
}

/// Writes g2.toml anew, all of it or nothing.
fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    let new = path.with_extension("toml.new");
    let _ = std::fs::remove_file(&new);
    crate::system::process::write_private(&new, text.as_bytes())
        .and_then(|()| std::fs::rename(&new, path))
        .with_context(|| format!("writing {}", path.display()))
}

async fn test(context: &Context, config: &str, upstream: Option<String>, command: Vec<String>) -> CliResult {
    let config = serde_json::from_str(config)
        .map_err(|error| Failure::Usage(format!("--config is no JSON object: {error}")))?;
    let verdicts = trial::run(&command, config, upstream).await.context("trying the adapter")?;
    let broken = verdicts.iter().filter(|verdict| !verdict.ok).count();
    show::rows(context, &verdicts, &["rule", "ok", "detail"])?;
    if broken == 0 { Ok(()) } else { Err(Failure::Quiet(1)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_was_added_is_removed_and_no_other() {
        let before = "log_level = \"info\"\n[channels.telegram]\ntoken_env = \"T\"\n";
        let after = format!("{before}{}", table("telegram.work", true, &["py\"x".into()]));
        assert!(
            after.contains(
                "[channels.\"telegram.work\"]\ntoken_file = \"data/secrets/telegram.work.token\"\n"
            )
        );
        assert_eq!(without(&after, "telegram.work").trim_end(), before.trim_end());
        assert!(!without(&after, "telegram").contains("token_env"));
    }
}
