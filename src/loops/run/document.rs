//! The document that a runner reads from its stdin, and the follow-ups that come after it.

use std::{collections::BTreeMap, sync::Arc};

use ipc_handlers::{
    Folder, Time,
    token::{Claims, LIFETIME_MS, RunToken},
    wire,
};

use super::Runs;
use crate::{
    channels::Channel,
    domain::{
        platforms::attachments::Digest,
        runs::{group_config::Say, wake},
        shown::errors::chain,
        states::SandboxName,
    },
    store::{Content, Handed, HandedTask, batch_name, task_batch},
    system::media::Media,
};

/// Where a container sees the files of messages.
pub(super) const IN_CONTAINER: &str = "/workspace/media";

/// Tools that an agent in a chat can't use: they would wait for somebody at a terminal, or keep a schedule of their own.
const BLOCKED_TOOLS: [&str; 8] = [
    "AskUserQuestion",
    "EnterPlanMode",
    "ExitPlanMode",
    "EnterWorktree",
    "ExitWorktree",
    "CronCreate",
    "CronDelete",
    "CronList",
];

/// What is to be launched. How the agent is driven, and its secrets, come later.
pub(super) struct Launching {
    pub(super) document: wire::Launch,
    pub(super) is_main: bool,
}

/// Returns the document that `input/<batch>.json` holds.
pub(in crate::loops) async fn input_of(runs: &Runs, handed: &Handed) -> Vec<u8> {
    let text = prompt_of(runs, &handed.group, &handed.content).await;
    let input = wire::Input { kind: "message".into(), id: Some(batch_name(handed.batch)), text };
    serde_json::to_vec(&input).unwrap_or_default()
}

/// Returns a prompt, once its files are where the agent sees them.
pub(super) async fn prompt_of(runs: &Runs, group: &Folder, content: &Content) -> String {
    if !content.has_files() {
        return content.prompt(&runs.zone_of(group).await);
    }
    let (files, zone) = (content.files(), runs.zone_of(group).await);
    let (media, of) = (Arc::clone(&runs.media), group.clone());
    let missing = runs.machine.world.blocking(move || show(&media, &of, files)).await;
    // A panic is logged where it happens: the paths are named, and the agent finds out.
    let missing = missing.unwrap_or_default();
    let seen_at = match runs.sandbox.kind() {
        SandboxName::Process => runs.media.shown_to(group.as_str()).display().to_string(),
        SandboxName::Docker => IN_CONTAINER.to_owned(),
    };
    content.clone().seen_at(&seen_at, &missing).prompt(&zone)
}

/// Shows files to a group. Returns those that can't be shown, and why.
fn show(media: &Media, group: &Folder, files: Vec<(String, Digest)>) -> BTreeMap<String, String> {
    let mut missing = BTreeMap::new();
    for (path, digest) in files {
        if let Err(error) = media.show(group.as_str(), &path, &digest) {
            tracing::error!(%group, path, error = %chain(&error), "a file of a message can't be shown to its agent");
            missing.insert(path, "the host can't show it".to_owned());
        }
    }
    missing
}

pub(super) async fn of_batch(runs: &Runs, handed: &Handed) -> Launching {
    let lane = format!("{} {} {}", handed.group, handed.chat_jid, handed.thread);
    let prompt = prompt_of(runs, &handed.group, &handed.content).await;
    let summary = wake::summary(&handed.earlier, &runs.zone_of(&handed.group).await.zone);
    let document = wire::Launch {
        session_id: handed.session_id.clone(),
        batch_id: batch_name(handed.batch),
        lane: lane.trim_end().to_owned(),
        generation: handed.generation,
        say: say_of(runs, &handed.group, &handed.chat_jid).await,
        ..document(runs, &handed.group, handed.run, prompt, &handed.chat_jid, handed.is_main)
    };
    Launching { document: summed_up(document, summary), is_main: handed.is_main }
}

/// Returns what of an answer a group wants before it is whole, as far as the chat's platform can show it.
async fn say_of(runs: &Runs, group: &Folder, chat: &str) -> wire::Say {
    let row = match runs.store.group(group).await {
        Ok(row) => row,
        Err(error) => {
            tracing::error!(%group, error = %chain(&error), "reading a group's settings failed; its answers are said whole");
            None
        }
    };
    let streams = row.and_then(|row| row.config().ok()).is_some_and(|own| own.say == Some(Say::Stream));
    // Those who read the store see a text as it is now.
    let shows = |channel: &dyn Channel| channel.traits().edits || channel.reads_the_store();
    match (streams, runs.channels.of(chat).is_some_and(|channel| shows(&*channel))) {
        (false, _) => wire::Say::Final,
        (true, false) => wire::Say::Texts,
        (true, true) => wire::Say::Growing,
    }
}

pub(super) async fn of_task(runs: &Runs, handed: &HandedTask) -> Launching {
    let task = &handed.task;
    let prompt = task.prompt.clone();
    let summary = wake::summary(&handed.earlier, &runs.zone_of(&task.group).await.zone);
    let document = wire::Launch {
        session_id: handed.session_id.clone(),
        batch_id: task_batch(handed.run),
        lane: format!("{} {}", task.group, task.chat_jid),
        generation: handed.generation,
        is_scheduled_task: true,
        script: task.script.clone(),
        ..document(runs, &task.group, handed.run, prompt, &task.chat_jid, handed.is_main)
    };
    Launching { document: summed_up(document, summary), is_main: handed.is_main }
}

/// Has the agent told what was said before: at once in a fresh session, otherwise only if it does not know its session any more.
fn summed_up(mut document: wire::Launch, summary: String) -> wire::Launch {
    match document.session_id {
        None => document.prompt.insert_str(0, &summary),
        Some(_) => document.summary = summary,
    }
    document
}

fn document(
    runs: &Runs,
    group: &Folder,
    run: i64,
    prompt: String,
    chat: &str,
    is_main: bool,
) -> wire::Launch {
    wire::Launch {
        prompt,
        session_id: None,
        summary: String::new(),
        group_folder: group.to_string(),
        chat_jid: chat.to_owned(),
        is_main,
        is_scheduled_task: false,
        assistant_name: Some(runs.config.now().assistant_name.clone()),
        script: None,
        secrets: wire::Secrets::default(),
        token: RunToken::default(),
        protocol: wire::PROTOCOL,
        run_id: run.to_string(),
        lane: String::new(),
        generation: 0,
        batch_id: String::new(),
        blocked_tools: BLOCKED_TOOLS.map(str::to_owned).to_vec(),
        provider: wire::Provider::default(),
        limits: wire::Limits::default(),
        say: wire::Say::Final,
        mcp_servers: BTreeMap::new(),
        mcp_secrets: wire::Secrets::default(),
    }
}

/// Signs who the run is. Only the runner gets to see it, on its stdin.
pub(super) fn token_of(runs: &Runs, document: &wire::Launch, run: i64, now: Time) -> RunToken {
    let claims = Claims {
        agent_id: document.group_folder.clone(),
        workspace_id: runs.instance.clone(),
        role: if document.is_main { "main" } else { "group" }.to_owned(),
        session_id: document.session_id.clone(),
        run_id: run,
        iat: now.0 / 1000,
        exp: now.plus_ms(LIFETIME_MS).0 / 1000,
        jti: format!("{run}-{:x}", now.0),
    };
    RunToken::sign(&runs.token_key, &claims)
}
