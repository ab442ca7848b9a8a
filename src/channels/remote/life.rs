//! One life of an adapter, from its start line to its end.

use std::{sync::Arc, time::Duration};

use channel_protocol::{Down, MOST_OPEN, Start, VERSION, line};
use tokio::{
    io::AsyncWriteExt as _,
    process::ChildStdin,
    sync::{mpsc, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use super::{
    Intake, MOST_LINES, Ready, Remote,
    child::{self, Folders, Pipes, Running},
    storing::Storing,
    talk::{CLOSED, Talk},
    wire::Wire,
};
use crate::{
    domain::{
        host::errors::chain,
        platforms::channels::{Connection, Lamp, Lights},
    },
    system::{bounds::Over, clock},
};

/// How long its last words may take after its end.
const LAST_WORDS: Duration = Duration::from_millis(300);
/// How often how it stands is written down, at most.
const WRITE_LIGHTS: Duration = Duration::from_millis(200);

/// How a life ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// We stop.
    Stopped,
    /// A person wants it started anew, or a file that it reads again was replaced.
    Wanted,
    /// A person has to do something first.
    Refused { why: String, hint: String },
    /// A new start may help.
    Failed(String),
}

/// Lives once.
pub(super) async fn live(remote: &Remote, intake: &Intake, ready: &Ready, stop: &CancellationToken) -> Ended {
    let name = remote.name();
    let folders = Folders::of(&remote.ground, name);
    let start = match start_line(remote, intake, ready, &folders).await {
        Ok(start) => start,
        Err(why) => return why,
    };
    if let Some(over) = folders.too_large() {
        let state = folders.state.display();
        let hint =
            format!("remove from {state} what the adapter can do without, then `g2 channels restart {name}`");
        return Ended::Refused { why: format!("the adapter keeps too much: {over}"), hint };
    }
    let began = child::start(&remote.ground, &ready.account, &folders);
    let (mut running, Pipes { stdin, stdout }) = match began {
        Ok(began) => began,
        Err(error) => return Ended::Failed(format!("the adapter can't be started: {error}")),
    };
    tracing::info!(channel = name, "an adapter is started");
    let (lines, to_write) = mpsc::channel(MOST_LINES);
    let wire = Wire::new(lines);
    let lights = watch::Sender::new(Lights {
        transport: Connection::Connecting,
        inbound: Lamp::Waiting,
        outbound: Lamp::Waiting,
        why: None,
        hint: None,
    });
    let (told, to_store) = mpsc::channel(usize::try_from(MOST_OPEN).unwrap_or(64) + 1);
    let open = watch::Sender::new(0_u64);
    // They end with this life, however it ends.
    let mut helpers = JoinSet::new();
    helpers.spawn(write_all(stdin, to_write));
    helpers.spawn(show(name.to_owned(), intake.clone(), lights.subscribe()));
    helpers.spawn(
        Storing {
            platform: remote.platform.clone(),
            intake: intake.clone(),
            wire: wire.clone(),
            open: open.clone(),
            media: Arc::clone(&remote.ground.media),
            spool: folders.spool.clone(),
        }
        .run(to_store),
    );
    let mut talk = Talk {
        remote,
        wire: wire.clone(),
        lights,
        told,
        open,
        folders: &folders,
        last_event: 0,
        greeted: false,
        pinged: None,
        pings: 0,
        unreadable: 0,
        pairs: 0,
        refused: None,
    };
    // An empty channel takes it.
    let _ = wire.lines.try_send(start);
    let ended = {
        let listening = talk.listen(stdout);
        let exceeded = folders.exceeded(running.group());
        tokio::pin!(listening);
        let leaves = tokio::select! {
            ended = &mut listening => Err(ended),
            over = exceeded => match over {
                Over::Replaced(_) => {
                    tracing::info!(channel = name, why = %over, "an adapter is started anew");
                    Ok(Ended::Wanted)
                }
                _ => Err(Ended::Failed(format!("the adapter was ended: {over}"))),
            },
            how = over(&mut running) => Err(Ended::Failed(how)),
            () = stop.cancelled() => Ok(Ended::Stopped),
        };
        match leaves {
            Err(ended) => ended,
            Ok(ended) => {
                remote.wire.send_replace(None);
                // What is under way is heard of to its end.
                tokio::select! {
                    _ = &mut listening => {}
                    () = leave(remote, &wire, &mut running) => {}
                }
                ended
            }
        }
    };
    remote.wire.send_replace(None);
    let ended = match (ended, talk.refused.take()) {
        (Ended::Failed(_), Some((why, hint))) => Ended::Refused { why, hint },
        (Ended::Failed(why), None) if why == CLOSED => {
            Ended::Failed(tokio::time::timeout(LAST_WORDS, running.ended()).await.unwrap_or(why))
        }
        (ended, _) => ended,
    };
    wire.end();
    running.kill().await;
    helpers.shutdown().await;
    ended
}

/// Waits until the process has ended, and until its last words should have been read.
async fn over(running: &mut Running) -> String {
    let how = running.ended().await;
    tokio::time::sleep(LAST_WORDS).await;
    how
}

/// Waits for the answers to what was asked, then asks the adapter to leave, and gives it time to.
async fn leave(remote: &Remote, wire: &Wire, running: &mut Running) {
    let answered = async {
        while !wire.is_idle() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let _ = tokio::time::timeout(remote.ground.patience.stop, answered).await;
    if let Some(stop) = line(&Down::Stop {}) {
        let _ = wire.lines.try_send(stop);
    }
    let _ = tokio::time::timeout(remote.ground.patience.stop, running.ended()).await;
}

/// Makes the first line.
async fn start_line(
    remote: &Remote,
    intake: &Intake,
    ready: &Ready,
    folders: &Folders,
) -> Result<Vec<u8>, Ended> {
    let store = intake.store();
    let failed = |error: crate::store::StoreError| {
        Ended::Failed(format!("where the adapter goes on can't be read: {}", chain(&error)))
    };
    store.note_start(remote.name(), clock::now()).await.map_err(failed)?;
    let start = Start {
        v: VERSION,
        instance: remote.name().to_owned(),
        prefix: remote.platform.prefix().to_owned(),
        config: ready.config.clone(),
        cursor: store.cursor_of(remote.name()).await.map_err(failed)?,
        chats: store.newest_ids(remote.name()).await.map_err(failed)?,
        spool: folders.spool.display().to_string(),
        state_dir: folders.state.display().to_string(),
        upstream: ready.account.upstream.clone(),
    };
    let long = || Ended::Refused {
        why: "the settings of this account are longer than a line of the channel protocol may be".into(),
        hint: "shorten its table in g2.toml".into(),
    };
    let without_chats = |start: Start| Start { chats: Default::default(), ..start };
    line(&Down::Start(Box::new(start.clone())))
        .or_else(|| line(&Down::Start(Box::new(without_chats(start)))))
        .ok_or_else(long)
}

/// Writes lines until nobody has any, then closes the adapter's input.
async fn write_all(mut stdin: ChildStdin, mut lines: mpsc::Receiver<Vec<u8>>) {
    while let Some(line) = lines.recv().await {
        if stdin.write_all(&line).await.is_err() {
            return;
        }
    }
}

/// Writes down how it stands.
async fn show(name: String, intake: Intake, mut lights: watch::Receiver<Lights>) {
    let mut shown = None;
    loop {
        let now = lights.borrow_and_update().clone();
        if shown.as_ref() != Some(&now) {
            tracing::info!(channel = name, connection = %now.transport, inbound = %now.inbound, outbound = %now.outbound,
                why = now.why.as_deref().unwrap_or("-"), "how an account stands");
            match intake.store().set_lights(name.clone(), now.clone(), clock::now()).await {
                Ok(()) => shown = Some(now),
                Err(error) => {
                    tracing::warn!(channel = name, error = %chain(&error), "how an account stands can't be written down");
                }
            }
        }
        tokio::time::sleep(WRITE_LIGHTS).await;
        if lights.changed().await.is_err() {
            return;
        }
    }
}
