//! `g2 start`, `g2 restart`, `g2 logs`: the daemon in the background, by the service manager if it has the service, otherwise by
//! itself.

use std::{ffi::OsStr, time::Duration};

use anyhow::{Context as _, anyhow};
use clap::Args;

use super::{
    CliResult, Context, Failure, LogFormat,
    client::Client,
    colours::Wanted,
    image::own_program,
    out,
    service::{self, Managed},
    show,
    stop::Stop,
};
use crate::{
    app,
    ops::{OpCode, OpError},
    root::{LogEnd, open_daemon_log, turn_daemon_log},
    system::background,
};

pub(super) const STARTED: &str = "\
If `g2 service install` was done for this root, the service manager starts the service. Otherwise
the daemon goes on in the background, also when you log out. It does not start with the machine
then, and its log is data/daemon.log. --log-format and --color hold for that log.

Examples:
  g2 start
  g2 start --log-format json";

pub(super) const RESTARTED: &str = "\
The daemon stops in order and starts again, with the settings as they stand. Containers go on
meanwhile, and the new daemon takes them over. --log-format and --color hold for the log of the
new daemon, but where the service manager starts it.

Examples:
  g2 restart";

pub(super) const LOGGED: &str = "\
The log of the service if there is one, otherwise data/daemon.log. `g2 service logs` has more
options. A daemon that you have started by `g2 serve` logs in its own terminal.

Examples:
  g2 logs
  g2 logs -f --lines 20";

/// How often it is looked whether a daemon answers, or its log goes on.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
const READ_AGAIN: Duration = Duration::from_millis(300);
/// How long an end and a start may take, s.
const WAIT: u64 = 90;
/// How many lines of the log are shown if a daemon does not start.
const LAST_WORDS: usize = 5;

#[derive(Debug, Args)]
pub(super) struct Start {
    /// Wait at most SECS seconds until it answers
    #[arg(long, value_name = "SECS", default_value_t = WAIT)]
    wait: u64,
}

#[derive(Debug, Args)]
pub(super) struct Restart {
    /// Wait at most SECS seconds for the end, and again until it answers
    #[arg(long, value_name = "SECS", default_value_t = WAIT)]
    wait: u64,
}

#[derive(Debug, Args)]
pub(super) struct Logs {
    /// Go on as lines come, until Ctrl-C
    #[arg(long, short)]
    follow: bool,
    /// Show at most N of the newest lines
    #[arg(long, value_name = "N", default_value_t = 100)]
    lines: u32,
}

impl Default for Start {
    fn default() -> Self {
        Self { wait: WAIT }
    }
}

impl Start {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        app::check_root(&context.root)?;
        if Client::connect(&context.root).await.is_ok() {
            return show::done(context, "the daemon runs already");
        }
        let said = match service::managed(context) {
            Some(managed) => by_manager(context, &managed, "start", self.wait).await?,
            None => detach(context, self.wait).await?,
        };
        show::done(context, &said)
    }
}

impl Restart {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        app::check_root(&context.root)?;
        let up = Client::status(&context.root).await.ok();
        let managed = service::managed(context);
        let said = match (managed, up) {
            (Some(managed), None) => by_manager(context, &managed, "start", self.wait).await?,
            (Some(managed), Some(_)) if managed.is_ours() => {
                by_manager(context, &managed, "restart", self.wait).await?
            }
            (_, Some(up)) => {
                // One that somebody else starts again would be in the way of ours.
                if let Some(words) = service::unit_of_process(up.pid) {
                    let why = format!("the daemon, process {}, is a service of systemd", up.pid);
                    return Err(OpError::refused(why).hint(format!("`systemctl {words}`")).into());
                }
                Stop::in_order(self.wait).end(context).await?;
                detach(context, self.wait).await?
            }
            (None, None) => detach(context, self.wait).await?,
        };
        show::done(context, &said)
    }
}

async fn by_manager(context: &Context, managed: &Managed, verb: &str, wait: u64) -> Result<String, Failure> {
    if let [option, ..] = handed_on(context.log_format, context.color)[..] {
        out::tell(format_args!(
            "note: {option} does not reach a daemon that the service manager starts; its unit has the command line"
        ));
    }
    managed.must(&[verb, managed.service()])?;
    answers(context, wait, || Ok(())).await?;
    Ok(format!("{} runs", managed.service()))
}

/// Returns the options of this command line that hold for the log of the daemon, too.
fn handed_on(format: LogFormat, colours: Wanted) -> Vec<&'static str> {
    let format = match format {
        LogFormat::Text => None,
        LogFormat::Json => Some("--log-format=json"),
    };
    let colours = match colours {
        Wanted::Auto => None,
        Wanted::Always => Some("--color=always"),
        Wanted::Never => Some("--color=never"),
    };
    format.into_iter().chain(colours).collect()
}

/// Starts a daemon that goes on without us; returns that it runs.
pub(super) async fn detach(context: &Context, wait: u64) -> Result<String, Failure> {
    let data = context.root.join("data");
    turn_daemon_log(&data).context("turning data/daemon.log over")?;
    let log = open_daemon_log(&data).context("opening data/daemon.log")?;
    let root = std::path::absolute(&context.root).context("finding the root")?;
    let options = handed_on(context.log_format, context.color);
    let mut arguments = vec![OsStr::new("--root"), root.as_os_str()];
    arguments.extend(options.into_iter().chain(["serve", "--detached"]).map(OsStr::new));
    let mut child = background::start(&own_program()?, &arguments, &log)
        .context("starting a daemon in the background")?;
    let pid = child.id();
    let ended = || match child.try_wait() {
        Ok(None) => Ok(()),
        Ok(Some(status)) => {
            let words = LogEnd::open(&data, LAST_WORDS).ok().flatten().map(|(words, _)| words);
            Err(anyhow!("the daemon ended with {status}:\n{}", words.unwrap_or_default().trim_end()).into())
        }
        Err(error) => Err(anyhow::Error::new(error).context("waiting for the daemon").into()),
    };
    answers(context, wait, ended).await?;
    Ok(format!(
        "the daemon runs in the background, as process {pid}; `g2 logs -f` shows its log, `g2 stop` ends it. It does not start with \
         the machine: that is what `g2 service install` is for"
    ))
}

/// Waits until a daemon answers.
async fn answers(
    context: &Context,
    wait: u64,
    mut goes_on: impl FnMut() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let answered = async {
        while Client::connect(&context.root).await.is_err() {
            goes_on()?;
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Ok(())
    };
    match tokio::time::timeout(Duration::from_secs(wait), answered).await {
        Ok(answered) => answered,
        Err(_) => {
            let error = OpError::new(OpCode::Failed, format!("the daemon did not answer within {wait} s"));
            Err(error.hint("`g2 logs` says what it does; it may still come up").into())
        }
    }
}

impl Logs {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        let data = context.root.join("data");
        let has_log = LogEnd::open(&data, 0).is_ok_and(|log| log.is_some());
        if let Some(managed) = service::managed(context).filter(|managed| managed.is_ours() || !has_log) {
            return managed.show_log(self.follow, self.lines);
        }
        let lines = usize::try_from(self.lines).unwrap_or(usize::MAX);
        let read = LogEnd::open(&data, lines).context("reading data/daemon.log")?;
        let Some((newest, mut end)) = read else {
            let error = OpError::new(OpCode::Failed, "no daemon of this root was started in the background");
            let hint = "`g2 start` does so; `g2 serve` logs in its own terminal, a service of another name or user in its journal";
            return Err(error.hint(hint).into());
        };
        out::own_lines(&newest)?;
        if !self.follow {
            return Ok(());
        }
        loop {
            tokio::select! {
                () = tokio::time::sleep(READ_AGAIN) => {}
                _ = tokio::signal::ctrl_c() => return Ok(()),
            }
            out::own_lines(&end.more().context("reading data/daemon.log")?)?;
        }
    }
}
