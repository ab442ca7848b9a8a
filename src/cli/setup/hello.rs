//! The last step: a message, and the agent's answer.

use std::time::Duration;

use anyhow::{Context as _, anyhow};
use ipc_handlers::Time;

use super::super::{Context, Failure, client::Client, send};
use crate::{
    app::Daemon,
    channels::local::{Ask, Incoming, Told},
    domain::problems::Severity,
    loops::problems::{self, View},
    ops::{OpCode, OpError},
};

/// The first group's chat.
const CHAT: &str = "local:main";
/// How long a daemon takes at most to see that a key was replaced, ms.
const SEEN_MS: i64 = 10_000;
/// Time between two looks whether the model's host refuses.
const LOOK_AGAIN: Duration = Duration::from_millis(300);

/// Says hello, and returns the answer. Without a daemon one runs here, and stops again.
pub(super) async fn say(context: &Context, patience: Duration) -> Result<String, Failure> {
    if Client::connect(&context.root).await.is_ok() {
        return exchange(context, patience).await;
    }
    let daemon = Daemon::start(context.root.clone(), context.config()?).await?;
    let answer = exchange(context, patience).await;
    daemon.retire().await;
    answer.map(|answer| {
        format!("{answer}\n(no daemon runs: start it with `g2 start`, or `g2 service install`)")
    })
}

async fn exchange(context: &Context, patience: Duration) -> Result<String, Failure> {
    let mut client = Client::needed(context).await?;
    client
        .call_chat(&Ask::Listen { chat: CHAT.to_owned(), typing: false, people: false, growing: false })
        .await?;
    let message = Incoming {
        chat: CHAT.to_owned(),
        sender: "me".to_owned(),
        text: "Hello! Answer in one short sentence.".to_owned(),
        key: context.world.id().context("making a key")?,
        ..Incoming::default()
    };
    let Told::Accepted { seq, .. } = client.send(message).await? else {
        return Err(anyhow!("the daemon answered another request").into());
    };
    let mut said = Vec::new();
    let resting = send::rest(&mut client, seq, CHAT, true, &mut said);
    tokio::select! {
        rested = tokio::time::timeout(patience, resting) => match rested {
            Ok(rested) => rested?,
            Err(_) => return Err(missing(context, seq).await),
        },
        // Nothing comes after that before a person has put it right.
        () = refused(context) => return Err(missing(context, seq).await),
    }
    let why = context.store()?.why(seq, context.world.now())?;
    let answers = why.map(|why| why.answers).unwrap_or_default();
    // A notice that a run failed is no answer.
    let texts: Vec<String> =
        said.into_iter().filter(|one| answers.contains(&one.id)).map(|one| one.text).collect();
    if texts.is_empty() { Err(missing(context, seq).await) } else { Ok(texts.join("\n")) }
}

/// Waits until the model's host is known to refuse the agents of this root.
async fn refused(context: &Context) {
    let began = context.world.now();
    let is_known = || {
        let rows = context.store().ok().and_then(|store| store.hindrances().ok()).unwrap_or_default();
        // What was refused before may be put right by now: the daemon sees that soon.
        let is_old = |since: Time| since < began && context.world.now().ms_since(began) < SEEN_MS;
        rows.iter().any(|row| row.what.is_of_the_model() && !row.what.is_weather() && !is_old(row.since))
    };
    while !is_known() {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// The one thing that keeps the agent from its answer: the worst problem there is, otherwise what became of the message.
async fn missing(context: &Context, seq: i64) -> Failure {
    let problem = async {
        let (config, store) = (context.config().ok()?, context.store().ok()?);
        let found = match Client::status(&context.root).await {
            Ok(status) => status.findings,
            Err(_) => {
                let view = View {
                    config: &config,
                    root: &context.root,
                    store: Some(&store),
                    closed: None,
                    daemon: None,
                    now: context.world.now(),
                };
                problems::look(&view).await
            }
        };
        found.into_iter().find(|finding| finding.severity == Severity::Fail)
    };
    if let Some(finding) = problem.await {
        return OpError::new(OpCode::Failed, finding.text).hint(finding.fix).into();
    }
    let why = context.store().ok().and_then(|store| store.why(seq, context.world.now()).ok().flatten());
    let became = why.map_or_else(String::new, |why| format!(": {}", why.answer));
    OpError::new(OpCode::Failed, format!("the agent gave no answer{became}"))
        .hint(format!("`g2 why {seq}` says what became of the message, `g2 doctor` what is wrong"))
        .into()
}
