//! `g2 status`: how the daemon is; works when it is down.

use serde::Serialize;
use serde_json::Value;

use super::{
    Context, Failure, Outcome,
    client::{Client, NoDaemon},
    out, show,
};
use crate::{
    domain::problems::Finding,
    ipc::peek,
    loops::{
        control::{Status, shown},
        problems::{self, View},
    },
};

pub(super) const FIELDS: &str = "\
What waits, with the daemon up or down:
  waiting           conversations (a group, a chat and a thread of it) in which something waits for an agent; null while
                    the daemon is down
  messages_waiting  messages that no agent was given yet, or that came back after a failure
  files_waiting     command files that lie in groups' boxes, unclaimed
  outbox_pending    what is still to be said to chats; null while the daemon is down
  approvals_pending questions that nobody has answered yet; null while the daemon is down

What a person has to mend, with the daemon up or down:
  problems          each in a sentence; the same list is shown by `g2 doctor` and told to the log
  findings          the same problems with their code, what each is about, how bad it is and how to mend it";

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
            print(context, &shown, &shown.status.findings)?;
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
    let mut problems = vec![problem];
    let findings = look(context, &mut problems).await;
    problems.extend(findings.iter().map(|finding| finding.text.clone()));
    let status = serde_json::json!({
        "state": state, "instance": null, "pid": null, "version": env!("CARGO_PKG_VERSION"), "since": null,
        "groups": null, "running": null, "waiting": null,
        "messages_waiting": messages_waiting, "files_waiting": files_waiting, "outbox_pending": null, "dead": null,
        "stale_recoveries_24h": null, "approvals_pending": null, "held": held, "problems": problems, "findings": findings,
    });
    print(context, &status, &findings)?;
    Err(Failure::Quiet(3))
}

/// Looks what is wrong without a daemon.
async fn look(context: &Context, problems: &mut Vec<String>) -> Vec<Finding> {
    let config = match context.config() {
        Ok(config) => config,
        Err(error) => {
            problems.push(format!("the settings can't be used: {error:#}"));
            return Vec::new();
        }
    };
    let store = context.store().ok();
    problems::look(&View { config: &config, root: &context.root, store: store.as_ref(), host: None }).await
}

/// One object, or its fields a line each and below them each problem in full, with how to mend it.
fn print<T: Serialize>(context: &Context, status: &T, findings: &[Finding]) -> Outcome {
    if context.json {
        return show::object(context, status);
    }
    let mut fields = serde_json::to_value(status).unwrap_or_default();
    let mut problems = Vec::new();
    if let Some(fields) = fields.as_object_mut() {
        fields.remove("findings");
        if let Some(Value::Array(all)) = fields.remove("problems") {
            problems = all.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        }
    }
    show::object(context, &fields)?;
    if problems.is_empty() {
        return out::line("no problems");
    }
    out::line("problems:")?;
    for problem in &problems {
        out::line(format!("  {problem}"))?;
        if let Some(finding) = findings.iter().find(|finding| finding.text == *problem) {
            out::line(format!("    mend: {}", finding.fix))?;
        }
    }
    Ok(())
}
