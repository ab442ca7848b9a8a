//! What `g2 top` shows, as it is read.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::{Context, Failure, channels, client::Client, ps};
use crate::{
    domain::runs::output::Lines,
    loops::{control::Status, lost::is_lost},
    ops::ipc::queue::Queue,
    root,
    store::{Follower, LanesShown, Store},
};

/// How soon a change is seen that the daemon, or another process, commits.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// The newest commands that are listed.
const COMMANDS: usize = 200;
/// Lanes that are listed.
const LANES: usize = 500;
/// The end of a run's output that is shown, lines.
const LOG_LINES: usize = 200;

/// Everything at one time.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The daemon's state; none while it is down, or does not answer.
    pub(super) status: Option<Box<Status>>,
    pub(super) runs: Vec<Value>,
    pub(super) lanes: Vec<Value>,
    pub(super) mailbox: Vec<Value>,
    pub(super) channels: Vec<Value>,
}

impl Seen {
    /// Returns it for programs.
    pub(super) fn document(&self) -> Value {
        json!({
            "state": self.status.as_ref().map_or("not running", |status| status.state.as_str()),
            "runs": self.runs, "lanes": self.lanes, "mailbox": self.mailbox, "channels": self.channels,
        })
    }
}

/// The sources that are looked at again and again.
pub(super) struct Looks<'a> {
    context: &'a Context,
    store: Store,
    feed: Follower,
}

impl<'a> Looks<'a> {
    pub(super) async fn new(context: &'a Context) -> Result<Self, Failure> {
        let store = context.store()?;
        store.watch_others_every(LOOK_EVERY);
        let feed = store.follow().await?;
        Ok(Self { context, store, feed })
    }

    /// Waits for a change. Safe to cancel.
    pub(super) async fn news(&mut self) {
        // That there is one is enough: everything is read again.
        self.feed.next().await;
    }

    /// Reads everything.
    pub(super) async fn look(&mut self) -> Result<Seen, Failure> {
        let Self { context, store, .. } = self;
        let now = context.world.now();
        let status = Client::status(&context.root).await.ok();
        let sights = match &status {
            Some(_) => match Client::connect(&context.root).await {
                Ok(mut client) => client.runs().await.unwrap_or_default(),
                Err(_) => Vec::new(),
            },
            None => Vec::new(),
        };
        let queue = Queue { limit: Some(COMMANDS), ..Queue::default() };
        let channels = match context.config() {
            Ok(config) => channels::rows(&config, store, status.is_some()).await?,
            Err(_) => Vec::new(),
        };
        let mut lanes = store.shown_lanes(None, LanesShown::Busy, Some(LANES), now)?;
        for lane in &mut lanes {
            lane.wait_for_folder(|group| is_lost(&context.root, store, group));
        }
        Ok(Seen {
            status,
            runs: rows(&ps::rows(store, &sights, now)?),
            lanes: rows(&lanes),
            mailbox: rows(&queue.rows(&context.root, store, now).await?.rows),
            channels: rows(&channels),
        })
    }

    /// Returns the end of what a run has put out, in plain lines.
    pub(super) fn log(&self, run: i64) -> Vec<String> {
        let Ok(log) = root::read_run_log(&self.context.root, run) else { return Vec::new() };
        let mut lines = Lines::default();
        let mut told: Vec<String> = lines.push(&log);
        told.extend(lines.last());
        told.drain(..told.len().saturating_sub(LOG_LINES));
        told
    }
}

fn rows<T: serde::Serialize>(rows: &[T]) -> Vec<Value> {
    rows.iter().filter_map(|row| serde_json::to_value(row).ok()).collect()
}
