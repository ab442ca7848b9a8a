//! The feed of changes: each change once and in order, from any process and for any reader; and no longer than a day.

use std::time::Duration;

use g2::{
    domain::shown::feed::{EventKind, FeedEvent, MOST_EVENTS},
    store::{Follower, News},
};

use super::*;
use crate::support::DEADLINE;

/// A generator of numbers that are the same in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// A reader that is stopped in the middle again and again, and goes on from the last event it has read.
struct Reader {
    feed: Follower,
    from: i64,
    /// What it asked for; all where it is empty.
    kinds: Vec<EventKind>,
    read: Vec<i64>,
}

impl Reader {
    fn new(store: &Store, from: i64, kinds: Vec<EventKind>) -> Self {
        Self { feed: Self::follow(store, from, &kinds), from, kinds, read: Vec::new() }
    }

    fn follow(store: &Store, from: i64, kinds: &[EventKind]) -> Follower {
        if kinds.is_empty() { store.follow_from(from) } else { store.follow_kinds_from(kinds, from) }
    }

    /// Its process ends; the next one goes on where it was.
    fn begin_again(&mut self, store: &Store) {
        self.feed = Self::follow(store, self.feed.cursor(), &self.kinds);
    }

    fn asked_for(&self, event: &FeedEvent) -> bool {
        self.kinds.is_empty() || self.kinds.contains(&event.kind)
    }

    async fn look(&mut self) {
        let news = self.feed.look().await.unwrap();
        assert!(!news.missed);
        self.read.extend(news.events.iter().map(|event| event.seq));
    }
}

#[tokio::test]
async fn each_reader_is_told_each_change_once_and_in_order_wherever_it_begins_and_whenever_it_stops() {
    for seed in 0..20 {
        let world = world().await;
        let mut dice = Dice(seed);
        let mut readers: Vec<Reader> = Vec::new();
        for step in 0..120 {
            match dice.below(6) {
                0 => {
                    let newest = i64::try_from(dice.below(1000))
                        .unwrap()
                        .min(world.store.newest_event().await.unwrap());
                    let some = [EventKind::Message, EventKind::Judged, EventKind::Task];
                    let kinds = some.into_iter().filter(|_| dice.below(2) == 0).collect();
                    readers.push(Reader::new(&world.store, newest, kinds));
                }
                1 => {
                    if let Some(reader) = readers.last_mut() {
                        reader.begin_again(&world.store);
                    }
                }
                2 => {
                    for reader in &mut readers {
                        reader.look().await;
                    }
                }
                3 => {
                    // A change that is refused is none, and has no event.
                    assert!(world.store.retry_outbox(1_000_000).await.is_err());
                }
                _ => {
                    let verdict =
                        if dice.below(2) == 0 { EngageVerdict::Wake } else { EngageVerdict::Ignore };
                    world.message("local:main", &step.to_string(), "hello", verdict).await;
                }
            }
        }
        let all = world.store.events_after(0, usize::MAX).await.unwrap();
        assert!(all.is_sorted_by(|a, b| a.seq < b.seq));
        for reader in &mut readers {
            reader.look().await;
            let expected: Vec<i64> = all
                .iter()
                .filter(|event| event.seq > reader.from && reader.asked_for(event))
                .map(|event| event.seq)
                .collect();
            assert_eq!(reader.read, expected, "seed {seed}, {:?}", reader.kinds);
        }
    }
}

#[tokio::test]
async fn a_reader_of_some_kinds_sleeps_through_the_others_and_keeps_nothing_from_being_removed() {
    let world = world().await;
    let mut says = world.store.follow_kinds(&[EventKind::Say]).await;
    let mut next = Box::pin(says.next());
    assert!(futures_util::poll!(&mut next).is_pending());
    world.message("local:main", "1", "hello", EngageVerdict::Ignore).await;
    assert!(futures_util::poll!(&mut next).is_pending(), "a message is nothing that is to be said");
    world.store.tell("local:main".into(), "hi".into(), "test".into(), NOW).await.unwrap();
    let news = tokio::time::timeout(DEADLINE, next).await.unwrap();
    assert_eq!(kinds_of(&news), [EventKind::Say]);
    world.message("local:main", "2", "hello again", EngageVerdict::Ignore).await;
    while world.store.trim_events(Time(i64::MAX / 2)).await.unwrap() {}
    let left = world.store.events_after(0, 10).await.unwrap();
    assert_eq!(kinds(&left).len(), 1, "it waits for nothing that was removed; the newest stays");
    world.store.tell("local:main".into(), "bye".into(), "test".into(), NOW).await.unwrap();
    let news = says.look().await.unwrap();
    assert_eq!((news.missed, kinds_of(&news)), (false, vec![EventKind::Say]));
}

fn kinds_of(news: &News) -> Vec<EventKind> {
    news.events.iter().map(|event| event.kind).collect()
}

fn kinds(events: &[FeedEvent]) -> Vec<EventKind> {
    events.iter().map(|event| event.kind).collect()
}

#[tokio::test]
async fn a_message_is_followed_from_its_coming_to_its_answer() {
    let world = world().await;
    let before = world.store.newest_event().await.unwrap();
    world.message("local:family", "1", "hello", EngageVerdict::Wake).await;
    let handed = world.start(world.lane()).await;
    world.ready(handed.run).await;
    world.store.record(handed.run, 2, say("hi", &[handed.batch]), NOW).await.unwrap();
    let NextDelivery::Now(row) = world.store.begin_delivery("local:family", NOW).await.unwrap() else {
        panic!()
    };
    world.store.delivered(row.id, 1, row.id.to_string(), NOW).await.unwrap();
    world.end(handed.run, End::Exited { code: 0, oom: false }, Cause::Itself).await;
    let events = world.store.events_after(before, 100).await.unwrap();
    use EventKind::*;
    let expected = [Message, Inbox, Judged, Handed, Run, Run, Run, Say, Finished, Said, Run];
    let mut found = kinds(&events);
    // What one transaction writes has no order of its own.
    found[3..5].sort();
    found[7..9].sort_by_key(|kind| *kind != Say);
    assert_eq!(found, expected, "{events:?}");
    for event in &events {
        assert_eq!(event.chat.as_deref(), Some("local:family"), "{event:?}");
        assert!(event.group == Some(folder("family")) || matches!(event.kind, Message), "{event:?}");
    }
}

#[tokio::test]
async fn a_commit_of_another_process_is_told_within_two_seconds() {
    let world = world().await;
    let mut feed = world.store.follow().await.unwrap();
    // A store of its own, as a second process has one.
    let other = Store::open(world.store.path()).unwrap();
    other.tell("local:main".into(), "from elsewhere".into(), "test".into(), NOW).await.unwrap();
    let news = tokio::time::timeout(DEADLINE, feed.next()).await.unwrap();
    assert_eq!(news.events.iter().map(|event| event.kind).collect::<Vec<_>>(), [EventKind::Say]);
}

#[tokio::test]
async fn events_are_kept_for_a_day_and_until_they_are_read() {
    let world = world().await;
    let mut slow = world.store.follow().await.unwrap();
    for n in 0..700 {
        world.store.tell("local:main".into(), n.to_string(), "test".into(), NOW).await.unwrap();
    }
    let newest = world.store.newest_event().await.unwrap();
    let count = async || world.store.events_after(0, usize::MAX).await.unwrap().len();
    let (now, whole) = (Time(i64::MAX / 2), count().await);
    let young = world.store.events_after(0, 1).await.unwrap()[0].at.plus_ms(3_600_000);
    assert!(!world.store.trim_events(young).await.unwrap(), "an hour old");
    let read = slow.cursor();
    while world.store.trim_events(now).await.unwrap() {}
    assert_eq!(count().await, 700, "what the slowest reader has not read stays");
    assert!(whole > 700 && world.store.events_after(0, 1).await.unwrap()[0].seq == read + 1);
    assert_eq!(slow.look().await.unwrap().events.len(), 700);
    assert!(world.store.trim_events(now).await.unwrap(), "a step removes some");
    assert!(count().await > 0 && count().await < 700, "and not all: {}", count().await);
    while world.store.trim_events(now).await.unwrap() {}
    let left = (count().await, world.store.newest_event().await.unwrap());
    assert_eq!(left, (1, newest), "the newest stays: numbers go on from it");
    world.store.tell("local:main".into(), "next".into(), "test".into(), NOW).await.unwrap();
    let next = slow.look().await.unwrap();
    assert_eq!((next.missed, next.events[0].seq), (false, newest + 1), "no number is given twice");
}

#[tokio::test]
async fn a_reader_that_is_slower_than_the_bound_is_told_that_it_missed_some() {
    let world = world().await;
    let mut slow = world.store.follow().await.unwrap();
    let begun = slow.cursor();
    rusqlite::Connection::open(world.store.path())
        .unwrap()
        .execute(
            "INSERT INTO events (seq, kind, subject) VALUES (?1, 'chat', 'c'), (?2, 'chat', 'd')",
            [begun + 1, begun + 2 + MOST_EVENTS],
        )
        .unwrap();
    while world.store.trim_events(NOW).await.unwrap() {}
    world.store.look_at_feed().await.unwrap();
    let news = tokio::time::timeout(Duration::from_secs(30), slow.next()).await.unwrap();
    assert!(news.missed && news.any(&[EventKind::Task]) && news.in_chat("local:other"));
    assert_eq!(news.events.iter().map(|event| event.subject.as_str()).collect::<Vec<_>>(), ["d"]);
    assert!(!slow.look().await.unwrap().missed);
}

#[tokio::test]
async fn a_reader_that_could_not_read_where_the_feed_ends_is_told_all_that_comes() {
    let world = world().await;
    world.message("local:main", "1", "hello", EngageVerdict::Ignore).await;
    let other = rusqlite::Connection::open(world._dir.path().join("g2.sqlite")).unwrap();
    other.execute_batch("PRAGMA legacy_alter_table = ON; ALTER TABLE events RENAME TO events_away").unwrap();
    let mut feed = world.store.follow_kinds(&[EventKind::Say]).await;
    assert!(world.store.newest_event().await.is_err());
    other.execute_batch("ALTER TABLE events_away RENAME TO events").unwrap();
    world.store.tell("local:main".into(), "hi".into(), "test".into(), NOW).await.unwrap();
    let news = tokio::time::timeout(DEADLINE, feed.next()).await.unwrap();
    assert!(news.any(&[EventKind::Say]), "{news:?}");
}
