//! `g2 status`: how the daemon is; works when it is down.

use super::{
    Context, Failure, Outcome,
    client::{Client, NoDaemon},
    show,
};
use crate::loops::control::shown;

pub(super) async fn run(context: &Context) -> Outcome {
    let (state, problem) = match Client::status(&context.root).await {
        Ok(status) => {
            show::object(context, &status)?;
            return if status.state == "healthy" { Ok(()) } else { Err(Failure::Quiet(1)) };
        }
        Err(NoDaemon::Down) => {
            ("not running", format!("no daemon runs at {}; start it with `g2 serve`", context.root.display()))
        }
        Err(NoDaemon::Mute(why)) => {
            ("not answering", Failure::Mute { root: context.root.clone(), why }.to_string())
        }
    };
    let held = context.store().ok().and_then(|store| store.holds().ok());
    let held: Option<Vec<String>> = held.map(|holds| holds.iter().map(shown).collect());
    show::object(
        context,
        &serde_json::json!({
            "state": state, "instance": null, "pid": null, "version": env!("CARGO_PKG_VERSION"), "since": null,
            "groups": null, "running": null, "waiting": null, "outbox_pending": null, "dead": null,
            "stale_recoveries_24h": null, "approvals_pending": null, "held": held, "problems": [problem],
        }),
    )?;
    Err(Failure::Quiet(3))
}
