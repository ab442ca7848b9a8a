//! The command line: one file per command. It parses, has an operation done or reads the store, and prints.
use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand, ValueEnum};

use crate::{
    app,
    config::{Config, Environment},
    domain::heard::people::check_speaker,
    ops::{
        OpCode, OpError,
        args::{BadArgument, Jid},
    },
    store::{Store, StoreError},
};

mod approvals;
mod changes;
mod chat;
mod chats;
mod client;
mod confirm;
mod doctor;
mod dropped;
mod editor;
mod engage;
mod events;
mod filter;
mod groups;
mod ipc;
mod log;
mod members;
mod messages;
mod ops;
mod out;
mod outbox;
mod prune;
mod runs;
mod schedule;
mod send;
mod serve;
mod sessions;
mod show;
mod status;
mod talk;
mod tasks;
mod up;
mod usage;
mod users;
mod why;
mod wirings;
mod word;

/// Runs AI agents in isolated containers, one per chat group, and carries their commands as files.
#[derive(Debug, Parser)]
#[command(name = "g2", version, propagate_version = true)]
struct Arguments {
    /// Where everything lies [default: $G2_ROOT, the root or checkout you stand in, else $XDG_DATA_HOME/g2]
    #[arg(long, global = true, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Print one JSON document instead of text for people
    #[arg(long, global = true)]
    json: bool,
    /// How logs look on stderr
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make the root if needed, start the daemon here and chat on local:main
    Up(up::Up),
    /// Lay out a root; twice changes nothing
    Init(serve::Init),
    /// Run the service in the foreground
    Serve,
    /// Tell how the daemon is: exit 0 healthy, 1 degraded, 3 not running
    #[command(after_help = status::FIELDS)]
    Status(status::StatusCommand),
    /// Chat in the terminal
    Chat(chat::Chat),
    /// Send a message in by the local channel
    Send(send::Send),
    /// Agents with a folder, memory and mailbox
    #[command(subcommand)]
    Groups(groups::Groups),
    /// Chats wired to groups
    #[command(subcommand)]
    Wirings(wirings::Wirings),
    /// Which groups a message would wake
    #[command(subcommand)]
    Engage(engage::Engage),
    /// What is known of chats, and what becomes of strangers there
    #[command(subcommand)]
    Chats(chats::Chats),
    /// Who people are, and what they may decide
    #[command(subcommand)]
    Users(users::Users),
    /// Whom groups know
    #[command(subcommand)]
    Members(members::Members),
    /// What would have woken an agent, and was not heard
    #[command(subcommand)]
    Dropped(dropped::Dropped),
    /// What came in
    #[command(subcommand)]
    Messages(messages::Messages),
    /// What is said to chats
    #[command(subcommand)]
    Outbox(outbox::Outbox),
    /// Scheduled prompts
    #[command(subcommand)]
    Tasks(tasks::Tasks),
    /// When a schedule fires
    #[command(subcommand)]
    Schedule(schedule::Schedule),
    /// The conversations of agents, live and archived
    #[command(subcommand)]
    Sessions(sessions::Sessions),
    /// The ledger of containers
    #[command(subcommand)]
    Runs(runs::Runs),
    /// What runs have used of the model, and how often they were refused
    Usage(usage::Usage),
    /// Questions about strangers and new chats, and their answers
    #[command(subcommand)]
    Approvals(approvals::Approvals),
    /// The mailbox: what waits, is claimed, applied, refused, dead
    #[command(subcommand)]
    Ipc(ipc::Ipc),
    /// What programs may have changed over the daemon's socket
    #[command(subcommand)]
    Ops(ops::Ops),
    /// Show what changed, in order, and with --follow go on as it changes
    Events(events::Events),
    /// Tell what became of a message
    Why(why::WhyCommand),
    Prune(prune::Prune),
    /// Check the set-up and say how to mend it
    Doctor(doctor::Doctor),
    /// The runner itself, as the process sandbox starts it
    #[command(hide = true)]
    Agent,
}

/// What every command works with.
pub(crate) struct Context {
    root: PathBuf,
    json: bool,
    environment: Environment,
}

/// How a command failed, for the exit code.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// 1: failed, refused or timed out.
    #[error("{0:#}")]
    Failed(#[from] anyhow::Error),
    /// 1: an operation was refused, or failed.
    #[error(transparent)]
    Op(#[from] OpError),
    /// 2: something has to be said that was not.
    #[error("{0}")]
    Usage(String),
    /// 3: the daemon is needed and does not run.
    #[error("no daemon runs at {0}; start it with `g2 serve` (or `g2 up`)")]
    NotRunning(PathBuf),
    /// 3: somebody listens on the daemon's socket and does not answer as it does.
    #[error(
        "what listens at {root}/data/g2.sock does not answer as the daemon does ({why}); `g2 doctor` says more"
    )]
    Mute { root: PathBuf, why: String },
    /// The answer is on stdout already; only the exit code is left.
    #[error("")]
    Quiet(u8),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.into())
    }
}

impl Failure {
    fn code(&self) -> u8 {
        match self {
            Self::Failed(_) | Self::Op(_) => 1,
            Self::Usage(_) => 2,
            Self::NotRunning(_) | Self::Mute { .. } => 3,
            Self::Quiet(code) => *code,
        }
    }

    /// The failure for programs; none where the answer is on stdout already.
    fn error(&self) -> Option<OpError> {
        Some(match self {
            Self::Op(error) => error.clone(),
            Self::Failed(error) => match error.downcast_ref::<OpError>() {
                Some(error) => error.clone(),
                None => OpError::of_sentence(OpCode::Failed, &self.to_string()),
            },
            Self::Usage(text) => OpError::of_sentence(OpCode::Invalid, text),
            Self::NotRunning(_) => OpError::of_sentence(OpCode::NotRunning, &self.to_string()),
            Self::Mute { .. } => OpError::of_sentence(OpCode::NotAnswering, &self.to_string()),
            Self::Quiet(_) => return None,
        })
    }
}

pub(crate) type Outcome = Result<(), Failure>;

impl Context {
    fn config(&self) -> anyhow::Result<Config> {
        Ok(Config::load(&self.root, &self.environment)?)
    }

    /// Opens the store of a root that is laid out.
    fn store(&self) -> Result<Store, Failure> {
        app::check_root(&self.root)?;
        Ok(app::open_store(&self.root)?)
    }
}

/// Reads a chat's address.
fn jid(text: &str) -> Result<String, BadArgument> {
    text.parse::<Jid>().map(String::from)
}

/// Reads the name under which somebody speaks.
fn speaker(text: &str) -> Result<String, BadArgument> {
    if text.is_empty() {
        return Err(BadArgument::NoSpeaker);
    }
    check_speaker(text)?;
    Ok(text.to_owned())
}

/// Runs the command that the process was started with.
#[must_use]
pub fn main() -> ExitCode {
    crate::memory::be_frugal();
    let environment = Environment::of_process();
    let arguments = Arguments::try_parse().unwrap_or_else(|wrong| wrong_usage(&wrong));
    if matches!(arguments.command, Command::Agent) {
        return agent_runner::main();
    }
    crate::root::set_umask();
    let context = Context {
        root: crate::root::find_root(arguments.root, &environment),
        json: arguments.json,
        environment,
    };
    let quiet = matches!(arguments.command, Command::Up(_));
    start_log(&context, arguments.log_format, quiet);
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(workers())
        .max_blocking_threads(BLOCKING)
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            out::tell(format!("starting threads failed: {error}"));
            return ExitCode::from(1);
        }
    };
    let is_a_change = changes::is_a_change(&arguments.command);
    let outcome = runtime.block_on(run(&context, arguments.command));
    if is_a_change {
        changes::note(&context, &outcome);
    }
    // A thread that waits for a terminal must not keep us.
    runtime.shutdown_timeout(std::time::Duration::from_millis(100));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let text = failure.to_string();
            match (text.is_empty(), failure.error()) {
                (true, _) | (_, None) => {}
                (false, Some(error)) if context.json => {
                    out::tell_json(&serde_json::json!({ "error": error }))
                }
                (false, Some(_)) => out::tell(text),
            }
            ExitCode::from(failure.code())
        }
    }
}

/// Says how the command line is wrong, or prints the help that it asks for, and ends the process.
fn wrong_usage(wrong: &clap::Error) -> ! {
    // Nothing was understood, so this is looked for by its name.
    let json = std::env::args_os().skip(1).take_while(|word| word != "--").any(|word| word == "--json");
    if wrong.use_stderr() && json {
        let text = wrong.to_string();
        let (message, hint) = text.split_once("\n\n").unwrap_or((&text, ""));
        let message = message.trim().trim_start_matches("error: ");
        let error = OpError::new(OpCode::Invalid, message).hint(hint.trim());
        out::tell_json(&serde_json::json!({ "error": error }));
        std::process::exit(2);
    }
    wrong.exit()
}

/// Threads for work on files, at most: a start with many groups would make hundreds otherwise, all waiting for one disk.
const BLOCKING: usize = 32;

/// Enough to serve many groups; more would only cost memory.
fn workers() -> usize {
    std::thread::available_parallelism().map_or(2, |n| n.get().clamp(2, 4))
}

async fn run(context: &Context, command: Command) -> Outcome {
    match command {
        Command::Up(up) => up.run(context).await,
        Command::Init(init) => init.run(context).await,
        Command::Serve => serve::serve(context).await,
        Command::Status(status) => status.run(context).await,
        Command::Chat(chat) => chat.run(context).await,
        Command::Send(send) => send.run(context).await,
        Command::Groups(groups) => groups.run(context).await,
        Command::Wirings(wirings) => wirings.run(context).await,
        Command::Engage(engage) => engage.run(context).await,
        Command::Chats(chats) => chats.run(context).await,
        Command::Users(users) => users.run(context).await,
        Command::Members(members) => members.run(context).await,
        Command::Dropped(dropped) => dropped.run(context).await,
        Command::Messages(messages) => messages.run(context).await,
        Command::Outbox(outbox) => outbox.run(context).await,
        Command::Tasks(tasks) => tasks.run(context).await,
        Command::Sessions(sessions) => sessions.run(context).await,
        Command::Schedule(schedule) => schedule.run(context).await,
        Command::Runs(runs) => runs.run(context),
        Command::Usage(usage) => usage.run(context).await,
        Command::Approvals(approvals) => approvals.run(context).await,
        Command::Ipc(ipc) => ipc.run(context).await,
        Command::Ops(ops) => ops.run(),
        Command::Events(events) => events.run(context).await,
        Command::Why(why) => why.run(context).await,
        Command::Prune(prune) => prune.run(context).await,
        Command::Doctor(doctor) => doctor.run(context).await,
        Command::Agent => Ok(()),
    }
}

/// Logs go to stderr only. `up` is a chat: it shows warnings only, unless asked for more.
fn start_log(context: &Context, format: LogFormat, quiet: bool) {
    let level = context
        .environment
        .get("LOG_LEVEL")
        .map(str::to_owned)
        .or_else(|| context.config().ok().map(|c| c.log_level));
    let level = match level.as_deref() {
        Some("info") | None if quiet => "warn".to_owned(),
        Some("fatal") => "error".to_owned(),
        Some(level @ ("trace" | "debug" | "warn" | "error")) => level.to_owned(),
        Some(_) | None => "info".to_owned(),
    };
    log::start(format, &level);
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn nobody_speaks_without_a_name() {
        assert_eq!(speaker(""), Err(BadArgument::NoSpeaker));
        assert_eq!(speaker("bob").as_deref(), Ok("bob"));
        assert!(speaker("\u{3164}").is_err());
    }
}
