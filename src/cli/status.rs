//! `g2 status`: how the daemon is; works when it is down.

use super::{Context, Failure, Outcome, client::Client, show};
use crate::loops::control::{Request, Response, shown};

pub(super) async fn run(context: &Context) -> Outcome {
    let Some(mut client) = Client::connect(&context.root).await else {
        let problems =
            vec![format!("no daemon runs at {}; start it with `g2 serve`", context.root.display())];
        let held = context.store().ok().and_then(|store| store.holds().ok());
        let held: Option<Vec<String>> = held.map(|holds| holds.iter().map(shown).collect());
        show::object(
            context,
            &serde_json::json!({
                "state": "not running", "instance": null, "pid": null, "version": env!("CARGO_PKG_VERSION"), "since": null,
                "groups": null, "running": null, "waiting": null, "outbox_pending": null, "dead": null,
                "stale_recoveries_24h": null, "held": held, "problems": problems,
            }),
        )?;
        return Err(Failure::Quiet(3));
    };
    let Response::Status(status) = client.call(&Request::Status).await? else {
        return Err(anyhow::anyhow!("the daemon gave an answer to something else").into());
    };
    show::object(context, &status)?;
    if status.state == "healthy" { Ok(()) } else { Err(Failure::Quiet(1)) }
}
