//! `g2 import --rehearse`: which messages would wake whom, there and here.

use anyhow::anyhow;
use ipc_handlers::Time;
use serde::Serialize;

use super::{CliResult, Context, out, show};
use crate::{
    allowlists::senders,
    domain::{
        moved::rehearsal::{Difference, Effect, Rehearsal},
        shown::screen::escaped,
    },
    moving::{self, Source},
};

/// Commands that are printed.
const NAMED: usize = 20;

/// A difference as people read it.
#[derive(Serialize)]
struct Row<'a> {
    at: Time,
    chat: &'a str,
    sender: &'a str,
    text: &'a str,
    group: &'a str,
    there: Effect,
    here: Effect,
    why: String,
}

impl<'a> Row<'a> {
    fn of(of: &'a Difference) -> Self {
        let Difference { at, chat, sender, text, group, there, here, .. } = of;
        let why = format!("there: {}; here: {}", there.why, here.why);
        Self {
            at: *at,
            chat,
            sender,
            text,
            group: group.as_str(),
            there: there.effect,
            here: here.effect,
            why,
        }
    }
}

/// Judges the newest messages of a source, and prints on which the two programs differ.
pub(super) async fn run(context: &Context, mut source: Box<dyn Source>) -> CliResult {
    let config = context.config()?;
    let (words, listed, about) = (config.words.clone(), senders::read(&config), source.about());
    let judged = context.world.blocking(move || moving::rehearse(source.as_mut(), words, listed)).await;
    let found = judged.map_err(|panic| anyhow!("judging the messages: {panic}"))??;
    if context.json {
        return out::json(serde_json::json!(found));
    }
    out::line(escaped(&about))?;
    print(context, &found)
}

fn print(context: &Context, found: &Rehearsal) -> CliResult {
    let Rehearsal { messages, woke_there, wakes_here, differ, differences, notes } = found;
    out::line(format!(
        "{messages} messages woke an agent {woke_there} times there, and would {wakes_here} times here; {differ} differ"
    ))?;
    if !differences.is_empty() {
        let rows: Vec<Row<'_>> = differences.iter().map(Row::of).collect();
        show::rows(context, &rows, &["at", "chat", "sender", "text", "group", "there", "here", "why"])?;
    }
    let mut fixes: Vec<&str> = differences.iter().filter_map(|of| of.fix.as_deref()).collect();
    fixes.sort_unstable();
    fixes.dedup();
    if !fixes.is_empty() {
        out::line("As it was there, after the import:")?;
        fixes.iter().take(NAMED).try_for_each(|fix| out::line(format!("  {}", escaped(fix))))?;
    }
    if fixes.len() > NAMED {
        out::line(format!("{} more commands are in --json", fixes.len() - NAMED))?;
    }
    notes.iter().try_for_each(|note| out::line(format!("Note: {note}")))
}
