//! `g2 why`: what became of a message.

use anyhow::anyhow;
use clap::Args;

use super::{Context, Outcome, show};
use crate::clock;

#[derive(Debug, Args)]
pub(super) struct WhyCommand {
    /// The message's number, as `g2 send` and `g2 messages list` print it
    seq: i64,
}

impl WhyCommand {
    pub(super) fn run(self, context: &Context) -> Outcome {
        let why = context
            .store()?
            .why(self.seq, clock::now())?
            .ok_or_else(|| anyhow!("message {} does not exist", self.seq))?;
        if context.json {
            return show::object(context, &why);
        }
        println!("{}", why.answer);
        for wiring in &why.wirings {
            println!(
                "  {}: {}, rule {}{}{}",
                wiring.group,
                if wiring.engages { "engages" } else { "does not engage" },
                wiring.rule.as_deref().unwrap_or("-"),
                wiring.reason.as_deref().map(|r| format!(" ({r})")).unwrap_or_default(),
                wiring
                    .run
                    .map(|r| format!(", run {r} {}", wiring.run_status.as_deref().unwrap_or("")))
                    .unwrap_or_default(),
            );
        }
        for row in &why.outbox {
            println!("  outbox {} {}: {}", row.id, row.status, row.text.replace('\n', " "));
        }
        Ok(())
    }
}
