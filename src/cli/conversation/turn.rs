//! What happens to what was said in a chat: whether it waits, and what its agent is doing.

use ipc_handlers::Time;

use super::super::client::Client;
use crate::{
    domain::{
        rows::Waiter,
        runs::life::{Life, Reached},
        runs::tool_servers::tool_as_shown,
        states::RunKind,
        time::times::length,
    },
    loops::Sight,
    store::{ActiveRun, Store, StoreError},
};

/// The turn of a chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Nothing waits, and nothing is at work.
    None,
    Waits {
        what_for: String,
        since: Time,
    },
    Starts {
        run: i64,
        since: Option<Time>,
    },
    Works {
        run: i64,
        tool: Option<String>,
        since: Option<Time>,
    },
    /// Somebody asked for its end.
    Stops {
        run: i64,
    },
}

impl Turn {
    /// Returns the turn that a run and those who wait make.
    fn of(run: Option<(&ActiveRun, Option<Time>)>, sight: Option<&Sight>, waiter: Option<&Waiter>) -> Self {
        match run {
            Some((run, _)) if run.stop.is_some() => Self::Stops { run: run.id },
            Some((run, since)) => match run.life {
                Life::Serving(Reached::Queued | Reached::Started)
                | Life::Leaving(Reached::Queued | Reached::Started) => Self::Starts { run: run.id, since },
                Life::Serving(Reached::Ready(_)) | Life::Leaving(Reached::Ready(_)) => {
                    let tool = sight.and_then(|sight| sight.tool.clone());
                    let since = sight.and_then(|sight| match tool {
                        Some(_) => sight.tool_since,
                        None => sight.in_hand_since,
                    });
                    Self::Works { run: run.id, tool, since }
                }
            },
            None => waiter.map_or(Self::None, |waiter| Self::Waits {
                what_for: waiter.waits_for.clone(),
                since: waiter.since,
            }),
        }
    }

    /// Returns the run that can be stopped.
    pub(super) fn run(&self) -> Option<i64> {
        match self {
            Self::Starts { run, .. } | Self::Works { run, .. } => Some(*run),
            Self::None | Self::Waits { .. } | Self::Stops { .. } => None,
        }
    }

    /// Returns what is said of the agent `name` in one line.
    pub(super) fn in_words(&self, name: &str, now: Time) -> Option<String> {
        let since = |since: Option<Time>| match since.map(|since| now.ms_since(since)) {
            // Whole seconds: it changes in place.
            Some(ms) if ms >= 1_000 => format!(", for {}", length(ms / 1_000 * 1_000)),
            Some(_) | None => String::new(),
        };
        let stops = "Ctrl-C stops it";
        Some(match self {
            Self::None => return None,
            Self::Waits { what_for, since: at } => format!("waits for {what_for}{}", since(Some(*at))),
            Self::Starts { since: at, .. } => format!("{name} starts{} ({stops})", since(*at)),
            Self::Works { tool: Some(tool), since: at, .. } => {
                format!("{name} is at work: {}{} ({stops})", tool_as_shown(tool), since(*at))
            }
            Self::Works { tool: None, since: at, .. } => format!("{name} is at work{} ({stops})", since(*at)),
            Self::Stops { .. } => format!("{name} is asked to stop"),
        })
    }
}

/// How many are looked at that wait.
const WAITERS: usize = 100;

/// Looks at the turn of one chat.
pub(super) struct Watch<'a> {
    pub(super) store: &'a Store,
    pub(super) chat: &'a str,
    pub(super) root: &'a std::path::Path,
    /// A connection of its own, as long as it holds.
    pub(super) client: Option<Client>,
}

impl Watch<'_> {
    /// Returns the turn as it is now. Without an answer of the daemon it is not known what the agent does.
    pub(super) async fn look(&mut self, now: Time) -> Result<Turn, StoreError> {
        let Self { store, chat, root, client } = self;
        let mut found = None;
        for active in store.active_runs()? {
            let is_over =
                matches!(active.life, Life::Serving(Reached::Ready(_)) | Life::Leaving(Reached::Ready(_)))
                    && active.open.is_empty();
            if active.kind != RunKind::Message || is_over {
                continue;
            }
            if let Some(run) = store.run(active.id)?
                && is_of(&run.lane, chat)
            {
                found = Some((active, run.started_at));
                break;
            }
        }
        let Some((active, since)) = found else {
            let waiters = store.waiters(WAITERS, now)?;
            let waiter = waiters.iter().find(|waiter| waiter.task.is_none() && waiter.chat_jid == *chat);
            return Ok(Turn::of(None, None, waiter));
        };
        if client.is_none() {
            *client = Client::connect(root).await.ok();
        }
        let sights = match client {
            Some(client) => client.runs().await,
            None => Ok(Vec::new()),
        };
        let sights = sights.unwrap_or_else(|_| {
            *client = None;
            Vec::new()
        });
        let sight = sights.iter().find(|sight| sight.run == active.id);
        Ok(Turn::of(Some((&active, since)), sight, None))
    }
}

/// Whether a lane is of a chat: the chat itself, or a thread of it.
fn is_of(lane: &str, chat: &str) -> bool {
    lane.strip_prefix(chat).is_some_and(|rest| rest.is_empty() || rest.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_told_in_one_line_with_its_time_in_whole_seconds() {
        let at = |ms: i64| Time(1_000_000 - ms);
        let told = |turn: Turn| turn.in_words("G2", Time(1_000_000));
        assert_eq!(told(Turn::None), None);
        for (turn, words, run) in [
            (
                Turn::Waits { what_for: "a free container".into(), since: at(65_000) },
                "waits for a free container, for 1 min",
                None,
            ),
            (Turn::Starts { run: 3, since: Some(at(400)) }, "G2 starts (Ctrl-C stops it)", Some(3)),
            (
                Turn::Works { run: 3, tool: Some("Bash".into()), since: Some(at(12_900)) },
                "G2 is at work: Bash, for 12 s (Ctrl-C stops it)",
                Some(3),
            ),
            (Turn::Works { run: 3, tool: None, since: None }, "G2 is at work (Ctrl-C stops it)", Some(3)),
            (
                Turn::Works { run: 3, tool: None, since: Some(at(1_999)) },
                "G2 is at work, for 1 s (Ctrl-C stops it)",
                Some(3),
            ),
            (Turn::Stops { run: 3 }, "G2 is asked to stop", None),
        ] {
            assert_eq!(turn.run(), run);
            assert_eq!(told(turn).as_deref(), Some(words));
        }
    }

    #[test]
    fn a_thread_belongs_to_its_chat_and_a_longer_name_does_not() {
        assert!(is_of("local:main", "local:main") && is_of("local:main#7", "local:main"));
        assert!(!is_of("local:mainly", "local:main") && !is_of("local", "local:main"));
    }
}
