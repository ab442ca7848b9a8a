//! WhatsApp: one number, as a linked device of a phone. See `README.md`.
#![expect(clippy::disallowed_methods, reason = "the adapter reads its own folders and the clock")]

mod acks;
mod asked;
mod inbox;
mod known;
mod lights;
mod link;
mod media;
mod net;
mod out;
mod places;
mod read;
mod said;
mod settings;

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use adapter_kit::{Adapter, Ended, Host, Outcome};
use channel_protocol::{Amend, Chat, Fetch, Hint, Send};
use futures_util::future::BoxFuture;
use whatsapp_rust::Client;

use acks::Acks;
use inbox::Inbox;
use known::Known;
use link::{Link, Work};
use places::Places;
use read::Us;
use settings::Settings;

/// How long the end of the connection may take.
const LEAVE: Duration = Duration::from_secs(1);

/// One number.
pub struct WhatsApp {
    client: Arc<Client>,
    places: Places,
    settings: Settings,
    us: Us,
    known: Arc<Mutex<Known>>,
    inbox: Arc<Inbox>,
    acks: Arc<Acks>,
    spool: PathBuf,
    /// Files that go out or come in at the same time: each may be in memory.
    files: tokio::sync::Semaphore,
    link: tokio::sync::Mutex<Link>,
    work: tokio::sync::Mutex<Work>,
}

/// Runs the adapter on standard input and output until the host wants it to leave.
///
/// # Errors
/// What ended it before its time; the host starts it again.
pub async fn serve() -> Result<(), String> {
    let held = Arc::new(Mutex::new(None));
    let ended =
        adapter_kit::serve(async |start, host| link::connect(start, host, Arc::clone(&held)).await).await;
    let client: Option<Arc<Client>> = held.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(client) = client {
        // What it still has in memory is in its store afterwards; a kill loses nothing that was promised.
        let _ = tokio::time::timeout(LEAVE, client.disconnect()).await;
    }
    ended
}

/// Returns a warning without the stanza that it may quote, which can have secrets of the account.
fn logged(text: &str) -> String {
    let text = text.split('<').next().unwrap_or_default();
    adapter_kit::cut(text, 500).replace(char::is_control, " ")
}

/// Has the client's own warnings in the adapter's log.
pub fn log_to_stderr() {
    struct Stderr;
    impl log::Log for Stderr {
        fn enabled(&self, of: &log::Metadata<'_>) -> bool {
            of.level() <= log::Level::Warn
        }

        fn log(&self, record: &log::Record<'_>) {
            if self.enabled(record.metadata()) {
                eprintln!(
                    "{}: {}",
                    record.level().as_str().to_lowercase(),
                    logged(&record.args().to_string())
                );
            }
        }

        fn flush(&self) {}
    }
    static LOG: Stderr = Stderr;
    if log::set_logger(&LOG).is_ok() {
        log::set_max_level(log::LevelFilter::Warn);
    }
}

impl WhatsApp {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Adapter for WhatsApp {
    fn run(self: Arc<Self>, host: Host) -> BoxFuture<'static, Ended> {
        Box::pin(async move { self.stay(&host).await })
    }

    fn send(&self, send: Send) -> BoxFuture<'_, Outcome> {
        Box::pin(async move { self.say(&send).await.map_or_else(|outcome| outcome, Outcome::Sent) })
    }

    fn amend(&self, amend: Amend) -> BoxFuture<'_, Outcome> {
        Box::pin(async move { self.change(&amend).await.map_or_else(|outcome| outcome, Outcome::Sent) })
    }

    fn show(&self, hint: Hint) -> BoxFuture<'_, ()> {
        Box::pin(async move { self.type_in(&hint).await })
    }

    fn open_dm(&self, user: String) -> BoxFuture<'_, Result<String, String>> {
        Box::pin(async move { self.direct(&user) })
    }

    fn list_chats(&self) -> BoxFuture<'_, Result<Vec<Chat>, String>> {
        Box::pin(async move { self.groups().await })
    }

    fn fetch(&self, what: Fetch) -> BoxFuture<'_, Result<String, String>> {
        Box::pin(async move { self.get(&what).await })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_logged_without_the_stanza_that_it_quotes() {
        let said = logged("Got 403\nconnect failure: <failure reason=\"403\" appeal_token=\"secret\"/>");
        assert_eq!(said, "Got 403 connect failure: ");
    }
}
