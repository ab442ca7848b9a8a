//! `g2 status`: the daemon's state. It works with the daemon down too.

use std::time::Duration;

use clap::{Args, Subcommand};
use ipc_handlers::{Folder, Time};
use serde::Serialize;
use serde_json::Value;

use super::{
    CliResult, Context, Failure, channels,
    client::{Client, NoDaemon, change},
    disk::Disk,
    out,
    show::{self, Sheet},
    wrap,
};
use crate::{
    app,
    config::Config,
    domain::{
        kept::prune::DAY_MS,
        machine::loops::LoopState,
        problems::{Finding, Problem, sort_out},
        rows::{Waiter, rfc3339, rfc3339_option},
    },
    ipc::peek,
    loops::{
        control::{Health, Status},
        problems::{self, View, known},
    },
    ops::{OpError, ipc::shown, notices::note},
    store::{Store, StoreError, Upgrade},
    system::disk,
};

mod page;

use page::{Facts, page};

pub(super) const FIELDS: &str = "\
Exit codes: 0 healthy, 1 degraded, 3 not running or not answering.

What can't be read is null, and one of the problems says so.

Work that waits (fields marked * are null while the daemon is down too):
  waiting *            lanes (a group, a chat and a thread) in which a message waits for the
                       agent
  messages_waiting     messages that no agent was given yet, or that came back after a failure
  oldest_waiting_ms    age of the oldest message that no agent was given yet, ms; null if none
                       waits
  files_waiting        command files in the groups' boxes that are not claimed yet
  outbox_pending *     texts that are not sent to their chats yet
  approvals_pending *  questions that nobody has answered yet
  waits                who waits for what, since when, longest first: lanes, and the task of each
                       group that is due longest; at most 20

The operator's page:
  page *               its address; null if it is off. `g2 web open` lets a browser in

Accounts on platforms:
  channels             how each channel stands, as `g2 channels list` has it

After an upgrade, for a day:
  upgraded             what the newer program changed in the store
Disk:
  disk                 the 5 groups that take most on the disk, bytes by kind, as they were weighed
                       within the last hour; `g2 groups show` weighs one now

Results:
  last_answer_at       the last time an agent's answer reached a chat
  failed_24h           runs that failed within the last 24 hours
  given_up_24h         messages that were given up within the last 24 hours

The daemon's loops:
  loops *              how each stands, as `g2 loops list` has it

Problems that need you:
  problems             one sentence each; `g2 doctor` and the log have the same list
  findings             the same problems for programs: code, about, severity, text, fix; noted ones
                       too

Examples:
  g2 status
  g2 status --wait 30
  g2 status --json
  g2 status ack owners/telegram   # a problem that you know of counts no more";

/// How many of those that wait are named.
const MOST_WAITERS: usize = 20;
/// How many groups are named that take most on the disk, and how much each has to take, bytes.
const MOST_WEIGHED: usize = 5;
const WORTH_A_LINE: u64 = 1 << 20;

/// Work that waits, as the root has it; `null` if it can't be read.
#[derive(Default, Serialize)]
struct Waits {
    messages_waiting: Option<i64>,
    files_waiting: Option<usize>,
    #[serde(serialize_with = "rfc3339_option")]
    last_answer_at: Option<Time>,
    oldest_waiting_ms: Option<i64>,
    failed_24h: Option<i64>,
    given_up_24h: Option<i64>,
    /// Who waits for a turn, longest first.
    waits: Option<Vec<Waiter>>,
    /// The groups that take most on the disk, as they were weighed last.
    disk: Option<Vec<Weighed>>,
    channels: Option<Vec<channels::Row>>,
    /// What a newer program has changed within a day, a line each.
    upgraded: Option<Vec<String>>,
}

/// A group, and what it took on the disk.
#[derive(Serialize)]
struct Weighed {
    group: Folder,
    #[serde(serialize_with = "rfc3339")]
    weighed_at: Time,
    #[serde(flatten)]
    disk: Disk,
}

#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    status: Status,
    /// The version of the program that asks.
    program: &'static str,
    #[serde(flatten)]
    waits: Waits,
}

/// The same with the daemon down.
#[derive(Serialize)]
struct Down {
    #[serde(flatten)]
    status: Value,
    #[serde(flatten)]
    waits: Waits,
}

impl Waits {
    /// Reads all that it can, and returns what it can't. That the store can't be opened is told elsewhere.
    async fn of(context: &Context, is_up: bool) -> (Self, Vec<Problem>) {
        let Ok(store) = context.store() else { return (Self::default(), Vec::new()) };
        let mut unread = Vec::new();
        let groups = known(&mut unread, "the groups", store.groups().await);
        let is_known = groups.is_some();
        let groups = groups.unwrap_or_default();
        let mut files = 0;
        let data = context.root.join("data");
        let looked = peek::each_waiting(&data, groups.iter().map(|group| &group.folder), |lying| {
            files += usize::from(!lying.is_directory);
        });
        let now = context.world.now();
        let health = known(&mut unread, "the messages", store.health(now));
        let waits = Self {
            messages_waiting: known(&mut unread, "the messages", store.messages_waiting()),
            files_waiting: (is_known && looked.unread.is_empty()).then_some(files),
            last_answer_at: health.as_ref().and_then(|health| health.last_answer_at),
            oldest_waiting_ms: health
                .as_ref()
                .and_then(|health| health.oldest_waiting_at)
                .map(|at| now.ms_since(at).max(0)),
            failed_24h: health.as_ref().map(|health| health.failed_24h),
            given_up_24h: health.as_ref().map(|health| health.given_up_24h),
            waits: known(&mut unread, "who waits", store.waiters(MOST_WAITERS, now)),
            disk: known(&mut unread, "what groups take on the disk", largest(&store)),
            channels: known(&mut unread, "the channels", channels_of(context, &store, is_up).await).flatten(),
            upgraded: known(&mut unread, "the last upgrade", store.upgrade())
                .map(|upgrade| upgrade.map(|upgrade| told(&upgrade, now)).unwrap_or_default()),
        };
        (waits, unread)
    }
}

/// What an upgrade has changed, while it is new.
fn told(upgrade: &Upgrade, now: Time) -> Vec<String> {
    if now.ms_since(upgrade.at()) > DAY_MS {
        return Vec::new();
    }
    let first = format!("schema {} became {} at {}", upgrade.from, upgrade.to, upgrade.at());
    [first].into_iter().chain(upgrade.changes.iter().cloned()).collect()
}

/// Returns the groups that take most on the disk; those that take next to nothing are left out.
fn largest(store: &Store) -> Result<Vec<Weighed>, StoreError> {
    let rows = store.largest_groups(MOST_WEIGHED)?;
    let weighed = rows.into_iter().filter(|(_, disk, _)| disk.all() >= WORTH_A_LINE);
    Ok(weighed
        .map(|(group, disk, weighed_at)| Weighed { group, weighed_at, disk: Disk::of(&disk) })
        .collect())
}

/// Returns how every channel stands; `None` where the settings can't be read, which is told elsewhere.
async fn channels_of(
    context: &Context,
    store: &Store,
    is_up: bool,
) -> Result<Option<Vec<channels::Row>>, StoreError> {
    match context.config() {
        Ok(config) => channels::rows(&config, store, is_up).await.map(Some),
        Err(_) => Ok(None),
    }
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct StatusCommand {
    /// Wait until a daemon answers, for at most SECS seconds
    #[arg(long, value_name = "SECS")]
    wait: Option<u64>,
    #[command(subcommand)]
    then: Option<Then>,
}

const ACKED: &str = "\
A noted problem counts no more, and no owner is told of it. The note ends when the problem is gone.

Examples:
  g2 status ack owners/telegram
  g2 status ack task_paused --undo";

#[derive(Debug, Subcommand)]
enum Then {
    #[command(after_help = ACKED)]
    Ack(note::Args),
}

/// Time between two tries to reach a daemon.
const ASK_AGAIN: Duration = Duration::from_millis(20);

impl StatusCommand {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        if let Some(Then::Ack(args)) = self.then {
            return ack(context, args).await;
        }
        if let Some(wait) = self.wait {
            let answers = async {
                while Client::connect(&context.root).await.is_err() {
                    tokio::time::sleep(ASK_AGAIN).await;
                }
            };
            // If none answers in time, the status below says so.
            let _ = tokio::time::timeout(Duration::from_secs(wait), answers).await;
        }
        run(context).await
    }
}

/// Notes a problem that stands now; its check alone is enough where it is the only one.
pub(super) async fn ack(context: &Context, mut args: note::Args) -> CliResult {
    let findings = match Client::status(&context.root).await {
        Ok(status) => status.findings,
        Err(_) => sort_out(look(context).await),
    };
    let ids: Vec<String> = findings.iter().map(Finding::id).collect();
    if !ids.contains(&args.id) {
        let of_check: Vec<&Finding> =
            findings.iter().filter(|finding| finding.code.as_str() == args.id).collect();
        match of_check[..] {
            [one] => args.id = one.id(),
            [..] => {
                let hint = if ids.is_empty() {
                    "there is none".to_owned()
                } else {
                    format!("there are: {}", ids.join(", "))
                };
                let error = OpError::not_found(format!("no problem is called {:?} now", args.id));
                return Err(error.hint(hint).into());
            }
        }
    }
    change(context, args).await
}

async fn run(context: &Context) -> CliResult {
    let (state, problem) = match Client::status(&context.root).await {
        Ok(status) => {
            let (waits, mut unread) = Waits::of(context, true).await;
            let version = app::check_version(&context.root);
            if version.is_ok()
                && let Err(why) = context.store()
            {
                unread.push(Problem::Unreadable { what: "the store", why: why.to_string() });
            }
            let mut shown = Shown { status: *status, program: env!("CARGO_PKG_VERSION"), waits };
            for finding in sort_out(unread) {
                if !shown.status.findings.contains(&finding) {
                    shown.status.problems.push(finding.text.clone());
                    shown.status.findings.push(finding);
                    shown.status.state = Health::Degraded;
                }
            }
            if let Err(why) = version {
                shown.status.problems.push(why.to_string());
                shown.status.state = Health::Degraded;
            }
            let loops = shown.status.loops.as_deref().unwrap_or_default();
            print(context, &shown, &shown.waits, &shown.status.findings, loops)?;
            return if shown.status.state == Health::Healthy { Ok(()) } else { Err(Failure::Quiet(1)) };
        }
        Err(NoDaemon::Down) => ("not running", None),
        Err(NoDaemon::Mute(why)) => {
            ("not answering", Some(Failure::Mute { root: context.root.clone(), why }.to_string()))
        }
    };
    let held = context.store().ok().and_then(|store| store.holds().ok());
    let held: Option<Vec<String>> = held.map(|holds| holds.iter().map(shown).collect());
    let (waits, unread) = Waits::of(context, false).await;
    let mut found = look(context).await;
    found.extend(unread);
    let first = found.iter().any(Problem::keeps_from_starting);
    let problem = problem.unwrap_or_else(|| {
        let first = if first { " after you fix the problem below that keeps it from starting" } else { "" };
        format!("no daemon runs at {}; start it with `g2 start`{first}", context.root.display())
    });
    let mut findings = sort_out(found);
    if let Ok(store) = context.store() {
        store.mark_noted(&mut findings);
    }
    let counting = findings.iter().filter(|finding| !finding.noted).map(|finding| finding.text.clone());
    let problems: Vec<String> = [problem].into_iter().chain(counting).collect();
    let status = Down {
        status: serde_json::json!({
            "state": state, "instance": null, "pid": null, "version": env!("CARGO_PKG_VERSION"), "program": env!("CARGO_PKG_VERSION"), "since": null,
            "groups": null, "running": null, "waiting": null, "outbox_pending": null, "dead": null,
            "stale_recoveries_24h": null, "approvals_pending": null, "page": null, "held": held, "loops": null, "problems": problems, "findings": findings,
        }),
        waits,
    };
    print(context, &status, &status.waits, &findings, &[])?;
    Err(Failure::Quiet(3))
}

/// Looks for problems without a daemon. If the settings can't be used, the defaults stand in for the rest.
async fn look(context: &Context) -> Vec<Problem> {
    let (config, mut found) = match Config::load(&context.root, &context.environment) {
        Ok(config) => (config, Vec::new()),
        Err(error) => {
            let unusable = Problem::NoSettings { why: format!("{:#}", anyhow::Error::new(error)) };
            match Config::defaults(&context.environment) {
                Ok(config) => (config, vec![unusable]),
                Err(_) => return vec![unusable],
            }
        }
    };
    let (store, closed) = match context.store() {
        Ok(store) => (Some(store), None),
        Err(error) => (None, Some(error.to_string())),
    };
    let view = View {
        config: &config,
        root: &context.root,
        store: store.as_ref(),
        closed,
        daemon: None,
        now: context.world.now(),
    };
    found.extend(problems::gather(&view).await);
    found
}

/// One object, or a page for people.
fn print<T: Serialize>(
    context: &Context,
    status: &T,
    Waits { channels, disk, .. }: &Waits,
    findings: &[Finding],
    loops: &[LoopState],
) -> CliResult {
    if context.json {
        return show::object(context, status);
    }
    let sheet = Sheet::stdout(context);
    let data = context.root.join("data");
    let facts = Facts {
        status: &serde_json::to_value(status).unwrap_or_default(),
        channels: channels.as_deref().unwrap_or_default(),
        findings,
        loops,
        largest: &disk
            .iter()
            .flatten()
            .map(|Weighed { group, disk, .. }| format!("{group}: {}", disk.line()))
            .collect::<Vec<_>>(),
        root: &context.root.display().to_string(),
        disk: (
            context.store().ok().and_then(|store| Some(store.size().ok()?.bytes)),
            disk::free_bytes(&data),
        ),
        now: context.world.now(),
    };
    let page = page(&facts, &sheet).join("\n") + "\n";
    let width = sheet.screen.as_ref().and_then(|screen| screen.width);
    out::clean(&width.map_or_else(|| page.clone(), |width| wrap::screen(&page, width)))
}
