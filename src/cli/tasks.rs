//! `g2 tasks`.

use anyhow::{Context as _, anyhow, bail};
use clap::{Args, Subcommand};
use ipc_handlers::{
    Command, Folder, Outcome as Effected,
    commands::{CancelTask, PauseTask, ResumeTask, ScheduleTask, UpdateTask},
    effect::{CatchUp, ContextMode, OutputMode},
    reply,
    schedule::ScheduleValue,
};

use super::{
    Context, Failure, Outcome, act::act, client::tell_changed, filter, filter::check_group, jid, show,
    word::word,
};
use crate::{
    clock,
    store::{Store, Transcripts},
};

#[derive(Debug, Subcommand)]
pub(super) enum Tasks {
    /// Every task
    List {
        #[arg(long)]
        group: Option<String>,
        #[arg(long)]
        limit: Option<usize>,
    },
    /// One task
    Show(Named),
    /// Make a task
    Add(Add),
    /// Change what a task says or when it runs; what is not given stays
    Update(Update),
    /// Have a task rest until it is resumed
    Pause(Named),
    /// Have a paused task run again; what was missed meanwhile is not made up for
    Resume(Named),
    /// Delete a task; a run of it that is under way goes on
    Cancel(Named),
    /// Have a task run now, once more than its schedule says; an interval counts from now on
    Run(Named),
    /// What became of each time a task ran, oldest first
    History {
        #[command(flatten)]
        named: Named,
        /// The newest so many only
        #[arg(long)]
        limit: Option<usize>,
    },
}

/// Which task.
#[derive(Debug, Args)]
pub(super) struct Named {
    id: String,
    /// Whose task it is, where several groups have one of that id
    #[arg(long)]
    group: Option<String>,
}

impl Named {
    /// Returns whose task it is.
    fn group(&self, store: &Store) -> anyhow::Result<Folder> {
        let id = &self.id;
        if let Some(group) = &self.group {
            return Folder::parse(group).with_context(|| format!("looking for task {id}"));
        }
        let groups = store.groups_of_task(id)?;
        match groups.as_slice() {
            [only] => Ok(only.clone()),
            [] => Err(anyhow!("task {id} does not exist")),
            several => {
                let names: Vec<&str> = several.iter().map(Folder::as_str).collect();
                Err(anyhow!("groups {} have a task {id}; say which with --group", names.join(", ")))
            }
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct Add {
    /// Whose agent runs it
    #[arg(long)]
    group: String,
    /// The chat it is for; by default the group's only one
    #[arg(long, value_name = "JID", value_parser = jid)]
    chat: Option<String>,
    /// cron, interval or once
    #[arg(long = "type", value_name = "TYPE")]
    kind: String,
    /// A cron expression, milliseconds, or a date and time
    #[arg(long)]
    value: String,
    /// group: in the group's conversation; isolated: in one of its own
    #[arg(long, value_name = "MODE", default_value = "isolated", value_parser = word::<ContextMode>())]
    context: ContextMode,
    /// Missed occurrences: latest makes one run of them, all runs each (24 at most), skip none
    #[arg(long, value_name = "POLICY", default_value = "latest", value_parser = word::<CatchUp>())]
    catch_up: CatchUp,
    /// Where what the agent says goes: history, or chat
    #[arg(long, value_name = "WHERE", default_value = "history", value_parser = word::<OutputMode>())]
    output: OutputMode,
    /// A script that runs first and may call the agent off
    #[arg(long)]
    script: Option<String>,
    /// Its id; by default one is made
    #[arg(long)]
    id: Option<String>,
    /// What the agent is told
    #[arg(value_parser = prompt)]
    prompt: String,
}

#[derive(Debug, Args)]
pub(super) struct Update {
    #[command(flatten)]
    named: Named,
    #[arg(long, value_parser = prompt)]
    prompt: Option<String>,
    /// cron, interval or once
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// A cron expression, milliseconds, or a date and time
    #[arg(long)]
    value: Option<String>,
    #[arg(long, value_name = "MODE", value_parser = word::<ContextMode>())]
    context: Option<ContextMode>,
    #[arg(long, value_name = "POLICY", value_parser = word::<CatchUp>())]
    catch_up: Option<CatchUp>,
    #[arg(long, value_name = "WHERE", value_parser = word::<OutputMode>())]
    output: Option<OutputMode>,
    /// A script that runs first; empty: none any more
    #[arg(long)]
    script: Option<String>,
}

impl Tasks {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let store = context.store()?;
        match self {
            Self::List { group, limit } => list(context, &store, group, limit),
            Self::Show(named) => {
                let group = named.group(&store)?;
                let task = store.task(&group, &named.id)?.ok_or_else(|| gone(&named.id))?;
                show::object(context, &task)
            }
            Self::Add(add) => add.run(context, &store).await,
            Self::Update(update) => {
                let group = update.named.group(&store)?;
                let id = update.named.id.clone();
                change(context, &store, &group, &id, Command::UpdateTask(update.command())).await
            }
            Self::Pause(named) => {
                let command = PauseTask { task_id: named.id.clone(), target_folder: None };
                change(context, &store, &named.group(&store)?, &named.id, Command::PauseTask(command)).await
            }
            Self::Resume(named) => {
                let command = ResumeTask { task_id: named.id.clone(), target_folder: None };
                change(context, &store, &named.group(&store)?, &named.id, Command::ResumeTask(command)).await
            }
            Self::Cancel(named) => {
                let command = CancelTask { task_id: named.id.clone(), target_folder: None };
                change(context, &store, &named.group(&store)?, &named.id, Command::CancelTask(command)).await
            }
            Self::Run(named) => {
                let group = named.group(&store)?;
                store.run_task_now(&group, &named.id, clock::now()).await?;
                tell_changed(context, Some(&group)).await;
                show::done(context, &format!("task {} is due now", named.id))
            }
            Self::History { named, limit } => history(context, &store, &named, limit),
        }
    }
}

fn gone(id: &str) -> anyhow::Error {
    anyhow!("task {id} does not exist")
}

fn list(context: &Context, store: &Store, group: Option<String>, limit: Option<usize>) -> Outcome {
    let folder = group.as_deref().map(Folder::parse).transpose().context("listing tasks")?;
    let tasks = store.tasks(folder.as_ref(), limit)?;
    check_group(store, &tasks, group.as_deref())?;
    let columns =
        ["id", "group", "chat_jid", "schedule_type", "schedule_value", "status", "next_run", "prompt"];
    show::rows(context, &tasks, &columns)
}

fn history(context: &Context, store: &Store, named: &Named, limit: Option<usize>) -> Outcome {
    let id = &named.id;
    let kept = || anyhow!("task {id} does not exist, and no run of it is kept");
    if named.group.is_none() && store.groups_of_task(id)?.is_empty() {
        return Err(kept().into());
    }
    let group = named.group(store)?;
    let mut runs = store.task_history(&group, id)?;
    if runs.is_empty() && store.task(&group, id)?.is_none() {
        return Err(kept().into());
    }
    runs.drain(..runs.len().saturating_sub(limit.unwrap_or(usize::MAX)));
    show::rows(
        context,
        &runs,
        &["run", "due", "attempt", "status", "started_at", "ended_at", "result", "error"],
    )
}

/// Does something to a task of a group and prints what became of it.
async fn change(context: &Context, store: &Store, group: &Folder, id: &str, command: Command) -> Outcome {
    if store.task(group, id)?.is_none() {
        return Err(gone(id).into());
    }
    // As its group, with main's rights: its own tasks come first.
    let effected = act(context, store, group, command, Transcripts::new()).await?;
    print(context, store, group, id, effected)
}

fn print(context: &Context, store: &Store, group: &Folder, id: &str, effected: Effected) -> Outcome {
    if context.json
        && let Some(task) = store.task(group, id)?
    {
        return show::object(context, &task);
    }
    // As the clocks of its group show it.
    let local = |at| -> anyhow::Result<String> {
        Ok(reply::local(at, &store.zone_of(group, &context.config()?.zones)?.zone))
    };
    let said = match effected {
        Effected::TaskCreated { next_run, ref task_id, .. } if next_run <= clock::now() => {
            format!("task {task_id} is due already ({}): it runs now", local(next_run)?)
        }
        Effected::TaskCreated { task_id, next_run, .. } => {
            format!("task {task_id} runs first at {}", local(next_run)?)
        }
        Effected::TaskChanged { task_id, status, next_run } => {
            let next = next_run.map_or_else(|| Ok("never".into()), local)?;
            format!("task {task_id} is {}, next run: {next}", status.as_str())
        }
        _ => format!("task {id} is cancelled"),
    };
    show::done(context, &said)
}

impl Add {
    async fn run(self, context: &Context, store: &Store) -> Outcome {
        let group = Folder::parse(&self.group).context("making a task")?;
        if store.group(&group)?.is_none() {
            return Err(anyhow!("group {group} does not exist").into());
        }
        if let Some(chat) = &self.chat {
            is_chat_of(store, &group, chat)?;
        }
        let command = Command::ScheduleTask(ScheduleTask {
            prompt: self.prompt,
            schedule_type: self.kind,
            schedule_value: ScheduleValue::Text(self.value),
            target_jid: self.chat.clone(),
            context_mode: self.context,
            script: self.script,
            task_id: self.id,
            catch_up: self.catch_up,
            output: self.output,
        });
        let effected = act(context, store, &group, command, Transcripts::new()).await?;
        if let Some(chat) = &self.chat {
            filter::tell_unserved(chat);
        }
        let Effected::TaskCreated { task_id, group, .. } = &effected else {
            return Err(Failure::Failed(anyhow!("no task was made")));
        };
        let (id, group) = (task_id.clone(), group.clone());
        print(context, store, &group, &id, effected)
    }
}

/// Refuses a task of one group for a chat that only others are wired to: it would be theirs.
fn is_chat_of(store: &Store, group: &Folder, chat: &str) -> anyhow::Result<()> {
    let wired: Vec<Folder> =
        store.wirings()?.into_iter().filter(|w| w.chat_jid == chat).map(|w| w.group).collect();
    if wired.contains(group) {
        return Ok(());
    }
    let others: Vec<&str> = wired.iter().map(Folder::as_str).collect();
    match others.as_slice() {
        [] => {
            bail!("no group is wired to {chat}; wire one with `g2 wirings add --group {group} --chat {chat}`")
        }
        [other, ..] => bail!(
            "group {group} is not wired to {chat}, which is a chat of {}; make the task with `--group {other}`, or wire {group} to it",
            others.join(" and ")
        ),
    }
}

impl Update {
    fn command(self) -> UpdateTask {
        UpdateTask {
            task_id: self.named.id,
            target_folder: None,
            prompt: self.prompt,
            script: self.script,
            schedule_type: self.kind,
            schedule_value: self.value.map(ScheduleValue::Text),
            context_mode: self.context,
            catch_up: self.catch_up,
            output: self.output,
        }
    }
}

/// Reads what a task asks an agent: an empty one asks nothing, as an empty message says nothing.
fn prompt(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("a prompt is wanted: say what the agent is to do".into());
    }
    Ok(text.to_owned())
}
