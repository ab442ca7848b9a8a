//! Bounds on how many go on at a time and begin in a minute. They can change while some are at it.

use std::sync::{Arc, Mutex};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::system::locked::Locked as _;
use crate::{domain::mailbox::bucket::Bucket, system::world::World};

/// Places, taken in the order in which they are asked for.
pub(super) struct Places {
    free: Arc<Semaphore>,
    count: Mutex<Count>,
}

struct Count {
    places: usize,
    /// Taken ones that go when they are given back.
    excess: usize,
}

impl Places {
    pub(super) fn new(places: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(places)), count: Mutex::new(Count { places, excess: 0 }) }
    }

    /// From now on there are this many. If more are taken, nobody is sent away.
    pub(super) fn set(&self, places: usize) {
        let mut count = self.count.locked();
        let before = std::mem::replace(&mut count.places, places);
        if places >= before {
            let more = places - before;
            let kept = more.min(count.excess);
            count.excess -= kept;
            self.free.add_permits(more - kept);
        } else {
            let fewer = before - places;
            count.excess += fewer - self.free.forget_permits(fewer);
        }
    }

    /// Waits for a place. Safe to cancel.
    pub(super) async fn take(&self) -> OwnedSemaphorePermit {
        loop {
            // Nobody closes it.
            let Ok(place) = Arc::clone(&self.free).acquire_owned().await else {
                return std::future::pending().await;
            };
            let mut count = self.count.locked();
            if count.excess == 0 {
                return place;
            }
            count.excess -= 1;
            place.forget();
        }
    }
}

/// How many connections of a socket are served at a time, and how many are taken in a minute.
pub(super) struct Crowd {
    world: World,
    pub(super) places: Places,
    rate: Mutex<Bucket>,
}

impl Crowd {
    pub(super) fn new(world: World, connections: usize, per_minute: u32) -> Self {
        let rate = Mutex::new(Bucket::new(per_minute, world.now()));
        Self { world, places: Places::new(connections), rate }
    }

    pub(super) fn set(&self, connections: usize, per_minute: u32) {
        self.places.set(connections);
        self.rate.locked().set(per_minute, self.world.now());
    }

    /// Whether one more may be taken now.
    pub(super) fn may_come(&self) -> bool {
        self.rate.locked().available(self.world.now()) > 0
    }

    /// One more was taken.
    pub(super) fn came(&self) {
        self.rate.locked().take(1, self.world.now());
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::{Pin, pin},
        task::{Context, Poll, Waker},
    };

    use super::*;

    fn poll<T>(taking: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        match taking.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(place) => Some(place),
            Poll::Pending => None,
        }
    }

    fn try_take(places: &Places) -> Option<OwnedSemaphorePermit> {
        poll(pin!(places.take()))
    }

    #[test]
    fn fewer_places_send_nobody_away_and_hold_from_the_next_one_on() {
        let places = Places::new(3);
        let mut taken: Vec<_> = (0..3).map(|_| try_take(&places).unwrap()).collect();
        places.set(1);
        let mut next = pin!(places.take());
        for _ in 0..3 {
            assert!(poll(next.as_mut()).is_none());
            taken.pop();
        }
        let last = poll(next.as_mut()).unwrap();
        assert!(try_take(&places).is_none());
        places.set(2);
        let second = try_take(&places).unwrap();
        assert!(try_take(&places).is_none());
        drop((last, second));
    }

    #[test]
    fn places_that_come_back_before_they_went_were_never_gone() {
        let places = Places::new(2);
        let taken: Vec<_> = (0..2).map(|_| try_take(&places).unwrap()).collect();
        places.set(0);
        places.set(2);
        assert!(try_take(&places).is_none());
        drop(taken);
        let both = (try_take(&places).unwrap(), try_take(&places).unwrap());
        assert!(try_take(&places).is_none());
        drop(both);
    }
}
