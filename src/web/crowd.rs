//! How many connections are served at once, and which one gives way to a new one.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio_util::sync::CancellationToken;

/// Connections at once, at most.
const MOST: usize = 128;

/// Who is connected.
#[derive(Default)]
pub(super) struct Crowd(Mutex<Places>);

#[derive(Default)]
struct Places {
    next: u64,
    all: BTreeMap<u64, Place>,
}

struct Place {
    /// It has shown a session, or the token for scripts.
    known: bool,
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
    /// Takes a place, if need be that of the oldest connection of which nobody knows whose it is. `None`: all places are those
    /// of people who are let in.
    pub(super) fn enter(self: &Arc<Self>) -> Option<Guest> {
        let mut places = self.places();
        if places.all.len() >= MOST {
            let oldest = places.all.iter().find(|(_, place)| !place.known).map(|(n, _)| *n)?;
            if let Some(place) = places.all.remove(&oldest) {
                place.cut.cancel();
            }
        }
        places.next += 1;
        let (n, cut) = (places.next, CancellationToken::new());
        places.all.insert(n, Place { known: false, cut: cut.clone() });
        drop(places);
        Some(Guest { crowd: Arc::clone(self), n, cut })
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Guest {
    /// It has shown a session, or the token.
    pub(super) fn is_known(&self) {
        if let Some(place) = self.crowd.places().all.get_mut(&self.n) {
            place.known = true;
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.crowd.places().all.remove(&self.n);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_stranger_gives_way_and_nobody_who_is_known() {
        let crowd = Arc::<Crowd>::default();
        let mut guests: Vec<Guest> = (0..MOST).map(|_| crowd.enter().unwrap()).collect();
        guests[0].is_known();
        let new = crowd.enter().unwrap();
        let cut: Vec<usize> = (0..MOST).filter(|n| guests[*n].cut.is_cancelled()).collect();
        assert_eq!(cut, [1]);
        guests.push(new);
        guests.iter().for_each(Guest::is_known);
        assert!(crowd.enter().is_none());
        drop(guests);
        assert!(crowd.enter().is_some());
    }
}
