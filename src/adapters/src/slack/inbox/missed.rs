//! What was missed while no socket stood: each channel and thread is asked for the messages after the newest one that was told. A
//! step asks for one page, so that what comes meanwhile waits for one answer at most.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tokio::time::Instant;

use super::{
    Inbox,
    places::{Channel, Newest, Spot},
};
use crate::{
    kit::{Gone, Host, Rest, TRIES},
    slack::{
        api::ApiError,
        events::{is_id, micros, thread_of, time},
        said::{all, text},
    },
};

/// How many messages of one place are asked for, and how many bytes they may have.
const MOST_MISSED: usize = 5000;
const MOST_BYTES: usize = 24 << 20;
/// How many messages one page has.
const PAGE: &str = "200";
/// Two messages may come in another order than their times; for so long it is asked before the newest one, µs.
const OVERLAP: u64 = 5_000_000;
/// For so long before it roots of threads are looked at, µs: what was answered to them may have been missed, too.
const ROOTS: u64 = 86_400_000_000;
/// How many places are asked at most, those with the newest messages first.
const MOST_PLACES: usize = 500;
/// How many pages of the list of channels are read.
const MOST_LISTS: usize = 10;

/// What a cursor calls the time after which something may have been missed anywhere: as long as not all of it is told.
const SINCE: &str = "since";

/// What is still to be asked.
#[derive(Default)]
pub(super) struct Missed {
    /// After this time something may have been missed anywhere, µs; 0: nothing is missed.
    since: u64,
    /// The host has stored that.
    noted: bool,
    /// When the first connection stood, µs; 0: none did.
    began: u64,
    /// The places, and what is wanted of them.
    behind: BTreeMap<Spot, After>,
    /// The place that is being asked.
    asking: Option<Asking>,
    /// Channels in which nothing was told yet have to be listed: the page, and how many were before.
    list: Option<(String, usize)>,
    /// Channels that were asked since.
    asked: BTreeSet<String>,
    /// Slack wants to be left alone until then.
    pub(super) resumes: Option<Instant>,
    rest: Rest,
    unread: u32,
}

/// What is wanted of a place: messages after this time, µs, and of threads that were begun for so long before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct After {
    since: u64,
    roots: u64,
}

/// The pages of one place so far.
struct Asking {
    spot: Spot,
    after: After,
    page: String,
    found: Vec<Value>,
    bytes: usize,
}

impl Missed {
    /// Begins where the host says that we were: what an earlier life did not ask for any more is still to be asked.
    pub(super) fn read(cursor: &BTreeMap<String, String>) -> Self {
        let since = cursor.get(SINCE).map_or(0, |ts| micros(ts));
        Self { since, noted: since > 0, ..Self::default() }
    }

    /// Something may have been missed everywhere until `now`, µs.
    pub(super) fn begin(&mut self, newest: &Newest, now: u64) {
        if self.since == 0 {
            // Where nothing was ever told, all is wanted since we first listened.
            self.since = if newest.floor() > 0 { newest.floor() } else { self.began };
        }
        if self.began == 0 {
            self.began = now;
        }
        self.asked.clear();
        for (spot, at) in newest.all() {
            // Where another place was told of before all was asked, its messages say nothing of the threads here.
            let roots = if spot.1.is_empty() { ROOTS + at.saturating_sub(self.since) } else { 0 };
            self.behind.entry(spot.clone()).or_insert(After { since: at, roots });
        }
        if self.behind.len() > MOST_PLACES {
            let mut all: Vec<(Spot, After)> = std::mem::take(&mut self.behind).into_iter().collect();
            all.sort_by_key(|(_, after)| std::cmp::Reverse(after.since));
            eprintln!("{} places at rest are not asked for what was missed", all.len() - MOST_PLACES);
            self.behind = all.into_iter().take(MOST_PLACES).collect();
        }
        if self.since > 0 {
            self.list = Some((String::new(), 0));
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.behind.is_empty() && self.list.is_none()
    }

    /// Says in an event's cursor how far a next life has to go back.
    pub(super) fn note(&mut self, cursor: &mut BTreeMap<String, String>) {
        if self.since > 0 {
            cursor.insert(SINCE.to_owned(), time(self.since));
            self.noted = true;
        } else if std::mem::take(&mut self.noted) {
            cursor.insert(SINCE.to_owned(), String::new());
        }
    }

    /// Returns the place that is to be asked before all is told that was said in this one: itself, or for a thread of which nothing
    /// was told yet its channel, which knows the thread.
    pub(super) fn owed(&self, spot: &Spot, newest: &Newest) -> Option<Spot> {
        let channel = (spot.0.clone(), String::new());
        let is_new = !spot.1.is_empty() && newest.of(spot).is_none();
        [Some(spot.clone()), Some(channel).filter(|_| is_new)]
            .into_iter()
            .flatten()
            .find(|place| self.behind.contains_key(place))
    }

    /// A channel in which nothing was told yet, and that is still to be listed, has to be asked.
    pub(super) fn foresee(&mut self, channel: &str, newest: &Newest) {
        let spot = (channel.to_owned(), String::new());
        if self.list.is_some() && newest.of(&spot).is_none() && !self.asked.contains(channel) {
            self.want(spot, self.since);
        }
    }

    pub(super) fn rests(&self) -> bool {
        self.resumes.is_some_and(|until| Instant::now() < until)
    }

    fn want(&mut self, spot: Spot, since: u64) {
        if self.behind.len() < MOST_PLACES {
            self.behind.entry(spot).or_insert(After { since, roots: 0 });
        }
    }

    /// Chooses what is asked next: what was begun, otherwise the place with the newest messages.
    fn next(&mut self, wanted: Option<&Spot>) -> Option<Asking> {
        if let Some(asking) = self.asking.take()
            && wanted.is_none_or(|spot| *spot == asking.spot)
            && self.behind.contains_key(&asking.spot)
        {
            return Some(asking);
        }
        let newest = || self.behind.iter().max_by_key(|(_, after)| after.since).map(|(spot, _)| spot);
        let spot = wanted.or_else(newest)?.clone();
        let after = *self.behind.get(&spot)?;
        Some(Asking { spot, after, page: String::new(), found: Vec::new(), bytes: 0 })
    }

    /// Slack did not answer as it should. Returns whether it is asked again, after a rest.
    fn failed(&mut self, error: &ApiError) -> bool {
        if matches!(error, ApiError::Unreadable(_)) {
            self.unread += 1;
        }
        if error.is_final() || self.unread >= TRIES {
            self.unread = 0;
            return false;
        }
        self.resumes = Some(Instant::now() + self.rest.next(error.asked_ms()));
        true
    }

    /// A place has been asked.
    fn done(&mut self, spot: &Spot) {
        self.behind.remove(spot);
        if spot.1.is_empty() {
            self.asked.insert(spot.0.clone());
        }
    }

    fn answered(&mut self) {
        (self.rest, self.resumes, self.unread) = (Rest::default(), None, 0);
    }
}

impl Inbox {
    /// Asks for one more page of what was missed: of one place, or of any.
    pub(super) async fn step(&mut self, host: &Host, wanted: Option<&Spot>, before: u64) -> Result<(), Gone> {
        let asked = match self.missed.next(wanted) {
            Some(asking) => self.ask(host, asking, before).await,
            None => self.list_channels().await,
        };
        if let Err(Trouble::Host(gone)) = asked {
            return Err(gone);
        }
        if self.missed.is_over() {
            self.missed.since = 0;
            self.missed.asked.clear();
            return self.stand(host, "").await;
        }
        match asked {
            Err(Trouble::Slack(error)) => self.stand(host, &error.to_string()).await,
            _ => Ok(()),
        }
    }

    async fn ask(&mut self, host: &Host, mut asking: Asking, before: u64) -> Result<(), Trouble> {
        let (channel, thread) = &asking.spot;
        let oldest = time(asking.after.since.saturating_sub(asking.after.roots.max(OVERLAP)));
        let mut given =
            vec![("channel", &channel[..]), ("oldest", &oldest), ("limit", PAGE), ("cursor", &asking.page)];
        let method = if thread.is_empty() { "conversations.history" } else { "conversations.replies" };
        if !thread.is_empty() {
            given.push(("ts", thread));
        }
        let answer = match self.api.call(method, &given).await {
            Ok(answer) => answer,
            Err(error) => {
                if self.missed.failed(&error) {
                    self.missed.asking = Some(asking);
                    return Err(Trouble::Slack(error));
                }
                eprintln!("{} is not asked any more for what was missed: {error}", channel);
                self.missed.done(&asking.spot);
                return Ok(());
            }
        };
        self.missed.answered();
        asking.bytes += answer.to_string().len();
        asking.found.extend(all(&answer, "messages").iter().cloned());
        text(&answer["response_metadata"], "next_cursor").clone_into(&mut asking.page);
        if !asking.page.is_empty() {
            if asking.found.len() < MOST_MISSED && asking.bytes < MOST_BYTES {
                self.missed.asking = Some(asking);
                return Ok(());
            }
            eprintln!("{channel} has more messages that were missed than are asked for");
        }
        self.tell_missed(host, asking, before).await.map_err(Trouble::Host)
    }

    /// Tells what one place has, in order, before a message that is told anyway.
    async fn tell_missed(&mut self, host: &Host, asking: Asking, before: u64) -> Result<(), Gone> {
        let Asking { spot, after: After { since, roots }, mut found, .. } = asking;
        self.missed.done(&spot);
        found.sort_by_key(|message| micros(text(message, "ts")));
        found.dedup_by(|a, b| text(a, "ts") == text(b, "ts"));
        let oldest = since.saturating_sub(OVERLAP);
        for message in &found {
            let at = micros(text(message, "ts"));
            let thread = thread_of(message);
            // A thread that has newer answers is asked for them. Some answers are shown in the channel, too.
            if spot.1.is_empty() {
                let (root, newest) = match thread {
                    "" => (text(message, "ts"), micros(text(message, "latest_reply"))),
                    root => (root, at),
                };
                let root = (spot.0.clone(), root.to_owned());
                // Of a thread of which nothing was told, all is wanted that we may have been there for.
                let told = self.newest.of(&root).unwrap_or(since.saturating_sub(roots));
                if newest > told {
                    self.missed.want(root, told);
                }
            }
            let telling = if thread == spot.1 { Telling::Missed } else { Telling::Beside };
            let is_here = thread == spot.1 || spot.1.is_empty();
            if at > oldest && at != since && at < before && is_here {
                self.message(host, &spot.0, message, telling).await?;
            }
        }
        Ok(())
    }

    /// Lists channels, for those in which nothing was told yet.
    async fn list_channels(&mut self) -> Result<(), Trouble> {
        let Some((page, pages)) = self.missed.list.take() else { return Ok(()) };
        let given = [
            ("types", "public_channel,private_channel,mpim,im"),
            ("exclude_archived", "true"),
            ("limit", PAGE),
            ("cursor", &page),
        ];
        let answer = match self.api.call("users.conversations", &given).await {
            Ok(answer) => answer,
            Err(error) => {
                if self.missed.failed(&error) {
                    self.missed.list = Some((page, pages));
                    return Err(Trouble::Slack(error));
                }
                eprintln!("channels that are new are not asked for what was missed: {error}");
                return Ok(());
            }
        };
        self.missed.answered();
        for channel in all(&answer, "channels") {
            let id = text(channel, "id");
            if is_id(id) {
                self.know_channel(id, Channel { seen: true, ..Channel::read(channel) });
                let spot = (id.to_owned(), String::new());
                if self.newest.of(&spot).is_none() && !self.missed.asked.contains(id) {
                    self.missed.want(spot, self.missed.since);
                }
            }
        }
        let next = text(&answer["response_metadata"], "next_cursor");
        if !next.is_empty() && pages + 1 < MOST_LISTS {
            self.missed.list = Some((next.to_owned(), pages + 1));
        }
        Ok(())
    }
}

/// What a message is told for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Telling {
    /// It was said just now.
    Live,
    /// Slack tells it again.
    Again,
    /// It was missed in the place that is asked.
    Missed,
    /// It was missed in a thread of that place: what was said before it there may not be told yet.
    Beside,
}

enum Trouble {
    Host(Gone),
    Slack(ApiError),
}
