//! The way of news to the lanes.

use ipc_handlers::Folder;
use tokio::sync::mpsc;

use crate::{
    domain::runs::lanes::{AdoptedState, Event, LaneId},
    store::ActiveRun,
};

/// A run that outlived an earlier daemon, to be watched over from now on.
pub struct Adoption {
    pub run: ActiveRun,
    pub state: AdoptedState,
}

/// What the lanes are told.
pub enum ForLanes {
    Event(Event),
    Adopt(Box<Adoption>),
}

/// Tells the lanes, in one order: a hold never overtakes the adoption that it belongs to. Where nobody hears it any more, the daemon
/// stops, and the next one reads all of it in the store.
#[derive(Clone)]
pub struct ToLanes(mpsc::UnboundedSender<ForLanes>);

impl ToLanes {
    /// Returns the way, and its end.
    #[must_use]
    pub fn new() -> (Self, mpsc::UnboundedReceiver<ForLanes>) {
        let (to, from) = mpsc::unbounded_channel();
        (Self(to), from)
    }

    pub fn tell(&self, event: Event) {
        // See above.
        let _ = self.0.send(ForLanes::Event(event));
    }

    /// Tells that the rests of a group's lanes are over.
    pub fn wake(&self, group: &Folder, lanes: &[i64]) {
        for lane in lanes {
            self.tell(Event::Woken { group: group.clone(), lane: LaneId(*lane) });
        }
    }

    pub fn adopt(&self, adoption: Adoption) {
        // See above.
        let _ = self.0.send(ForLanes::Adopt(Box::new(adoption)));
    }
}
