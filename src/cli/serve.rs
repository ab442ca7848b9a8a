//! `g2 serve`, the service in the foreground, and `g2 init`.

use std::{sync::Arc, time::Duration};

use clap::Args;
use sd_notify::NotifyState;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{
    Context, Failure, Outcome,
    client::{Client, make_boxes},
    show,
};
use crate::{
    app::{self, Daemon, History},
    loops::Host,
};

/// Runs the daemon until a signal asks it to stop; a second signal ends it at once.
pub(super) async fn serve(context: &Context) -> Outcome {
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
    let watchdog = tokio::spawn(watch_over(Arc::clone(&daemon.host)));
    let failed = tokio::select! {
        () = signals.next() => None,
        why = daemon.has_failed() => Some(why),
    };
    watchdog.abort();
    tell_manager(NotifyState::Stopping);
    tracing::info!("stopping; a second signal ends it at once");
    stop(&mut signals, daemon.stop()).await;
    match failed {
        None => Ok(()),
        Some(why) => Err(Failure::Failed(anyhow::anyhow!("our own fault: {why}; see the log"))),
    }
}

#[derive(Debug, Args)]
pub(super) struct Init {
    /// Begin anew where history lies without its store; what lies in data/ is moved to data/before-TIME/
    #[arg(long)]
    fresh: bool,
}

impl Init {
    /// Lays out a root.
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let history = if self.fresh { History::MoveAside } else { History::Refuse };
        app::found(&context.root, &context.config()?, history).await?;
        make_boxes(context, None).await?;
        show::done(
            context,
            &format!("{} is laid out; start it with `g2 --root {0} serve`", context.root.display()),
        )
    }
}

/// SIGTERM and SIGINT, none of which is missed while nobody waits.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// From now on these signals end nothing by themselves.
    pub(super) fn listen() -> anyhow::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for one of them. Safe to cancel.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
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
        tracing::warn!(%error, "telling the service manager failed");
    }
}

/// Tells the service manager's watchdog that we live, as long as the store answers: a daemon that can't read its store
/// is better started again.
async fn watch_over(host: Arc<Host>) {
    let Some(every) = sd_notify::watchdog_enabled() else { return };
    let mut tick = tokio::time::interval((every / 2).max(Duration::from_millis(10)));
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let reading = Arc::clone(&host);
        let answered = tokio::task::spawn_blocking(move || reading.store.outbox_pending().is_ok()).await;
        if matches!(answered, Ok(true)) {
            tell_manager(NotifyState::Watchdog);
        }
    }
}
