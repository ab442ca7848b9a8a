//! Shows in chats that an agent works for them: from the moment a batch is handed over until it is finished with, as the
//! feed tells it. Best effort: a channel that hangs delays nobody, and nothing waits for it.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::future::BoxFuture;
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    channels::Channels,
    domain::{
        host::{errors::chain, feed::EventKind},
        platforms::typing::{ChatThread, RENEW, Signal, Typing},
    },
    store::{News, Store},
};

/// Runs until the daemon stops. What is shown then expires, or the next daemon goes on with it.
pub async fn run(store: Store, channels: Arc<Channels>, stop: CancellationToken) {
    let (tell, told) = mpsc::channel(TOLD);
    tokio::select! {
        () = stop.cancelled() => {}
        () = follow(&store, tell) => {}
        never = show(told, &channels) => match never {},
    }
}

/// The rest before the store is read again that could not be.
const READ_AGAIN: Duration = Duration::from_secs(2);

/// How many changes wait to be shown at most.
const TOLD: usize = 64;

/// A batch that an agent works on, with the chat and thread of its messages; `None`: it is finished.
type Change = (i64, Option<ChatThread>);

/// Tells each batch that is handed over, and each that is finished, in the order of the feed.
async fn follow(store: &Store, tell: mpsc::Sender<Change>) {
    let mut feed = store.follow_kinds(&[EventKind::Handed, EventKind::Finished]).await;
    let mut known: BTreeMap<i64, ChatThread> = BTreeMap::new();
    let mut missed = true;
    loop {
        let mut changes: Vec<Change> = Vec::new();
        if missed {
            let now: BTreeMap<i64, ChatThread> = match store.in_hand() {
                Ok(now) => now.into_iter().collect(),
                Err(error) => {
                    tracing::error!(error = %chain(&error), "reading what agents have in hand failed, so it is not shown in chats; it is read again");
                    tokio::time::sleep(READ_AGAIN).await;
                    continue;
                }
            };
            changes.extend(known.keys().filter(|batch| !now.contains_key(batch)).map(|batch| (*batch, None)));
            changes.extend(now.into_iter().map(|(batch, place)| (batch, Some(place))));
        }
        let news = if missed { News::default() } else { feed.next().await };
        missed = news.missed;
        for event in &news.events {
            let Ok(batch) = event.subject.parse() else { continue };
            if event.kind == EventKind::Finished {
                changes.push((batch, None));
            } else if event.kind == EventKind::Handed {
                match store.place_of_batch(batch) {
                    Ok(place) => changes.extend(place.map(|place| (batch, Some(place)))),
                    Err(_) => missed = true,
                }
            }
        }
        for change in changes {
            match &change {
                (batch, Some(place)) => drop(known.insert(*batch, place.clone())),
                (batch, None) => drop(known.remove(batch)),
            }
            if tell.send(change).await.is_err() {
                return;
            }
        }
    }
}

/// Calls under way, one for a place at most: a newer one ends the older.
#[derive(Default)]
struct Calls<'a>(BTreeMap<ChatThread, BoxFuture<'a, ()>>);

impl<'a> Calls<'a> {
    fn begin(&mut self, channels: &'a Channels, signal: Signal) {
        let Signal { place, on } = signal;
        let to = place.clone();
        let call = async move {
            if let Some(channel) = channels.of(&to.chat_jid) {
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

async fn show(mut told: mpsc::Receiver<Change>, channels: &Channels) -> Infallible {
    let begun = Instant::now();
    let mut in_hand: BTreeMap<i64, ChatThread> = BTreeMap::new();
    let mut typing = Typing::default();
    let mut calls = Calls::default();
    loop {
        let places: BTreeSet<ChatThread> = in_hand.values().cloned().collect();
        for signal in typing.look(&places, begun.elapsed()) {
            calls.begin(channels, signal);
        }
        let next = begun + typing.next_look().unwrap_or(begun.elapsed() + Duration::from_secs(3600));
        tokio::select! {
            // However soon a turn is over, its begin is called: a call is looked at once before the next change may end it.
            biased;
            never = poll_fn(|cx| calls.poll(cx)) => match never {},
            Some((batch, place)) = told.recv() => match place {
                Some(place) => drop(in_hand.insert(batch, place)),
                None => drop(in_hand.remove(&batch)),
            },
            () = tokio::time::sleep_until(next) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        channels::Channel,
        domain::platforms::{
            addresses::Platform,
            channels::{Outcome, Part, Traits},
        },
    };

    /// Tells what it was told; where it hangs, it never comes to an end with it.
    struct Told {
        platform: Platform,
        hangs: bool,
        told: mpsc::UnboundedSender<(String, String, bool)>,
    }

    impl Channel for Told {
        fn platform(&self) -> &Platform {
            &self.platform
        }

        fn traits(&self) -> Traits {
            Traits { typing: true, ..Traits::default() }
        }

        fn send<'a>(&'a self, _: Part<'a>) -> BoxFuture<'a, Outcome> {
            Box::pin(std::future::ready(Ok(vec!["1".into()])))
        }

        fn typing<'a>(&'a self, chat: &'a str, thread: &'a str, on: bool) -> BoxFuture<'a, ()> {
            let _ = self.told.send((chat.to_owned(), thread.to_owned(), on));
            if self.hangs { Box::pin(std::future::pending()) } else { Box::pin(std::future::ready(())) }
        }
    }

    fn place(chat: &str, thread: &str) -> ChatThread {
        ChatThread { chat_jid: chat.to_owned(), thread: thread.to_owned() }
    }

    #[tokio::test]
    async fn a_channel_that_hangs_delays_neither_others_nor_what_it_is_told_next() {
        let (told, mut heard) = mpsc::unbounded_channel();
        let channel = |name, hangs| {
            Box::new(Told { platform: Platform::named(name), hangs, told: told.clone() }) as Box<dyn Channel>
        };
        let channels = Channels::new(vec![channel("dead", true), channel("local", false)]);
        let (tell, changes) = mpsc::channel(9);
        let begins = async |batch, place| tell.send((batch, Some(place))).await.unwrap();
        let rests = async |batch| tell.send((batch, None)).await.unwrap();
        let mut expect = async |step: &str, chat: &str, thread: &str, on: bool| {
            let next = heard.recv().await.unwrap();
            assert_eq!(next, (chat.to_owned(), thread.to_owned(), on), "{step}");
        };
        let test = async {
            begins(1, place("dead:a", "")).await;
            expect("the first hangs", "dead:a", "", true).await;
            begins(2, place("local:b", "7")).await;
            expect("another channel", "local:b", "7", true).await;
            begins(3, place("dead:c", "")).await;
            expect("another chat of it", "dead:c", "", true).await;
            begins(4, place("local:b", "7")).await;
            rests(2).await;
            rests(1).await;
            expect("the end, though its begin hangs", "dead:a", "", false).await;
            rests(4).await;
            expect("the last of two at work for one chat", "local:b", "7", false).await;
        };
        tokio::select! {
            () = test => {}
            never = show(changes, &channels) => match never {},
        }
    }

    #[tokio::test]
    async fn a_turn_that_is_over_before_it_is_looked_at_was_shown() {
        let (told, mut heard) = mpsc::unbounded_channel();
        let channels =
            Channels::new(vec![
                Box::new(Told { platform: Platform::named("local"), hangs: false, told }) as Box<dyn Channel>
            ]);
        let (tell, changes) = mpsc::channel(64);
        for batch in 0..32 {
            tell.send((batch, Some(place("local:a", "")))).await.unwrap();
            tell.send((batch, None)).await.unwrap();
        }
        let test = async {
            for n in 0..64 {
                assert_eq!(heard.recv().await.unwrap().2, n % 2 == 0, "{n}");
            }
        };
        tokio::select! {
            () = test => {}
            never = show(changes, &channels) => match never {},
        }
    }

    #[tokio::test]
    async fn a_chat_of_no_channel_and_a_channel_without_typing_are_no_trouble() {
        struct Plain;
        impl Channel for Plain {
            fn platform(&self) -> &Platform {
                static PLAIN: Platform = Platform::named("plain");
                &PLAIN
            }
            fn traits(&self) -> Traits {
                Traits::default()
            }
            fn send<'a>(&'a self, _: Part<'a>) -> BoxFuture<'a, Outcome> {
                Box::pin(std::future::ready(Ok(vec!["1".into()])))
            }
        }
        let (told, mut heard) = mpsc::unbounded_channel();
        let channels = Channels::new(vec![
            Box::new(Plain),
            Box::new(Told { platform: Platform::named("local"), hangs: false, told }),
        ]);
        let (tell, changes) = mpsc::channel(9);
        let begins = async |batch, place| tell.send((batch, Some(place))).await.unwrap();
        begins(1, place("gone:a", "")).await;
        begins(2, place("plain:a", "")).await;
        begins(3, place("z", "")).await;
        begins(4, place("local:z", "")).await;
        tokio::select! {
            next = heard.recv() => assert_eq!(next, Some(("local:z".to_owned(), String::new(), true))),
            never = show(changes, &channels) => match never {},
        }
    }
}
