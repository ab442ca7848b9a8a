//! `g2 channels`.
#![expect(clippy::disallowed_methods, reason = "reads logs of adapters, and what links an account")]

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use channel_protocol::Can;
use clap::Subcommand;
use ipc_handlers::Time;
use serde::Serialize;

use super::{
    CliResult, Context, Failure, claim,
    client::{Client, change, perform},
    filter::Rows,
    out, secret,
    show::{self, Sheet},
};
use crate::{
    app,
    channels::{
        NAMES,
        remote::NotReady,
        trial::{self, NotLetIn},
    },
    config::{
        Config,
        adapters::{app_manifest, is_linked, is_of_programs, tokens, warning},
    },
    domain::{platforms::accounts::check_name, rows::ChannelState},
    ops::{
        Answer, OpCode, OpError,
        channels::{add, remove, restart, table::Table},
    },
    store::{Store, StoreError},
};

/// How long the first start of an adapter may take.
const CHECK: Duration = Duration::from_secs(30);

const STATES: &str = "\
A channel has three lights: connection (connecting, connected, offline, refused, or no daemon),
inbound and outbound (ok, waiting, failing, refused, unknown). A refused account is not tried again until its
settings change, or until `g2 channels restart`.

Examples:
  g2 channels list";

const SHOW: &str = "Examples:\n  g2 channels show telegram";

#[derive(Debug, Subcommand)]
pub(super) enum Channels {
    /// List channels with their lights, newest events and unsent texts
    #[command(after_help = STATES)]
    List {
        /// Only channels whose lights stand so, such as failing or offline
        #[arg(long, value_name = "LIGHT")]
        state: Option<String>,
        #[command(flatten)]
        rows: Rows,
    },
    /// Show one channel
    #[command(after_help = SHOW)]
    Show {
        /// Channel, such as telegram or telegram.work
        name: String,
    },
    /// Add an account on a platform: keep its token, write its table to g2.toml, and check it
    #[command(
        after_help = "The token is read from the terminal, which does not show it, from standard input, or from\n--token-file. It is kept in data/secrets/, for this user only. A running daemon takes the account\nup at once. Slack has two tokens, one of the app and one of its bot: in a file or on standard input\nthey are two words. In a terminal the manifest of Slack's app is shown first, for you to paste.\nOf a mailbox the token is the password. Signal has none: its login is signal-cli's.\nWhatsApp has none: `g2 channels pair` shows what its phone scans.\n\nExamples:\n  g2 channels add telegram\n  g2 channels add telegram.work --token-file token.txt\n  g2 channels add matrix --set homeserver=https://matrix.example.org\n  g2 channels add signal --set account=+4930123456\n  g2 channels add webhook --new-token\n  g2 channels add toy --no-token --program /usr/bin/python3 --program /opt/toy.py"
    )]
    Add {
        /// File that holds the token
        #[arg(long, value_name = "FILE", conflicts_with = "no_token")]
        token_file: Option<PathBuf>,
        /// The account has no token
        #[arg(long)]
        no_token: bool,
        /// Make a token that nobody could guess, and show it once: for webhooks
        #[arg(long, conflicts_with_all = ["token_file", "no_token"])]
        new_token: bool,
        /// Setting of its table, such as `homeserver=https://matrix.example.org`; the value is TOML, otherwise a text
        #[arg(long, value_name = "KEY=VALUE", value_parser = setting)]
        set: Vec<(String, serde_json::Value)>,
        #[command(flatten)]
        args: add::Args,
        /// Write the table without a check of the account
        #[arg(long)]
        no_check: bool,
    },
    #[command(
        after_help = "Chats, messages and texts stay.\n\nExamples:\n  g2 channels remove telegram.work"
    )]
    Remove(remove::Args),
    #[command(after_help = "Examples:\n  g2 channels restart telegram")]
    Restart(restart::Args),
    /// Print the log of an account's adapter
    #[command(after_help = "Examples:\n  g2 channels log telegram")]
    Log {
        /// Channel, such as telegram or telegram.work
        name: String,
    },
    /// Show what links an account: a picture that its phone scans, or a code
    #[command(
        after_help = "The daemon has to run. A new picture comes every 20 s; run the command again if the phone does not\ntake it.\n\nExamples:\n  g2 channels pair whatsapp"
    )]
    Pair {
        /// Channel, such as whatsapp
        name: String,
    },
    /// Test an adapter against the rules of the channel protocol
    #[command(
        after_help = "The exit code is 1 if a rule is broken; then the last lines of the adapter's log are shown, too.\ndocs/channel-protocol.md has the rules. The example needs the sources, and a folder /tmp/toy/in.\n\nExamples:\n  g2 channels test --config '{\"folder\":\"/tmp/toy\"}' -- python3 docs/examples/folder_adapter.py"
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
pub(super) struct Row {
    pub(super) name: String,
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
    unknown_kinds: i64,
    passed_over: i64,
    /// How many of its chats are known, and when the account listed them last.
    chats: usize,
    chats_listed: Option<String>,
    command: Vec<String>,
}

impl Row {
    fn of(
        name: &str,
        state: Option<ChannelState>,
        (unsent, oldest): (i64, Option<Time>),
        (chats, listed): (usize, Option<Time>),
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
            starts: state.as_ref().map_or(0, |state| state.starts),
            unknown_kinds: state.as_ref().map_or(0, |state| state.unknown_kinds),
            passed_over: state.map_or(0, |state| state.passed_over),
            chats,
            chats_listed: listed.map(shown),
            command,
        }
    }
}

impl Row {
    /// Returns how it stands, on one line.
    pub(super) fn line(&self, sheet: &Sheet) -> String {
        let mut line = format!(
            "{}: {}, inbound {}, outbound {}",
            self.name, self.connection, self.inbound, self.outbound
        );
        if let Some(last) = &self.last_in {
            line.push_str(&format!(", last event {}", sheet.cell("at", &last.as_str().into())));
        }
        if let Some(oldest) = &self.oldest_unsent {
            let oldest = sheet.cell("at", &oldest.as_str().into());
            line.push_str(&format!(", {} unsent, the oldest {oldest}", self.unsent));
        }
        if let Some(why) = &self.why {
            line.push_str(&format!(" ({why})"));
        }
        line
    }

    /// Whether it is this machine's own, which needs no connection.
    pub(super) fn is_built_in(&self) -> bool {
        NAMES.contains(&self.name.as_str())
    }
}

/// Returns how every channel stands.
pub(super) async fn rows(config: &Config, store: &Store, is_up: bool) -> Result<Vec<Row>, StoreError> {
    let mut rows = Vec::new();
    for name in NAMES {
        let state = store.connection_of(name).await?;
        let mut row = Row::of(name, state, store.unsent(name).await?, chats(store, name).await?, Vec::new());
        // Terminals need no connection.
        (row.connection, row.inbound, row.outbound) = ("connected".into(), "ok".into(), "ok".into());
        rows.push(row);
    }
    for account in &config.channels {
        let state = store.connection_of(&account.name).await?;
        let unsent = store.unsent(&account.name).await?;
        let chats = chats(store, &account.name).await?;
        rows.push(Row::of(&account.name, state, unsent, chats, account.command.clone()));
    }
    // What a daemon wrote down is old once it is gone.
    if !is_up {
        for row in &mut rows {
            row.connection = "no daemon".into();
            (row.inbound, row.outbound) = ("unknown".into(), "unknown".into());
        }
    }
    Ok(rows)
}

/// Returns how many chats of a channel are known, and when it listed them last.
async fn chats(store: &Store, name: &str) -> Result<(usize, Option<Time>), StoreError> {
    Ok((store.chats_of(name, 0).await?.1, store.listed(name)?))
}

impl Channels {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        match self {
            Self::List { state, rows: wanted } => {
                let all = rows(&context.config()?, &context.store()?, is_up(context).await).await?;
                let rows = wanted.that(all, |row| {
                    let lights = [&row.connection, &row.inbound, &row.outbound];
                    state.as_ref().is_none_or(|state| lights.contains(&state))
                });
                show::rows(
                    context,
                    &rows,
                    &[
                        "name",
                        "connection",
                        "inbound",
                        "outbound",
                        "last_in",
                        "-last_out",
                        "unsent",
                        "-starts",
                        "~why",
                    ],
                )
            }
            Self::Show { name } => {
                let rows = rows(&context.config()?, &context.store()?, is_up(context).await).await?;
                let row = rows.into_iter().find(|row| row.name == name).ok_or_else(|| none(&name))?;
                show::object(context, &row)
            }
            Self::Add { token_file, no_token, new_token, set, mut args, no_check } => {
                let name = &args.name;
                check_name(name).map_err(anyhow::Error::from)?;
                if account(&context.config()?, name).is_ok() {
                    let why = format!(
                        "there is a channel {name} already; `g2 channels remove {name}` first, or choose another name such as {name}.work"
                    );
                    return Err(anyhow::anyhow!(why).into());
                }
                // Nobody is asked for a token that nobody could use.
                args.settings = set.into_iter().collect();
                add::has_adapter(name, &args.program, &args.settings)?;
                if new_token {
                    args.token = Some(made_token(context)?);
                } else if !no_token {
                    args.token = token(name, token_file.as_deref())?;
                }
                let (name, made) = (args.name.clone(), args.token.clone().filter(|_| new_token));
                let (mut answer, from) = add(context, args, no_check).await?;
                if let Some(made) = made {
                    answer.notes.insert(0, format!("its token, which is shown this once: {made}"));
                    answer.row["token"] = made.into();
                }
                show::answer(context, &answer)?;
                let can_ask = out::can_ask() && out::is_terminal() && !context.json;
                let is_up = is_up(context).await;
                if from == Writers::People && can_ask && is_up && !is_owned(context, &name).await? {
                    out::line(claim::owner(context, &name).await?)?;
                }
                Ok(())
            }
            Self::Remove(args) => change(context, args).await,
            Self::Restart(args) => {
                account(&context.config()?, &args.name)?;
                change(context, args).await
            }
            Self::Log { name } => {
                account(&context.config()?, &name)?;
                let path = home(context, &name).join("adapter.log");
                let mut text = std::fs::read(path.with_extension("log.1")).unwrap_or_default();
                text.extend(std::fs::read(&path).unwrap_or_default());
                out::own_lines(&String::from_utf8_lossy(&text))
            }
            Self::Pair { name } => {
                account(&context.config()?, &name)?;
                let text = std::fs::read_to_string(home(context, &name).join("pair.json")).map_err(|_| {
                    let why = format!(
                        "nothing links {name} now: it is linked already, or its adapter does not run"
                    );
                    OpError::new(OpCode::Failed, why)
                        .hint(format!("`g2 channels show {name}` says how it stands"))
                })?;
                let pair: channel_protocol::Pair =
                    serde_json::from_str(&text).context("reading what links it")?;
                // A phone reads what is drawn, and a program the text of it.
                if !context.json
                    && matches!(&pair.kind[..], "qr" | "link")
                    && let Some(drawn) = claim::picture(&pair.data)
                {
                    out::text(&format!("{drawn}\n"))?;
                }
                show::object(context, &pair)
            }
            Self::Test { config, upstream, command } => test(context, &config, upstream, command).await,
        }
    }
}

fn none(name: &str) -> Failure {
    OpError::new(OpCode::Failed, format!("there is no channel {name}"))
        .hint("`g2 channels list` shows every channel")
        .into()
}

fn account(config: &Config, name: &str) -> Result<(), Failure> {
    let there = config.channels.iter().any(|account| account.name == name);
    if there { Ok(()) } else { Err(none(name)) }
}

/// Reads what an account is let in by; `None`: it has nothing of the kind. A person is shown first what to paste where the platform
/// makes the account's app.
pub(super) fn token(name: &str, file: Option<&Path>) -> anyhow::Result<Option<String>> {
    if tokens(name).is_empty() && file.is_none() {
        return Ok(None);
    }
    if let Some(manifest) =
        app_manifest(name).filter(|_| file.is_none() && out::can_ask() && out::is_watched())
    {
        out::ask(&format!(
            "Paste this where Slack makes an app from a manifest (https://api.slack.com/apps), then install it:\n\n{manifest}\n"
        ));
    }
    let asked = tokens(name);
    // A proxy in front of the platform may want one all the same.
    secret::words(name, if asked.is_empty() { &["Token"] } else { asked }, file).map(Some)
}

/// Whether somebody is an owner on the platform of an account.
async fn is_owned(context: &Context, name: &str) -> Result<bool, Failure> {
    Ok(context.store()?.owned_channels().await?.iter().any(|channel| channel == name))
}

/// Whether a daemon answers.
pub(super) async fn is_up(context: &Context) -> bool {
    Client::connect(&context.root).await.is_ok()
}

fn home(context: &Context, name: &str) -> PathBuf {
    context.root.join("data/channels").join(name)
}

/// A setting of an account's table: a value as TOML has it, otherwise a text.
pub(super) fn setting(text: &str) -> anyhow::Result<(String, serde_json::Value)> {
    let (key, value) = text.split_once('=').context("it is KEY=VALUE")?;
    let read: Result<toml::Table, _> = toml::from_str(&format!("x = {value}"));
    let value = match read.ok().and_then(|mut table| table.remove("x")) {
        Some(value) => serde_json::to_value(value)?,
        None => value.into(),
    };
    Ok((key.to_owned(), value))
}

/// Returns a token that nobody could guess, in the form in which Standard Webhooks have theirs.
fn made_token(context: &Context) -> anyhow::Result<String> {
    let secret = context.world.secret().context("making a token")?;
    // A number of bytes that needs no padding, which addresses could not have.
    Ok(format!("whsec_{}", STANDARD.encode(&secret.as_bytes()[..63])))
}

/// From whom the messages of an account come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writers {
    People,
    /// By requests to the page's listener.
    Programs,
}

/// Adds an account, after it was checked.
pub(super) async fn add(
    context: &Context,
    args: add::Args,
    no_check: bool,
) -> Result<(Answer, Writers), Failure> {
    app::check_root(&context.root)?;
    let name = args.name.clone();
    check_name(&name).map_err(anyhow::Error::from)?;
    let table = Table {
        name: &name,
        has_token: args.token.is_some(),
        program: &args.program,
        settings: &args.settings,
    };
    let proxy = context.config()?.proxy.clone();
    let ready = app::on_trial(&name, &table.text()?, args.token.as_deref(), proxy.as_ref())
        .with_context(|| format!("{name} is not added"))?;
    if let Some(NotReady { why, hint }) = app::without_adapters(&ready.account) {
        return Err(OpError::new(OpCode::Failed, format!("{name} is not added: {why}")).hint(hint).into());
    }
    let mut who = String::new();
    let links = is_linked(&name) && args.program.is_empty();
    let mut from = if is_of_programs(&name) { Writers::Programs } else { Writers::People };
    // What links an account is no trial.
    if !no_check && !links {
        if out::is_watched() {
            out::ask(&format!(
                "{name} is asked whether it takes the account, for at most {} s …\n",
                CHECK.as_secs()
            ));
        }
        match trial::greet(&ready, CHECK).await {
            Ok(hello) => {
                let programs = hello.addresses.as_ref().is_some_and(|told| told.programs);
                if programs || hello.can.contains(&Can::Requests) {
                    from = Writers::Programs;
                }
                who = format!(" as {} {}", hello.myself.name, hello.myself.handle).trim_end().to_owned();
            }
            // What was typed is not lost for a network that is away.
            Err(NotLetIn::Late(why)) if keeps(&name, &why)? => {}
            Err(error) => {
                return Err(anyhow::Error::new(error).context(format!("{name} is not added")).into());
            }
        }
    }
    let mut answer = perform(context, args).await?;
    let prefix = answer.row["prefix"].as_str().unwrap_or_default().to_owned();
    answer.says = format!("{}{who}", answer.says);
    answer.notes.extend(warning(&name).filter(|_| links).map(str::to_owned));
    if links {
        answer.notes.push(format!(
            "its phone links it: `g2 channels pair {name}` shows what the phone scans, once the daemon runs"
        ));
    }
    if from == Writers::Programs {
        answer.notes.push(requests(context.config()?.web.listen, &name));
    } else if !is_owned(context, &name).await? {
        answer.notes.push(format!(
            "nobody is an owner on {name} yet: `g2 users claim` makes you one, from your phone; then \"/stop\" from there stops the agent, and questions come to you"
        ));
    }
    let first = match from {
        Writers::People => "write to the bot",
        Writers::Programs => "send a request",
    };
    answer.notes.push(format!(
        "{first}, and answer the question about the new chat (`g2 approvals list`); or make a group for a chat yourself: g2 groups add family --chat {prefix}:ID"
    ));
    Ok((answer, from))
}

/// Says where requests for an account come in.
fn requests(listen: Option<SocketAddr>, name: &str) -> String {
    match listen {
        Some(at) => format!(
            "requests are sent to http://{at}/hook/{name}/NAME, where NAME is a word of yours for each sender"
        ),
        None => format!(
            "requests come in by the page's listener, which is off: `g2 config set web.listen 127.0.0.1:4747`, start the daemon anew, then send to http://127.0.0.1:4747/hook/{name}/NAME"
        ),
    }
}

/// Asks, where somebody can be asked, whether an account is added whose platform is out of reach.
fn keeps(name: &str, why: &str) -> Result<bool, Failure> {
    if !out::can_ask() {
        return Ok(false);
    }
    out::ask(&format!(
        "{why}.\nAdd {name} all the same? Its token is kept, and it connects once the platform is in reach. [Y/n] "
    ));
    let mut line = String::new();
    std::io::stdin()
        .read_line(&mut line)
        .map_err(|error| anyhow::Error::new(error).context("reading the answer"))?;
    Ok(matches!(line.trim().to_lowercase().as_str(), "" | "y" | "yes"))
}

async fn test(context: &Context, config: &str, upstream: Option<String>, command: Vec<String>) -> CliResult {
    let config = serde_json::from_str(config)
        .map_err(|error| Failure::Usage(OpError::invalid(format!("--config is no JSON object: {error}"))))?;
    let verdicts = trial::run(&command, config, upstream).await.context("trying the adapter")?;
    let broken = verdicts.iter().filter(|verdict| !verdict.ok).count();
    show::rows(context, &verdicts, &["rule", "ok", "~detail"])?;
    let said = verdicts.iter().find(|verdict| !verdict.ok).map(|verdict| verdict.said.as_slice());
    if let Some(said) = said.filter(|said| !said.is_empty() && !context.json) {
        out::line("the adapter's own last words:")?;
        said.iter().try_for_each(|line| out::line(format_args!("  {line}")))?;
    }
    if broken == 0 { Ok(()) } else { Err(Failure::Quiet(1)) }
}
