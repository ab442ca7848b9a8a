//! A person with several ids on one platform. An account tells which ids are one person's, and its newest statement about an id holds.
//!
//! An id that leaves a person, or comes from another one, is marked as moved: rights that it was given before are its own, and not
//! those of the ids beside it. So nobody comes into the rights of somebody whose id they have now.

use std::collections::{BTreeMap, BTreeSet};

use super::people::check_user;

pub use channel_protocol::MOST_ALSO;

/// A person's ids, as users are named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    id: String,
    also: Vec<String>,
}

impl Person {
    /// Reads what an account tells: ids without its prefix. Those that no user can have are left out, and so are more than
    /// [`MOST_ALSO`]. `None`: it says nothing of anybody.
    #[must_use]
    pub fn told(prefix: &str, id: &str, also: &[String]) -> Option<Self> {
        // Whatever stands before a colon in it, the prefix makes it one of this account.
        let named = |id: &str| Some(format!("{prefix}:{id}")).filter(|id| check_user(id).is_ok());
        let id = named(id)?;
        let mut others: Vec<String> = Vec::new();
        for other in also.iter().filter_map(|other| named(other)) {
            if other != id && !others.contains(&other) && others.len() < MOST_ALSO {
                others.push(other);
            }
        }
        Some(Self { id, also: others })
    }

    /// All of the ids, the one that is named first at the front.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&*self.id).chain(self.also.iter().map(String::as_str))
    }
}

/// What becomes of the ids that a statement is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Regrouped {
    /// The number of the person whose ids they are; `None`: a new one.
    pub person: Option<i64>,
    /// Ids that become this person's, and whether each was another one's.
    pub joins: Vec<(String, Moved)>,
    /// Ids that were this person's, and are nobody's beside themselves.
    pub leaves: Vec<String>,
}

/// Whether an id was another person's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    Yes,
    No,
}

impl Regrouped {
    /// Whether all is as it was.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.joins.is_empty() && self.leaves.is_empty()
    }
}

/// Decides what follows from a statement. `known`: the persons of all ids that it names, and all other ids of these persons.
#[must_use]
pub fn regroup(told: &Person, known: &BTreeMap<String, i64>) -> Regrouped {
    let stated: BTreeSet<&str> = told.ids().collect();
    // A person whose ids are all named is one with the others; of another one some are left.
    let is_whole = |person: i64| known.iter().all(|(id, of)| *of != person || stated.contains(&**id));
    let first = known.get(&told.id).copied();
    let person = first.or_else(|| {
        let mut others = told.ids().filter_map(|id| known.get(id).copied());
        others.find(|person| is_whole(*person))
    });
    if stated.len() == 1 {
        // Alone, it leaves the others behind.
        let has_others = first.is_some_and(|person| !is_whole(person));
        let leaves = if has_others { vec![told.id.clone()] } else { Vec::new() };
        return Regrouped { person, joins: Vec::new(), leaves };
    }
    let joins = told.ids().filter_map(|id| match known.get(id).copied() {
        of if of.is_some() && of == person => None,
        Some(other) if !is_whole(other) => Some((id.to_owned(), Moved::Yes)),
        Some(_) | None => Some((id.to_owned(), Moved::No)),
    });
    let is_left =
        |id: &&String| person.is_some() && known.get(*id).copied() == person && !stated.contains(&***id);
    Regrouped { person, joins: joins.collect(), leaves: known.keys().filter(is_left).cloned().collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn person(ids: &str) -> Person {
        let ids: Vec<String> = ids.split(' ').map(str::to_owned).collect();
        Person::told("p", &ids[0], &ids[1..]).unwrap()
    }

    /// Persons are written `1:a b, 2:c`.
    fn check(told: &str, known: &[(&str, i64)], expected: (Option<i64>, &[(&str, Moved)], &[&str])) {
        let known = known.iter().map(|(id, person)| (format!("p:{id}"), *person)).collect();
        let named = |id: &&str| format!("p:{id}");
        let (person, joins, leaves) = expected;
        let joins = joins.iter().map(|(id, moved)| (named(id), *moved)).collect();
        let expected = Regrouped { person, joins, leaves: leaves.iter().map(named).collect() };
        assert_eq!(regroup(&self::person(told), &known), expected, "{told} of {known:?}");
    }

    #[test]
    fn the_newest_statement_about_an_id_holds() {
        use Moved::{No, Yes};
        check("a b", &[], (None, &[("a", No), ("b", No)], &[]));
        check("a b", &[("a", 1), ("b", 1)], (Some(1), &[], &[]));
        check("b a", &[("a", 1), ("b", 1)], (Some(1), &[], &[]));
        check("a b c", &[("a", 1), ("b", 1)], (Some(1), &[("c", No)], &[]));
        // One who is known by all of their ids is known by one more.
        check("c a b", &[("a", 1), ("b", 1)], (Some(1), &[("c", No)], &[]));
        check("a c", &[("a", 1), ("b", 1)], (Some(1), &[("c", No)], &["b"]));
        // A number that somebody had before.
        check("c b", &[("a", 1), ("b", 1)], (None, &[("c", No), ("b", Yes)], &[]));
        check("b c", &[("a", 1), ("b", 1)], (Some(1), &[("c", No)], &["a"]));
        check("c b", &[("a", 1), ("b", 1), ("c", 2), ("d", 2)], (Some(2), &[("b", Yes)], &["d"]));
        // Two become one.
        check("a b c d", &[("a", 1), ("b", 1), ("c", 2), ("d", 2)], (Some(1), &[("c", No), ("d", No)], &[]));
        check("a", &[("a", 1), ("b", 1)], (Some(1), &[], &["a"]));
        check("a", &[("a", 1)], (Some(1), &[], &[]));
        check("a", &[], (None, &[], &[]));
    }

    #[test]
    fn ids_are_of_one_account_and_bounded() {
        let many: Vec<String> = (0..20).map(|n| n.to_string()).collect();
        assert_eq!(Person::told("p", "x", &many).unwrap().ids().count(), 1 + MOST_ALSO);
        // An id with another account's prefix is an odd id of this one.
        let odd = ["tg:1", "x", "a\nb", "", " "].map(str::to_owned);
        let told = Person::told("p", "x", &odd).unwrap();
        assert_eq!(told.ids().collect::<Vec<_>>(), ["p:x", "p:tg:1"]);
        assert_eq!(Person::told("p", "", &many), None);
    }
}
