//! Who somebody is: an account's id (ACI), number and username are one person. And how chats and messages are called. Pure.

use std::collections::{BTreeMap, VecDeque};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use serde_json::Value;

use crate::kit::cut;

/// How many people and groups are known by name, and the longest name that is kept, bytes.
const MOST: usize = 5000;
const LONGEST_NAME: usize = 256;
/// How many changes of messages are remembered.
pub(super) const MOST_CHANGES: usize = 256;
/// What stands before a group's id in its address.
const GROUP: &str = "group.";
/// The author of our own messages, in their ids.
const SELF: &str = "self";
/// The longest id of a group, bytes.
const LONGEST_GROUP: usize = 64;

/// Somebody's ids, as signal-cli tells them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Who {
    /// The account's id: a UUID in small letters.
    pub(super) aci: Option<String>,
    pub(super) number: Option<String>,
}

impl Who {
    /// Reads what stands under these names; what is no such id is none.
    pub(super) fn of(uuid: &Value, number: &Value, either: &Value) -> Option<Self> {
        let first = |of: fn(&str) -> Option<String>, values: [&Value; 2]| {
            values.iter().find_map(|value| of(value.as_str()?))
        };
        let this = Self { aci: first(aci, [uuid, either]), number: first(self::number, [number, either]) };
        (this != Self::default()).then_some(this)
    }

    /// Reads one id as people write it.
    pub(super) fn read(id: &str) -> Option<Self> {
        let this = Self { aci: aci(id), number: number(id) };
        (this != Self::default()).then_some(this)
    }

    /// The id by which a person is called: the account's, otherwise the number.
    pub(super) fn id(&self) -> &str {
        self.aci.as_deref().or(self.number.as_deref()).unwrap_or_default()
    }

    /// Whether both are the same person, as far as one id of both is known.
    pub(super) fn is(&self, other: &Self) -> bool {
        match (&self.aci, &other.aci) {
            (Some(one), Some(two)) => one == two,
            _ => self.number.is_some() && self.number == other.number,
        }
    }
}

/// Reads an account's id.
fn aci(text: &str) -> Option<String> {
    let fits = text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        });
    fits.then(|| text.to_ascii_lowercase())
}

/// Reads a number in its international form.
fn number(text: &str) -> Option<String> {
    let digits = text.strip_prefix('+')?;
    ((3..=20).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit())).then(|| text.to_owned())
}

/// What is known of a person.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Person {
    pub(super) name: String,
    pub(super) number: Option<String>,
    pub(super) username: Option<String>,
}

/// Whom a text goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Person(String),
    /// The id of a group, as signal-cli has it.
    Group(String),
    /// The account's Note to Self.
    Ourselves,
}

/// Everybody that is known, ourselves among them.
#[derive(Debug, Default)]
pub(super) struct People {
    prefix: String,
    pub(super) us: Who,
    pub(super) our_name: String,
    known: BTreeMap<String, Person>,
    groups: BTreeMap<String, String>,
    /// Ids of texts that took the place of a message, with that of the message; the oldest ones first.
    changes: VecDeque<(String, String)>,
}

impl People {
    pub(super) fn new(prefix: String, us: Who) -> Self {
        Self { prefix, us, ..Self::default() }
    }

    /// Takes in what somebody is called; an empty name, or no other id, says nothing new.
    pub(super) fn learn(&mut self, who: &Who, name: &str, username: Option<&str>) {
        if self.us.is(who) {
            self.us.aci = self.us.aci.take().or_else(|| who.aci.clone());
            self.us.number = self.us.number.take().or_else(|| who.number.clone());
            if !name.trim().is_empty() {
                self.our_name = cut(name.trim(), LONGEST_NAME);
            }
        }
        if self.known.len() >= MOST && !self.known.contains_key(who.id()) {
            self.known.clear();
        }
        let person = self.known.entry(who.id().to_owned()).or_default();
        if !name.trim().is_empty() {
            person.name = cut(name.trim(), LONGEST_NAME);
        }
        if who.aci.is_some() && who.number.is_some() {
            person.number.clone_from(&who.number);
        }
        if let Some(username) = username.filter(|name| (1..=64).contains(&name.len())) {
            person.username = Some(username.to_owned());
        }
    }

    pub(super) fn learn_group(&mut self, group: &str, name: &str) {
        if self.groups.len() >= MOST && !self.groups.contains_key(group) {
            self.groups.clear();
        }
        if !name.trim().is_empty() {
            self.groups.insert(group.to_owned(), cut(name.trim(), LONGEST_NAME));
        }
    }

    pub(super) fn group_name(&self, group: &str) -> &str {
        self.groups.get(group).map_or("", String::as_str)
    }

    /// Returns what somebody is called: by their name, otherwise by their number or id.
    pub(super) fn name(&self, who: &Who) -> String {
        if self.us.is(who) && !self.our_name.is_empty() {
            return self.our_name.clone();
        }
        let known = self.known.get(who.id());
        let name = known.map(|person| &person.name[..]).filter(|name| !name.is_empty());
        name.or(who.number.as_deref()).unwrap_or_else(|| who.id()).to_owned()
    }

    /// Returns all other ids of somebody.
    pub(super) fn also(&self, who: &Who) -> Vec<String> {
        let known = self.known.get(who.id()).cloned().unwrap_or_default();
        let all = [who.number.clone(), known.number, known.username];
        let mut also: Vec<String> = all.into_iter().flatten().filter(|id| id != who.id()).collect();
        also.dedup();
        also
    }

    /// Returns the address of the chat with somebody.
    pub(super) fn direct(&self, id: &str) -> String {
        format!("{}:{id}", self.prefix)
    }

    /// Returns the address of a group. `None`: it is no such id.
    pub(super) fn group(&self, group: &str) -> Option<String> {
        let id = STANDARD.decode(group).ok().filter(|id| (1..=LONGEST_GROUP).contains(&id.len()))?;
        Some(format!("{}:{GROUP}{}", self.prefix, URL_SAFE_NO_PAD.encode(id)))
    }

    /// Returns whom an address names.
    pub(super) fn target(&self, chat: &str) -> Option<Target> {
        let id = chat.strip_prefix(&self.prefix[..])?.strip_prefix(':')?;
        if let Some(group) = id.strip_prefix(GROUP) {
            let id = URL_SAFE_NO_PAD.decode(group).ok()?;
            return (1..=LONGEST_GROUP).contains(&id.len()).then(|| Target::Group(STANDARD.encode(id)));
        }
        let who = Who::read(id)?;
        Some(if self.us.is(&who) { Target::Ourselves } else { Target::Person(who.id().to_owned()) })
    }

    /// Returns the id of a message: its author may have used the same time once more.
    pub(super) fn message(&self, at: u64, author: &Who) -> String {
        let author = if self.us.is(author) { SELF } else { author.id() };
        format!("{at}.{author}")
    }

    /// Returns the id of a message of ours.
    pub(super) fn ours(at: u64) -> String {
        format!("{at}.{SELF}")
    }

    /// Returns when a message was written, and by whom, as signal-cli names them.
    pub(super) fn written(&self, id: &str) -> Option<(u64, String)> {
        let (at, author) = id.split_once('.')?;
        let author = if author == SELF { self.us.clone() } else { Who::read(author)? };
        (!author.id().is_empty()).then_some(())?;
        Some((at.parse().ok()?, author.id().to_owned()))
    }

    /// A text took the place of a message.
    pub(super) fn changed(&mut self, new: String, first: String) {
        if self.changes.len() >= MOST_CHANGES {
            self.changes.pop_front();
        }
        self.changes.push_back((new, first));
    }

    /// Returns the id by which a message is known: that of its first text.
    pub(super) fn first<'a>(&'a self, id: &'a str) -> &'a str {
        let known = self.changes.iter().rev().find(|(new, _)| new == id);
        known.map_or(id, |(_, first)| first)
    }

    /// Returns the id of a message's newest text, as far as it is remembered.
    pub(super) fn newest<'a>(&'a self, id: &'a str) -> &'a str {
        let known = self.changes.iter().rev().find(|(_, first)| first == id);
        known.map_or(id, |(new, _)| new)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ADA: &str = "aaaaaaaa-0000-4000-8000-00000000000a";

    #[test]
    fn a_person_is_called_by_the_accounts_id_and_known_by_each_other_one() {
        let who = |uuid: &str, number: &str| Who::of(&json!(uuid), &json!(number), &json!(null)).unwrap();
        let ada = who(&ADA.to_uppercase(), "+4917011");
        assert_eq!((ada.id(), ada.number.as_deref()), (ADA, Some("+4917011")));
        assert_eq!(Who::of(&json!(null), &json!(null), &json!("+4917011")).unwrap().id(), "+4917011");
        for none in ["", "x", "+", "+12", "+49 170", "PNI:x", &format!("{ADA}0"), &"+1".repeat(30)] {
            assert_eq!(Who::of(&json!(none), &json!(none), &json!(7)), None, "{none}");
        }
        assert!(ada.is(&who(ADA, "+49")) && ada.is(&who("", "+4917011")));
        assert!(!ada.is(&who("bbbbbbbb-0000-4000-8000-00000000000a", "+4917011")));
        let mut people = People::new("signal".into(), Who::read("+4930").unwrap());
        people.learn(&ada, " Ada ", Some("ada.01"));
        people.learn(&who(ADA, ""), "", None);
        assert_eq!(people.name(&who(ADA, "")), "Ada");
        assert_eq!(people.also(&who(ADA, "")), ["+4917011", "ada.01"]);
        assert_eq!(
            (people.name(&who("", "+49170")), people.also(&who("", "+49170"))),
            ("+49170".into(), vec![])
        );
        // Our own id is learnt with our number.
        people.learn(&who("cccccccc-0000-4000-8000-00000000000a", "+4930"), "G2", None);
        assert_eq!((people.us.id(), &people.our_name[..]), ("cccccccc-0000-4000-8000-00000000000a", "G2"));
        for n in 0..2 * MOST {
            people.learn(&who("", &format!("+{n:05}")), "x", None);
            people.learn_group(&n.to_string(), "y");
        }
        assert!(people.known.len() <= MOST && people.groups.len() <= MOST);
    }

    #[test]
    fn addresses_and_ids_lead_back_to_what_they_name() {
        let people = People::new("signal.work".into(), Who::read("+4930").unwrap());
        let group = STANDARD.encode([0xfb; 32]);
        let address = people.group(&group).unwrap();
        assert!(address.starts_with("signal.work:group.-_v7") && address.len() < 70, "{address}");
        assert_eq!(people.target(&address), Some(Target::Group(group)));
        assert_eq!(people.target(&people.direct(ADA)), Some(Target::Person(ADA.into())));
        assert_eq!(people.target("signal.work:+4930"), Some(Target::Ourselves));
        for none in
            ["signal:+4930", "signal.work:", "signal.work:group.", "signal.work:group.a b", "signal.work:x"]
        {
            assert_eq!(people.target(none), None, "{none}");
        }
        for none in ["", "a b", &STANDARD.encode([1; 65])] {
            assert_eq!(people.group(none), None, "{none}");
        }
        let ada = Who::read(ADA).unwrap();
        assert_eq!(people.written(&people.message(7, &ada)), Some((7, ADA.into())));
        assert_eq!(people.message(7, &people.us), People::ours(7));
        assert_eq!(people.written(&People::ours(7)), Some((7, "+4930".into())));
        assert_eq!(
            (people.written("7"), people.written("x.self"), people.written("7.eve")),
            (None, None, None)
        );
    }

    #[test]
    fn a_message_is_known_by_its_first_text_however_often_it_changes() {
        let mut people = People::default();
        people.changed("2.a".into(), "1.a".into());
        people.changed("3.a".into(), "1.a".into());
        assert_eq!([people.first("3.a"), people.first("1.a"), people.first("9.a")], ["1.a", "1.a", "9.a"]);
        assert_eq!([people.newest("1.a"), people.newest("9.a")], ["3.a", "9.a"]);
        for n in 0..2 * MOST_CHANGES {
            people.changed(n.to_string(), "x".into());
        }
        assert_eq!(people.changes.len(), MOST_CHANGES);
    }
}
