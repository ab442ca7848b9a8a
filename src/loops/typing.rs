//! Shows in chats that an agent works for them: from the moment a batch is handed over until it is finished with, or
//! its run has ended. Best effort: a channel that hangs delays nobody, and nothing waits for it.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use futures_util::future::BoxFuture;
use tokio::{sync::Notify, time::Instant};

use super::Host;
use crate::{
    channels::Channels,
    domain::typing::{Place, RENEW, Signal, Typing},
    store::channel_of,
};

/// Which runs have something of which chat in hand. Kept by their supervisors, so a run that nobody watches (yet) shows
/// nothing.
#[derive(Default)]
pub struct AtWork {
    runs: Mutex<BTreeMap<i64, Place>>,
    changed: Notify,
}

impl AtWork {
    fn runs(&self) -> MutexGuard<'_, BTreeMap<i64, Place>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begins(&self, run: i64, place: &Place) {
        self.runs().insert(run, place.clone());
        self.changed.notify_one();
    }

    fn rests(&self, run: i64) {
        self.runs().remove(&run);
        self.changed.notify_one();
    }

    fn places(&self) -> BTreeSet<Place> {
        self.runs().values().cloned().collect()
    }
}

/// A run's say in it. Dropped, however its supervisor ends, it shows nothing any more.
pub(super) struct Work {
    host: Arc<Host>,
    run: i64,
    /// `None`: nothing is shown for it.
    place: Option<Place>,
    at_work: bool,
}

impl Work {
    pub(super) fn new(host: Arc<Host>, run: i64, place: Option<Place>) -> Self {
        Self { host, run, place, at_work: false }
    }

    pub(super) fn set(&mut self, at_work: bool) {
        let Some(place) = self.place.as_ref().filter(|_| at_work != self.at_work) else { return };
        self.at_work = at_work;
        if at_work {
            self.host.at_work.begins(self.run, place);
        } else {
            self.host.at_work.rests(self.run);
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.set(false);
    }
}

/// Runs until the daemon stops. What is shown then expires, or the next daemon goes on with it.
pub async fn run(host: Arc<Host>) {
    tokio::select! {
        () = host.stop.cancelled() => {}
        never = show(&host.at_work, &host.channels) => match never {},
    }
}

/// Calls under way, one for a place at most: a newer one ends the older.
#[derive(Default)]
struct Calls<'a>(BTreeMap<Place, BoxFuture<'a, ()>>);

impl<'a> Calls<'a> {
    fn begin(&mut self, channels: &'a Channels, signal: Signal) {
        let Signal { place, on } = signal;
        let to = place.clone();
        let call = async move {
            if let Some(channel) = channels.get(channel_of(&to.chat_jid)) {
                // One that takes longer than it is shown for is not waited for.
                let _ = tokio::time::timeout(RENEW, channel.typing(&to.chat_jid, &to.thread, on)).await;
            }
        };
        self.0.insert(place, Box::pin(call));
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Infallible> {
        self.0.retain(|_, call| call.as_mut().poll(cx).is_pending());
        Poll::Pending
    }
}

async fn show(at_work: &AtWork, channels: &Channels) -> Infallible {
    let begun = Instant::now();
    let mut typing = Typing::default();
    let mut calls = Calls::default();
    loop {
        for signal in typing.look(&at_work.places(), begun.elapsed()) {
            calls.begin(channels, signal);
        }
        let next = begun + typing.next_look().unwrap_or(begun.elapsed() + Duration::from_secs(3600));
        tokio::select! {
            () = at_work.changed.notified() => {}
            () = tokio::time::sleep_until(next) => {}
            never = poll_fn(|cx| calls.poll(cx)) => match never {},
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;
    use crate::{
        channels::{Channel, ChannelError},
        domain::rows::Delivery,
    };

    /// Tells what it was told; where it hangs, it never comes to an end with it.
    struct Told {
        name: &'static str,
        hangs: bool,
        told: mpsc::UnboundedSender<(String, String, bool)>,
    }

    impl Channel for Told {
        fn name(&self) -> &'static str {
            self.name
        }

        fn is_idempotent(&self) -> bool {
            true
        }

        fn send<'a>(&'a self, _: &'a Delivery) -> BoxFuture<'a, Result<(), ChannelError>> {
            Box::pin(std::future::ready(Ok(())))
        }

        fn typing<'a>(&'a self, chat: &'a str, thread: &'a str, on: bool) -> BoxFuture<'a, ()> {
            let _ = self.told.send((chat.to_owned(), thread.to_owned(), on));
            if self.hangs { Box::pin(std::future::pending()) } else { Box::pin(std::future::ready(())) }
        }
    }

    fn place(chat: &str, thread: &str) -> Place {
        Place { chat_jid: chat.to_owned(), thread: thread.to_owned() }
    }

    #[tokio::test]
    async fn a_channel_that_hangs_delays_neither_others_nor_what_it_is_told_next() {
        let (told, mut heard) = mpsc::unbounded_channel();
        let channel = |name, hangs| Box::new(Told { name, hangs, told: told.clone() }) as Box<dyn Channel>;
        let channels = Channels::new(vec![channel("dead", true), channel("local", false)]);
        let at_work = AtWork::default();
        let mut expect = async |step: &str, chat: &str, thread: &str, on: bool| {
            let next = heard.recv().await.unwrap();
            assert_eq!(next, (chat.to_owned(), thread.to_owned(), on), "{step}");
        };
        let test = async {
            at_work.begins(1, &place("dead:a", ""));
            expect("the first hangs", "dead:a", "", true).await;
            at_work.begins(2, &place("local:b", "7"));
            expect("another channel", "local:b", "7", true).await;
            at_work.begins(3, &place("dead:c", ""));
            expect("another chat of it", "dead:c", "", true).await;
            at_work.begins(4, &place("local:b", "7"));
            at_work.rests(2);
            at_work.rests(1);
            expect("the end, though its begin hangs", "dead:a", "", false).await;
            at_work.rests(4);
            expect("the last of two at work for one chat", "local:b", "7", false).await;
        };
        tokio::select! {
            () = test => {}
            never = show(&at_work, &channels) => match never {},
        }
    }

    #[tokio::test]
    async fn a_chat_of_no_channel_and_a_channel_without_typing_are_no_trouble() {
        struct Plain;
        impl Channel for Plain {
            fn name(&self) -> &'static str {
                "plain"
            }
            fn is_idempotent(&self) -> bool {
                false
            }
            fn send<'a>(&'a self, _: &'a Delivery) -> BoxFuture<'a, Result<(), ChannelError>> {
                Box::pin(std::future::ready(Ok(())))
            }
        }
        let (told, mut heard) = mpsc::unbounded_channel();
        let channels =
            Channels::new(vec![Box::new(Plain), Box::new(Told { name: "local", hangs: false, told })]);
        let at_work = AtWork::default();
        at_work.begins(1, &place("gone:a", ""));
        at_work.begins(2, &place("plain:a", ""));
        at_work.begins(3, &place("z", ""));
        at_work.begins(4, &place("local:z", ""));
        tokio::select! {
            next = heard.recv() => assert_eq!(next, Some(("local:z".to_owned(), String::new(), true))),
            never = show(&at_work, &channels) => match never {},
        }
    }
}
