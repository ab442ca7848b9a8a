//! Who people are and what channels are called: known, or asked of Slack once. What Slack does not tell now is told without a name.

use std::collections::{BTreeMap, HashMap};

use channel_protocol::{Chat, ChatKind};
use serde_json::Value;
use tokio::time::{Duration, Instant};

use super::Inbox;
use crate::{
    kit::cut,
    slack::{
        api::ApiError,
        events::{Person, is_id},
        marks::Names,
        said::text,
    },
};

/// How many people and channels are held.
const MOST_KNOWN: usize = 10_000;
/// How many people are asked for over one message.
const MOST_ASKED: usize = 16;

/// A channel, or a chat with one person.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::slack) struct Channel {
    pub(in crate::slack) name: String,
    pub(in crate::slack) direct: bool,
    /// Several people and no name.
    pub(in crate::slack) group: bool,
    /// Of a chat with one person.
    pub(in crate::slack) user: String,
    /// Whether we read what is said there.
    pub(in crate::slack) seen: bool,
}

impl Channel {
    /// Reads what Slack says of a channel.
    pub(in crate::slack) fn read(channel: &Value) -> Self {
        let is = |name: &str| channel[name].as_bool().unwrap_or_default();
        let direct = is("is_im");
        Self {
            name: cut(text(channel, "name"), 256),
            direct,
            group: is("is_mpim"),
            user: text(channel, "user").to_owned(),
            seen: direct || is("is_mpim") || is("is_member"),
        }
    }

    /// What is known of one that Slack does not tell of: its id says whether it is one person's.
    fn unknown(id: &str) -> Self {
        Self { direct: id.starts_with('D'), seen: true, ..Self::default() }
    }

    /// What people call it, in a workspace of this name.
    pub(in crate::slack) fn shown(&self, team: &str) -> String {
        match (&self.name[..], team) {
            ("", _) => String::new(),
            (name, _) if self.group => name.to_owned(),
            (name, "") => format!("#{name}"),
            (name, team) => format!("#{name} ({team})"),
        }
    }
}

/// What is known.
#[derive(Default)]
pub(in crate::slack) struct Known {
    people: HashMap<String, Person>,
    channels: HashMap<String, Channel>,
    /// Slack wants to be asked for no names before.
    rests_until: Option<Instant>,
}

impl Names for Known {
    fn person(&self, id: &str) -> Option<String> {
        self.people.get(id).map(|person| person.name.clone())
    }

    fn channel(&self, id: &str) -> Option<String> {
        self.channels.get(id).map(|channel| channel.name.clone())
    }
}

impl Known {
    pub(super) fn of(&self, id: &str) -> Option<&Person> {
        self.people.get(id)
    }

    fn rests(&self) -> bool {
        self.rests_until.is_some_and(|until| Instant::now() < until)
    }

    /// Notes that Slack did not tell, and for how long it is not asked again.
    fn untold(&mut self, error: &ApiError) {
        eprintln!("a name is not known: {error}");
        if !error.is_final() {
            let rest = Duration::from_millis(error.asked_ms().unwrap_or(5000).min(600_000));
            self.rests_until = Some(Instant::now() + rest);
        }
    }
}

fn keep<T>(of: &mut HashMap<String, T>, id: &str, one: T) {
    if of.len() >= MOST_KNOWN && !of.contains_key(id) {
        of.clear();
    }
    of.insert(id.to_owned(), one);
}

/// Where something was written.
pub(super) struct Place {
    pub(super) chat: String,
    pub(super) about: Chat,
    pub(super) seen: bool,
}

impl Inbox {
    /// Asks who these people are, where that is not known.
    pub(super) async fn learn(&mut self, people: &[String]) {
        let asked: Vec<&String> =
            people.iter().filter(|id| is_id(id) && !self.known.people.contains_key(*id)).collect();
        for id in asked.into_iter().take(MOST_ASKED) {
            if self.known.rests() {
                return;
            }
            match self.api.call("users.info", &[("user", id)]).await {
                Ok(answer) => keep(&mut self.known.people, id, Person::read(&answer["user"])),
                Err(error) => {
                    if error.is_final() {
                        keep(&mut self.known.people, id, Person::default());
                    }
                    self.known.untold(&error);
                }
            }
        }
    }

    /// Finds out what a channel is.
    pub(super) async fn place(&mut self, id: &str) -> Place {
        let channel = match self.known.channels.get(id) {
            Some(known) => known.clone(),
            None => self.look_at(id).await,
        };
        let name = if channel.direct {
            self.learn(std::slice::from_ref(&channel.user)).await;
            self.known.of(&channel.user).map(|person| person.name.clone()).unwrap_or_default()
        } else {
            channel.shown(&self.team)
        };
        let chat = format!("{}:{id}", self.prefix);
        let about = Chat {
            chat: chat.clone(),
            name,
            kind: if channel.direct { ChatKind::Direct } else { ChatKind::Group },
            threaded: !channel.direct,
            members: None,
            hears_all: None,
        };
        Place { chat, about, seen: channel.seen }
    }

    async fn look_at(&mut self, id: &str) -> Channel {
        if self.known.rests() {
            return Channel::unknown(id);
        }
        match self.api.call("conversations.info", &[("channel", id)]).await {
            Ok(answer) => {
                let channel = Channel::read(&answer["channel"]);
                keep(&mut self.known.channels, id, channel.clone());
                channel
            }
            Err(error) => {
                let shut = error.is("channel_not_found");
                self.known.untold(&error);
                Channel { seen: !shut, ..Channel::unknown(id) }
            }
        }
    }

    /// A channel has another name, or we are in it now: it is asked for again.
    pub(super) fn forget_channel(&mut self, id: &str) {
        self.known.channels.remove(id);
    }

    /// Takes in a channel of a list.
    pub(super) fn know_channel(&mut self, id: &str, channel: Channel) {
        keep(&mut self.known.channels, id, channel);
    }
}

/// Where we are in each channel and thread: the time of its newest message that was told, µs.
#[derive(Clone, Debug, Default)]
pub(super) struct Newest {
    at: HashMap<Spot, u64>,
}

/// A channel, or a thread of it: the thread's id, empty for the channel itself.
pub(super) type Spot = (String, String);

/// How many channels and threads are remembered, and how many are forgotten with one message.
const MOST_SPOTS: usize = 1000;
const FORGOTTEN: usize = 8;

/// How a place is called in a cursor.
pub(super) fn cursor_name((channel, thread): &Spot) -> String {
    if thread.is_empty() { format!("c{channel}") } else { format!("t{channel}.{thread}") }
}

fn spot_of(name: &str) -> Option<Spot> {
    let (channel, thread) = match name.split_at_checked(1)? {
        ("c", channel) => (channel, ""),
        ("t", rest) => rest.split_once('.')?,
        _ => return None,
    };
    is_id(channel).then(|| (channel.to_owned(), thread.to_owned()))
}

impl Newest {
    /// Begins where the host says that we were. What it knows of a chat counts where no place in it was stored: there, nothing was
    /// left to be asked for.
    pub(super) fn read(cursor: &BTreeMap<String, String>, chats: &BTreeMap<String, String>) -> Self {
        let micros = crate::slack::events::micros;
        let stored = cursor.iter().filter_map(|(name, ts)| Some((spot_of(name)?, micros(ts))));
        let mut at: HashMap<Spot, u64> = stored.filter(|(_, at)| *at > 0).collect();
        for (chat, ts) in chats {
            let channel = chat.rsplit(':').next().unwrap_or_default();
            if let (true, ts @ 1..) = (is_id(channel), micros(ts)) {
                at.entry((channel.to_owned(), String::new())).or_insert(ts);
            }
        }
        Self { at }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&Spot, u64)> {
        self.at.iter().map(|(spot, at)| (spot, *at))
    }

    /// The newest time of all; 0: there is none.
    pub(super) fn floor(&self) -> u64 {
        self.at.values().copied().max().unwrap_or(0)
    }

    /// Returns the newest time in a place.
    pub(super) fn of(&self, spot: &Spot) -> Option<u64> {
        self.at.get(spot).copied()
    }

    /// Takes in a message. Returns the places that are not remembered any more: those in which nothing was written for longest.
    pub(super) fn told(&mut self, spot: &Spot, at: u64) -> Vec<Spot> {
        let newest = self.at.entry(spot.clone()).or_insert(at);
        *newest = at.max(*newest);
        let many = self.at.len().saturating_sub(MOST_SPOTS).min(FORGOTTEN);
        let mut gone = Vec::new();
        for _ in 0..many {
            let oldest = self.at.iter().filter(|(one, _)| *one != spot).min_by_key(|(_, at)| **at);
            let Some(oldest) = oldest.map(|(one, _)| one.clone()) else { break };
            self.at.remove(&oldest);
            gone.push(oldest);
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(all: &[(&str, &str)]) -> BTreeMap<String, String> {
        all.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_place_is_read_as_it_was_written_and_what_the_host_knows_counts_where_none_was() {
        let cursor =
            map(&[("cC1", "1.000005"), ("tC1.1.000001", "2.5"), ("x", "9.0"), ("c", "9.0"), ("cC9", "soon")]);
        let chats =
            map(&[("slack:C1", "7.0"), ("slack.work:C2", "3.0"), ("slack:c3", "3.0"), ("slack:C4", "F1")]);
        let newest = Newest::read(&cursor, &chats);
        let mut all: Vec<(String, u64)> = newest.all().map(|(spot, at)| (cursor_name(spot), at)).collect();
        all.sort();
        let is = [("cC1", 1_000_005), ("cC2", 3_000_000), ("tC1.1.000001", 2_500_000)];
        assert_eq!(all, is.map(|(name, at)| (name.to_owned(), at)));
        assert_eq!(newest.floor(), 3_000_000);
    }

    #[test]
    fn of_very_many_places_the_oldest_are_forgotten() {
        let mut newest = Newest::default();
        for n in 1..=1010 {
            newest.at.insert((format!("C{n}"), String::new()), n);
        }
        let gone = newest.told(&("C9999".into(), String::new()), 5000);
        let names: Vec<String> = gone.iter().map(cursor_name).collect();
        assert_eq!(names, (1..=8).map(|n| format!("cC{n}")).collect::<Vec<_>>());
        assert!(newest.at.len() < 1010);
    }
}
