//! `g2 ipc show` and `g2 ipc trace`: one command, wherever it is.

use serde_json::{Value, json};

use super::{
    super::{client::Client, out},
    CliResult, Context, show,
};
use crate::{
    domain::states::QueueState,
    ipc::peek,
    ops::{
        OpError,
        ipc::{
            queue::{Found, Open, find},
            shown,
        },
    },
    store::Store,
};

/// Prints a command's row, its file, its reply or why it was refused.
pub(super) async fn show(context: &Context, store: &Store, what: &str) -> CliResult {
    let (mut whole, file) = match find(&context.root, store, what, context.world.now()).await? {
        Found::Settled(id) => {
            let story = store
                .story(id, context.world.now())?
                .ok_or_else(|| OpError::not_found(format!("command {id} does not exist")))?;
            let mut whole = serde_json::to_value(&story.row).unwrap_or_default();
            whole["hint"] = story.hint.into();
            whole["run"] = story.run.into();
            whole["token_id"] = story.token_id.into();
            whole["reply"] = story.reply.unwrap_or_default();
            (whole, crate::root::read_kept_command(&context.root, &story.row.group, id))
        }
        Found::Open(open) => {
            let bytes = peek::head(&context.root.join("data"), &open.lying);
            let whole = serde_json::to_value(&open.row).unwrap_or_default();
            (whole, bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
        }
    };
    whole["command"] = file.into();
    show::object(context, &whole)
}

/// Prints the whole story of a command.
pub(super) async fn run(context: &Context, store: &Store, what: &str) -> CliResult {
    let whole = match find(&context.root, store, what, context.world.now()).await? {
        Found::Settled(id) => {
            let story = store
                .story(id, context.world.now())?
                .ok_or_else(|| OpError::not_found(format!("command {id} does not exist")))?;
            let mut whole = serde_json::to_value(&story).unwrap_or_default();
            let row = &story.row;
            let files = peek::files_of(&context.root, &row.group, id, row.request_id.as_deref());
            whole["files"] = files.into();
            whole["answer"] = settled(&story).into();
            whole
        }
        Found::Open(open) => {
            let mut whole = serde_json::to_value(&open.row).unwrap_or_default();
            let since = if open.lying.claim.is_some() { "claimed_at" } else { "written_at" };
            whole[since] = open.lying.since.to_string().into();
            whole["files"] = json!([file_of(&open)]);
            whole["answer"] = waits_for(context, store, &open).await?.into();
            whole
        }
    };
    if context.json { show::object(context, &whole) } else { tell(&whole) }
}

fn settled(story: &crate::store::Story) -> String {
    let mut text = match (&story.row.reason, story.replay_of) {
        (None, Some(first)) => {
            format!("{}: answered as command {first} was, whose request id it has", story.row.state)
        }
        (None, None) => story.row.state.to_string(),
        (Some(reason), _) => format!("{}: {reason}", story.row.state),
    };
    if let Some(of) = story.retry_of {
        text.push_str(&format!("; it is command {of}, tried again"));
    }
    if let Some(id) = story.retried_as {
        text.push_str(&format!("; it was tried again as command {id}"));
    }
    text
}

/// What keeps a command from being settled.
async fn waits_for(context: &Context, store: &Store, open: &Open) -> anyhow::Result<String> {
    let hold = store.holds()?.into_iter().find(|hold| {
        hold.group.as_str() == open.row.group
            && hold.file.as_ref().is_none_or(|(in_box, name)| {
                *in_box == open.row.box_name
                    && std::os::unix::ffi::OsStrExt::as_bytes(open.lying.file.as_os_str()) == name
            })
    });
    if open.row.state == QueueState::Held
        && let Some(hold) = hold
    {
        let why = hold.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        let name = shown(&hold);
        return Ok(format!("held since {}{why}; `g2 ipc release {name}` releases it", hold.at));
    }
    if Client::connect(&context.root).await.is_err() {
        return Ok("it waits for the daemon, which is not running; start it with `g2 start`".into());
    }
    Ok(match (open.lying.is_directory, open.lying.claim) {
        (true, _) => "a directory is never claimed; its writer has to remove it".into(),
        (false, Some(_)) => {
            "it is claimed; it may not be written to its end yet, or the store can't take it now".into()
        }
        (false, None) => "it waits to be claimed".into(),
    })
}

fn file_of(open: &Open) -> String {
    let name = crate::ipc::display_name(&open.lying.file);
    match open.lying.claim {
        Some(_) => format!("data/claimed/{name}"),
        None => format!("data/ipc/{}/{}/{name}", open.row.group, open.row.box_name),
    }
}

/// The story for people, in the order in which it happened.
fn tell(whole: &Value) -> CliResult {
    let text = |name: &str| show::cell(&whole[name]);
    out::line(format!("{} {} of {}: {}", text("type"), text("name"), text("group"), text("answer")))?;
    for (name, field) in [
        ("id", "id"),
        ("request id", "request_id"),
        ("written", "written_at"),
        ("claimed", "claimed_at"),
        ("decided", "decided_at"),
    ] {
        if !whole[field].is_null() {
            out::line(format!("  {name:10}  {}", text(field)))?;
        }
    }
    if !whole["run"].is_null() {
        let by = if whole["run_by"] == "token" { "by its token" } else { "the group's when it was claimed" };
        out::line(format!("  run         {} {}, {by}", text("run"), text("run_status")))?;
    }
    for effect in whole["effects"].as_array().into_iter().flatten() {
        let state = effect["state"].as_str().unwrap_or("gone");
        let detail = effect["detail"].as_str().unwrap_or_default();
        out::line(format!(
            "  effect      {} {}: {state} {}",
            show::cell(&effect["kind"]),
            show::cell(&effect["id"]),
            show::cell(&detail.into())
        ))?;
    }
    if !whole["reply"].is_null() {
        out::line(format!("  reply       {}", show::cell(&whole["reply"].to_string().into())))?;
    }
    for file in whole["files"].as_array().into_iter().flatten() {
        out::line(format!("  file        {}", show::cell(file)))?;
    }
    Ok(())
}
