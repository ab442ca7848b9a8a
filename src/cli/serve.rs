//! `g2 serve`, the service in the foreground, and `g2 init`.

use std::{sync::Arc, time::Duration};

use tokio::signal::unix::{SignalKind, signal};

use super::{Context, Failure, Outcome, show};
use crate::{app, app::Daemon};

/// Runs the daemon until a signal asks it to stop; a second signal ends it at once.
pub(super) async fn serve(context: &Context) -> Outcome {
    let mut daemon = Daemon::start(context.root.clone(), context.config()?).await?;
    tracing::info!(root = %context.root.display(), pid = std::process::id(), "ready");
    // A service manager that is not there is no error.
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    let watchdog = tokio::spawn(watch_over(Arc::clone(&daemon.host)));
    let failed = tokio::select! {
        () = asked_to_stop() => None,
        why = daemon.has_failed() => Some(why),
    };
    watchdog.abort();
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
    tracing::info!("stopping; a second signal ends it at once");
    tokio::select! {
        () = daemon.stop() => {}
        () = asked_to_stop() => {
            tracing::warn!("ended at once; the next start goes on where this one was");
            std::process::exit(1);
        }
    }
    match failed {
        None => Ok(()),
        Some(why) => Err(Failure::Failed(anyhow::anyhow!("our own fault: {why}; see the log"))),
    }
}

/// Lays out a root.
pub(super) async fn init(context: &Context) -> Outcome {
    app::init(&context.root, &context.config()?).await?;
    show::done(
        context,
        &format!("{} is laid out; start it with `g2 --root {0} serve`", context.root.display()),
    )
}

/// Waits for SIGTERM or SIGINT.
pub(super) async fn asked_to_stop() {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        tracing::error!("signals can't be heard; end g2 with SIGKILL");
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

/// Tells the service manager's watchdog that we live, as long as the store answers: a daemon that can't read its store
/// is better started again.
async fn watch_over(host: Arc<crate::loops::Host>) {
    let Some(every) = sd_notify::watchdog_enabled() else { return };
    let mut tick = tokio::time::interval((every / 2).max(Duration::from_millis(100)));
    loop {
        tick.tick().await;
        let reading = Arc::clone(&host);
        let answered = tokio::task::spawn_blocking(move || reading.store.outbox_pending().is_ok()).await;
        if matches!(answered, Ok(true)) {
            let _ = sd_notify::notify(&[sd_notify::NotifyState::Watchdog]);
        }
    }
}
