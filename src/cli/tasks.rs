//! `g2 tasks`.

use std::collections::HashMap;

use anyhow::{Context as _, anyhow};
use clap::{ArgGroup, Args, Subcommand};
use ipc_handlers::{
    Folder, Schedule, TaskStatus, Time,
    effect::{CatchUp, ContextMode, OutputMode},
};
use jiff::tz::TimeZone;
use serde_json::Value;

use super::{
    CliResult, Context, Failure,
    client::perform,
    filter::{Rows, check_group},
    out, show,
    word::{as_typed, word},
};
use crate::{
    domain::{
        host::zone::{Zone, Zones},
        rows::{Task, TaskSlot},
        runs::when,
    },
    ops::{
        Op, OpCode, OpError,
        args::{Jid, Prompt, TaskId},
        tasks::{add, cancel, group_of, pause, resume, run, update},
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
        group: Option<String>,
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
    /// Add a task
    #[command(after_help = ADDED)]
    Add(Add),
    /// Change a task; options that are left out keep their values
    #[command(after_help = UPDATED)]
    Update(Update),
    /// Stop a task from running until it is resumed
    #[command(after_help = "Examples:\n  g2 tasks pause task-1")]
    Pause(Named),
    /// Let a task run again that is paused or rests; occurrences that it missed are skipped
    #[command(after_help = "Examples:\n  g2 tasks resume task-1")]
    Resume(Named),
    /// Remove a task; its live run goes on
    #[command(visible_alias = "cancel", after_help = "Examples:\n  g2 tasks remove task-2")]
    Remove(Named),
    /// Run a task now, in addition to its schedule; an interval starts anew
    #[command(after_help = "Examples:\n  g2 tasks run task-1")]
    Run(Named),
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

/// Which task.
#[derive(Debug, Args)]
pub(super) struct Named {
    /// Id of the task, as `g2 tasks list` shows it
    id: String,
    /// Group of the task, by its folder; needed if several groups have a task with this id
    #[arg(long)]
    group: Option<String>,
}

impl Named {
    fn parsed(self) -> anyhow::Result<run::Named> {
        let group = self.group.as_deref().map(Folder::parse).transpose();
        let group = group.with_context(|| format!("looking for task {}", self.id))?;
        Ok(run::Named { id: self.id, group })
    }

    /// Returns whose task it is.
    fn group(&self, store: &Store) -> Result<Folder, Failure> {
        let group = self.group.as_deref().map(Folder::parse).transpose();
        let group = group.with_context(|| format!("looking for task {}", self.id))?;
        Ok(group_of(store, &self.id, group.as_ref())?)
    }
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("schedule").required(true)))]
pub(super) struct Add {
    /// Group whose agent runs it, by its folder
    #[arg(long)]
    group: String,
    /// Chat that the task is for [default: the group's only chat]
    #[arg(long, value_name = "JID")]
    chat: Option<Jid>,
    #[command(flatten)]
    when: When,
    /// Session that it runs in: the group's, or one of its own (isolated)
    #[arg(long, value_name = "MODE", default_value = "isolated", value_parser = word::<ContextMode>())]
    context: ContextMode,
    /// Occurrences that were missed while G2 was down: run the latest, all (the latest 24, oldest
    /// first, a minute apart), or none (skip)
    #[arg(long, value_name = "POLICY", default_value = "latest", value_parser = word::<CatchUp>())]
    catch_up: CatchUp,
    /// Age beyond which a missed occurrence is not made up for, such as 12h or 2d (digits alone:
    /// milliseconds) [default: 7d]
    #[arg(long, value_name = "AGE")]
    catch_up_window: Option<String>,
    /// Place for the agent's text: the task's history only, or the chat too
    #[arg(long, value_name = "WHERE", default_value = "history", value_parser = word::<OutputMode>())]
    output: OutputMode,
    /// Shell script that runs first and can stop the agent from being started
    #[arg(long)]
    script: Option<String>,
    /// Id of the task, unlike that of any other task of the group [default: a new one]
    #[arg(long)]
    id: Option<TaskId>,
    /// Text that the agent is given
    prompt: Prompt,
}

/// The schedule of a new task, in one of four ways.
#[derive(Debug, Args)]
struct When {
    /// Run at the times that a cron expression matches
    #[arg(long, value_name = "EXPRESSION", group = "schedule")]
    cron: Option<String>,
    /// Run again and again, such as every 15m, 2h or 1d12h
    #[arg(long, value_name = "DURATION", group = "schedule")]
    every: Option<String>,
    /// Run once, such as at "tomorrow 9:00", "friday 18:30", "in 2h" or "2026-12-31 18:30"
    #[arg(long, value_name = "TIME", group = "schedule")]
    at: Option<String>,
    /// Kind of schedule, with --value: cron, interval or once
    #[arg(long = "type", value_name = "TYPE", group = "schedule", requires = "value")]
    kind: Option<String>,
    /// Schedule: a cron expression, an interval such as 2h (digits alone: milliseconds), or a date and time
    #[arg(long, requires = "kind")]
    value: Option<String>,
}

impl When {
    /// Returns the kind and the value of the schedule.
    fn parsed(self, now: Time, zone: &TimeZone) -> anyhow::Result<(String, String)> {
        let Self { cron, every, at, kind, value } = self;
        let at = at
            .map(|at| when::once(&at, now, zone))
            .transpose()
            .map_err(|r| OpError::new(OpCode::Failed, r.message).hint(r.hint))?;
        let shorthands = [("cron", cron), ("interval", every), ("once", at)];
        let short = shorthands.into_iter().find_map(|(kind, value)| Some((kind.to_owned(), value?)));
        short.or_else(|| kind.zip(value)).context("no schedule is given")
    }
}

#[derive(Debug, Args)]
pub(super) struct Update {
    #[command(flatten)]
    named: Named,
    /// Text that the agent is given
    #[arg(long)]
    prompt: Option<Prompt>,
    /// Kind of schedule: cron, interval or once
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// Schedule: a cron expression, an interval such as 2h (digits alone: milliseconds), or a date and time
    #[arg(long)]
    value: Option<String>,
    /// Session that it runs in: the group's, or one of its own (isolated)
    #[arg(long, value_name = "MODE", value_parser = word::<ContextMode>())]
    context: Option<ContextMode>,
    /// Occurrences that were missed while G2 was down: run the latest, all (the latest 24, oldest
    /// first, a minute apart), or none (skip)
    #[arg(long, value_name = "POLICY", value_parser = word::<CatchUp>())]
    catch_up: Option<CatchUp>,
    /// Age beyond which a missed occurrence is not made up for, such as 12h or 2d (digits alone:
    /// milliseconds)
    #[arg(long, value_name = "AGE")]
    catch_up_window: Option<String>,
    /// Place for the agent's text: the task's history only, or the chat too
    #[arg(long, value_name = "WHERE", value_parser = word::<OutputMode>())]
    output: Option<OutputMode>,
    /// Shell script that runs first and can stop the agent from being started; empty: none
    #[arg(long)]
    script: Option<String>,
}

impl Tasks {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        match self {
            Self::List { group, state, rows } => list(context, &context.store()?, group, state, &rows).await,
            Self::Show(named) => {
                let store = context.store()?;
                let group = named.group(&store)?;
                let task = store.task(&group, &named.id)?.ok_or_else(|| gone(&named.id))?;
                show::object(context, &Words::new(context).of(&store, &task).await?)
            }
            Self::Calendar(calendar) => calendar.run(context).await,
            Self::Add(add) => {
                let add = add.parsed(context).await?;
                change(context, add).await
            }
            Self::Update(update) => change(context, update.parsed()?).await,
            Self::Pause(named) => change(context, pause::Args(named.parsed()?)).await,
            Self::Resume(named) => change(context, resume::Args(named.parsed()?)).await,
            Self::Remove(named) => change(context, cancel::Args(named.parsed()?)).await,
            Self::Run(named) => change(context, run::Args(named.parsed()?)).await,
            Self::History { named, limit } => history(context, &context.store()?, &named, limit),
        }
    }
}

/// Does an operation on a task. Errors use the words of the command line.
async fn change(context: &Context, op: impl Into<Op>) -> CliResult {
    match perform(context, op).await {
        Ok(answer) => show::answer(context, &answer),
        Err(Failure::Op(error)) => Err(Failure::Op(as_typed(error))),
        Err(other) => Err(other),
    }
}

fn gone(id: &str) -> OpError {
    OpError::not_found(format!("task {id} does not exist"))
}

async fn list(
    context: &Context,
    store: &Store,
    group: Option<String>,
    state: Option<TaskStatus>,
    wanted: &Rows,
) -> CliResult {
    let folder = group.as_deref().map(Folder::parse).transpose().context("listing tasks")?;
    let enough = wanted.enough().filter(|_| state.is_none());
    let mut tasks = store.tasks(folder.as_ref(), enough)?;
    check_group(store, &tasks, group.as_deref()).await?;
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
    let group = named.group(store)?;
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
        let Self { group, chat, when, context: mode, catch_up, catch_up_window, output, script, id, prompt } =
            self;
        let catch_up_window_ms = catch_up_window.as_deref().map(window).transpose()?;
        let group = Folder::parse(&group).context("making a task")?;
        let zone = context.store()?.zone_of(&group, &context.config()?.zones).await?;
        let now = context.world.now();
        let (kind, value) = when.parsed(now, &zone.zone)?;
        // What can't be read is refused when the task is made.
        if let Ok(schedule) = Schedule::parse(&kind, &value, &zone.zone, now) {
            out::tell(preview(&schedule, &zone, now));
        }
        Ok(add::Args {
            group,
            chat,
            kind,
            value,
            context: mode,
            catch_up,
            catch_up_window_ms,
            output,
            script,
            id,
            prompt,
        })
    }
}

/// Reads how long ago a missed occurrence may be, ms. The operation bounds it.
fn window(text: &str) -> anyhow::Result<i64> {
    match Schedule::parse("interval", text, &TimeZone::UTC, Time(0)) {
        Ok(Schedule::Interval { ms }) => Ok(ms),
        Ok(_) => Err(anyhow!("--catch-up-window is no duration")),
        Err(_) => Err(OpError::new(OpCode::Failed, format!("--catch-up-window {text:?} is no duration"))
            .hint("write one such as 12h or 7d, at least a minute")
            .into()),
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

impl Update {
    fn parsed(self) -> anyhow::Result<update::Args> {
        let Self { named, prompt, kind, value, context, catch_up, catch_up_window, output, script } = self;
        let catch_up_window_ms = catch_up_window.as_deref().map(window).transpose()?;
        let run::Named { id, group } = named.parsed()?;
        Ok(update::Args {
            id,
            group,
            prompt,
            kind,
            value,
            context,
            catch_up,
            catch_up_window_ms,
            output,
            script,
        })
    }
}
