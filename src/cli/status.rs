//! `g2 status`: how the daemon is; works when it is down.

use serde::Serialize;

use super::{
    Context, Failure, Outcome,
    client::{Client, NoDaemon},
    show,
};
use crate::{
    ipc::peek,
    loops::control::{Status, shown},
};

pub(super) const FIELDS: &str = "\
What waits, with the daemon up or down:
  waiting           conversations (a group, a chat and a thread of it) in which something waits for an agent; null while
                    the daemon is down
  messages_waiting  messages that no agent was given yet, or that came back after a failure
  files_waiting     command files that lie in groups' boxes, unclaimed
  outbox_pending    what is still to be said to chats; null while the daemon is down
  approvals_pending questions that nobody has answered yet; null while the daemon is down";

/// What waits, as it lies in the root; `null` where that can't be read.
#[derive(Default, Serialize)]
struct Waits {
    messages_waiting: Option<i64>,
    files_waiting: Option<usize>,
}

#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    status: Status,
    #[serde(flatten)]
    waits: Waits,
}

impl Waits {
    fn of(context: &Context) -> Self {
        let Ok(store) = context.store() else { return Self::default() };
        let groups = store.groups().unwrap_or_default();
        let mut files = 0;
        let data = context.root.join("data");
        let looked = peek::each_waiting(&data, groups.iter().map(|group| &group.folder), |lying| {
            files += usize::from(!lying.is_directory);
        });
        Self {
            messages_waiting: store.messages_waiting().ok(),
            files_waiting: looked.is_ok().then_some(files),
        }
    }
}

pub(super) async fn run(context: &Context) -> Outcome {
    let (state, problem) = match Client::status(&context.root).await {
        Ok(status) => {
            let shown = Shown { status: *status, waits: Waits::of(context) };
            show::object(context, &shown)?;
            return if shown.status.state == "healthy" { Ok(()) } else { Err(Failure::Quiet(1)) };
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
    let Waits { messages_waiting, files_waiting } = Waits::of(context);
    show::object(
        context,
        &serde_json::json!({
            "state": state, "instance": null, "pid": null, "version": env!("CARGO_PKG_VERSION"), "since": null,
            "groups": null, "running": null, "waiting": null,
            "messages_waiting": messages_waiting, "files_waiting": files_waiting, "outbox_pending": null, "dead": null,
            "stale_recoveries_24h": null, "approvals_pending": null, "held": held, "problems": [problem],
        }),
    )?;
    Err(Failure::Quiet(3))
}
