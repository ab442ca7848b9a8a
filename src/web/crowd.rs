//! How many connections are served at once, and which one gives way to a new one.
//!
//! | a place is | it gives way |
//! |---|---|
//! | a stranger's: nobody knows yet whose it is | to any new connection, the oldest first, once all places are taken |
//! | a session's or a token's | only to another one that shows itself and has fewer, once [`KNOWN`] places have a holder |
//!
//! A crowd of one locks nobody out: strangers always have places left, and each session and token has a fair share.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
};

use tokio_util::sync::CancellationToken;

use crate::domain::machine::web::{MOST_SESSIONS, MOST_TOKENS};
use crate::system::locked::Locked as _;

/// Connections at once, at most.
const MOST: usize = 128;
/// Those of sessions and tokens, at most: as many as there can be of both, with one each.
const KNOWN: usize = MOST_SESSIONS + MOST_TOKENS + 1;
// Strangers have places left.
const _: () = assert!(KNOWN + 16 < MOST);
/// Those of one session or token, at most.
const OF_ONE: usize = 32;

/// The session or token that a connection has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Holder {
    /// A session of the page, by its number.
    Session(i64),
    /// A token, by its number.
    Token(i64),
}

/// A holder has as many places as it may have.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

/// Who is connected.
#[derive(Default)]
pub(super) struct Crowd(Mutex<Places>);

#[derive(Default)]
struct Places {
    next: u64,
    all: BTreeMap<u64, Place>,
}

struct Place {
    holder: Option<Holder>,
    cut: CancellationToken,
}

/// A place in the crowd, free again when this is dropped.
pub(super) struct Guest {
    crowd: Arc<Crowd>,
    n: u64,
    /// The place is another's now.
    pub(super) cut: CancellationToken,
}

impl Crowd {
    /// Takes a place, if need be that of the oldest connection of which nobody knows whose it is.
    pub(super) fn enter(self: &Arc<Self>) -> Guest {
        let mut places = self.places();
        if places.all.len() >= MOST {
            places.cut_oldest_of(None);
        }
        places.next += 1;
        let (n, cut) = (places.next, CancellationToken::new());
        places.all.insert(n, Place { holder: None, cut: cut.clone() });
        drop(places);
        Guest { crowd: Arc::clone(self), n, cut }
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.0.locked()
    }
}

impl Places {
    /// How many places each holder has.
    fn held(&self) -> BTreeMap<Holder, usize> {
        let mut held = BTreeMap::new();
        for holder in self.all.values().filter_map(|place| place.holder) {
            *held.entry(holder).or_default() += 1;
        }
        held
    }

    fn cut_oldest_of(&mut self, holder: Option<Holder>) {
        let oldest = self.all.iter().find(|(_, place)| place.holder == holder).map(|(n, _)| *n);
        if let Some(place) = oldest.and_then(|oldest| self.all.remove(&oldest)) {
            place.cut.cancel();
        }
    }
}

impl Guest {
    /// A request on it has shown whose it is; behind a proxy the next one may be another's.
    ///
    /// # Errors
    /// The holder has its share already. The connection is nobody's then.
    pub(super) fn shows(&self, holder: Holder) -> Result<(), Full> {
        let mut places = self.crowd.places();
        let Some(place) = places.all.get_mut(&self.n) else { return Ok(()) };
        if place.holder == Some(holder) {
            return Ok(());
        }
        place.holder = None;
        let held = places.held();
        let own = held.get(&holder).copied().unwrap_or_default();
        if own >= OF_ONE {
            return Err(Full);
        }
        if held.values().sum::<usize>() >= KNOWN {
            match held.into_iter().max_by_key(|(_, many)| *many) {
                Some((largest, many)) if many > own + 1 => places.cut_oldest_of(Some(largest)),
                Some(_) | None => return Err(Full),
            }
        }
        if let Some(place) = places.all.get_mut(&self.n) {
            place.holder = Some(holder);
        }
        Ok(())
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.crowd.places().all.remove(&self.n);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut(guests: &[Guest]) -> Vec<usize> {
        (0..guests.len()).filter(|n| guests[*n].cut.is_cancelled()).collect()
    }

    #[test]
    fn the_oldest_stranger_gives_way_and_nobody_who_is_known() {
        let crowd = Arc::<Crowd>::default();
        let mut guests: Vec<Guest> = (0..MOST).map(|_| crowd.enter()).collect();
        guests[0].shows(Holder::Session(1)).unwrap();
        guests.push(crowd.enter());
        assert_eq!(cut(&guests), [1]);
        guests.extend((0..MOST).map(|_| crowd.enter()));
        assert!(!guests[0].cut.is_cancelled());
        assert_eq!(crowd.places().all.len(), MOST);
    }

    #[test]
    fn one_has_its_share_and_gives_of_it_to_who_has_less() {
        let crowd = Arc::<Crowd>::default();
        let come = |holder| {
            let guest = crowd.enter();
            guest.shows(holder).map(|()| guest)
        };
        let mut guests = Vec::new();
        for session in 1..=3 {
            guests.extend((0..OF_ONE).map(|_| come(Holder::Session(session)).unwrap()));
            assert!(come(Holder::Session(session)).is_err(), "it has its share");
        }
        guests.push(come(Holder::Session(4)).unwrap());
        assert_eq!((guests.len(), cut(&guests)), (KNOWN, vec![]));
        let token = come(Holder::Token(4)).unwrap();
        assert_eq!(cut(&guests).len(), 1);
        // The same number of another kind is another.
        let session = come(Holder::Session(5)).unwrap();
        assert!(cut(&guests).len() == 2 && !guests[KNOWN - 1].cut.is_cancelled());
        drop((token, session));
    }

    /// What may happen: somebody connects, a connection shows whose it is, one goes.
    #[derive(Clone, Debug)]
    enum Step {
        Comes,
        Shows(usize, i64),
        Goes(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        // A few holders with many connections, many with one.
        let holder = || prop_oneof![0..4_i64, 0..(KNOWN as i64)];
        let step = prop_oneof![
            3 => Just(Step::Comes),
            6 => (any::<usize>(), holder()).prop_map(|(n, holder)| Step::Shows(n, holder)),
            1 => any::<usize>().prop_map(Step::Goes),
        ];
        proptest::collection::vec(step, 0..800)
    }

    proptest! {
        #[test]
        fn nobody_is_locked_out_and_only_who_has_more_gives_way(steps in steps()) {
            let crowd = Arc::<Crowd>::default();
            let mut guests: Vec<Guest> = Vec::new();
            for step in steps {
                guests.retain(|guest| !guest.cut.is_cancelled());
                let before = crowd.places().held();
                match step {
                    Step::Comes => {
                        guests.push(crowd.enter());
                        prop_assert_eq!(crowd.places().held(), before, "who is known never gives way to a stranger");
                    }
                    Step::Shows(n, id) if !guests.is_empty() => {
                        let guest = &guests[n % guests.len()];
                        let earlier = crowd.places().all[&guest.n].holder;
                        let holder = Holder::Session(id);
                        let own = before.get(&holder).copied().unwrap_or_default();
                        let shown = guest.shows(holder);
                        let after = crowd.places().held();
                        let lost = before.iter().filter(|(other, many)| {
                            let own_move = usize::from(earlier == Some(**other) && earlier != Some(holder));
                            after.get(other).copied().unwrap_or_default() + own_move < **many
                        });
                        for (other, many) in lost {
                            prop_assert!(shown.is_ok() && *many > own + 1, "{other:?} with {many} gave way to {own}");
                        }
                        prop_assert!(shown.is_ok() || own > 0, "one with none is locked out");
                        prop_assert!(!guest.cut.is_cancelled());
                    }
                    Step::Shows(..) => {}
                    Step::Goes(n) => drop((!guests.is_empty()).then(|| guests.swap_remove(n % guests.len()))),
                }
                let held = crowd.places().held();
                prop_assert!(crowd.places().all.len() <= MOST && held.values().sum::<usize>() <= KNOWN);
                prop_assert!(held.values().all(|many| *many <= OF_ONE));
            }
        }
    }
}
