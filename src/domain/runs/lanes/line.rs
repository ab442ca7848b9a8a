//! A line of waiting things: first come, first served, nobody in it twice.

use std::collections::BTreeMap;

/// Whether something belongs into a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Membership {
    /// It stands in the line.
    In,
    /// It does not.
    Out,
}

impl Membership {
    /// Returns [`Membership::In`] when the condition holds.
    pub(super) fn when(condition: bool) -> Self {
        if condition { Self::In } else { Self::Out }
    }
}

/// A line without duplicates. Every operation is logarithmic.
#[derive(Clone, Debug)]
pub(super) struct Line<T> {
    next_place: u64,
    by_place: BTreeMap<u64, T>,
    places: BTreeMap<T, u64>,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self { next_place: 0, by_place: BTreeMap::new(), places: BTreeMap::new() }
    }
}

impl<T: Ord + Clone> Line<T> {
    /// Puts `item` at the end of the line, or lets it keep its place, or takes it out.
    pub(super) fn set(&mut self, item: &T, place: Membership) {
        match place {
            Membership::In => self.join(item),
            Membership::Out => self.leave(item),
        }
    }

    /// Puts `item` at the end, unless it stands in the line already.
    pub(super) fn join(&mut self, item: &T) {
        if !self.places.contains_key(item) {
            self.places.insert(item.clone(), self.next_place);
            self.by_place.insert(self.next_place, item.clone());
            self.next_place += 1;
        }
    }

    /// Takes `item` out, if it is there.
    pub(super) fn leave(&mut self, item: &T) {
        if let Some(place) = self.places.remove(item) {
            self.by_place.remove(&place);
        }
    }

    /// Returns the first in line.
    pub(super) fn first(&self) -> Option<&T> {
        self.by_place.values().next()
    }

    /// Takes out the first in line.
    pub(super) fn take_first(&mut self) -> Option<T> {
        let (_, item) = self.by_place.pop_first()?;
        self.places.remove(&item);
        Some(item)
    }

    /// Returns whether `item` stands in the line.
    pub(super) fn contains(&self, item: &T) -> bool {
        self.places.contains_key(item)
    }

    /// Returns how many stand in the line.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns whether nobody stands in the line.
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}
