//! A runner on trial: one row for each rule of `container/PROTOCOL.md`.

use std::{path::Path, time::Duration};

use ipc_handlers::wire::Secrets;

use super::{
    Context,
    row::{Row, chain},
};
use crate::{
    config::{Config, ConfigError, dotenv},
    domain::{problems::checks::Check, runs::run_settings},
    sandbox::{
        Network, Sandbox, SandboxError,
        docker::DockerSandbox,
        process::ProcessSandbox,
        trial::{self, Outcome, Rule, Subject, TrialError},
    },
    system::process::own_ids,
};

/// The user inside, where we are root.
const AGENT: (u32, u32) = (1000, 1000);

/// Which runner is to be tried.
pub(super) struct Wanted {
    image: Option<String>,
    command: Vec<String>,
    patience: Duration,
}

impl Wanted {
    /// `None`: neither an image nor a program is named.
    pub(super) fn new(image: Option<String>, command: Vec<String>, patience: u64) -> Option<Self> {
        let is_one = image.is_some() || !command.is_empty();
        let command = match image {
            None => command.into_iter().map(absolute).collect(),
            Some(_) => command,
        };
        is_one.then(|| Self { image, command, patience: Duration::from_secs(patience) })
    }

    /// Whether it runs on this machine, without an image.
    pub(super) fn is_a_program(&self) -> bool {
        self.image.is_none()
    }
}

/// A runner has a working folder of its own, and people name files from theirs.
fn absolute(word: String) -> String {
    match std::path::absolute(&word) {
        Ok(path) if word.contains('/') && path.exists() => path.display().to_string(),
        _ => word,
    }
}

pub(super) async fn check(wanted: &Wanted, context: &Context) -> Vec<Row> {
    match tried(wanted, context).await {
        Ok(rows) => rows,
        Err(error) => vec![Row::fail(Check::Runner, chain(&error), "mend that, and try again")],
    }
}

/// Why a runner was not tried to the end.
#[derive(Debug, thiserror::Error)]
enum NotTried {
    #[error("preparing the trial failed")]
    Prepare(#[from] std::io::Error),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error(transparent)]
    Trial(#[from] TrialError),
    #[error("it was interrupted")]
    Interrupted,
}

async fn tried(wanted: &Wanted, context: &Context) -> Result<Vec<Row>, NotTried> {
    let notes = tempfile::tempdir()?;
    let config = Config::load(&context.root, &context.environment)
        .or_else(|_| Config::defaults(&context.environment))?;
    let sandbox = sandbox_of(wanted, &config, notes.path())?;
    let is_open = !wanted.is_a_program() && config.sandbox.network == run_settings::Network::Open;
    let is_given_keys = is_open && config.sandbox.credentials == run_settings::Credentials::Stdin;
    let id = context.world.id()?;
    let subject = Subject {
        sandbox: &*sandbox,
        image: wanted.image.clone().unwrap_or_default(),
        command: wanted.command.clone(),
        instance: format!("g2-trial-{}", &id[..8]),
        user: if own_ids().0 == 0 && !wanted.is_a_program() { AGENT } else { own_ids() },
        network: if is_open { Network::Open } else { Network::None },
        secrets: if is_given_keys { dotenv::secrets(&context.root)? } else { Secrets::default() },
        patience: wanted.patience,
    };
    let outcome = tokio::select! {
        outcome = trial::run(&subject) => outcome.map_err(NotTried::from),
        _ = tokio::signal::ctrl_c() => Err(NotTried::Interrupted),
    };
    // Nothing of a trial stays, also if it was cut short.
    let cleared = trial::clear(&*sandbox, &subject.instance).await;
    let rows = rows(&outcome?);
    cleared?;
    Ok(rows)
}

fn sandbox_of(wanted: &Wanted, config: &Config, notes: &Path) -> Result<Box<dyn Sandbox>, NotTried> {
    if wanted.is_a_program() {
        return Ok(Box::new(ProcessSandbox::new(std::path::PathBuf::new(), Vec::new(), notes.to_owned())));
    }
    Ok(Box::new(DockerSandbox::new(config.docker_host.as_deref())?))
}

fn rows(outcomes: &[(Rule, Outcome)]) -> Vec<Row> {
    let is_v1 = outcomes.iter().any(|(_, outcome)| *outcome == Outcome::NotOfV1);
    let all = |wanted: fn(&Outcome) -> bool| -> Vec<&str> {
        outcomes.iter().filter(|(_, outcome)| wanted(outcome)).map(|(rule, _)| rule.as_str()).collect()
    };
    let broken = all(|outcome| matches!(outcome, Outcome::Broken(_)));
    let untried = all(|outcome| *outcome == Outcome::NotTried);
    let mut rows: Vec<Row> = outcomes
        .iter()
        .filter_map(|(rule, outcome)| match outcome {
            Outcome::Kept(words) => Some(Row::ok(rule.check(), words.clone())),
            Outcome::Broken(words) => Some(Row::fail(rule.check(), words.clone(), rule.fix())),
            Outcome::NotTried | Outcome::NotOfV1 => None,
        })
        .collect();
    if let (false, Some(cause)) = (untried.is_empty(), broken.first()) {
        rows.push(Row::warn(
            Check::RunnerNotTried,
            format!("these rules were not tried, because another is broken: {}", untried.join(", ")),
            format!("mend runner_{cause} first"),
        ));
    }
    if is_v1 {
        rows.insert(
            0,
            Row::warn(
                Check::Runner,
                "it never says `ready`, so it is tried by the rules of version 1; it needs network = \"open\" and credentials = \"stdin\"",
                "to have all that version 2 promises, keep to container/PROTOCOL.md",
            ),
        );
    }
    rows
}
