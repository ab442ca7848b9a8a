//! The stream that says *that* something changed: the kinds of events, and their number. What changed is asked for again.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Extension,
    body::{Body, Bytes},
    extract::{Query, State},
    http::{HeaderMap, HeaderValue, Response, StatusCode, header},
    response::IntoResponse as _,
};
use futures_util::stream;
use serde::Deserialize;
use tokio::time::{Instant, sleep_until, timeout};

use super::{Visitor, Web, layout::Place};
use crate::{
    domain::shown::{errors::chain, feed::EventKind},
    store::{Follower, News},
    system::locked::Locked as _,
};

/// Time between two messages, at least: so a stream has at most four a second.
const APART: Duration = Duration::from_millis(250);
/// How often a stream without news shows that it is there. Before each message it looks whether its session still is.
const PING: Duration = Duration::from_secs(15);
/// Streams of a session at once, at most; browsers have no more than 6 connections to a server.
const OF_A_SESSION: usize = 12;
/// Streams at once, at most.
const MOST: usize = 64;

/// How many streams there are, of each session.
#[derive(Clone, Default)]
pub(super) struct Streams(Arc<Mutex<BTreeMap<i64, usize>>>);

/// A stream that counts, until it is dropped.
struct Counted(Streams, i64);

impl Streams {
    fn begin(&self, session: i64) -> Option<Counted> {
        let mut all = self.0.locked();
        let of_all: usize = all.values().sum();
        let of_it = all.entry(session).or_default();
        if of_all >= MOST || *of_it >= OF_A_SESSION {
            return None;
        }
        *of_it += 1;
        Some(Counted(self.clone(), session))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut all = self.0.0.locked();
        if let Some(left) = all.get_mut(&self.1) {
            *left -= 1;
            if *left == 0 {
                all.remove(&self.1);
            }
        }
    }
}

/// What a stream is asked for.
#[derive(Deserialize)]
pub(super) struct Wanted {
    /// The page that follows it.
    of: String,
    /// Only what concerns this chat, and runs.
    chat: Option<String>,
    /// The state of the store that the page shows; see [`version`].
    since: String,
}

/// Returns a name for the state of the store: another daemon's is another one.
pub(super) fn version(web: &Web, newest: i64) -> String {
    format!("{}.{newest}", web.desk.since.0)
}

struct Stream {
    web: Arc<Web>,
    visitor: Visitor,
    feed: Follower,
    due: Due,
    _counted: Counted,
}

/// What a stream is still to tell, and when it may.
struct Due {
    /// Only what concerns this chat, and runs.
    chat: Option<String>,
    kinds: BTreeSet<&'static str>,
    /// Something that has no kind may have changed.
    stale: bool,
    /// No message goes out before.
    not_before: Instant,
}

/// Tells a page of changes, until it goes.
pub(super) async fn stream(
    State(web): State<Arc<Web>>,
    Extension(visitor): Extension<Visitor>,
    Query(wanted): Query<Wanted>,
    headers: HeaderMap,
) -> Response<Body> {
    let Some(place) = Place::from_name(&wanted.of) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let Some(counted) = web.streams.begin(visitor.session.id) else {
        let text = "too many pages follow what changes; close some\n";
        return (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "10")], text).into_response();
    };
    let newest = match web.desk.store.newest_event().await {
        Ok(newest) => newest,
        Err(error) => return (StatusCode::INTERNAL_SERVER_ERROR, chain(&error)).into_response(),
    };
    let feed = web.desk.store.follow_kinds_from(place.follows(), newest);
    // A browser that comes again says what it was told last.
    let seen = headers.get("last-event-id").and_then(|value| value.to_str().ok()).unwrap_or(&wanted.since);
    let stream = Stream {
        feed,
        due: Due {
            chat: wanted.chat,
            kinds: BTreeSet::new(),
            stale: seen != version(&web, newest),
            not_before: Instant::now(),
        },
        visitor,
        _counted: counted,
        web,
    };
    let hello = stream::once(async { Ok::<_, Infallible>(Bytes::from_static(b": here\n\n")) });
    let news = stream::unfold(stream, |mut stream| async move { Some((Ok(stream.next().await?), stream)) });
    let mut response = Response::new(Body::from_stream(futures_util::StreamExt::chain(hello, news)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

impl Stream {
    /// Waits for the next message. `None`: the session has ended, or the daemon stops.
    async fn next(&mut self) -> Option<Bytes> {
        let closing = self.web.desk.closing.clone();
        tokio::select! {
            () = closing.cancelled() => None,
            news = timeout(PING, self.news()) => {
                let message = news.unwrap_or_else(|_| Bytes::from_static(b": still here\n\n"));
                self.is_welcome().then_some(message)
            }
        }
    }

    /// Safe to cancel.
    async fn news(&mut self) -> Bytes {
        loop {
            let ready = self.due.ready();
            tokio::select! {
                () = sleep_until(ready.unwrap_or_else(Instant::now)), if ready.is_some() => {
                    if let Some(kinds) = self.due.take(Instant::now()) {
                        let version = version(&self.web, self.feed.cursor());
                        return Bytes::from(format!("id: {version}\nevent: changed\ndata: {}\n\n", kinds.join(" ")));
                    }
                }
                news = self.feed.next() => self.due.note(&news),
            }
        }
    }

    /// Whether its session has not ended.
    fn is_welcome(&self) -> bool {
        let sessions = self.web.desk.store.web_sessions(self.web.world.now());
        sessions.is_ok_and(|sessions| sessions.iter().any(|session| session.id == self.visitor.session.id))
    }
}

impl Due {
    fn note(&mut self, news: &News) {
        self.stale |= news.missed;
        let concerns = |chat: &Option<String>, kind| match &self.chat {
            Some(_) if kind == EventKind::Run => true,
            Some(own) => chat.as_ref() == Some(own),
            None => true,
        };
        let ours = news.events.iter().filter(|event| concerns(&event.chat, event.kind));
        self.kinds.extend(ours.map(|event| event.kind.as_str()));
    }

    /// From when on a message may go out; `None`: there is nothing to tell.
    fn ready(&self) -> Option<Instant> {
        (self.stale || !self.kinds.is_empty()).then_some(self.not_before)
    }

    /// Returns the kinds of a message, if there is one and its time has come. What came meanwhile goes with it.
    fn take(&mut self, now: Instant) -> Option<Vec<&'static str>> {
        self.ready().filter(|ready| *ready <= now)?;
        self.not_before = now + APART;
        self.stale = false;
        Some(std::mem::take(&mut self.kinds).into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use ipc_handlers::Time;
    use proptest::prelude::*;

    use super::*;
    use crate::domain::shown::feed::FeedEvent;

    /// What may happen to a stream: events come, some were removed unread, time passes and it looks.
    #[derive(Clone, Debug)]
    enum Step {
        Events(Vec<EventKind>),
        Missed,
        Look { after_ms: u64 },
    }

    fn event(kind: EventKind) -> FeedEvent {
        FeedEvent { seq: 1, at: Time(0), kind, group: None, chat: None, subject: String::new() }
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let kind = proptest::sample::select(vec![EventKind::Run, EventKind::Message, EventKind::Said]);
        let step = prop_oneof![
            proptest::collection::vec(kind, 1..20).prop_map(Step::Events),
            Just(Step::Missed),
            prop_oneof![0..5_u64, 0..400_u64].prop_map(|after_ms| Step::Look { after_ms }),
        ];
        proptest::collection::vec(step, 0..200)
    }

    proptest! {
        /// A browser gets at most four messages in any second, however much changes, and each kind that changed is in one.
        #[test]
        fn a_stream_has_at_most_four_messages_a_second_and_tells_all(steps in steps()) {
            let mut now = Instant::now();
            let mut due = Due { chat: None, kinds: BTreeSet::new(), stale: false, not_before: now };
            let (mut told_at, mut owed, mut owes_any) = (Vec::new(), BTreeSet::new(), false);
            let last = [Step::Look { after_ms: 250 }];
            for step in steps.into_iter().chain(last) {
                match step {
                    Step::Events(kinds) => {
                        owed.extend(kinds.iter().map(|kind| kind.as_str()));
                        owes_any = true;
                        let events = kinds.into_iter().map(|kind| Arc::new(event(kind))).collect();
                        due.note(&News { events, missed: false });
                    }
                    Step::Missed => {
                        owes_any = true;
                        due.note(&News { events: Vec::new(), missed: true });
                    }
                    Step::Look { after_ms } => {
                        now += Duration::from_millis(after_ms);
                        if let Some(kinds) = due.take(now) {
                            prop_assert!(owes_any, "it told of nothing");
                            prop_assert_eq!(kinds, owed.iter().copied().collect::<Vec<_>>());
                            (owed, owes_any) = (BTreeSet::new(), false);
                            told_at.push(now);
                        }
                    }
                }
            }
            prop_assert!(!owes_any && owed.is_empty() && due.ready().is_none());
            for five in told_at.windows(5) {
                prop_assert!(five[4] - five[0] >= Duration::from_secs(1));
            }
        }
    }

    #[test]
    fn no_session_takes_the_streams_of_others_and_each_that_ends_leaves_room() {
        let streams = Streams::default();
        let mut held: Vec<Counted> = (0..OF_A_SESSION).filter_map(|_| streams.begin(1)).collect();
        assert_eq!(held.len(), OF_A_SESSION);
        assert!(streams.begin(1).is_none());
        assert!(streams.begin(2).is_some());
        held.pop();
        assert!(streams.begin(1).is_some());
        drop(held);
        assert!(streams.0.lock().unwrap().is_empty());
        let all: Vec<_> =
            (0..10).flat_map(|n| (0..7).filter_map(|_| streams.begin(n)).collect::<Vec<_>>()).collect();
        assert_eq!(all.len(), MOST);
    }
}
