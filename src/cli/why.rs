//! `g2 why`: what became of a message.

use clap::Args;

use super::{
    Context, Failure, Outcome,
    client::{Client, NoDaemon},
    out,
    prune::missing,
    show,
};
use crate::{clock, domain::prune::History, store::Why};

#[derive(Debug, Args)]
pub(super) struct WhyCommand {
    /// The message's number, as `g2 send` and `g2 messages list` print it
    seq: i64,
}

impl WhyCommand {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let why = why(context, self.seq).await?;
        if context.json { show::object(context, &why) } else { out::text(&told(&why)) }
    }
}

/// Returns what became of a message, in lines for people.
pub(super) async fn text(context: &Context, seq: i64) -> Result<String, Failure> {
    Ok(told(&why(context, seq).await?))
}

async fn why(context: &Context, seq: i64) -> Result<Why, Failure> {
    let store = context.store()?;
    let mut why = store.why(seq, clock::now())?.ok_or_else(|| missing(&store, History::Messages, seq))?;
    if why.waits()
        && let Some(obstacle) = obstacle(context).await
    {
        why.wait_for(&obstacle);
    }
    Ok(why)
}

/// Returns what keeps the daemon from launching anything, which the store can't know.
async fn obstacle(context: &Context) -> Option<String> {
    match Client::status(&context.root).await {
        Ok(status) => status.obstacle.map(|why| format!("this to be mended: {why}")),
        Err(NoDaemon::Down) => Some("the daemon, which is not running; start it with `g2 serve`".into()),
        Err(NoDaemon::Mute(why)) => Some(format!("the daemon, which does not answer ({why})")),
    }
}

fn told(why: &Why) -> String {
    let mut lines = vec![why.answer.clone()];
    for wiring in &why.wirings {
        let engages = if wiring.engages { "engages" } else { "does not engage" };
        let rule = wiring.rule.as_deref().unwrap_or("-");
        let reason = wiring.reason.as_deref().map(|r| format!(" ({r})")).unwrap_or_default();
        let run = match (wiring.run, wiring.run_status.as_deref()) {
            (Some(run), status) => format!(", run {run} {}", status.unwrap_or("")),
            (None, _) => String::new(),
        };
        lines.push(format!("  {}: {engages}, rule {rule}{reason}{run}", wiring.group));
    }
    for command in &why.commands {
        let kind = command.kind.as_deref().unwrap_or("-");
        lines.push(format!(
            "  command {}: {kind} of run {}, by its {}",
            command.id, command.run, command.run_by
        ));
    }
    for row in &why.outbox {
        lines.push(format!("  outbox {} {}: {}", row.id, row.status, show::cell(&row.text.clone().into())));
    }
    lines.join("\n") + "\n"
}
