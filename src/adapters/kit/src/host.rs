//! The daemon, as an adapter sees it: events wait until it has stored them.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use channel_protocol::{Event, EventKind, Hello, MOST_OPEN, Pair, State, Up, VERSION, line};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

/// The host is gone, or wants us to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the host is gone")]
pub struct Gone;

/// The daemon, as an adapter sees it. Clones are the same one.
#[derive(Clone)]
pub struct Host {
    shared: Arc<Shared>,
}

struct Shared {
    out: mpsc::Sender<Vec<u8>>,
    next: AtomicU64,
    /// Events that are not stored yet: who waits for it, and the place of each in the window.
    open: Mutex<HashMap<u64, (oneshot::Sender<()>, OwnedSemaphorePermit)>>,
    /// Presses whose answer may still come.
    presses: Mutex<std::collections::VecDeque<(u64, String)>>,
    window: Arc<Semaphore>,
}

impl Host {
    pub(super) fn new(out: mpsc::Sender<Vec<u8>>) -> Self {
        let window = usize::try_from(MOST_OPEN).unwrap_or(usize::MAX);
        Self {
            shared: Arc::new(Shared {
                out,
                next: AtomicU64::new(1),
                open: Mutex::default(),
                presses: Mutex::default(),
                window: Arc::new(Semaphore::new(window)),
            }),
        }
    }

    /// Writes a line.
    ///
    /// # Errors
    /// The host is gone.
    pub async fn tell(&self, up: &Up) -> Result<(), Gone> {
        let Some(line) = written(up) else { return Ok(()) };
        self.shared.out.send(line).await.map_err(|_| Gone)
    }

    /// Says who we are, once the platform has let us in.
    ///
    /// # Errors
    /// The host is gone.
    pub async fn hello(&self, hello: Hello) -> Result<(), Gone> {
        self.tell(&Up::Hello(Box::new(Hello { v: VERSION, ..hello }))).await
    }

    /// Says how the connection stands.
    ///
    /// # Errors
    /// The host is gone.
    pub async fn state(&self, state: State) -> Result<(), Gone> {
        self.tell(&Up::State(state)).await
    }

    /// Shows a person how to link the account.
    ///
    /// # Errors
    /// The host is gone.
    pub async fn pair(&self, pair: Pair) -> Result<(), Gone> {
        self.tell(&Up::Pair(pair)).await
    }

    /// Tells an event. Returns once its line is on its way, and a handle that ends once the host has stored it. Waits while
    /// 64 events are not stored.
    ///
    /// # Errors
    /// The host is gone.
    pub async fn begin(&self, event: Event) -> Result<Stored, Gone> {
        let (key, press) = (event.key.clone(), event.kind == EventKind::Press);
        self.open(|n| {
            if press {
                let mut presses = lock(&self.shared.presses);
                presses.push_back((n, key));
                while presses.len() > 256 {
                    presses.pop_front();
                }
            }
            Up::Event(Box::new(Event { n, ..event }))
        })
        .await
    }

    /// Tells an event, and returns once the host has stored it.
    ///
    /// # Errors
    /// The host is gone; the platform is to tell it again.
    pub async fn event(&self, event: Event) -> Result<(), Gone> {
        self.begin(event).await?.wait().await
    }

    /// Tells that a chat has a new address, and returns once the host has moved what it has of it.
    ///
    /// # Errors
    /// The host is gone; it is to be told again.
    pub async fn moved(&self, from: String, to: String) -> Result<(), Gone> {
        self.open(|n| Up::ChatMoved { n, from, to }).await?.wait().await
    }

    /// Tells that a person has these ids, and returns once the host knows it.
    ///
    /// # Errors
    /// The host is gone; it is to be told again.
    pub async fn person(&self, id: String, also: Vec<String>) -> Result<(), Gone> {
        self.open(|n| Up::PersonIs { n, id, also }).await?.wait().await
    }

    async fn open(&self, up: impl FnOnce(u64) -> Up) -> Result<Stored, Gone> {
        let place = Arc::clone(&self.shared.window).acquire_owned().await.map_err(|_| Gone)?;
        let n = self.shared.next.fetch_add(1, Ordering::SeqCst);
        let (stored, wait) = oneshot::channel();
        lock(&self.shared.open).insert(n, (stored, place));
        self.tell(&up(n)).await?;
        Ok(Stored(wait))
    }

    pub(super) fn took(&self, n: u64) {
        if let Some((stored, _place)) = lock(&self.shared.open).remove(&n) {
            let _ = stored.send(());
        }
    }

    pub(super) fn press(&self, n: u64) -> Option<String> {
        let mut presses = lock(&self.shared.presses);
        let at = presses.iter().position(|(of, _)| *of == n)?;
        presses.remove(at).map(|(_, key)| key)
    }

    /// Ends once nobody reads us any more.
    pub(super) async fn left(&self) {
        self.shared.out.closed().await;
    }

    /// Ends every wait for an event that is not stored.
    pub(super) fn close(&self) {
        self.shared.window.close();
        lock(&self.shared.open).clear();
    }
}

/// An event that was told.
pub struct Stored(oneshot::Receiver<()>);

impl Stored {
    /// Returns once the host has stored it.
    ///
    /// # Errors
    /// The host is gone; the platform is to tell it again.
    pub async fn wait(self) -> Result<(), Gone> {
        self.0.await.map_err(|_| Gone)
    }
}

/// Writes a line. An event that is too long for one is told without what it says, so that the host answers it, and keeps its place.
fn written(up: &Up) -> Option<Vec<u8>> {
    if let Some(line) = line(up) {
        return Some(line);
    }
    eprintln!("the platform told something that is longer than a line may be; it is passed over");
    let nothing = |n, cursor| Event { n, cursor, kind: EventKind::Nothing, ..Event::default() };
    match up {
        Up::Event(event) => line(&Up::Event(Box::new(nothing(event.n, event.cursor.clone())))),
        Up::ChatMoved { n, .. } | Up::PersonIs { n, .. } => {
            line(&Up::Event(Box::new(nothing(*n, Default::default()))))
        }
        _ => None,
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn an_event_that_no_line_holds_is_answered_all_the_same_and_keeps_its_place() {
        let cursor = BTreeMap::from([("updates".to_owned(), "7".to_owned())]);
        let long =
            Event { n: 3, cursor, text: "x".repeat(channel_protocol::LONGEST_LINE), ..Event::default() };
        let told = |up: &Up| serde_json::from_slice::<Up>(&written(up).unwrap()).unwrap();
        let Up::Event(event) = told(&Up::Event(Box::new(long.clone()))) else { panic!() };
        assert_eq!((event.n, event.kind, &event.cursor), (3, EventKind::Nothing, &long.cursor));
        let moved = Up::ChatMoved { n: 4, from: long.text.clone(), to: String::new() };
        assert!(matches!(told(&moved), Up::Event(event) if event.n == 4 && event.kind == EventKind::Nothing));
        assert_eq!(written(&Up::State(State { why: long.text, ..State::default() })), None);
    }
}
