//! `g2 engage explain`: which groups a message would wake, and by which rule. Nothing is stored or sent.

use clap::Subcommand;
use serde::Serialize;

use super::{Context, Outcome, jid, show};
use crate::{
    domain::engage::{Author, Heard, Listener, Mentioned, Outcome as Verdict, Sticky},
    loops::dispatch::wiring_rule,
};

#[derive(Debug, Subcommand)]
pub(super) enum Engage {
    /// Tell for each wiring of a chat whether a message would wake its group, and why
    Explain {
        #[arg(long, value_name = "JID", value_parser = jid)]
        chat: String,
        /// Who speaks; who may be heard is not asked here
        #[arg(long = "as", default_value = "me", value_name = "NAME")]
        sender: String,
        /// As if the platform said that the agent was mentioned
        #[arg(long)]
        mention: bool,
        /// What is said
        text: String,
    },
}

/// What one wiring makes of the message.
#[derive(Debug, Serialize)]
struct Row {
    group: String,
    engages: bool,
    rule: &'static str,
    reason: String,
    /// What is wrong with the wiring's rule.
    problem: Option<String>,
}

impl Engage {
    pub(super) fn run(self, context: &Context) -> Outcome {
        let Self::Explain { chat, sender: _, mention, text } = self;
        let store = context.store()?;
        let mut rows = Vec::new();
        for wiring in store.wirings()?.into_iter().filter(|w| w.chat_jid == chat) {
            let Some(group) = store.group(&wiring.group)? else { continue };
            let pattern = wiring.engage_pattern.as_deref();
            let trigger = wiring.trigger.as_ref().unwrap_or(&group.trigger);
            let rule = wiring_rule(&wiring.engage_mode, pattern, trigger, &wiring.ignored_message_policy);
            let verdict = Listener::new(&rule).decide(&Heard {
                text: &text,
                author: Author::Person,
                mentioned: if mention { Mentioned::Yes } else { Mentioned::No },
                sticky: Sticky::No,
            });
            rows.push(Row {
                group: wiring.group.to_string(),
                engages: verdict.outcome == Verdict::Wake,
                rule: verdict.rule.as_str(),
                reason: verdict.reason,
                problem: verdict.problem.map(|problem| problem.to_string()),
            });
        }
        if rows.is_empty() {
            eprintln!("g2: no group is wired to {chat}; wire one with `g2 wirings add`");
        }
        show::rows(context, &rows, &["group", "engages", "rule", "reason"])
    }
}
