//! Where everything of a scene reports to: the platform's channel within a host, and the stand-ins of agents.

use std::{
    collections::HashSet,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::net::{UnixListener, UnixStream},
    path::Path,
    sync::{
        Arc, Mutex,
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

/// A line to the hub.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(crate) enum Heard {
    /// A host's channel has connected.
    Channel,
    /// The host has stored a message.
    Took { id: String },
    /// The host says a text, by a `key` if it gives one.
    Said {
        chat: String,
        text: String,
        #[serde(default)]
        key: Option<String>,
    },
    /// An agent was started, and has its prompt.
    Asked,
    /// A live agent was given more.
    Given,
}

/// A message of the platform.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Message {
    pub(crate) chat: String,
    pub(crate) id: String,
    pub(crate) text: String,
}

/// The end of all sockets.
pub(crate) struct Hub {
    heard: Receiver<(Instant, Heard)>,
    channel: Arc<Mutex<Option<UnixStream>>>,
}

impl Hub {
    pub(crate) fn open(path: &Path) -> Self {
        let listener = UnixListener::bind(path).unwrap();
        let (tell, heard) = mpsc::channel();
        let channel = Arc::new(Mutex::new(None));
        let of_channel = Arc::clone(&channel);
        let keys = Arc::new(Mutex::new(HashSet::new()));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (tell, channel, keys) = (tell.clone(), Arc::clone(&of_channel), Arc::clone(&keys));
                std::thread::spawn(move || read(stream, &tell, &channel, &keys));
            }
        });
        Self { heard, channel }
    }

    /// Writes a message to the host's channel; `false`: none is connected.
    pub(crate) fn write(&self, message: &Message) -> bool {
        let mut channel = self.channel.lock().unwrap();
        let line = format!("{}\n", serde_json::to_string(message).unwrap());
        channel.as_mut().is_some_and(|stream| stream.write_all(line.as_bytes()).is_ok())
    }

    /// The next line, and when it came.
    pub(crate) fn next(&self, most: Duration) -> Option<(Instant, Heard)> {
        match self.heard.recv_timeout(most) {
            Ok(heard) => Some(heard),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => unreachable!("the hub's own thread has ended"),
        }
    }

    /// Waits at most `most` for a line that `fits`, and returns when it came.
    pub(crate) fn wait(&self, most: Duration, fits: impl Fn(&Heard) -> bool) -> Option<Instant> {
        let until = Instant::now() + most;
        while let Some((at, heard)) = self.next(until.saturating_duration_since(Instant::now())) {
            if fits(&heard) {
                return Some(at);
            }
        }
        None
    }

    /// Passes over what has come so far.
    pub(crate) fn clear(&self) {
        while self.heard.try_recv().is_ok() {}
    }
}

fn read(
    stream: UnixStream,
    tell: &Sender<(Instant, Heard)>,
    channel: &Mutex<Option<UnixStream>>,
    keys: &Mutex<HashSet<String>>,
) {
    let Ok(writing) = stream.try_clone() else { return };
    let mut writing = Some(writing);
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        let now = Instant::now();
        let Ok(heard) = serde_json::from_str(&line) else { continue };
        match &heard {
            Heard::Channel => *channel.lock().unwrap() = writing.take(),
            // The channel says that its platform takes a text once by a key, and so it does.
            Heard::Said { key: Some(key), .. } if !keys.lock().unwrap().insert(key.clone()) => continue,
            _ => {}
        }
        if tell.send((now, heard)).is_err() {
            return;
        }
    }
}

/// A connection to a hub.
pub(crate) struct Reporter(UnixStream);

impl Reporter {
    pub(crate) fn connect(path: &Path) -> Self {
        Self(UnixStream::connect(path).unwrap())
    }

    /// The bench may have ended: then nobody is interested.
    pub(crate) fn tell(&mut self, line: &Heard) {
        let _ = self.0.write_all(format!("{}\n", serde_json::to_string(line).unwrap()).as_bytes());
    }

    pub(crate) fn lines(&self) -> impl Iterator<Item = String> + use<> {
        BufReader::new(self.0.try_clone().unwrap()).lines().map_while(Result::ok)
    }
}
