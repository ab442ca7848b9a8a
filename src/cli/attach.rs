//! `g2 runs attach`: what a run does, as it does it, and lines for its agent.

use std::time::Duration;

use serde_json::json;

use super::{
    CliResult, Context, Failure,
    client::{Client, perform},
    editor::{Editor, Look, Typed},
    out, send,
    show::Sheet,
};
use crate::{
    domain::{rows::Run, states::RunKind},
    ops::runs::say,
    store::{Activity, Happened, SeenOfRun, Store},
};

/// How often it is looked what the run has done.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// How much of what it did before is shown, ms.
const BEFORE_MS: i64 = 60_000;

/// Looks on until the run has ended or the person leaves.
pub(super) async fn run(context: &Context, store: &Store, run: Run, sender: String) -> CliResult {
    if run.ended_at.is_some() {
        let ended = format!("run {0} has ended; `g2 runs logs {0}` shows what it said", run.id);
        return Err(anyhow::anyhow!(ended).into());
    }
    drop(Client::needed(context).await?);
    let seen = store.seen_of_run(run.id, context.world.now().plus_ms(-BEFORE_MS))?;
    let colours = Sheet::stdout(context).colours;
    let editor = (!context.json).then(|| Editor::open(Vec::new(), &greeting(&run), colours)).flatten();
    let mut attached =
        Attached { context, store, id: run.id, takes_lines: run.kind == RunKind::Message, sender, seen };
    let outcome = match editor {
        Some(editor) => attached.at_terminal(editor).await?,
        None => attached.at_pipe().await?,
    };
    if !context.json {
        out::line(outcome.in_words(run.id))?;
    }
    Ok(())
}

fn greeting(run: &Run) -> Vec<(Look, String)> {
    let Run { id, group, lane, .. } = run;
    let takes = match run.kind {
        RunKind::Message => "A line that you type goes to its agent.",
        RunKind::Task | RunKind::Heartbeat => "It works on a task, and takes no lines.",
    };
    vec![(Look::Dim, format!("run {id} of {group}, for {lane}. {takes} Ctrl-C leaves, and the run goes on."))]
}

/// Why nobody looks on any more.
enum Outcome {
    Left,
    /// The run has ended, with this error.
    Ended(Option<String>),
}

impl Outcome {
    fn in_words(&self, id: i64) -> String {
        match self {
            Self::Left => {
                format!("run {id} goes on; `g2 runs attach {id}` comes back, `g2 runs stop {id}` ends it")
            }
            Self::Ended(None) => format!("run {id} has ended"),
            Self::Ended(Some(error)) => format!("run {id} has ended: {error}"),
        }
    }
}

/// Somebody who looks on.
struct Attached<'a> {
    context: &'a Context,
    store: &'a Store,
    id: i64,
    takes_lines: bool,
    sender: String,
    seen: SeenOfRun,
}

impl Attached<'_> {
    async fn at_terminal(&mut self, mut editor: Editor) -> Result<Outcome, Failure> {
        loop {
            let outcome = self.look(|step| {
                editor.print(look_of(step), &line_of(step));
                Ok(())
            })?;
            if let Some(outcome) = outcome {
                return Ok(outcome);
            }
            tokio::select! {
                typed = editor.typed() => match typed {
                    Typed::End | Typed::Interrupt { .. } => return Ok(Outcome::Left),
                    Typed::Line(line) if line.trim().is_empty() => {}
                    Typed::Line(line) => if let Err(failure) = self.say(line).await {
                        editor.print(Look::Dim, &failure.to_string());
                    },
                },
                () = tokio::time::sleep(LOOK_AGAIN) => {}
                _ = tokio::signal::ctrl_c() => return Ok(Outcome::Left),
            }
        }
    }

    async fn at_pipe(&mut self) -> Result<Outcome, Failure> {
        let (mut lines, mut more) = (send::stdin_lines(), true);
        loop {
            let json = self.context.json;
            let outcome =
                self.look(|step| if json { out::json(as_json(step)) } else { out::line(line_of(step)) })?;
            if let Some(outcome) = outcome {
                return Ok(outcome);
            }
            tokio::select! {
                line = lines.recv(), if more => match line {
                    None => more = false,
                    Some(line) if line.trim().is_empty() => {}
                    Some(line) => self.say(line).await?,
                },
                () = tokio::time::sleep(LOOK_AGAIN) => {}
                _ = tokio::signal::ctrl_c() => return Ok(Outcome::Left),
            }
        }
    }

    /// Shows what the run has done since the last look. Returns how it ended, once all of it is shown.
    fn look(&mut self, mut show: impl FnMut(&Activity) -> CliResult) -> Result<Option<Outcome>, Failure> {
        // First: what a run does before its end is there when the end is.
        let run = self.store.run(self.id)?;
        loop {
            let (steps, seen) = self.store.steps_of_run(self.id, self.seen)?;
            if steps.is_empty() {
                break;
            }
            self.seen = seen;
            steps.iter().try_for_each(&mut show)?;
        }
        Ok(match run {
            Some(run) if run.ended_at.is_none() => None,
            Some(run) => Some(Outcome::Ended(run.error)),
            None => Some(Outcome::Ended(None)),
        })
    }

    async fn say(&self, text: String) -> CliResult {
        if !self.takes_lines {
            return Err(anyhow::anyhow!("run {} works on a task, and takes no lines", self.id).into());
        }
        perform(self.context, say::Args { id: self.id, text, sender: Some(self.sender.clone()) })
            .await
            .map(drop)
    }
}

/// How much of a message that it was given is shown, characters.
const GIVEN: usize = 2_000;

fn given(step: &Activity) -> (&str, String) {
    (step.name.as_deref().unwrap_or_default(), step.text.chars().take(GIVEN).collect())
}

fn look_of(step: &Activity) -> Look {
    if step.what == Happened::Said { Look::Plain } else { Look::Dim }
}

fn line_of(step: &Activity) -> String {
    match step.what {
        Happened::Asked => {
            let (name, text) = given(step);
            format!("[was given] {name}: {text}")
        }
        Happened::Tool => format!("[uses {}]", step.begun()),
        _ => step.text.clone(),
    }
}

fn as_json(step: &Activity) -> serde_json::Value {
    match step.what {
        Happened::Asked => {
            let (name, text) = given(step);
            json!({ "is": "given", "seq": step.id, "name": name, "text": text })
        }
        Happened::Tool => match &step.about {
            Some(about) => json!({ "is": "tool", "name": step.text, "about": about }),
            None => json!({ "is": "tool", "name": step.text }),
        },
        _ => json!({ "is": "said", "text": step.text }),
    }
}
