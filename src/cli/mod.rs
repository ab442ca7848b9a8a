//! The command line: one file per command. It parses, has an operation done or reads the store, and prints.
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{ArgAction, FromArgMatches as _, Parser, Subcommand, ValueEnum};

use crate::{
    app,
    config::{Config, Environment},
    domain::heard::people::check_speaker,
    ops::{
        OpCode, OpError,
        args::{BadArgument, Jid},
        outbox::say,
    },
    store::Store,
    system::{confine, pictures, world::World},
};

mod activity;
mod approvals;
mod attach;
mod audit;
mod backup;
mod changes;
mod channels;
mod chat;
mod chats;
mod claim;
mod client;
mod colours;
mod complete;
mod config;
mod confirm;
mod conversation;
mod disk;
mod doctor;
mod dropped;
mod edit;
mod editor;
mod egress;
mod engage;
mod events;
mod export;
mod failure;
mod filter;
mod groups;
mod help;
mod image;
mod import;
mod ipc;
mod lanes;
mod log;
mod loops;
mod manual;
mod members;
mod messages;
mod metrics;
mod named;
mod notices;
mod ops;
mod out;
mod outbox;
mod picture;
mod prune;
mod ps;
mod questions;
mod report;
mod restore;
mod restored;
mod runs;
mod schedule;
mod secret;
mod send;
mod serve;
mod service;
mod sessions;
mod setup;
mod show;
mod start;
mod status;
mod stop;
mod table;
mod tasks;
mod tips;
mod top;
mod up;
mod usage;
mod users;
mod web;
mod why;
mod wirings;
mod word;
mod wrap;

use colours::Wanted;

pub(crate) use failure::{CliResult, Failure};

/// The heading under which every command lists the options that all commands share.
const GLOBAL: &str = "Global options";

const ABOUT: &str = "\
Examples:
  g2 setup                   # from nothing to a first answer, step by step
  g2 up                      # make a root if there is none, start the daemon, chat here
  g2 send --wait 30 \"hello\"  # send a message and print the answers
  g2 why                     # explain what became of the newest message of local:main
  g2 doctor                  # check the set-up and say how to fix each problem

Words:
  group    an agent with its own folder, memory, mailbox and container settings
  chat     an address on a channel, such as local:main
  wiring   connects a chat to a group, with rules for which messages wake the agent
  run      one life of one container
  command  a JSON file by which an agent asks for something

Exit codes:
  0  done
  1  failed, refused or timed out
  2  the command line is wrong
  3  the daemon is needed and does not run, or does not answer";

/// Run AI agents in isolated containers, one per chat group, on your own machine
#[derive(Debug, Parser)]
#[command(name = "g2", version, propagate_version = true, after_help = ABOUT, max_term_width = 100)]
#[command(disable_help_flag = true, disable_version_flag = true)]
struct Arguments {
    /// Folder that holds everything [default: $G2_ROOT, then the root around the working directory, then
    /// $XDG_DATA_HOME/g2]
    #[arg(long, global = true, value_name = "DIR", help_heading = GLOBAL)]
    root: Option<PathBuf>,
    /// Print one JSON document instead of text
    #[arg(long, global = true, help_heading = GLOBAL)]
    json: bool,
    /// Format of the log on stderr
    #[arg(long, global = true, value_name = "FORMAT", value_enum, default_value_t, help_heading = GLOBAL)]
    log_format: LogFormat,
    /// Colours of text and log: on a terminal only (auto), always or never
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t, hide_possible_values = true, help_heading = GLOBAL)]
    color: Wanted,
    /// Print tables with all their columns, uncut; without a terminal they always are
    #[arg(long, global = true, help_heading = GLOBAL)]
    wide: bool,
    /// Columns of a table in this order, such as id,status: any field that --json has
    #[arg(long, global = true, value_name = "NAMES", value_delimiter = ',', help_heading = GLOBAL)]
    columns: Vec<String>,
    /// Print help
    #[arg(long, short, global = true, action = ArgAction::Help, help_heading = GLOBAL)]
    help: Option<bool>,
    /// Print the version
    #[arg(long, short = 'V', global = true, action = ArgAction::Version, help_heading = GLOBAL)]
    version: Option<bool>,
    #[command(subcommand)]
    command: Command,
}

impl Arguments {
    /// Returns the command, and what it works with.
    fn in_context(self, world: World, environment: Environment) -> (Context, Command) {
        let context = Context {
            world,
            root: crate::root::find_root(self.root, &environment),
            json: self.json,
            log_format: self.log_format,
            color: self.color,
            columns: show::Columns { wide: self.wide, named: self.columns },
            environment,
            log: Log::default(),
        };
        (context, self.command)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    #[default]
    Text,
    Json,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a root if needed, start the daemon, chat on local:main
    Up(up::Up),
    /// Go from nothing to a first answer, step by step
    #[command(after_help = setup::EXPLAINED)]
    Setup(setup::Setup),
    /// Make a root: its settings, folders and store
    Init(serve::Init),
    /// Run the daemon in the foreground until it is stopped
    #[command(after_help = serve::EXAMPLES)]
    Serve(serve::Serve),
    /// Start the daemon in the background
    #[command(after_help = start::STARTED)]
    Start(start::Start),
    /// Stop the daemon and start it again, in the background
    #[command(after_help = start::RESTARTED)]
    Restart(start::Restart),
    /// Show the log of the daemon in the background
    #[command(after_help = start::LOGGED)]
    Logs(start::Logs),
    /// The daemon as a service of systemd: install, status, logs
    #[command(subcommand)]
    Service(service::Service),
    /// Show how everything stands, and the problems that need you
    #[command(after_help = status::FIELDS)]
    Status(status::StatusCommand),
    /// Show the runs that are under way, and what each of them does
    #[command(after_help = ps::EXPLAINED)]
    Ps(ps::Ps),
    /// Watch runs, lanes, mailbox and channels live
    #[command(after_help = top::EXPLAINED)]
    Top(top::Top),
    /// Stop the daemon in order, with its agents or without
    #[command(after_help = stop::EXPLAINED)]
    Stop(stop::Stop),
    /// Chat with an agent in the terminal
    Chat(chat::Chat),
    /// Send a message into a local chat
    Send(send::Send),
    /// Say something in any chat, as a group's agent says it
    #[command(after_help = send::SAID)]
    Say(say::Args),
    /// Groups (agents): list, add, inspect, change, restart, remove
    #[command(subcommand)]
    Groups(groups::Groups),
    /// Wirings of chats to groups: list, add, change, remove
    #[command(subcommand)]
    Wirings(wirings::Wirings),
    /// Trial of a message: which groups it would wake, and why
    #[command(subcommand)]
    Engage(engage::Engage),
    /// Chats: list, and decide whether strangers are heard there
    #[command(subcommand)]
    Chats(chats::Chats),
    /// Accounts on chat platforms: list, add, restart, test
    #[command(subcommand)]
    Channels(channels::Channels),
    /// Settings: show where each comes from, change, check
    #[command(subcommand)]
    Config(config::Settings),
    /// People: list, add, give roles, remove
    #[command(subcommand)]
    Users(users::Users),
    /// People whom a group knows: list, add, remove
    #[command(subcommand)]
    Members(members::Members),
    /// Counts of messages by unheard senders: list, clear
    #[command(subcommand)]
    Dropped(dropped::Dropped),
    /// Messages that came in: list, pass over
    #[command(subcommand)]
    Messages(messages::Messages),
    /// Texts for chats, sent and unsent: list, retry, drop
    #[command(subcommand)]
    Outbox(outbox::Outbox),
    /// What owners are told of problems elsewhere: list, try
    #[command(subcommand)]
    Notices(notices::Notices),
    /// Questions of agents to people in their chats: list
    #[command(subcommand)]
    Questions(questions::Questions),
    /// Scheduled prompts: list, add, change, pause, run, remove
    #[command(subcommand)]
    Tasks(tasks::Tasks),
    /// Lanes (the turns of conversations): list what waits, end rests
    #[command(subcommand)]
    Lanes(lanes::Lanes),
    /// Loops of the daemon: list, release what was set aside
    #[command(subcommand)]
    Loops(loops::Loops),
    /// Preview of a schedule: when it fires next
    #[command(subcommand)]
    Schedule(schedule::Schedule),
    /// Conversations of agents: list, search, archive, resume, remove
    #[command(subcommand)]
    Sessions(sessions::Sessions),
    /// Container runs: list, inspect, stop, read logs
    #[command(subcommand)]
    Runs(runs::Runs),
    /// Show what agents used of the model: requests, tokens, refusals
    Usage(usage::Usage),
    /// Hosts outside that agents may reach: list, allow, deny
    #[command(subcommand)]
    Egress(egress::Egress),
    /// Questions about strangers and new chats: list, approve, deny
    #[command(subcommand)]
    Approvals(approvals::Approvals),
    /// Commands of agents: list, trace, hold, retry, drop
    #[command(subcommand)]
    Ipc(ipc::Ipc),
    /// The page in a browser: open it, list and end its sessions
    #[command(subcommand)]
    Web(web::Web),
    /// Operations for programs: print their JSON Schema
    #[command(subcommand)]
    Ops(ops::Ops),
    /// Show changes in order; with --follow, go on as they happen
    Events(events::Events),
    /// Show what happened, on one time line
    #[command(after_help = activity::EXPLAINED)]
    Activity(activity::ActivityCommand),
    /// Changes and their authors: list, verify, export
    #[command(subcommand)]
    Audit(audit::Audit),
    /// Explain what became of a message
    Why(why::WhyCommand),
    /// Print figures for Prometheus, with the daemon up or down
    #[command(after_help = metrics::EXPLAINED)]
    Metrics(metrics::Metrics),
    /// Remove old history, with the daemon up or down
    #[command(after_help = prune::REMOVED)]
    Prune(prune::Prune),
    /// Write a root into one verified file, with the daemon up or down
    #[command(after_help = backup::EXPLAINED)]
    Backup(backup::Backup),
    /// The image that agents run in: build it
    #[command(subcommand)]
    Image(image::Image),
    /// Make a root out of a backup, in an empty folder or a new one
    #[command(after_help = restore::EXPLAINED)]
    Restore(restore::Restore),
    /// Work that a restore or an import held back
    #[command(subcommand)]
    Restored(restored::Restored),
    /// Take in another installation; look first with --dry-run
    #[command(after_help = import::EXPLAINED)]
    Import(import::Import),
    /// Write everything into a folder, as JSON Lines and files
    #[command(after_help = export::EXPLAINED)]
    Export(export::Export),
    /// Check the set-up and say how to fix each problem
    Doctor(doctor::Doctor),
    /// Write a report of a bug, without texts, names and keys
    #[command(after_help = report::EXPLAINED)]
    Report(report::Report),
    /// Print the script by which a shell completes `g2`
    #[command(after_help = manual::COMPLETIONS)]
    Completions(manual::Completions),
    /// Write a page for `man` for each command
    #[command(after_help = manual::MAN)]
    Man(manual::Man),
}

/// The name under which images have the runner.
const RUNNERS_NAME: &str = "g2-agent";

/// What every command works with.
pub(crate) struct Context {
    world: World,
    root: PathBuf,
    json: bool,
    log_format: LogFormat,
    color: Wanted,
    columns: show::Columns,
    environment: Environment,
    log: Log,
}

impl Context {
    fn config(&self) -> anyhow::Result<Config> {
        Ok(Config::load(&self.root, &self.environment)?)
    }

    /// Opens the store of a root that is laid out.
    fn store(&self) -> Result<Store, Failure> {
        app::check_root(&self.root)?;
        Ok(app::open_store_to_look(&self.world, &self.root)?)
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
    crate::system::memory::be_frugal();
    let world = World::real();
    // In an image this program can be the runner, by its name (`g2 image build`).
    if std::env::args_os()
        .next()
        .is_some_and(|name| Path::new(&name).file_name() == Some(RUNNERS_NAME.as_ref()))
    {
        return agent_runner::program();
    }
    if std::env::args_os().nth(1).is_some_and(|first| first == app::RUNNER) {
        // An agent of its own finds our tools by the same word.
        let serves = std::env::args_os().nth(2).is_some_and(|second| second == "mcp");
        return if serves { agent_runner::mcp::serve() } else { agent_runner::main() };
    }
    if std::env::args_os().nth(1).is_some_and(|first| first == confine::CONFINE) {
        return confine::main(&world, |text| out::tell(text));
    }
    if std::env::args_os().nth(1).is_some_and(|first| first == pictures::SMALL) {
        return picture::small_one();
    }
    complete::answer_a_shell(&world);
    let environment = Environment::of_process();
    let colours = Wanted::said(std::env::args_os().map(|word| word.to_string_lossy().into_owned()));
    let words = std::env::args_os().collect();
    let parsed = match named::parse(words, colours.into(), &world, &environment) {
        Ok(parsed) => parsed,
        Err(failure) => return report(&failure, asks_for_json()),
    };
    let arguments = parsed
        .and_then(|matches| Arguments::from_arg_matches(&matches))
        .unwrap_or_else(|wrong| wrong_usage(&wrong));
    crate::system::process::set_umask();
    let (mut context, command) = arguments.in_context(world, environment);
    if matches!(command, Command::Serve(_)) {
        app::make_room_for_files(&context.root);
    }
    context.log = Log::start(&context, &command);
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
    let is_a_change = changes::is_a_change(&command);
    let outcome = runtime.block_on(run(&context, command));
    if is_a_change {
        runtime.block_on(changes::note(&context, &outcome));
    }
    // A thread that waits for a terminal must not keep us.
    runtime.shutdown_timeout(std::time::Duration::from_millis(100));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report(&failure, context.json),
    }
}

/// Says why a command failed. Returns its exit code.
fn report(failure: &Failure, json: bool) -> ExitCode {
    let text = failure.to_string();
    match (text.is_empty(), failure.error()) {
        (true, _) | (_, None) => {}
        (false, Some(error)) if json => out::tell_json(&serde_json::json!({ "error": error })),
        (false, Some(_)) => out::tell(text),
    }
    ExitCode::from(failure.code())
}

/// Whether the command line, which is not understood, asks for JSON.
fn asks_for_json() -> bool {
    std::env::args_os().skip(1).take_while(|word| word != "--").any(|word| word == "--json")
}

/// Has a command that only looks answer in this process: returns its exit code and what it prints on stdout. Words are those behind
/// `g2`. For programs that ask often; a process of its own costs twenty times as much.
#[must_use]
pub fn answer(environment: Environment, words: &[&str]) -> (u8, String) {
    let words = ["g2"].iter().chain(words).map(std::ffi::OsString::from).collect();
    let world = World::real();
    let parsed = match named::parse(words, clap::ColorChoice::Never, &world, &environment) {
        Ok(parsed) => parsed,
        Err(failure) => return (failure.code(), String::new()),
    };
    let Ok(arguments) = parsed.and_then(|matches| Arguments::from_arg_matches(&matches)) else {
        return (2, String::new());
    };
    let (context, command) = arguments.in_context(world, environment);
    let Ok(runtime) = tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(1).build()
    else {
        return (1, String::new());
    };
    let (outcome, printed) = out::kept(|| runtime.block_on(run(&context, command)));
    runtime.shutdown_background();
    (outcome.map_or_else(|failure| failure.code(), |()| 0), printed)
}

/// Says how the command line is wrong, or prints the help that it asks for, and ends the process.
fn wrong_usage(wrong: &clap::Error) -> ! {
    if wrong.use_stderr() && asks_for_json() {
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

/// Tells on stderr that the daemon is of another version, which a script's stdout and exit code do not show.
fn tell_of_other_version(context: &Context, command: &Command) {
    // These say it themselves, or ask no daemon.
    let is_silent = matches!(
        command,
        Command::Status(_) | Command::Doctor(_) | Command::Completions(_) | Command::Man(_) | Command::Ops(_)
    );
    if let (false, Some(theirs)) = (is_silent, app::other_version(&context.root)) {
        out::tell(format_args!(
            "note: the daemon is version {theirs}, this g2 is version {}; restart the service with this g2",
            env!("CARGO_PKG_VERSION")
        ));
    }
}

async fn run(context: &Context, command: Command) -> CliResult {
    tell_of_other_version(context, &command);
    match command {
        Command::Up(up) => up.run(context).await,
        Command::Setup(setup) => setup.run(context).await,
        Command::Init(init) => init.run(context).await,
        Command::Serve(serve) => serve.run(context).await,
        Command::Start(start) => start.run(context).await,
        Command::Restart(restart) => restart.run(context).await,
        Command::Logs(logs) => logs.run(context).await,
        Command::Service(service) => service.run(context).await,
        Command::Status(status) => status.run(context).await,
        Command::Ps(ps) => ps.run(context).await,
        Command::Top(top) => top.run(context).await,
        Command::Stop(stop) => stop.run(context).await,
        Command::Chat(chat) => chat.run(context).await,
        Command::Send(send) => send.run(context).await,
        Command::Say(args) => send::say(context, args).await,
        Command::Groups(groups) => groups.run(context).await,
        Command::Wirings(wirings) => wirings.run(context).await,
        Command::Engage(engage) => engage.run(context).await,
        Command::Chats(chats) => chats.run(context).await,
        Command::Channels(channels) => channels.run(context).await,
        Command::Config(config) => config.run(context).await,
        Command::Notices(notices) => notices.run(context).await,
        Command::Users(users) => users.run(context).await,
        Command::Members(members) => members.run(context).await,
        Command::Dropped(dropped) => dropped.run(context).await,
        Command::Messages(messages) => messages.run(context).await,
        Command::Outbox(outbox) => outbox.run(context).await,
        Command::Tasks(tasks) => tasks.run(context).await,
        Command::Lanes(lanes) => lanes.run(context).await,
        Command::Loops(loops) => loops.run(context).await,
        Command::Sessions(sessions) => sessions.run(context).await,
        Command::Schedule(schedule) => schedule.run(context).await,
        Command::Runs(runs) => runs.run(context).await,
        Command::Usage(usage) => usage.run(context).await,
        Command::Egress(egress) => egress.run(context).await,
        Command::Approvals(approvals) => approvals.run(context).await,
        Command::Questions(questions) => questions.run(context).await,
        Command::Ipc(ipc) => ipc.run(context).await,
        Command::Ops(ops) => ops.run(),
        Command::Events(events) => events.run(context).await,
        Command::Activity(activity) => activity.run(context).await,
        Command::Web(web) => web.run(context).await,
        Command::Audit(audit) => audit.run(context).await,
        Command::Why(why) => why.run(context).await,
        Command::Metrics(metrics) => metrics.run(context).await,
        Command::Prune(prune) => prune.run(context).await,
        Command::Backup(backup) => backup.run(context).await,
        Command::Image(image) => image.run(context).await,
        Command::Restore(restore) => restore.run(context).await,
        Command::Restored(restored) => restored.run(context).await,
        Command::Import(import) => import.run(context).await,
        Command::Export(export) => export.run(context).await,
        Command::Doctor(doctor) => doctor.run(context).await,
        Command::Report(report) => report.run(context).await,
        Command::Completions(completions) => completions.run(),
        Command::Man(man) => man.run(context),
    }
}

/// The log, which goes to stderr only.
#[derive(Default)]
struct Log {
    level: Option<log::Level>,
    /// `up` is a chat, `setup` a talk: they show warnings only, unless asked for more.
    is_quiet: bool,
}

impl Log {
    fn start(context: &Context, command: &Command) -> Self {
        let is_quiet = matches!(command, Command::Up(_) | Command::Setup(_));
        let level = context
            .environment
            .get("LOG_LEVEL")
            .map(str::to_owned)
            .or_else(|| context.config().ok().map(|c| c.log_level));
        let level = shown_from(level.as_deref().unwrap_or("info"), is_quiet);
        let colours = |is_terminal| context.color.holds(&context.environment, is_terminal);
        let level = log::start(context.world.clone(), context.log_format, level, colours);
        Self { level: Some(level), is_quiet }
    }

    /// Has the log follow a daemon's settings, for as long as there is one.
    async fn follow(&self, mut settings: tokio::sync::watch::Receiver<std::sync::Arc<Config>>) {
        while settings.changed().await.is_ok() {
            if let Some(level) = &self.level {
                level.set(shown_from(&settings.borrow_and_update().log_level, self.is_quiet));
            }
        }
    }
}

/// The level of the least lines that are written, where the settings say this one.
fn shown_from(level: &str, is_quiet: bool) -> &'static str {
    match level {
        "info" if is_quiet => "warn",
        "fatal" | "error" => "error",
        "warn" => "warn",
        "debug" => "debug",
        "trace" => "trace",
        _ => "info",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{Asker, Op};

    #[test]
    fn what_the_page_shows_is_understood_here() {
        let id = serde_json::json!({"id": 7});
        let task = serde_json::json!({"id": "t", "group": "main"});
        let what = serde_json::json!({"what": "main", "reason": "r s"});
        let member = serde_json::json!({"group": "main", "user": "tg:7"});
        let user = serde_json::json!({"id": "tg:7"});
        for op in Op::ALL.iter().filter(|op| op.asked_by.contains(&Asker::Page)) {
            let args = match op.name {
                "approvals.approve" => serde_json::json!({"id": 7, "new": "A b", "user": "tg:7"}),
                "channels.add" => {
                    serde_json::json!({"name": "matrix", "token": "hush", "settings": {"homeserver": "https://a"}})
                }
                "channels.remove" | "channels.restart" => serde_json::json!({"name": "toy"}),
                "chats.refresh" => serde_json::json!({"account": "toy"}),
                "config.set" => serde_json::json!({"name": "budget.requests", "value": "500"}),
                name if name.starts_with("egress.") => {
                    serde_json::json!({"group": "main", "host": "*.example.org:443"})
                }
                "chats.set" => serde_json::json!({"chat": "local:a", "policy": "strict", "threaded": true}),
                "backup.now" | "dropped.clear" | "notices.try" => serde_json::json!({}),
                "notices.note" => serde_json::json!({"id": "owners/toy", "undo": true}),
                "users.claim" => serde_json::json!({"role": "admin", "group": "main"}),
                "groups.add" => {
                    serde_json::json!({"folder": "f", "chat": "local:f", "name": "A b", "trigger": "@f", "from": "family", "main": true})
                }
                "groups.set" => {
                    serde_json::json!({"folder": "main", "settings": {"name": "A b", "model": "", "mcp": "{\n}"}})
                }
                "sessions.archive" => serde_json::json!({"group": "main", "name": "A b"}),
                "sessions.clear" => {
                    serde_json::json!({"group": "main", "name": "A b", "chat": "local:main", "thread": "7"})
                }
                "groups.back" => serde_json::json!({"to": 7, "was": "00"}),
                "groups.edit" => serde_json::json!({"folder": "main", "text": "a b", "was": "00"}),
                "groups.remove" | "groups.renew" | "groups.restart" | "groups.restore" => {
                    serde_json::json!({"folder": "main"})
                }
                "wirings.set" => {
                    serde_json::json!({"group": "main", "chat": "local:main", "engage": "pattern", "pattern": "."})
                }
                "ipc.release" | "ipc.retry" => serde_json::json!({"what": "main"}),
                "lanes.wake" | "wirings.add" | "wirings.remove" | "wirings.unstick" => {
                    serde_json::json!({"group": "main", "chat": "local:main"})
                }
                "loops.release" => serde_json::json!({"loop": "deliver", "key": "local:main"}),
                "messages.skip" => serde_json::json!({"seq": 7, "reason": "r", "group": "main"}),
                "runs.stop" => serde_json::json!({"id": 7, "now": true, "retry": true}),
                "users.add" => serde_json::json!({"id": "tg:7", "name": "-", "dm": "tg:7"}),
                "users.role" => serde_json::json!({"id": "tg:7", "role": "admin", "group": "main"}),
                "ipc.drop" | "ipc.hold" => what.clone(),
                name if name.starts_with("tasks.") => task.clone(),
                name if name.starts_with("members.") => member.clone(),
                "users.remove" => user.clone(),
                _ => id.clone(),
            };
            let typed = Op::read(serde_json::json!({"name": op.name, "args": args})).unwrap().typed();
            assert!(!typed.contains("hush"), "{typed}");
            let words = typed.replace("'A b'", "A+b").replace("'r s'", "r+s").replace('\'', "");
            let read = help::command().try_get_matches_from(words.split(' '));
            assert!(read.is_ok_and(|read| Arguments::from_arg_matches(&read).is_ok()), "{typed}");
        }
    }

    #[test]
    fn nobody_speaks_without_a_name() {
        assert_eq!(speaker(""), Err(BadArgument::NoSpeaker));
        assert_eq!(speaker("bob").as_deref(), Ok("bob"));
        assert!(speaker("\u{3164}").is_err());
    }
}
