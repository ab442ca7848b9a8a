//! `g2 serve`, the service in the foreground, and `g2 init`.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use anyhow::Context as _;
use clap::Args;
use sd_notify::NotifyState;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::oneshot,
};

use super::{CliResult, Context, Failure, client::Client, show, start::Start};
use crate::{
    app::{self, Asks, Daemon, History},
    config::Taken,
    domain::shown::errors::chain,
    engine::Loops,
    loops::control::Leave,
    ops::{OpCode, OpError},
    store::{Store, StoreError, is_disk_full, is_locked},
    system::{background::leave_session, world::World},
};

#[derive(Debug, Args)]
pub(super) struct Serve {
    /// Go on in the background, as `g2 start` does
    #[arg(long)]
    detach: bool,
    /// We are the one in the background.
    #[arg(long, hide = true)]
    detached: bool,
}

impl Serve {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        if self.detach {
            return Start::default().run(context).await;
        }
        if self.detached {
            leave_session().context("leaving the terminal")?;
        }
        serve(context).await
    }
}

/// Runs the daemon until a signal asks it to stop; a second signal ends it at once.
async fn serve(context: &Context) -> CliResult {
    let mut signals = Signals::listen()?;
    app::check_root(&context.root)?;
    let config = context.config()?;
    let mut daemon = tokio::select! {
        started = Daemon::start(context.root.clone(), config) => started?,
        () = signals.next() => {
            tracing::info!("asked to stop while starting");
            return Ok(());
        }
    };
    answers(context).await?;
    tracing::info!(root = %context.root.display(), pid = std::process::id(), "ready");
    tell_manager(NotifyState::Ready);
    let watchdog =
        tokio::spawn(watch_over(context.world.clone(), daemon.store.clone(), Arc::clone(&daemon.loops)));
    signals.lead_to(&daemon);
    let mut asked = daemon.leave_asked();
    let log = context.log.follow(daemon.config.follow());
    let (failed, leave) = tokio::select! {
        () = signals.next() => (None, Leave::Alone),
        leave = asked.wait() => (None, leave),
        why = daemon.has_failed() => (Some(why), Leave::Alone),
        () = log => (Some("the settings are gone".into()), Leave::Alone),
    };
    watchdog.abort();
    tell_manager(NotifyState::Stopping);
    tracing::info!("stopping; a second signal ends it at once");
    match leave {
        Leave::Alone => stop(&mut signals, daemon.stop()).await,
        Leave::WithAgents => stop(&mut signals, daemon.retire()).await,
    }
    tracing::info!("stopped");
    match failed {
        None => Ok(()),
        Some(why) => Err(broken(&why)),
    }
}

/// A daemon failed, for this reason.
pub(super) fn broken(why: &str) -> Failure {
    OpError::new(OpCode::Failed, format!("our own fault: {why}")).hint("see the log").into()
}

pub(super) const EXAMPLES: &str = "\
The log goes to stderr. SIGTERM or Ctrl-C stops the daemon in order, and a second signal stops
it at once. It follows g2.toml; SIGHUP has it read the file at once and log which changes need a
restart. `g2 service install` has systemd run it.

Examples:
  g2 serve
  g2 serve --detach
  g2 serve --log-format json 2> g2.log";

const INIT: &str = "\
A root that is there stays as it is.

Examples:
  g2 init
  g2 --root ~/g2 init";

#[derive(Debug, Args)]
#[command(after_help = INIT)]
pub(super) struct Init {
    /// Start anew if data/ holds history but no store; the old files are moved to data/before-TIME/
    #[arg(long)]
    fresh: bool,
}

impl Init {
    /// Lays out a root.
    pub(super) async fn run(self, context: &Context) -> CliResult {
        let history = if self.fresh { History::MoveAside } else { History::Refuse };
        app::found(&context.world, &context.root, &context.config()?, history).await?;
        app::lay_out_boxes(&context.world, &context.root).await?;
        show::done(
            context,
            &format!("{} is laid out; start it with `g2 --root {0} serve`", context.root.display()),
        )
    }
}

/// What asks for a stop, none of which is missed while nobody waits: SIGTERM, SIGINT, and SIGHUP when our terminal has
/// ended. Any other SIGHUP has the settings read again.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    /// Whether a terminal's end ends us: we have one, and nobody wants us to outlive it.
    goes_with_terminal: bool,
    /// Where a daemon is asked to read its settings; `None`: none is up yet, and it reads them when it is.
    settings: Option<Asks>,
}

impl Signals {
    /// From now on these signals end nothing by themselves.
    pub(super) fn listen() -> anyhow::Result<Self> {
        // As `nohup` has it: asked before the signal is ours.
        let goes_with_terminal = has_terminal() && !ignores_hangup();
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            goes_with_terminal,
            settings: None,
        })
    }

    /// Waits for a stop. Safe to cancel.
    pub(super) async fn next(&mut self) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hangup.recv() => {
                    if self.goes_with_terminal && !has_terminal() {
                        tracing::info!("the terminal has ended");
                        return;
                    }
                    self.read_again();
                }
            }
        }
    }

    /// Has SIGHUP lead to a daemon's settings from now on.
    pub(super) fn lead_to(&mut self, daemon: &Daemon) {
        self.settings = Some(daemon.settings());
    }

    /// Has the settings read. The daemon tells the log what changed.
    fn read_again(&self) {
        let (done, read) = oneshot::channel();
        if self.settings.as_ref().is_some_and(|settings| settings.send(done).is_ok()) {
            tokio::spawn(async {
                if let Ok(Ok(taken)) = read.await
                    && taken == Taken::default()
                {
                    tracing::info!("the settings are read again: none has changed");
                }
            });
        }
    }
}

/// Whether this process has a terminal that still lives, be its output led elsewhere.
fn has_terminal() -> bool {
    use rustix::fs::{CWD, Mode, OFlags, openat};
    openat(CWD, "/dev/tty", OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).is_ok()
}

/// Whether we were started with SIGHUP ignored.
fn ignores_hangup() -> bool {
    let status = crate::system::process::own_status();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

/// Waits for an orderly stop; a signal meanwhile ends the process.
pub(super) async fn stop(signals: &mut Signals, stopping: impl Future<Output = ()>) {
    tokio::select! {
        () = stopping => {}
        () = signals.next() => {
            tracing::warn!("ended at once; the next start goes on where this one was");
            std::process::exit(1);
        }
    }
}

/// How long we ourselves may take to answer, however slow the machine is.
const OURSELVES: Duration = Duration::from_secs(60);

/// Being up is not being ready: asks the daemon by its socket, as a client does.
async fn answers(context: &Context) -> anyhow::Result<()> {
    match Client::connect_within(&context.root, OURSELVES).await {
        Ok(_) => Ok(()),
        Err(why) => Err(anyhow::Error::new(why).context("our own socket does not answer")),
    }
}

/// Tells the service manager. One that is not there is no error.
fn tell_manager(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(error = %chain(&error), "telling the service manager failed");
    }
}

/// Tells the service manager's watchdog that we live, as long as changes are stored and the loops come round without which nothing goes
/// on. A daemon that can't store any change, or of which such a loop stands still, is better started again. While another program holds
/// the store's lock, or its disk is full, that would help nobody.
async fn watch_over(world: World, store: Store, loops: Arc<Loops>) {
    let Some(every) = sd_notify::watchdog_enabled() else { return };
    // A disk that is slow for as long as one of these is not missed.
    let mut tick = tokio::time::interval((every / 3).max(Duration::from_millis(10)));
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let is_held_up = || store.held_up().is_some_and(|held_up| held_up.by.outlives_us());
    let mut told = BTreeSet::new();
    loop {
        tick.tick().await;
        let mut beat = std::pin::pin!(store.beat(world.now()));
        let stored = loop {
            tokio::select! {
                stored = &mut beat => break stored,
                // Others wait before it.
                _ = tick.tick() => if is_held_up() { tell_manager(NotifyState::Watchdog) },
            }
        };
        let stuck = loops.vital_stuck();
        if is_fed(&stored, stuck.is_empty()) {
            tell_manager(NotifyState::Watchdog);
            continue;
        }
        for (name, since) in stuck {
            if told.insert(name) {
                tracing::error!(%name, secs = since.as_secs(), "our own fault: a loop has not come round, so the watchdog is not fed");
            }
        }
    }
}

/// Whether the watchdog is fed. What keeps the store from being written and outlives us holds up loops, too.
fn is_fed(stored: &Result<(), StoreError>, loops_come_round: bool) -> bool {
    match stored {
        Ok(()) => loops_come_round,
        Err(error) => is_locked(error) || is_disk_full(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Fault;

    #[test]
    fn the_watchdog_is_fed_unless_another_daemon_would_do_better() {
        let failed = |code| Err(StoreError::Commit(Fault::of(code)));
        let (busy, io, full) = (5, 10, 13);
        assert!(is_fed(&Ok(()), true) && !is_fed(&Ok(()), false));
        for comes_round in [true, false] {
            assert!(is_fed(&failed(busy), comes_round) && is_fed(&failed(full), comes_round));
            assert!(!is_fed(&failed(io), comes_round));
        }
    }
}
