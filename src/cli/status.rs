//! `g2 status`: how the daemon is; works when it is down.

use super::{
    Context, Failure, Outcome,
    client::{Client, NoDaemon},
    show,
};

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
    show::object(
        context,
        &serde_json::json!({
            "state": state, "instance": null, "pid": null, "version": env!("CARGO_PKG_VERSION"), "since": null,
            "groups": null, "running": null, "waiting": null, "outbox_pending": null, "dead": null,
            "stale_recoveries_24h": null, "problems": [problem],
        }),
    )?;
    Err(Failure::Quiet(3))
}
