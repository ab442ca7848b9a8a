//! `g2 setup`: from nothing to a first answer. [`crate::domain::machine::setup`] decides on each step by the facts; here they are
//! gathered, people are asked, and it is done.

use std::{
    io::{IsTerminal as _, stderr, stdin},
    path::PathBuf,
};

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::{CliResult, Context, Failure, out, wrap::hanging};
use crate::{
    config::adapters::OWN_PLATFORMS,
    domain::machine::{
        image::ImageKind,
        setup::{self, Act, EngineWish, ImageWish, KeyWish, Next, Question, STEPS, Step, Toggle, Wishes},
    },
    ops::{OpCode, OpError},
};

mod act;
mod facts;
mod hello;

pub(super) const EXPLAINED: &str = "\
Steps: root, engine, image, key, time zone, channel, service, answer, owner. Each says what it
would do and can be skipped. Steps that are done already stay as they are, so you can break off at
any time and run it again.

With --yes nothing is asked: each step does the usual. Without a key that is an image with the
built-in agent, with --key-file an image with Claude Code. An option answers its own step.

The exit code is 0 if the agent has answered and nothing that you asked for is missing, otherwise
1. The last line names the first thing that is missing.

Examples:
  g2 setup
  g2 setup --yes
  g2 setup --yes --image offline --key-file key.txt --service yes
  g2 setup --yes --channel telegram --token-file token.txt";

#[derive(Debug, Args)]
pub(super) struct Setup {
    /// Ask nothing: each step does the usual, or what its option says
    #[arg(long)]
    yes: bool,
    /// Container engine: docker must answer; skip goes on without
    #[arg(long, value_name = "WHICH", value_enum)]
    engine: Option<EngineOption>,
    /// Image of agents to build
    #[arg(long, value_name = "KIND", value_enum)]
    image: Option<ImageOption>,
    /// File that holds the key of the model, for Claude Code; `-` reads it from standard input
    #[arg(long, value_name = "FILE", conflicts_with = "no_key")]
    key_file: Option<PathBuf>,
    /// Take no key: the built-in agent answers
    #[arg(long)]
    no_key: bool,
    /// Keep the key without asking the model's host whether it takes it
    #[arg(long)]
    no_check: bool,
    /// Time zone by which tasks run, such as Europe/Paris
    #[arg(long, value_name = "ZONE")]
    tz: Option<String>,
    /// Account on a chat platform to add, such as telegram; local adds none
    #[arg(long, value_name = "NAME")]
    channel: Option<String>,
    /// File that holds the token of that account
    #[arg(long, value_name = "FILE", requires = "channel")]
    token_file: Option<PathBuf>,
    /// Setting of that account, such as `homeserver=https://matrix.example.org`
    #[arg(long, value_name = "KEY=VALUE", requires = "channel", value_parser = super::channels::setting)]
    set: Vec<(String, serde_json::Value)>,
    /// Whether systemd runs the daemon
    #[arg(long, value_name = "YES-OR-NO", value_enum)]
    service: Option<ServiceOption>,
    /// Seconds that the first answer may take
    #[arg(long, value_name = "SECS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=3600))]
    patience: u64,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum EngineOption {
    Docker,
    Skip,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ImageOption {
    Full,
    Offline,
    Bare,
    Skip,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ServiceOption {
    Yes,
    No,
}

/// How a step came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    /// It was so already, or was left out.
    Stands,
    Done,
    /// It can't be done, or failed.
    Missing,
}

/// A step that is behind us.
#[derive(Debug, Serialize)]
struct Behind {
    step: &'static str,
    state: State,
    detail: String,
    fix: Option<String>,
}

impl Setup {
    fn wishes(&self) -> Wishes {
        Wishes {
            yes: self.yes,
            engine: self.engine.map(|engine| match engine {
                EngineOption::Docker => EngineWish::Docker,
                EngineOption::Skip => EngineWish::Skip,
            }),
            image: self.image.map(|image| match image {
                ImageOption::Full => ImageWish::Build(ImageKind::Full),
                ImageOption::Offline => ImageWish::Build(ImageKind::Offline),
                ImageOption::Bare => ImageWish::Build(ImageKind::Bare),
                ImageOption::Skip => ImageWish::Skip,
            }),
            key: match (&self.key_file, self.no_key) {
                (Some(_), _) => Some(KeyWish::Given),
                (None, true) => Some(KeyWish::Skip),
                (None, false) => None,
            },
            zone: self.tz.clone(),
            channel: self.channel.clone(),
            service: self.service.map(|service| match service {
                ServiceOption::Yes => Toggle::Yes,
                ServiceOption::No => Toggle::No,
            }),
        }
    }

    pub(super) async fn run(self, context: &Context) -> CliResult {
        let wishes = self.wishes();
        let can_ask = stdin().is_terminal() && stderr().is_terminal();
        if !self.yes && !can_ask {
            return Err(Failure::Usage(
                OpError::invalid("nobody can be asked here")
                    .hint("add --yes, and options for what is not the usual"),
            ));
        }
        let mut behind: Vec<Behind> = Vec::new();
        for (at, step) in STEPS.into_iter().enumerate() {
            let one = self.step(context, step, &wishes).await?;
            if !context.json {
                out::text(&shown(at, &one))?;
            }
            let is_over = step == Step::Root && one.state == State::Missing;
            behind.push(one);
            if is_over {
                break;
            }
        }
        let missing = behind.iter().find(|one| one.state == State::Missing);
        let failed = missing.is_some();
        if context.json {
            out::json(serde_json::json!(behind))?;
        } else {
            out::text(&last_words(missing))?;
        }
        if failed { Err(Failure::Quiet(1)) } else { Ok(()) }
    }

    /// Takes one step.
    async fn step(&self, context: &Context, step: Step, wishes: &Wishes) -> Result<Behind, Failure> {
        let facts = facts::gather(context).await?;
        let act = match setup::next(step, &facts, wishes) {
            Next::Stands(detail) => return Ok(behind(step, State::Stands, detail, None)),
            Next::Lacks(why, fix) => return Ok(behind(step, State::Missing, why, Some(fix))),
            Next::Do(act) => act,
            Next::Ask(question) => match ask(step, &question)? {
                Some(act) => act,
                // Nothing is anywhere without it.
                None if step == Step::Root => {
                    let fix = "`g2 setup` again; --root DIR names another folder".to_owned();
                    return Ok(behind(step, State::Missing, "left out".to_owned(), Some(fix)));
                }
                None => return Ok(behind(step, State::Stands, "left out".to_owned(), None)),
            },
        };
        let is_hello = act == Act::SayHello;
        match self.perform(context, act).await {
            Ok(detail) => Ok(behind(step, State::Done, detail, None)),
            // A reader that has gone away.
            Err(Failure::Quiet(code)) => Err(Failure::Quiet(code)),
            Err(failure) => {
                let error = failure.error();
                let (why, fix) =
                    error.map_or_else(|| (failure.to_string(), String::new()), |e| (e.message, e.hint));
                let fix = match (fix.is_empty(), is_hello) {
                    (false, _) => fix,
                    (true, true) => "`g2 doctor` lists what is wrong; then run `g2 setup` again".to_owned(),
                    (true, false) => "run `g2 setup` again".to_owned(),
                };
                Ok(behind(step, State::Missing, why, Some(fix)))
            }
        }
    }
}

fn behind(step: Step, state: State, detail: String, fix: Option<String>) -> Behind {
    Behind { step: step.name(), state, detail, fix }
}

/// A step that is behind us, for people.
fn shown(at: usize, one: &Behind) -> String {
    let word = if one.state == State::Missing { "MISSING: " } else { "" };
    let (hang, width) = (" ".repeat(16), out::screen().unwrap_or(usize::MAX));
    let lines = |head: &str, words: &str| hanging(head, words, &hang, width) + "\n";
    let mut text = String::new();
    for (n, line) in one.detail.trim_end().lines().enumerate() {
        let head = match n {
            0 => format!("{}/{}  {:9}  {word}", at + 1, STEPS.len(), one.step),
            _ => hang.clone(),
        };
        text.push_str(&lines(&head, line));
    }
    if let Some(fix) = &one.fix {
        text.push_str(&lines(&format!("{hang}fix: "), fix));
    }
    text
}

fn last_words(missing: Option<&Behind>) -> String {
    match missing {
        None => "\nAll is set up. `g2 chat` opens a chat, `g2 doctor` checks everything,\n`g2 --help` lists the rest.\n".to_owned(),
        Some(one) => {
            let fix = one.fix.as_deref().map(|fix| format!("; {fix}")).unwrap_or_default();
            let words = format!("{}: {}{fix}", one.step, one.detail.trim_end());
            hanging("\nMissing: ", &words, "  ", out::screen().unwrap_or(usize::MAX)) + "\n"
        }
    }
}

/// Asks a person until an answer is understood.
fn ask(step: Step, question: &Question) -> Result<Option<Act>, Failure> {
    let width = question.choices.iter().map(|choice| choice.key.len()).max().unwrap_or(0);
    let choices: String = question
        .choices
        .iter()
        .map(|choice| format!("  {:width$}  {}\n", choice.key, choice.means))
        .collect();
    out::ask(&format!("\n{}\n{choices}", question.text));
    loop {
        out::ask(&format!("[{}] ", question.usual));
        let mut line = String::new();
        let read = stdin().read_line(&mut line);
        match read.map_err(|error| anyhow::Error::new(error).context("reading the answer"))? {
            0 => {
                return Err(OpError::new(OpCode::Failed, "the input has ended")
                    .hint("run `g2 setup` again to go on")
                    .into());
            }
            _ => match setup::taken(step, question, &line, &OWN_PLATFORMS) {
                Ok(act) => return Ok(act),
                Err(why) => out::tell(why),
            },
        }
    }
}
