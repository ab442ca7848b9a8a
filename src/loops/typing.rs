//! Shows in chats that an agent works for them: from the moment a batch is handed over until it is finished with, as the
//! feed tells it. Best effort: a channel that hangs delays nobody, and nothing waits for it. A sign that is shown at a stop expires, or
//! the next daemon goes on with it.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
    time::Instant,
};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::Span;

use crate::{
    channels::Channels,
    domain::{
        machine::loops::LoopName,
        platforms::typing::{self, ChatThread, RENEW},
        shown::feed::EventKind,
    },
    engine::{Error, Loop, Plan, Read, Then, Why},
    store::Store,
    system::{locked::Locked as _, world::World},
};

/// How many signals for one place wait at most, where it can't be told any for a while.
const MOST: usize = 64;

/// Shows in chats that agents work for them.
pub struct Typing {
    world: World,
    store: Store,
    board: Arc<Board>,
    show: Show,
    /// Batches that were handed over and whose places could not be read.
    unread: BTreeSet<i64>,
}

/// A batch that an agent works on, with the chat and thread of its messages; `None`: it is finished.
type Change = (i64, Option<ChatThread>);

/// The signs to be shown.
struct Show {
    begun: Instant,
    in_hand: BTreeMap<i64, ChatThread>,
    typing: typing::Typing,
}

/// What the loop works with.
pub struct Board {
    channels: Arc<Channels>,
    /// What each place is still to be told.
    lines: Mutex<BTreeMap<ChatThread, Line>>,
}

#[derive(Default)]
struct Line {
    told: VecDeque<bool>,
    more: Arc<Notify>,
}

impl Line {
    /// Adds a signal. What would be too much is left out at the front: turns that are over.
    fn add(&mut self, on: bool) {
        if self.told.back() != Some(&on) {
            self.told.push_back(on);
        }
        if self.told.len() > MOST {
            self.told.drain(..2);
        }
        self.more.notify_one();
    }
}

impl Typing {
    #[must_use]
    pub fn new(world: World, store: Store, channels: Arc<Channels>) -> Self {
        let board = Arc::new(Board { channels, lines: Mutex::default() });
        let show = Show::new(world.monotonic());
        Self { world, store, board, show, unread: BTreeSet::new() }
    }
}

/// Reads where the batches work that were handed over, and those of earlier looks whose places could not be read (`unread`).
fn read(
    unread: &mut BTreeSet<i64>,
    why: &Why<ChatThread>,
    changes: &mut Vec<Change>,
    place_of: impl Fn(i64) -> Result<Option<ChatThread>, Error>,
) -> Read {
    let again = if why.again { std::mem::take(unread) } else { BTreeSet::new() };
    let events = why.events.iter().filter_map(|event| Some((event.subject.parse().ok()?, event.kind)));
    let mut failed = None;
    for (batch, kind) in again.into_iter().map(|batch| (batch, EventKind::Handed)).chain(events) {
        if kind == EventKind::Finished {
            unread.remove(&batch);
            changes.push((batch, None));
            continue;
        }
        match place_of(batch) {
            Ok(place) => changes.extend(place.map(|place| (batch, Some(place)))),
            Err(error) => {
                unread.insert(batch);
                failed = Some(error);
            }
        }
    }
    match failed {
        Some(error) => Read::Failed(error),
        None if unread.is_empty() => Read::All,
        None => Read::NotTried,
    }
}

impl Show {
    fn new(begun: Instant) -> Self {
        Self { begun, in_hand: BTreeMap::new(), typing: typing::Typing::default() }
    }

    /// Takes changes in, one by one, and renews what is due; tells the board, and returns the places that are to be told something
    /// and when it is to be looked again.
    fn take(&mut self, changes: Vec<Change>, board: &Board, now: Instant) -> Plan<ChatThread, ()> {
        let mut places = BTreeSet::new();
        let now = now.duration_since(self.begun);
        // However soon a turn is over, its begin is told.
        for change in changes.into_iter().map(Some).chain([None]) {
            match change {
                Some((batch, Some(place))) => drop(self.in_hand.insert(batch, place)),
                Some((batch, None)) => drop(self.in_hand.remove(&batch)),
                None => {}
            }
            let at_work: BTreeSet<ChatThread> = self.in_hand.values().cloned().collect();
            for signal in self.typing.look(&at_work, now) {
                board.lines().entry(signal.place.clone()).or_default().add(signal.on);
                places.insert(signal.place);
            }
        }
        let again = self.typing.next_look().map(|at| at.saturating_sub(now));
        Plan { wake: places.into_iter().map(|place| (place, ())).collect(), again, ..Plan::default() }
    }
}

impl Loop for Typing {
    const NAME: LoopName = LoopName::Typing;
    const FOLLOWS: &'static [EventKind] = &[EventKind::Handed, EventKind::Finished];
    /// One that hangs delays no other.
    const AT_ONCE: usize = usize::MAX;
    type Key = ChatThread;
    type Job = ();
    type Hands = Board;

    fn hands(&self) -> Arc<Board> {
        Arc::clone(&self.board)
    }

    async fn look(&mut self, why: &Why<ChatThread>) -> Result<Plan<ChatThread, ()>, Error> {
        let mut changes: Vec<Change> = Vec::new();
        if why.all {
            let now: BTreeMap<i64, ChatThread> = self.store.in_hand()?.into_iter().collect();
            let over = self.show.in_hand.keys().filter(|batch| !now.contains_key(batch));
            changes.extend(over.map(|batch| (*batch, None)));
            changes.extend(now.into_iter().map(|(batch, place)| (batch, Some(place))));
            self.unread.clear();
        }
        let place_of = |batch| Ok(self.store.place_of_batch(batch)?);
        let read = read(&mut self.unread, why, &mut changes, place_of);
        Ok(Plan { read, ..self.show.take(changes, &self.board, self.world.monotonic()) })
    }

    /// Tells a place what it is to be told, in order. A newer signal ends the call of an older one.
    async fn perform(
        board: Arc<Board>,
        place: ChatThread,
        (): (),
        stop: CancellationToken,
    ) -> Result<Then, Error> {
        while let Some((on, more)) = board.next(&place) {
            let Some(channel) = board.channels.of(&place.chat_jid) else { continue };
            // One that takes longer than it is shown for is not waited for.
            let call = tokio::time::timeout(RENEW, channel.typing(&place.chat_jid, &place.thread, on));
            // Each call is looked at once at least, before what is newer ends it.
            tokio::select! {
                biased;
                called = call => if called.is_err() {
                    tracing::debug!(%place, on, "a channel was not told in time that an agent is at work");
                },
                () = board.newer(&place, &more) => {}
                () = stop.cancelled() => return Ok(Then::Done),
            }
        }
        Ok(Then::Done)
    }

    fn span(place: &ChatThread, (): &()) -> Span {
        tracing::error_span!("chat", chat = place.chat_jid)
    }
}

impl Board {
    fn lines(&self) -> MutexGuard<'_, BTreeMap<ChatThread, Line>> {
        self.lines.locked()
    }

    /// Takes what a place is told next; `None`: nothing.
    fn next(&self, place: &ChatThread) -> Option<(bool, Arc<Notify>)> {
        let mut lines = self.lines();
        let line = lines.get_mut(place)?;
        let next = line.told.pop_front().map(|on| (on, Arc::clone(&line.more)));
        if next.is_none() {
            lines.remove(place);
        }
        next
    }

    /// Waits until a place is to be told something more.
    async fn newer(&self, place: &ChatThread, more: &Notify) {
        // It may have been told of what is taken by now.
        while self.lines().get(place).is_none_or(|line| line.told.is_empty()) {
            more.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::BoxFuture;
    use ipc_handlers::Time;
    use tokio::{sync::mpsc, task::JoinHandle, time};

    use super::*;
    use crate::{
        channels::Channel,
        domain::{
            platforms::{
                addresses::Platform,
                channels::{Outcome, Part, Traits},
            },
            shown::feed::FeedEvent,
        },
        engine::{Blame, Feed, Loops, run},
    };

    /// The loop, told of changes by a test and not by the store.
    struct Fed {
        show: Show,
        board: Arc<Board>,
        changes: mpsc::UnboundedReceiver<Change>,
        came: Vec<Change>,
    }

    impl Loop for Fed {
        const NAME: LoopName = Typing::NAME;
        const AT_ONCE: usize = Typing::AT_ONCE;
        type Key = ChatThread;
        type Job = ();
        type Hands = Board;

        fn hands(&self) -> Arc<Board> {
            Arc::clone(&self.board)
        }

        async fn asked(&mut self) {
            match self.changes.recv().await {
                Some(change) => self.came.push(change),
                None => std::future::pending().await,
            }
        }

        async fn look(&mut self, _: &Why<ChatThread>) -> Result<Plan<ChatThread, ()>, Error> {
            Ok(self.show.take(std::mem::take(&mut self.came), &self.board, now()))
        }

        async fn perform(
            board: Arc<Board>,
            place: ChatThread,
            (): (),
            stop: CancellationToken,
        ) -> Result<Then, Error> {
            Typing::perform(board, place, (), stop).await
        }
    }

    /// The time of the timers, which these tests have stand still.
    fn now() -> Instant {
        time::Instant::now().into_std()
    }

    struct Shown {
        tell: mpsc::UnboundedSender<Change>,
        stop: CancellationToken,
        driven: JoinHandle<()>,
    }

    impl Shown {
        fn on(channels: Vec<Box<dyn Channel>>) -> Self {
            let (tell, changes) = mpsc::unbounded_channel();
            let board = Board { channels: Arc::new(Channels::new(channels)), lines: Mutex::default() };
            let fed = Fed { show: Show::new(now()), board: Arc::new(board), changes, came: Vec::new() };
            let stop = CancellationToken::new();
            let token = stop.clone();
            let driven =
                tokio::spawn(async move { run(fed, Feed::None, &Loops::new(World::real()), token).await });
            Self { tell, stop, driven }
        }

        fn begins(&self, batch: i64, place: ChatThread) {
            self.tell.send((batch, Some(place))).unwrap();
        }

        fn rests(&self, batch: i64) {
            self.tell.send((batch, None)).unwrap();
        }

        async fn stop(self) {
            self.stop.cancel();
            self.driven.await.unwrap();
        }
    }

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

    #[tokio::test(start_paused = true)]
    async fn a_channel_that_hangs_delays_neither_others_nor_what_it_is_told_next() {
        let (told, mut heard) = mpsc::unbounded_channel();
        let channel = |name, hangs| {
            Box::new(Told { platform: Platform::named(name), hangs, told: told.clone() }) as Box<dyn Channel>
        };
        let shown = Shown::on(vec![channel("dead", true), channel("local", false)]);
        let mut expect = async |step: &str, chat: &str, thread: &str, on: bool| {
            let next = heard.recv().await.unwrap();
            assert_eq!(next, (chat.to_owned(), thread.to_owned(), on), "{step}");
        };
        shown.begins(1, place("dead:a", ""));
        expect("the first hangs", "dead:a", "", true).await;
        shown.begins(2, place("local:b", "7"));
        expect("another channel", "local:b", "7", true).await;
        shown.begins(3, place("dead:c", ""));
        expect("another chat of it", "dead:c", "", true).await;
        shown.begins(4, place("local:b", "7"));
        shown.rests(2);
        shown.rests(1);
        expect("the end, though its begin hangs", "dead:a", "", false).await;
        shown.rests(4);
        expect("the last of two at work for one chat", "local:b", "7", false).await;
        tokio::time::sleep(RENEW).await;
        expect("it is renewed, though its begin hangs", "dead:c", "", true).await;
        shown.stop().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_is_over_before_it_is_looked_at_was_shown() {
        let (told, mut heard) = mpsc::unbounded_channel();
        for hangs in [false, true] {
            let platform = Platform::named("local");
            let shown = Shown::on(vec![Box::new(Told { platform, hangs, told: told.clone() })]);
            for batch in 0..32 {
                shown.begins(batch, place("local:a", ""));
                shown.rests(batch);
            }
            for n in 0..64 {
                assert_eq!(heard.recv().await.unwrap().2, n % 2 == 0, "{n}");
            }
            shown.stop().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_renewed_while_the_work_goes_on() {
        let (told, mut heard) = mpsc::unbounded_channel();
        let shown =
            Shown::on(vec![Box::new(Told { platform: Platform::named("local"), hangs: false, told })]);
        shown.begins(1, place("local:a", ""));
        tokio::time::sleep(RENEW * 5 / 2).await;
        shown.rests(1);
        tokio::time::sleep(RENEW * 5).await;
        let all: Vec<bool> = std::iter::from_fn(|| heard.try_recv().ok()).map(|(_, _, on)| on).collect();
        assert_eq!(all, [true, true, true, false]);
        shown.stop().await;
    }

    #[test]
    fn what_waits_for_a_place_is_bounded_and_ends_as_it_was_told_last() {
        let mut line = Line::default();
        (0..1001).for_each(|n| line.add(n % 2 == 0));
        line.add(true);
        assert!(line.told.len() <= MOST);
        assert_eq!((line.told.front(), line.told.back()), (Some(&true), Some(&true)));
    }

    #[test]
    fn a_batch_whose_place_cant_be_read_is_kept_until_it_can_be_or_is_finished() {
        let why = |again, events: &[(EventKind, i64)]| {
            let event = |(kind, batch): &(EventKind, i64)| {
                let (group, chat, subject) = (None, None, batch.to_string());
                Arc::new(FeedEvent { seq: 1, at: Time(0), kind: *kind, group, chat, subject })
            };
            Why { again, events: events.iter().map(event).collect(), ..Why::default() }
        };
        let fault = || Error { blame: Blame::World, why: "a row".into() };
        let fails = |of: i64| {
            move |batch: i64| if batch >= of { Err(fault()) } else { Ok(Some(place(&batch.to_string(), ""))) }
        };
        let mut unread = BTreeSet::new();
        let mut look = |why: &Why<ChatThread>, of: i64| {
            let mut changes = Vec::new();
            let read = read(&mut unread, why, &mut changes, fails(of));
            let told: Vec<String> = changes
                .into_iter()
                .map(|(batch, place)| format!("{}{batch}", if place.is_some() { '+' } else { '-' }))
                .collect();
            (told.join(" "), read)
        };
        use EventKind::{Finished, Handed};
        let first = why(false, &[(Handed, 1), (Handed, 2), (Handed, 3), (Finished, 1)]);
        assert_eq!(look(&first, 2), ("+1 -1".into(), Read::Failed(fault())), "the others are shown");
        let second = why(false, &[(Handed, 0)]);
        assert_eq!(look(&second, 2), ("+0".into(), Read::NotTried), "not before the rest is over");
        assert_eq!(look(&why(false, &[(Finished, 3)]), 2), ("-3".into(), Read::NotTried));
        assert_eq!(look(&why(true, &[]), 2), (String::new(), Read::Failed(fault())));
        assert_eq!(look(&why(true, &[]), 9), ("+2".into(), Read::All));
        assert_eq!(look(&why(true, &[]), 9), (String::new(), Read::All));
    }

    #[tokio::test(start_paused = true)]
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
        let local = Told { platform: Platform::named("local"), hangs: false, told };
        let shown = Shown::on(vec![Box::new(Plain), Box::new(local)]);
        shown.begins(1, place("gone:a", ""));
        shown.begins(2, place("plain:a", ""));
        shown.begins(3, place("z", ""));
        shown.begins(4, place("local:z", ""));
        assert_eq!(heard.recv().await, Some(("local:z".to_owned(), String::new(), true)));
        shown.stop().await;
    }
}
