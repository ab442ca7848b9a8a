//! WhatsApp's word for each text that it took, or did not.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::oneshot;

/// How long WhatsApp's word is waited for.
pub(crate) const WITHIN: Duration = Duration::from_secs(30);

/// What WhatsApp says of a text: the number of its refusal, or nothing.
pub(crate) type Word = Option<u16>;

/// Texts that were sent and have no word yet.
#[derive(Debug, Default)]
pub(crate) struct Acks(Mutex<HashMap<String, oneshot::Sender<Word>>>);

impl Acks {
    fn all(&self) -> MutexGuard<'_, HashMap<String, oneshot::Sender<Word>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the word of a text that is sent now.
    pub(crate) fn wait_for(&self, id: &str) -> oneshot::Receiver<Word> {
        let (tell, word) = oneshot::channel();
        self.all().insert(id.to_owned(), tell);
        word
    }

    /// WhatsApp says something of a text. A number that can't be read is one that nobody knows.
    pub(crate) fn came(&self, id: &str, error: Option<&str>) {
        if let Some(tell) = self.all().remove(id) {
            let _ = tell.send(error.map(|error| error.parse().unwrap_or(0)));
        }
    }

    /// Nobody waits for it any more.
    pub(crate) fn forget(&self, id: &str) {
        self.all().remove(id);
    }

    /// The connection ended: no word comes for what was sent over it.
    pub(crate) fn broke(&self) {
        self.all().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_has_its_own_word_and_a_broken_connection_has_none() {
        let acks = Acks::default();
        let (mut a, mut b, mut c) = (acks.wait_for("a"), acks.wait_for("b"), acks.wait_for("c"));
        acks.came("b", None);
        acks.came("a", Some("479"));
        acks.came("never", None);
        assert_eq!((a.try_recv(), b.try_recv()), (Ok(Some(479)), Ok(None)));
        acks.broke();
        assert_eq!(c.try_recv(), Err(oneshot::error::TryRecvError::Closed));
    }
}
