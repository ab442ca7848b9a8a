//! `g2 tasks`.

use std::collections::HashMap;

use clap::{ArgGroup, Args, Subcommand};
use ipc_handlers::{Folder, Schedule, TaskStatus, Time};
use serde_json::Value;

use super::{
    CliResult, Context, Failure,
    client::change,
    filter::{Rows, check_group},
    out, show,
    word::word,
};
use crate::{
    domain::{
        rows::{Task, TaskSlot},
        runs::when,
        time::zone::{Zone, Zones},
    },
    ops::{
        OpCode, OpError,
        tasks::{
            add, cancel, group_of, pause, resume,
            run::{self, Named},
            update,
        },
    },
    store::Store,
};

mod calendar;

const ADDED: &str = "\
A cron expression and a date without an offset are in the group's time zone. The next three times
are shown before the task is made; `g2 schedule next` shows them without a task.

Examples:
  g2 tasks add --group main --cron \"0 9 * * 1-5\" \"say good morning\"
  g2 tasks add --group main --every 2h --output chat \"check the mail\"
  g2 tasks add --group main --at \"tomorrow 9:00\" \"remind me of the dentist\"
  g2 tasks add --group main --type once --value 2099-01-01T09:00:00 \"wish a happy new year\"";

const HISTORY: &str = "\
A slot is a time at which the task was due. A row shows one run, or slots that follow one another
and did not run for one reason:
  ran      a run was started for it; further attempts have rows of their own
  skipped  previous run still queued or running, resting after a failure, or paused
  missed   host down, budget used up, outside the window of the task, or more than 24 were missed

The row shows how long the slot waited, how long the run took, its result or error, and the
outbox rows of what it sent.

Examples:
  g2 tasks history task-1 --limit 5
  g2 tasks history task-1 --json";

const UPDATED: &str = "\
Examples:
  g2 tasks update task-1 --prompt \"say good night\"
  g2 tasks update task-1 --type cron --value \"0 22 * * *\"";

#[derive(Debug, Subcommand)]
pub(super) enum Tasks {
    /// List tasks
    #[command(after_help = "Examples:\n  g2 tasks list --group main --state active")]
    List {
        /// Only tasks of this group, by its folder
        #[arg(long)]
        group: Option<Folder>,
        /// Only tasks in this state
        #[arg(long, value_parser = word::<TaskStatus>())]
        state: Option<TaskStatus>,
        #[command(flatten)]
        rows: Rows,
    },
    /// Show what runs when in the next days
    #[command(after_help = "Examples:\n  g2 tasks calendar --days 1 --group main")]
    Calendar(calendar::Calendar),
    /// Show one task
    #[command(after_help = "Examples:\n  g2 tasks show task-1")]
    Show(Named),
    #[command(after_help = ADDED)]
    Add(Add),
    #[command(after_help = UPDATED)]
    Update(update::Args),
    #[command(after_help = "Examples:\n  g2 tasks pause task-1")]
    Pause(pause::Args),
    #[command(after_help = "Examples:\n  g2 tasks resume task-1")]
    Resume(resume::Args),
    #[command(visible_alias = "cancel", after_help = "Examples:\n  g2 tasks remove task-2")]
    Remove(cancel::Args),
    #[command(after_help = "Examples:\n  g2 tasks run task-1")]
    Run(run::Args),
    /// Show what became of each time a task was due, with its runs and their results, oldest first
    #[command(after_help = HISTORY)]
    History {
        #[command(flatten)]
        named: Named,
        /// Show only the newest N
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
    },
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("schedule").required(true)))]
pub(super) struct Add {
    #[command(flatten)]
    when: When,
    #[command(flatten)]
    args: add::Args,
}

/// The schedule of a new task, in one of three ways that need no --type.
#[derive(Debug, Args)]
struct When {
    /// Run at the times that a cron expression matches
    #[arg(long, value_name = "EXPRESSION", group = "schedule", display_order = 4)]
    cron: Option<String>,
    /// Run again and again, such as every 15m, 2h or 1d12h
    #[arg(long, value_name = "DURATION", group = "schedule", display_order = 4)]
    every: Option<String>,
    /// Run once, such as at "tomorrow 9:00", "friday 18:30", "in 2h" or "2026-12-31 18:30"
    #[arg(long, value_name = "TIME", group = "schedule", display_order = 5)]
    at: Option<String>,
}

impl Tasks {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        match self {
            Self::List { group, state, rows } => list(context, &context.store()?, group, state, &rows).await,
            Self::Show(named) => {
                let store = context.store()?;
                let group = group_of(&store, &named.id, named.group.as_ref())?;
                let task = store.task(&group, &named.id)?.ok_or_else(|| gone(&named.id))?;
                show::object(context, &Words::new(context).of(&store, &task).await?)
            }
            Self::Calendar(calendar) => calendar.run(context).await,
            Self::Add(add) => {
                let add = add.parsed(context).await?;
                change(context, add).await
            }
            Self::Update(args) => change(context, args).await,
            Self::Pause(args) => change(context, args).await,
            Self::Resume(args) => change(context, args).await,
            Self::Remove(args) => change(context, args).await,
            Self::Run(args) => change(context, args).await,
            Self::History { named, limit } => history(context, &context.store()?, &named, limit),
        }
    }
}

fn gone(id: &str) -> OpError {
    OpError::not_found(format!("task {id} does not exist"))
}

async fn list(
    context: &Context,
    store: &Store,
    group: Option<Folder>,
    state: Option<TaskStatus>,
    wanted: &Rows,
) -> CliResult {
    let enough = wanted.enough().filter(|_| state.is_none());
    let mut tasks = store.tasks(group.as_ref(), enough)?;
    check_group(store, &tasks, group.as_ref()).await?;
    tasks.retain(|task| state.is_none_or(|state| task.status == state));
    let mut words = Words::new(context);
    let mut rows = Vec::new();
    for task in &tasks {
        rows.push(words.of(store, task).await?);
    }
    show::rows(
        context,
        &wanted.of(rows),
        &["id", "group", "-chat_jid", "-origin", "~schedule", "status", "next_run", "~prompt"],
    )
}

/// Says in plain words when tasks run, each by the clocks of its group.
struct Words {
    /// None where the settings can't be read.
    zones: Option<Zones>,
    known: HashMap<Folder, Zone>,
}

impl Words {
    fn new(context: &Context) -> Self {
        Self { zones: context.config().ok().map(|config| config.zones), known: HashMap::new() }
    }

    /// Returns a task's row with `schedule`, its schedule in words.
    async fn of(&mut self, store: &Store, task: &Task) -> Result<Value, Failure> {
        let mut row = serde_json::to_value(task).unwrap_or_default();
        let (kind, value) = (task.schedule_type.as_str(), &task.schedule_value);
        let zone = self.zone(store, &task.group).await?;
        let schedule = zone.and_then(|zone| {
            // Any instant will do: it was checked when it was stored that there is a next one.
            let schedule = Schedule::parse(kind, value, &zone.zone, Time(0)).ok()?;
            Some(schedule.in_words(&zone.zone, &zone.name))
        });
        row["schedule"] = schedule.unwrap_or_else(|| format!("{kind} {value}")).into();
        Ok(row)
    }

    async fn zone(&mut self, store: &Store, group: &Folder) -> Result<Option<Zone>, Failure> {
        let Some(zones) = &self.zones else { return Ok(None) };
        if let Some(known) = self.known.get(group) {
            return Ok(Some(known.clone()));
        }
        let zone = store.zone_of(group, zones).await?;
        self.known.insert(group.clone(), zone.clone());
        Ok(Some(zone))
    }
}

fn history(context: &Context, store: &Store, named: &Named, limit: Option<usize>) -> CliResult {
    let id = &named.id;
    let kept = || OpError::not_found(format!("task {id} does not exist, and no run of it is kept"));
    if named.group.is_none() && store.groups_of_task(id)?.is_empty() {
        return Err(kept().into());
    }
    let group = group_of(store, id, named.group.as_ref())?;
    let slots = store.task_history(&group, id, limit)?;
    let task = store.task(&group, id)?;
    if slots.is_empty() && task.is_none() {
        return Err(kept().into());
    }
    if let Some(reason) = task.and_then(|task| task.paused_for).filter(|_| !context.json) {
        out::tell(format!("task {id} is paused: {reason}"));
    }
    let columns = [
        "due",
        "-last_due",
        "-slots",
        "outcome",
        "-reason",
        "run",
        "-attempt",
        "status",
        "-started_at",
        "-waited_ms",
        "-duration_ms",
        "~result",
        "-result_file",
        "~error",
        "-sent",
    ];
    if context.json {
        return show::rows(context, &slots, &columns);
    }
    let rows: Vec<Value> = slots.iter().map(for_people).collect();
    show::rows(context, &rows, &columns)
}

/// Returns a row of a history with the ids of what was sent in place of the texts.
fn for_people(slot: &TaskSlot) -> Value {
    let mut row = serde_json::to_value(slot).unwrap_or_default();
    let ids: Vec<String> = slot.sent.iter().map(|sent| sent.id.to_string()).collect();
    row["sent"] = ids.join(" ").into();
    if slot.at_least {
        row["slots"] = format!("{}+", slot.slots).into();
    }
    row
}

impl Add {
    /// Reads the schedule by the clocks of the group, and shows when it fires.
    async fn parsed(self, context: &Context) -> Result<add::Args, Failure> {
        let Self { when: When { cron, every, at }, mut args } = self;
        let zone = context.store()?.zone_of(&args.group, &context.config()?.zones).await?;
        let now = context.world.now();
        let at = at.map(|at| when::once(&at, now, &zone.zone)).transpose();
        let at = at.map_err(|refusal| OpError::new(OpCode::Failed, refusal.message).hint(refusal.hint))?;
        for (kind, value) in [("cron", cron), ("interval", every), ("once", at)] {
            if let Some(value) = value {
                (args.kind, args.value) = (kind.to_owned(), value);
            }
        }
        // What can't be read is refused when the task is made.
        if let Ok(schedule) = Schedule::parse(&args.kind, &args.value, &zone.zone, now) {
            out::tell(preview(&schedule, &zone, now));
        }
        Ok(args)
    }
}

/// Says in words when a schedule fires, and its next three times: `every 2 hours: Mon 2026-11-23 12:00, …`.
fn preview(schedule: &Schedule, zone: &Zone, now: Time) -> String {
    let shown = |at: Time| {
        let local = at.to_jiff().to_zoned(zone.zone.clone()).strftime("%a %Y-%m-%d %H:%M:%S").to_string();
        let local = local.strip_suffix(":00").unwrap_or(&local);
        match schedule.note(at, &zone.zone) {
            Some(note) => format!("{local} ({note})"),
            None => local.to_owned(),
        }
    };
    let next: Vec<String> = schedule.instants(now, &zone.zone).take(3).map(shown).collect();
    format!("{}: {}", schedule.in_words(&zone.zone, &zone.name), next.join(", "))
}
