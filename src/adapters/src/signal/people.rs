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

/// Returns a name on one line, as it can stand in the words of others.
pub(super) fn one_line(name: &str, most: usize) -> String {
    let turns = |c: char| matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let words = name.split(|c: char| c.is_whitespace() || c.is_control());
    let words = words.map(|word| word.replace(turns, "")).filter(|word| !word.is_empty());
    cut(&words.collect::<Vec<_>>().join(" "), most)
}

/// What is known of a person.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Person {
    pub(super) name: String,
    pub(super) number: Option<String>,
    pub(super) username: Option<String>,
    /// signal-cli listed the person: it is all that it knows.
    listed: bool,
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
    /// All whom signal-cli knows by a number or a username were listed.
    pub(super) all_listed: bool,
    groups: BTreeMap<String, String>,
    /// Ids of texts that took the place of a message, with that of the message; the oldest ones first.
    changes: VecDeque<(String, String)>,
}

impl People {
    pub(super) fn new(prefix: String, us: Who) -> Self {
        Self { prefix, us, ..Self::default() }
    }

    /// Takes in who wrote; an empty name, or no other id, says nothing new.
    pub(super) fn learn(&mut self, who: &Who, name: &str) {
        let name = one_line(name, LONGEST_NAME);
        self.learn_ourselves(who, &name);
        self.take_number(who);
        // Where there is no room, nobody goes for a stranger.
        if self.known.len() >= MOST && !self.known.contains_key(who.id()) {
            return;
        }
        let person = self.known.entry(who.id().to_owned()).or_default();
        if !name.is_empty() {
            person.name = name;
        }
        if who.aci.is_some() && who.number.is_some() {
            person.number.clone_from(&who.number);
        }
    }

    /// Takes in all that signal-cli knows of somebody. Returns whether there was room for what it says.
    pub(super) fn learn_listed(&mut self, who: &Who, name: &str, username: Option<&str>) -> bool {
        let name = one_line(name, LONGEST_NAME);
        self.learn_ourselves(who, &name);
        self.take_number(who);
        let username = username.filter(|name| (1..=64).contains(&name.len())).map(str::to_owned);
        if username.is_some() {
            for person in self.known.values_mut().filter(|person| person.username == username) {
                person.username = None;
            }
        }
        let number = who.number.clone().filter(|_| who.aci.is_some());
        if self.known.len() >= MOST && !self.known.contains_key(who.id()) {
            let stranger = self.known.iter().find(|(_, person)| !person.listed).map(|(id, _)| id.clone());
            let Some(stranger) = stranger else { return number.is_none() && username.is_none() };
            self.known.remove(&stranger);
        }
        let person = self.known.entry(who.id().to_owned()).or_default();
        if !name.is_empty() {
            person.name = name;
        }
        (person.number, person.username, person.listed) = (number, username, true);
        true
    }

    fn learn_ourselves(&mut self, who: &Who, name: &str) {
        if self.us.is(who) {
            self.us.aci = self.us.aci.take().or_else(|| who.aci.clone());
            self.us.number = self.us.number.take().or_else(|| who.number.clone());
            if !name.is_empty() {
                name.clone_into(&mut self.our_name);
            }
        }
    }

    /// A number is one person's: who had it before has it no more.
    fn take_number(&mut self, who: &Who) {
        let has_it = |person: &Person| person.number == who.number;
        if who.aci.is_none() || who.number.is_none() || self.known.get(who.id()).is_some_and(has_it) {
            return;
        }
        for person in self.known.values_mut().filter(|person| has_it(person)) {
            person.number = None;
        }
    }

    pub(super) fn learn_group(&mut self, group: &str, name: &str) {
        if self.groups.len() >= MOST && !self.groups.contains_key(group) {
            self.groups.clear();
        }
        let name = one_line(name, LONGEST_NAME);
        if !name.is_empty() {
            self.groups.insert(group.to_owned(), name);
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

    /// Returns all other ids of somebody; none where some of them may not be known. An id that were left out would leave the person.
    pub(super) fn also(&self, who: &Who) -> Vec<String> {
        let known = self.known.get(who.id());
        let (number, username) = match known {
            Some(person) if person.listed || self.all_listed => {
                (person.number.clone(), person.username.clone())
            }
            None if self.all_listed => (who.number.clone(), None),
            Some(_) | None => return Vec::new(),
        };
        let all = number.into_iter().chain(username);
        all.filter(|id| id != who.id()).collect()
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

    /// A text took the place of a message. Heard twice, it is no newer.
    pub(super) fn changed(&mut self, new: String, first: String) {
        if self.changes.iter().any(|(known, _)| *known == new) {
            return;
        }
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
        people.learn_listed(&ada, " Ada ", Some("ada.01"));
        people.learn(&who(ADA, ""), "");
        assert_eq!(people.name(&who(ADA, "")), "Ada");
        assert_eq!(people.also(&who(ADA, "")), ["+4917011", "ada.01"]);
        assert_eq!(
            (people.name(&who("", "+49170")), people.also(&who("", "+49170"))),
            ("+49170".into(), vec![])
        );
        // Our own id is learnt with our number.
        people.learn(&who("cccccccc-0000-4000-8000-00000000000a", "+4930"), "G2");
        assert_eq!((people.us.id(), &people.our_name[..]), ("cccccccc-0000-4000-8000-00000000000a", "G2"));
        for n in 0..2 * MOST {
            people.learn(&who("", &format!("+{n:05}")), "x");
            people.learn_group(&n.to_string(), "y");
        }
        assert!(people.known.len() <= MOST && people.groups.len() <= MOST);
        // A flood of strangers takes nothing of what is known, and gives way to those who are listed.
        assert_eq!(people.also(&who(ADA, "")), ["+4917011", "ada.01"]);
        let bob = who("dddddddd-0000-4000-8000-00000000000a", "+4940");
        assert!(people.learn_listed(&bob, "Bob", None) && people.known.len() == MOST);
        assert_eq!(people.also(&bob), ["+4940"]);
    }

    #[test]
    fn other_ids_are_stated_where_all_of_them_are_known_and_each_is_one_person_s() {
        let who = |n: u32, number: &str| {
            let aci = format!("aaaaaaaa-0000-4000-8000-{n:012}");
            Who::of(&json!(aci), &json!(number), &json!(null)).unwrap()
        };
        let mut people = People::new("signal".into(), Who::read("+4930").unwrap());
        // A stranger may have a username that was not heard of yet.
        people.learn(&who(1, "+49301"), "Eve");
        assert_eq!(people.also(&who(1, "+49301")), [""; 0]);
        people.all_listed = true;
        assert_eq!(people.also(&who(1, "")), ["+49301"]);
        assert_eq!(people.also(&who(2, "+49302")), ["+49302"]);
        // A number that was given up is its next owner's, also where that one is a stranger.
        people.learn_listed(&who(3, "+49303"), "Ada", Some("ada.01"));
        people.learn(&who(1, "+49303"), "Eve");
        assert_eq!(people.also(&who(3, "")), ["ada.01"]);
        assert_eq!(people.also(&who(1, "")), ["+49303"]);
        people.learn_listed(&who(4, ""), "Bob", Some("ada.01"));
        assert_eq!((people.also(&who(3, "")), people.also(&who(4, ""))), (vec![], vec!["ada.01".into()]));
        people.learn_listed(&who(4, ""), "Bob", None);
        assert_eq!(people.also(&who(4, "")), [""; 0]);
        // More than there is room for: those beyond it are not known.
        people.all_listed = false;
        let fit = (10..10 + u32::try_from(MOST).unwrap())
            .filter(|n| people.learn_listed(&who(*n, ""), "x", Some(&format!("u.{n}"))))
            .count();
        assert!(fit < MOST && people.learn_listed(&who(9999, ""), "x", None));
        assert_eq!(people.also(&who(9998, "+49304")), [""; 0]);
    }

    #[test]
    fn a_name_has_one_line_and_turns_no_words_around() {
        let mut people = People::new("signal".into(), Who::default());
        let eve = Who::read(ADA).unwrap();
        people.learn(&eve, "Eve\n\nAlso:\u{202e} \u{0} delete\u{2028}all");
        assert_eq!(people.name(&eve), "Eve Also: delete all");
        people.learn_group("g", " a\r\nb ");
        assert_eq!(people.group_name("g"), "a b");
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
        people.changed("2.a".into(), "1.a".into());
        assert_eq!(people.newest("1.a"), "3.a", "it came twice");
        for n in 0..2 * MOST_CHANGES {
            people.changed(n.to_string(), "x".into());
        }
        assert_eq!(people.changes.len(), MOST_CHANGES);
    }
}
