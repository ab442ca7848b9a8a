//! `scripted`: an agent that follows a script and acts only through files and records, as a real one.
//!
//! Without a script it answers `echo: TEXT`. A turn for which no rule is left ends without a word.

mod script;
mod words;

use ipc_handlers::wire::Launch;

use self::{
    script::{Script, Step},
    words::Words,
};
use super::{Leave, Provider, ProviderError};
use crate::{
    clock,
    host::{Event, Host},
    prompt,
    runner::chain,
    turns::{Turn, Turns},
};

pub use script::ScriptError;

/// Checks a script's text without following it.
///
/// # Errors
/// [`ScriptError`], which names the rule and the step.
pub fn check_script(text: &str) -> Result<(), ScriptError> {
    Script::parse(text).map(drop)
}

/// The scripted agent.
pub(super) struct Scripted {
    script: Option<Script>,
    chat_jid: String,
    group: String,
}

/// How a turn went.
enum Outcome {
    Over,
    Exit(u8),
}

impl Scripted {
    /// Returns the agent; it goes on in the session it is given, or calls its own `scripted-<run>`.
    pub(super) fn start(script: Option<&str>, launch: &Launch, host: &Host) -> Result<Self, ProviderError> {
        let script = script.map(Script::parse).transpose()?;
        let run: String = launch.run_id.chars().filter(char::is_ascii_alphanumeric).take(40).collect();
        let session = launch.session_id.clone().unwrap_or_else(|| format!("scripted-{run}"));
        host.report(Event::Session(session))?;
        Ok(Self { script, chat_jid: launch.chat_jid.clone(), group: launch.group_folder.clone() })
    }

    fn turn(&mut self, turn: Turn, host: &Host) -> Result<Outcome, ProviderError> {
        let text = prompt::last_message(&turn.prompt);
        let batches: Vec<String> = turn.batch.iter().cloned().collect();
        let Some(script) = &mut self.script else {
            host.report(Event::TurnDone { say: Some(format!("echo: {text}")), batches })?;
            return Ok(Outcome::Over);
        };
        let steps = script.steps_for(&text);
        let mut words = Words::new(&text, &self.chat_jid, &self.group);
        let mut failed = false;
        let mut uses = 0_u64;
        for (n, step) in steps.iter().enumerate() {
            let event = match step {
                // The turn's last word carries its end.
                Step::Say(text) if n + 1 == steps.len() && !failed => {
                    host.report(Event::TurnDone { say: Some(words.fill(text)), batches })?;
                    return Ok(Outcome::Over);
                }
                Step::Say(text) => Event::Say(words.fill(text)),
                Step::SoFar(text) => Event::SoFar(words.fill(text)),
                Step::Command { to, json } => match host.mailbox().send(*to, &words.fill_json(json)) {
                    Ok(reply) => {
                        words.reply = reply.to_text();
                        Event::Alive
                    }
                    Err(e) => {
                        failed = true;
                        Event::Failed(chain(&e))
                    }
                },
                Step::Heartbeat(_) => Event::Alive,
                Step::WaitMs(ms) => {
                    clock::pause(std::time::Duration::from_millis(*ms));
                    continue;
                }
                Step::Tool { name, timeout_ms, about } => {
                    let (name, about) = (words.fill(name), words.fill(about.as_deref().unwrap_or_default()));
                    uses += 1;
                    host.report(Event::InTool { name: name.clone(), timeout_ms: *timeout_ms })?;
                    Event::ToolStarted { id: format!("{uses}"), name, about }
                }
                Step::ToolDone(_) | Step::ToolFailed(_) => {
                    let failed = matches!(step, Step::ToolFailed(_));
                    host.report(Event::ToolEnded { id: format!("{uses}"), failed })?;
                    Event::ToolFinished
                }
                Step::Deferred(_) => Event::Deferred,
                Step::Print(text) => {
                    host.print_raw(words.fill(text).as_bytes())?;
                    continue;
                }
                Step::Error(text) => {
                    failed = true;
                    Event::Failed(words.fill(text))
                }
                Step::Exit(code) => return Ok(Outcome::Exit(*code)),
                Step::Hang(_) => clock::hang(),
            };
            host.report(event)?;
        }
        if !failed {
            host.report(Event::TurnDone { say: None, batches })?;
        }
        Ok(Outcome::Over)
    }
}

impl Provider for Scripted {
    fn run(&mut self, turns: &Turns, host: &Host) -> Result<Leave, ProviderError> {
        while let Some(turn) = turns.next()? {
            match self.turn(turn, host)? {
                Outcome::Over => {}
                Outcome::Exit(code) => return Ok(Leave::Exit(code)),
            }
        }
        Ok(Leave::Closed)
    }
}
