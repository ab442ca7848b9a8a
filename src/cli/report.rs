//! `g2 report`: one archive for a report of a bug. What may stand in it is decided by [`crate::domain::shown::report`].
#![expect(
    clippy::disallowed_methods,
    reason = "reads the host's own files, and writes one that its owner names"
)]

use std::{
    collections::BTreeMap,
    io::Write as _,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use clap::{Args, CommandFactory as _};
use ipc_handlers::Time;
use serde_json::{Value, json};

use super::{Arguments, CliResult, Context, Failure, client::Client, confirm::Yes, doctor, out};
use crate::{
    config::Config,
    domain::{
        machine::loops::LoopState,
        runs::run_settings::Provider,
        shown::report::{Kind, Mask, change, error_kind, log_line},
    },
    ops::{Op, OpError},
    store::Store,
    system::{manager, process},
};

pub(super) const EXPLAINED: &str = "\
In it: versions, the machine in figures, results of the checks of `g2 doctor`, numbers of rows, states of the daemon's loops,
names of settings that differ from their defaults, outcomes of the newest 100 runs, and of the
newest changes and log lines the time and kind. Names of groups, chats and channels are replaced by
marks such as group#1a2b3c4d.

Not in it: texts of people and agents, prompts, keys, names, addresses, values of settings that are
texts.

Everything is listed before it is written. A file that is there is never replaced.

Examples:
  g2 report --show
  g2 report --yes report.tar";

#[derive(Debug, Args)]
pub(super) struct Report {
    /// New file for the report [default: g2-report-TIME.tar in the working directory]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Print all of it and write nothing
    #[arg(long)]
    show: bool,
    #[command(flatten)]
    yes: Yes,
}

/// The parts of a report, by their names.
type Parts = BTreeMap<String, String>;

/// How many runs, changes and lines of the log are in it.
const RUNS: usize = 100;
const LINES: usize = 200;
/// How many of the newest lines of the log are listed before it is written.
const SHOWN: usize = 10;
/// Below these a setting has a name that its owner made.
const NAMED_BY_OWNERS: [&str; 3] = ["channels.", "agent.acp.env.", "budget.prices."];
/// How much of a log is looked at, bytes.
const MOST: usize = 1 << 20;

impl Report {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        let parts = parts(context).await?;
        if self.show {
            if context.json {
                return out::json(json!(parts));
            }
            let text: String = parts.iter().map(|(name, text)| format!("== {name}\n{text}\n")).collect();
            return out::own_lines(&text);
        }
        let name = || format!("g2-report-{}.tar", context.world.now().to_string().replace(':', "-"));
        let file = self.file.unwrap_or_else(|| PathBuf::from(name()));
        if file.exists() {
            return Err(Failure::Usage(OpError::invalid(format!(
                "{} is there already, and is not replaced",
                file.display()
            ))));
        }
        if !context.json {
            let lines: String =
                parts.iter().map(|(name, text)| format!("  {name:15} {:6} bytes\n", text.len())).collect();
            let sum: usize = parts.values().map(String::len).sum();
            out::text(&format!(
                "a report would hold:\n{lines}  {:15} {sum:6} bytes; `g2 report --show` prints all of it\n{}",
                "together",
                newest_of_log(&parts)
            ))?;
        }
        self.yes.to(&format!("{} is written", file.display()))?;
        write(&file, &parts, context.world.now()).with_context(|| format!("writing {}", file.display()))?;
        if context.json {
            return out::json(json!({ "file": file, "parts": parts.keys().collect::<Vec<_>>() }));
        }
        out::line(format_args!("{} is written; look into it before you send it", file.display()))
    }
}

/// The end of the log as it stands in the report.
fn newest_of_log(parts: &Parts) -> String {
    let lines: Vec<&str> = parts.get("log.txt").map(|text| text.lines().collect()).unwrap_or_default();
    let newest = &lines[lines.len().saturating_sub(SHOWN)..];
    let title = if newest.is_empty() { "" } else { "the log ends, without its texts:\n" };
    let newest: String = newest.iter().map(|line| format!("  {line}\n")).collect();
    format!("{title}{newest}")
}

/// Writes the archive, whole or not at all.
fn write(file: &Path, parts: &Parts, now: Time) -> std::io::Result<()> {
    let mut archive = tar::Builder::new(Vec::new());
    let seconds = u64::try_from(now.0 / 1000).unwrap_or(0);
    for (name, text) in parts {
        let mut header = tar::Header::new_ustar();
        header.set_mode(0o600);
        header.set_mtime(seconds);
        header.set_size(text.len() as u64);
        archive.append_data(&mut header, format!("g2-report/{name}"), text.as_bytes())?;
    }
    let bytes = archive.into_inner()?;
    let folder = match file.parent() {
        Some(folder) if folder != Path::new("") => folder,
        Some(_) | None => Path::new("."),
    };
    let mut draft = tempfile::NamedTempFile::new_in(folder)?;
    draft.write_all(&bytes)?;
    draft.persist_noclobber(file).map_err(|error| error.error)?;
    Ok(())
}

/// Returns all parts by their names.
async fn parts(context: &Context) -> Result<Parts, Failure> {
    let config =
        context.config().or_else(|_| Config::defaults(&context.environment).map_err(anyhow::Error::from))?;
    let mut mask = Mask::new(&context.world.id().context("making a random number")?);
    let store = context.store().ok();
    let groups = match &store {
        Some(store) => store.groups().await.unwrap_or_default(),
        None => Vec::new(),
    };
    mask.know(Kind::Path, &context.root.display().to_string());
    mask.know(Kind::Path, context.environment.get("HOME").unwrap_or_default());
    mask.know(Kind::Image, &config.sandbox.image);
    for account in &config.channels {
        mask.know(Kind::Channel, &account.name);
    }
    for group in &groups {
        mask.know(Kind::Group, group.folder.as_str());
        group.image.iter().for_each(|image| mask.know(Kind::Image, image));
        group.chats.iter().for_each(|chat| mask.know(Kind::Chat, &chat.to_string()));
    }
    let mut parts = Parts::new();
    let mut put = |name: &str, part: &Value| {
        let text = serde_json::to_string_pretty(part).unwrap_or_default();
        parts.insert(name.to_owned(), text + "\n");
    };
    put("program.json", &program(context.world.now()));
    put("settings.json", &settings(&config));
    put("checks.json", &checks(context, &mask).await);
    put("daemon.json", &daemon(context).await);
    let of_groups = groups.iter().map(|group| {
        let name = group.folder.as_str();
        json!({
            "group": mask.mark(Kind::Group, name),
            "is_main": group.is_main,
            "chats": group.chats.len(),
            "provider": group.provider.as_deref().and_then(Provider::from_name),
            "has_own_image": group.image.is_some(),
            "has_script": group.script.is_some(),
        })
    });
    put("groups.json", &of_groups.collect());
    if let Some(store) = &store {
        put("rows.json", &json!(store.counts()?));
        put("runs.json", &runs(store, &mask)?);
        put("channels.json", &channels(&config, store, &mask).await?);
    }
    parts.insert("changes.txt".to_owned(), changes(&context.root));
    parts.insert("log.txt".to_owned(), log());
    Ok(parts)
}

fn program(now: Time) -> Value {
    let uname = rustix::system::uname();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "runner": agent_runner::ID,
        "protocol": ipc_handlers::wire::PROTOCOL,
        "at": now.to_string(),
        "system": uname.sysname().to_string_lossy(),
        "kernel": uname.release().to_string_lossy(),
        "machine": uname.machine().to_string_lossy(),
        "processors": std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
        "is_root": process::own_ids().0 == 0,
    })
}

/// Settings that are not at their defaults: numbers and switches with their values, texts by their names alone.
fn settings(config: &Config) -> Value {
    let all: serde_json::Map<String, Value> = config
        .written
        .changed()
        .into_iter()
        .map(|(name, value)| {
            // Accounts, variables of agents and models are named by their owner.
            let above = NAMED_BY_OWNERS.into_iter().find(|above| name.starts_with(above));
            let name = above.map_or(name, |above| format!("{above}…"));
            let is_plain = value.parse::<f64>().is_ok() || ["true", "false"].contains(&value.as_str());
            (name, if is_plain { json!(value) } else { json!("set") })
        })
        .collect();
    all.into()
}

async fn checks(context: &Context, mask: &Mask) -> Value {
    let rows = doctor::look(context, None).await;
    let told = rows.iter().map(|row| {
        let told = row.told();
        let detail = told.check.tells_details().then(|| mask.over(told.detail));
        json!({ "check": told.check, "status": told.status, "detail": detail })
    });
    told.collect()
}

async fn daemon(context: &Context) -> Value {
    match Client::status(&context.root).await {
        Ok(status) => json!({
            "state": status.state.as_str(), "version": status.version, "since": status.since, "sandbox": status.sandbox,
            "groups": status.groups, "running": status.running, "waiting": status.waiting,
            "outbox_pending": status.outbox_pending, "dead": status.dead, "held": status.held.as_ref().map(Vec::len),
            "has_obstacle": status.obstacle.is_some(),
            "loops": status.loops.as_deref().map(loops),
            "problems": status.findings.iter().map(|finding| &finding.code).collect::<Vec<_>>(),
        }),
        Err(_) => json!({ "state": "down" }),
    }
}

/// How the loops stand, without the names of keys and the words of errors.
fn loops(states: &[LoopState]) -> Value {
    let told = states.iter().map(|state| {
        let keys = state.keys.iter().map(|key| json!({ "failures": key.failures, "aside": key.aside }));
        json!({
            "loop": state.name, "state": state.condition(), "looked": state.looked.map(|at| at.to_string()),
            "stuck_secs": state.stuck_secs, "at_work": state.at_work, "waiting": state.waiting, "resting": state.resting,
            "failures": state.failures, "keys": keys.collect::<Vec<_>>(),
        })
    });
    told.collect()
}

fn runs(store: &Store, mask: &Mask) -> Result<Value, Failure> {
    let told = store.runs(Some(RUNS))?.into_iter().map(|run| {
        json!({
            "run": run.id,
            "group": mask.mark(Kind::Group, run.group.as_str()),
            "kind": run.kind, "status": run.status, "sandbox": run.sandbox, "records": run.records,
            "started": run.started_at.map(|at| at.to_string()), "ended": run.ended_at.map(|at| at.to_string()),
            "failed_as": run.error.as_deref().map(|error| error_kind(error).unwrap_or("…")),
        })
    });
    Ok(told.collect())
}

async fn channels(config: &Config, store: &Store, mask: &Mask) -> Result<Value, Failure> {
    let mut told = Vec::new();
    for account in &config.channels {
        let state = store.connection_of(&account.name).await?;
        told.push(json!({
            "channel": mask.mark(Kind::Channel, &account.name),
            "connection": state.as_ref().map(|state| state.state.to_string()),
            "inbound": state.as_ref().map(|state| state.inbound.to_string()),
            "outbound": state.as_ref().map(|state| state.outbound.to_string()),
            "starts": state.as_ref().map(|state| state.starts),
        }));
    }
    Ok(told.into())
}

/// The newest changes, without their words.
fn changes(root: &Path) -> String {
    let text = tail(&std::fs::read(root.join("data/changes.log")).unwrap_or_default());
    let command = Arguments::command();
    let commands: Vec<String> = command.get_subcommands().map(|one| one.get_name().to_owned()).collect();
    let operations: Vec<String> = Op::ALL.iter().map(|op| op.name.to_owned()).collect();
    newest(text.lines().filter_map(|line| change(line, &commands, &operations)))
}

/// The newest lines of the service's log, without their words.
fn log() -> String {
    let uid = process::own_ids().0;
    let manager = if uid == 0 { manager::Manager::Machine } else { manager::Manager::User(uid) };
    let text = manager.log("g2.service", LINES).unwrap_or_default();
    newest(tail(text.as_bytes()).lines().filter_map(log_line))
}

fn newest(lines: impl Iterator<Item = String>) -> String {
    let mut lines: Vec<String> = lines.collect();
    lines.drain(..lines.len().saturating_sub(LINES));
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// The end of a text, at most so much that it is looked through at once.
fn tail(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(MOST)..]).into_owned()
}
