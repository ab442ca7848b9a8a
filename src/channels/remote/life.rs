//! One life of an adapter, from its start line to its end.

use std::time::Duration;

use channel_protocol::{Down, MOST_OPEN, Start, VERSION, line};
use ipc_handlers::Time;
use tokio::{
    io::AsyncWriteExt as _,
    process::{ChildStdin, ChildStdout},
    sync::{mpsc, watch},
};
use tokio_util::sync::CancellationToken;

use super::{
    Intake, MOST_LINES, Ready, Remote,
    child::{self, Folders, LAST_WORDS, Pipes, Running},
    lines::{CLOSED, Stage, Talk},
    storing::Storing,
    wire::Wire,
};
use crate::{
    domain::{
        platforms::channels::{Connection, Lamp, Lights},
        shown::errors::chain,
    },
    system::bounds::Over,
};

/// How often how it stands is written down, at most.
const WRITE_LIGHTS: Duration = Duration::from_millis(200);
/// The rest before it is tried again to write that down.
const WRITE_AGAIN: Duration = Duration::from_secs(5);
/// How often it is written down that its platform took something, at most.
const WRITE_TOOK: Duration = Duration::from_secs(1);

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

/// However a life ends, nobody waits for its answers any more.
struct Unanswered(Wire);

impl Drop for Unanswered {
    fn drop(&mut self) {
        self.0.end();
    }
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
    let began = child::start(&remote.ground, ready, &folders);
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
        hears_all: None,
    });
    let (told, to_store) = mpsc::channel(usize::try_from(MOST_OPEN).unwrap_or(64) + 1);
    let open = watch::Sender::new(0_u64);
    let storing = Storing {
        remote,
        intake: intake.clone(),
        wire: wire.clone(),
        open: open.clone(),
        spool: folders.spool.clone(),
        log: folders.log.clone(),
    };
    let stands = lights.subscribe();
    let took = remote.took.subscribe();
    let mut talk = Talk {
        remote,
        wire: wire.clone(),
        lights,
        told,
        open,
        folders: &folders,
        last_event: 0,
        stage: Stage::new(remote.ground.patience),
        pings: 0,
        unreadable: 0,
        pairs: 0,
        secrets: ready.secrets.clone(),
    };
    // An empty channel takes it.
    let _ = wire.lines.try_send(start);
    let _unanswered = Unanswered(wire.clone());
    let life = async {
        let ended = lives(remote, &folders, &mut talk, stdout, &mut running, stop).await;
        remote.wire.send_replace(None);
        wire.end();
        running.kill().await;
        ended
    };
    // The tasks beside a life end with it. A panic of one of them ends the life.
    let beside = async {
        tokio::join!(write_all(stdin, to_write), show(remote, intake, stands), note_out(name, intake, took));
        std::future::pending().await
    };
    let stored = async {
        match storing.run(to_store).await {
            Ok(()) => std::future::pending().await,
            Err(fault) => {
                tracing::error!(channel = name, fault = %chain(&fault), "our own fault: work on an event failed; the adapter tells it again");
                Ended::Failed("a fault of our own came over an event; the log says more".into())
            }
        }
    };
    tokio::select! {
        ended = life => ended,
        ended = stored => ended,
        never = beside => never,
    }
}

/// Listens to it until there is a reason to end it, and has it leave where it can.
async fn lives(
    remote: &Remote,
    folders: &Folders,
    talk: &mut Talk<'_>,
    stdout: ChildStdout,
    running: &mut Running,
    stop: &CancellationToken,
) -> Ended {
    let wire = talk.wire.clone();
    let exceeded = folders.exceeded(&talk.remote.ground.world, running.group());
    let mut listening = std::pin::pin!(talk.listen(stdout));
    let leaves = tokio::select! {
        ended = &mut listening => return match ended {
            Ended::Failed(why) if why == CLOSED => {
                Ended::Failed(tokio::time::timeout(LAST_WORDS * 2, running.ended()).await.unwrap_or(why))
            }
            ended => ended,
        },
        how = running.ended() => {
            // Its last words may still be in the pipe.
            return match tokio::time::timeout(LAST_WORDS, listening).await {
                Ok(Ended::Failed(why)) if why == CLOSED => Ended::Failed(how),
                Ok(ended) => ended,
                Err(_) => Ended::Failed(how),
            };
        }
        over = exceeded => match over {
            Over::Replaced(_) => {
                tracing::info!(channel = remote.name(), why = %over, "an adapter is started anew");
                Ended::Wanted
            }
            _ => return Ended::Failed(format!("the adapter was ended: {over}")),
        },
        () = stop.cancelled() => Ended::Stopped,
    };
    remote.wire.send_replace(None);
    // Work under way is heard of to its end.
    tokio::select! {
        _ = listening => {}
        () = leave(remote, &wire, running) => {}
    }
    leaves
}

/// Waits for the answers to what was asked, then asks the adapter to leave, and gives it time to.
async fn leave(remote: &Remote, wire: &Wire, running: &mut Running) {
    let patience = remote.ground.patience.stop;
    // A caller without an answer in time does not know the outcome.
    let _ = tokio::time::timeout(patience, wire.idle()).await;
    if let Some(stop) = line(&Down::Stop {}) {
        // An adapter that leaves its lines unread is killed.
        let _ = wire.lines.try_send(stop);
    }
    // Afterwards it is killed.
    let _ = tokio::time::timeout(patience, running.ended()).await;
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
    store.note_start(remote.name(), intake.world().now()).await.map_err(failed)?;
    let (name, prefix) = (remote.name(), remote.platform.prefix());
    remote.learn(store.know_account(name, prefix).await.map_err(failed)?);
    let start = Start {
        v: VERSION,
        instance: name.to_owned(),
        prefix: prefix.to_owned(),
        config: ready.config.clone(),
        cursor: store.cursor_of(name).await.map_err(failed)?,
        chats: store.newest_ids(name).await.map_err(failed)?,
        spool: folders.spool.display().to_string(),
        state_dir: folders.state.display().to_string(),
        upstream: ready.account.upstream.clone(),
        commands: ready.commands.clone(),
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

/// Writes down how it stands, whenever that changes; what can't be written is tried again.
async fn show(remote: &Remote, intake: &Intake, mut lights: watch::Receiver<Lights>) {
    let (name, mut shown, mut known) = (remote.name(), None, None);
    loop {
        let now = lights.borrow_and_update().clone();
        if shown.as_ref() != Some(&now) {
            tracing::info!(channel = name, connection = %now.transport, inbound = %now.inbound, outbound = %now.outbound,
                why = now.why.as_deref().unwrap_or("-"), "how an account stands");
            match intake.store().set_lights(name.to_owned(), now.clone(), intake.world().now()).await {
                Ok(()) => shown = Some(now),
                Err(error) => {
                    tracing::warn!(channel = name, error = %chain(&error), "how an account stands can't be written down yet");
                    tokio::time::sleep(WRITE_AGAIN).await;
                    continue;
                }
            }
        }
        let myself = remote.myself();
        if myself.is_some() && known != myself {
            match intake.store().note_myself(name, myself.clone().unwrap_or_default()).await {
                Ok(()) => known = myself,
                Err(error) => {
                    tracing::warn!(channel = name, error = %chain(&error), "the name of an account can't be written down yet");
                    tokio::time::sleep(WRITE_AGAIN).await;
                    continue;
                }
            }
        }
        tokio::time::sleep(WRITE_LIGHTS).await;
        if lights.changed().await.is_err() {
            return;
        }
    }
}

/// Writes down when its platform took something last, soon and not too often.
async fn note_out(name: &str, intake: &Intake, mut took: watch::Receiver<Option<Time>>) {
    while took.changed().await.is_ok() {
        let at = *took.borrow_and_update();
        if let Some(at) = at
            && let Err(error) = intake.store().note_out(name, at).await
        {
            // The next one says more.
            tracing::debug!(error = %chain(&error), "noting when a platform took something failed");
        }
        tokio::time::sleep(WRITE_TOOK).await;
    }
}
