//! `g2 doctor`: checks the set-up and says how to fix each problem. It changes nothing without `--fix`, and works with the daemon up or down
//! and on a root that is not laid out.
//!
//! Each file looks at one side of the world and judges it; the judgements are plain functions.

use std::{path::PathBuf, time::Duration};

use clap::Args;

use super::{CliResult, Context, Failure, confirm::Yes, image, out, show};
use crate::{
    config::{Config, ConfigError},
    domain::{
        problems::{Finding, checks::Check, sort_out},
        rows::Group,
    },
    loops::{
        control,
        problems::{self, View},
    },
    store::Store,
};

mod daemon;
mod fix;
mod gateway;
mod groups;
mod heard;
mod launch;
mod ledger;
mod machine;
mod root;
mod row;
mod runner;
mod sandbox;
mod settings;
mod store;
mod tool_servers;
mod zone;

use row::Row;

/// How long the store's check may take.
const STORE_CHECK: Duration = Duration::from_secs(20);

const EXAMPLES: &str = "\
It works with the daemon up or down, and changes nothing without --fix. The exit code is 1 if a
check fails.

With --fix the files and folders of the root get their modes and owners back, missing folders and
boxes are made, what a killed program has left is removed, and a missing image g2-agent:… is
built. The list comes first. Nothing that anybody has written is removed. With --json
the output has the fields mended and checks.

With an image, or a program behind `--`, a runner is tried against each rule of container/PROTOCOL.md. A program without
an image runs on this machine as your user, without any boundary, and nothing else is checked.

Examples:
  g2 doctor
  g2 doctor --fix
  g2 doctor --online
  g2 doctor --image g2-agent:latest
  g2 doctor -- python3 runner.py";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Doctor {
    /// Container image to check, and whose runner is tried [default: the configured one is checked]
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// Seconds that each step of a runner may take
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    patience: u64,
    /// Mend what can be mended, after a list and a yes
    #[arg(long, conflicts_with_all = ["image", "command"])]
    fix: bool,
    #[command(flatten)]
    yes: Yes,
    /// Try the model's key with one request, which uses no tokens
    #[arg(long, conflicts_with = "command")]
    online: bool,
    /// Runner to try, with its arguments: in the image, or on this machine
    #[arg(last = true, value_name = "PROGRAM")]
    command: Vec<String>,
}

/// What most checks look at.
struct Subject {
    root: PathBuf,
    data: PathBuf,
    config: Config,
    /// Whether these settings can be read, and hold for the daemon too.
    are_the_daemons: bool,
    /// The daemon, when it answers.
    daemon: Option<control::Status>,
    /// The store, when it can be used.
    store: Option<Store>,
    groups: Vec<Group>,
}

/// Whether a problem is one of `g2.toml` as a whole: nothing is said of one setting.
fn is_of_settings(problem: &Finding) -> bool {
    problem.code == Check::Settings && problem.about.is_empty()
}

impl Doctor {
    pub(super) fn is_a_change(&self) -> bool {
        self.fix
    }

    pub(super) async fn run(self, context: &Context) -> CliResult {
        if self.fix {
            return self.mend(context).await;
        }
        let runner = runner::Wanted::new(self.image.clone(), self.command.clone(), self.patience);
        let rows = match &runner {
            Some(wanted) if wanted.is_a_program() => runner::check(wanted, context).await,
            _ => {
                let is_of_all = self.image.is_none();
                let mut rows = look(context, self.image).await;
                if is_of_all {
                    rows.extend(tool_servers::try_all(context).await);
                }
                if self.online {
                    rows.push(gateway::online(context).await);
                }
                let prevents =
                    |row: &Row| row.is_fail() && matches!(row.outcome().0, Check::Docker | Check::Image);
                if let Some(wanted) = runner.filter(|_| !rows.iter().any(prevents)) {
                    rows.extend(runner::check(&wanted, context).await);
                }
                rows
            }
        };
        if context.json {
            show::rows(context, &rows, &[])?;
        } else {
            out::text(&row::table(&rows, &docs(), out::screen()))?;
        }
        if rows.iter().any(Row::is_fail) { Err(Failure::Quiet(1)) } else { Ok(()) }
    }

    /// Mends what can be mended, and looks again.
    async fn mend(self, context: &Context) -> CliResult {
        let rows = look(context, None).await;
        let mended = fix::fix(context, &rows, &self.yes).await?;
        let mut rows = look(context, None).await;
        rows.extend(tool_servers::try_all(context).await);
        if self.online {
            rows.push(gateway::online(context).await);
        }
        if context.json {
            out::json(serde_json::json!({ "mended": mended, "checks": rows }))?;
        } else {
            let none = if mended.is_empty() { "nothing can be mended here\n" } else { "" };
            out::text(&format!(
                "{none}{}{}",
                fix::shown(&mended),
                row::table(&rows, &docs(), out::screen())
            ))?;
        }
        if rows.iter().any(Row::is_fail) { Err(Failure::Quiet(1)) } else { Ok(()) }
    }
}

/// Returns the folder that holds `docs/`, where packages lay it; empty if it is not there.
fn docs() -> String {
    let program = image::own_program().ok();
    let folder = program.and_then(|program| Some(program.parent()?.parent()?.join("share/doc/g2/")));
    folder
        .filter(|folder| folder.join("docs").is_dir())
        .map(|folder| folder.display().to_string())
        .unwrap_or_default()
}

/// Checks everything; `image`: this one instead of those in use.
pub(in crate::cli) async fn look(context: &Context, image: Option<String>) -> Vec<Row> {
    let root = context.root.clone();
    let data = root.join("data");
    let mut rows = vec![root::check(&root)];
    rows.extend(root::left(&root));
    let loaded = Config::load(&root, &context.environment);
    rows.push(settings::judge(&loaded, &root));
    rows.extend(settings::replaced(&root));
    rows.extend(settings::in_the_open(&root));
    let can_be_read = loaded.is_ok();
    // With settings that can't be read, the rest is checked against the defaults.
    let config: Result<Config, ConfigError> = loaded.or_else(|_| Config::defaults(&context.environment));
    let Ok(config) = config else { return rows };
    let (found, store) = store::check(&root, STORE_CHECK);
    rows.extend(found);
    let (found, daemon) = daemon::check(&root).await;
    rows.extend(found);
    let (mut groups, mut unread) = (Vec::new(), Vec::new());
    if let Some(store) = &store {
        groups = problems::known(&mut unread, "the groups", store.groups().await).unwrap_or_default();
    }
    // The one list of problems: as the daemon sees them, or as this command does while it is down.
    let mut problems = match &daemon {
        Some(daemon) => {
            let of_daemon = daemon.findings.iter().cloned();
            let ours = sort_out(unread).into_iter().filter(|one| !daemon.findings.contains(one));
            of_daemon.chain(ours).collect()
        }
        None => {
            let store = store.as_ref();
            problems::look(&View {
                config: &config,
                root: &root,
                store,
                closed: None,
                daemon: None,
                now: context.world.now(),
            })
            .await
        }
    };
    let are_the_daemons = can_be_read && !problems.iter().any(is_of_settings);
    // The checks of the settings and of the root have said why. Of a part of the root, the daemon alone knows.
    let is_said = |problem: &Finding| problem.code == Check::Root && problem.about.is_empty();
    problems.retain(|problem| (can_be_read || !is_of_settings(problem)) && !is_said(problem));
    let subject = Subject { root, data, config, are_the_daemons, daemon, store, groups };
    let mut own = settings::secrets(&subject);
    own.extend(root::private(&subject.root));
    let zone_data = subject.config.zone_source.data();
    own.extend(zone::check(&subject.config.zone, &zone_data));
    own.extend(zone::of_groups(&subject.groups, &subject.config.zone, &zone_data));
    own.extend(sandbox::check(&subject, image).await);
    own.extend(sandbox::scripts(&subject));
    own.extend(gateway::check(&subject, context.world.now()));
    own.extend(groups::check(&subject));
    own.extend(heard::check(&subject));
    own.extend(launch::check(&subject));
    own.extend(tool_servers::check(&subject));
    own.extend(ledger::check(&subject, context.world.now()).await);
    own.extend(machine::check(&subject));
    rows.extend(row::merged(problems, own));
    rows
}
