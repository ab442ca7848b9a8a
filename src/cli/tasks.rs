//! `g2 tasks`.

use anyhow::Context as _;
use clap::{Args, Subcommand};
use ipc_handlers::{
    Folder,
    effect::{CatchUp, ContextMode, OutputMode},
};

use super::{
    Context, Failure, Outcome,
    client::perform,
    filter::check_group,
    show,
    word::{as_typed, word},
};
use crate::{
    ops::{
        Op, OpError,
        args::{Jid, Prompt},
        tasks::{add, cancel, group_of, pause, resume, run, update},
    },
    store::Store,
};

#[derive(Debug, Subcommand)]
pub(super) enum Tasks {
    /// Every task
    List {
        #[arg(long)]
        group: Option<String>,
        /// Show only the newest N
        #[arg(long, value_name = "N")]
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
        /// Show only the newest N
        #[arg(long, value_name = "N")]
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
pub(super) struct Add {
    /// Whose agent runs it
    #[arg(long)]
    group: String,
    /// The chat it is for; by default the group's only one
    #[arg(long, value_name = "JID")]
    chat: Option<Jid>,
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
    prompt: Prompt,
}

#[derive(Debug, Args)]
pub(super) struct Update {
    #[command(flatten)]
    named: Named,
    #[arg(long)]
    prompt: Option<Prompt>,
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
        match self {
            Self::List { group, limit } => list(context, &context.store()?, group, limit).await,
            Self::Show(named) => {
                let store = context.store()?;
                let group = named.group(&store)?;
                let task = store.task(&group, &named.id)?.ok_or_else(|| gone(&named.id))?;
                show::object(context, &task)
            }
            Self::Add(add) => change(context, add.parsed()?).await,
            Self::Update(update) => change(context, update.parsed()?).await,
            Self::Pause(named) => change(context, pause::Args(named.parsed()?)).await,
            Self::Resume(named) => change(context, resume::Args(named.parsed()?)).await,
            Self::Cancel(named) => change(context, cancel::Args(named.parsed()?)).await,
            Self::Run(named) => change(context, run::Args(named.parsed()?)).await,
            Self::History { named, limit } => history(context, &context.store()?, &named, limit),
        }
    }
}

/// Has something done to a task. What is wrong is said in the words of the command line.
async fn change(context: &Context, op: impl Into<Op>) -> Outcome {
    match perform(context, op).await {
        Ok(answer) => show::answer(context, &answer),
        Err(Failure::Op(error)) => Err(Failure::Op(as_typed(error))),
        Err(other) => Err(other),
    }
}

fn gone(id: &str) -> OpError {
    OpError::not_found(format!("task {id} does not exist"))
}

async fn list(context: &Context, store: &Store, group: Option<String>, limit: Option<usize>) -> Outcome {
    let folder = group.as_deref().map(Folder::parse).transpose().context("listing tasks")?;
    let tasks = store.tasks(folder.as_ref(), limit)?;
    check_group(store, &tasks, group.as_deref()).await?;
    let columns =
        ["id", "group", "chat_jid", "schedule_type", "schedule_value", "status", "next_run", "prompt"];
    show::rows(context, &tasks, &columns)
}

fn history(context: &Context, store: &Store, named: &Named, limit: Option<usize>) -> Outcome {
    let id = &named.id;
    let kept = || OpError::not_found(format!("task {id} does not exist, and no run of it is kept"));
    if named.group.is_none() && store.groups_of_task(id)?.is_empty() {
        return Err(kept().into());
    }
    let group = named.group(store)?;
    let runs = store.task_history(&group, id, limit)?;
    if runs.is_empty() && store.task(&group, id)?.is_none() {
        return Err(kept().into());
    }
    show::rows(
        context,
        &runs,
        &["run", "due", "attempt", "status", "started_at", "ended_at", "result", "error"],
    )
}

impl Add {
    fn parsed(self) -> anyhow::Result<add::Args> {
        let Self { group, chat, kind, value, context, catch_up, output, script, id, prompt } = self;
        let group = Folder::parse(&group).context("making a task")?;
        Ok(add::Args { group, chat, kind, value, context, catch_up, output, script, id, prompt })
    }
}

impl Update {
    fn parsed(self) -> anyhow::Result<update::Args> {
        let Self { named, prompt, kind, value, context, catch_up, output, script } = self;
        let run::Named { id, group } = named.parsed()?;
        Ok(update::Args { id, group, prompt, kind, value, context, catch_up, output, script })
    }
}
