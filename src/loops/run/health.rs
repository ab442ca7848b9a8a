//! Whether a run is well, and what is done about one that is not.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tracing::Instrument as _;

use super::{Asked, Leaving, Speaks, Watched, black_box::age};
use crate::{
    domain::{
        runs::{
            health::{self, HealthLimits, Patience, Readiness, Runner, Verdict, Vitals},
            judge::Cause,
            lanes::{Event, Load},
            life::Reached,
            work::AtWork,
        },
        shown::errors::chain,
    },
    ipc::WorldFault,
    loops::{EndsHow, Sight},
};

/// How often `_close` is asserted again until the container is gone.
const CLOSE_AGAIN: Duration = Duration::from_secs(2);

impl Watched {
    /// Judges a run whose boxes can't be opened: nothing is seen of what it does, and it can't be asked to leave, so it is ended
    /// after the time in which it has to take what it was handed.
    async fn without_boxes(&mut self, container: &str, error: &WorldFault) -> Option<Cause> {
        let now = self.runs.machine.world.monotonic();
        let since = *self.signs.unopened.get_or_insert(now);
        if now.duration_since(since) < Duration::from_millis(self.runs.config.now().health.claim_ms) {
            return None;
        }
        let reason = format!("could not be looked after, as its boxes can't be opened: {}", chain(error));
        self.keep_black_box(container, &reason).await;
        self.kill(container).await;
        Some(Cause::Unwell { reason })
    }

    /// One look at the run's health.
    pub(super) async fn look_after(&mut self, container: &str) -> Option<Cause> {
        let now = self.runs.machine.world.monotonic();
        let is_old = |at: Instant| now.duration_since(at) >= CLOSE_AGAIN;
        if self.leaving.asked().is_some_and(|asked| asked.last.is_none_or(is_old)) {
            self.assert_close().await;
        }
        let without_space = self.runs.machine.without_space().get(&self.group).cloned();
        self.sample(container).await;
        if let Some(reason) = without_space {
            self.keep_black_box(container, &reason).await;
            self.kill(container).await;
            return Some(Cause::NoSpace { reason });
        }
        let boxes = match self.runs.boxes.of(&self.group) {
            Ok(boxes) => boxes,
            Err(error) => return self.without_boxes(container, &error).await,
        };
        self.signs.unopened = None;
        let stamp = boxes.heartbeat();
        // Before it is known to be ready no stamp counts, nor is one remembered: it may be that of its first work.
        if self.is_up() && stamp.is_some() && stamp != self.signs.heartbeat {
            self.signs.last_sign = self.runs.machine.world.monotonic();
            self.signs.beaten = Some(self.signs.last_sign);
            self.signs.heartbeat = stamp;
        }
        // After the heartbeat: one that is older than the taking must not count as younger.
        let taken = self.runs.machine.world.monotonic();
        if self.is_up() {
            for (batch, since) in self.signs.in_hand.iter_mut().filter(|(_, since)| since.is_none()) {
                if boxes.is_unread(batch) {
                    continue;
                }
                *since = Some(taken);
                // Both were seen for the first time just now: the kernel knows which came first.
                if boxes.has_beaten_since_taken(batch) {
                    self.signs.last_sign = taken + Duration::from_millis(1);
                }
            }
        }
        // It is the container's own file: one that can't be read says nothing.
        let state = boxes.container_state().ok().flatten();
        let declared = state.as_ref().and_then(health::declared_timeout_ms);
        // The heartbeat that came with the end of a long tool may be seen only at the next look.
        if self.saw_tool(state.and_then(|state| state.current_tool)) && self.is_up() {
            self.signs.last_sign = self.runs.machine.world.monotonic();
        }
        let at_work = self.at_work();
        let now = self.runs.machine.world.monotonic();
        let ms = |since: Instant| age(since, now);
        let limit = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
        let config = self.runs.config.now();
        let vitals = Vitals {
            runner: match self.said.speaks {
                Speaks::One => Runner::One,
                Speaks::Ours | Speaks::NotSaid => {
                    Runner::Two(if self.is_up() { Readiness::Ready } else { Readiness::NotYet })
                }
            },
            leaving: match &self.leaving {
                Leaving::No => health::Leaving::No,
                Leaving::Asked(Asked { since, .. }) => health::Leaving::Closing(ms(*since)),
                Leaving::Stopped { since, .. } => health::Leaving::Stopping(ms(*since)),
            },
            started_ms: ms(self.signs.started),
            quiet_ms: ms(self.signs.last_sign),
            no_record_ms: ms(self.signs.last_record),
            since_tool_ms: ms(self.signs.tool_changed),
            // A sign that came within the same millisecond, but after the taking, is one since.
            in_hand_ms: self
                .signs
                .in_hand
                .values()
                .flatten()
                .min()
                .map(|since| ms(*since) + i64::from(self.signs.last_sign > *since)),
            tool_timeout_ms: declared,
            blocked_tool: self.signs.blocked_tool.clone(),
            at_work,
            patience: if self.stop.is_some() { Patience::None } else { Patience::WhileItLives },
            since_result_ms: self.signs.last_result.map(ms),
        };
        let limits = HealthLimits {
            ready_ms: i64::try_from(self.ready_limit.as_millis()).unwrap_or(i64::MAX),
            ceiling_ms: limit(self.ceiling_ms),
            claim_ms: limit(config.health.claim_ms),
            leave_ms: limit(config.health.close_grace_ms),
            idle_ms: limit(config.health.idle_ms),
            ..HealthLimits::default()
        };
        self.show(&vitals, &limits);
        match health::judge(&vitals, &limits) {
            Verdict::Fine { .. } => None,
            Verdict::Close { reason } => {
                self.ask_close(&reason).await;
                self.runs.lanes.tell(Event::CloseAsked { group: self.group.clone() });
                None
            }
            Verdict::Stop { reason } => {
                let asked = self.leaving.asked().and_then(|asked| asked.why.clone());
                let reason = match asked {
                    Some(why) => format!("{reason} after it was asked to: {why}"),
                    None => reason,
                };
                self.keep_black_box(container, &reason).await;
                let reason = self.with_evidence(&reason);
                tracing::warn!(reason, "stopping a container");
                self.leaving.stop(self.runs.machine.world.monotonic());
                let (runs, id) = (Arc::clone(&self.runs), container.to_owned());
                // The engine waits for the container; we go on reading.
                let stop = async move {
                    if let Err(error) = runs.sandbox.stop(&id, Duration::from_secs(10)).await {
                        tracing::warn!(container = id, error = %chain(&error), "stopping failed");
                    }
                };
                tokio::spawn(stop.in_current_span());
                (self.reached != Reached::Ready(Load::Idle)).then_some(Cause::Unwell { reason })
            }
            Verdict::Kill { reason } => {
                self.keep_black_box(container, &reason).await;
                let reason = self.with_evidence(&reason);
                tracing::warn!(reason, "killing a container");
                self.kill(container).await;
                Some(if self.is_up() || self.said.speaks == Speaks::One {
                    Cause::Unwell { reason }
                } else {
                    self.never_ready()
                })
            }
        }
    }

    /// A reason, and what it rests on.
    fn with_evidence(&self, reason: &str) -> String {
        format!("{reason} ({})", self.evidence().in_words())
    }

    /// Notes the tool that its agent says it runs. Returns whether that has changed.
    fn saw_tool(&mut self, tool: Option<String>) -> bool {
        const LONGEST_NAME: usize = 100;
        let tool = tool.map(|name| name.chars().take(LONGEST_NAME).collect::<String>());
        let has_changed = tool.as_ref() != self.signs.tool.as_ref().map(|(name, _)| name);
        if has_changed {
            self.signs.tool_changed = self.runs.machine.world.monotonic();
            self.signs.tool = tool.map(|name| (name, self.signs.tool_changed));
        }
        has_changed
    }

    /// Shows people how it stands.
    fn show(&self, vitals: &Vitals, limits: &HealthLimits) {
        let world = &self.runs.machine.world;
        let (now, steady) = (world.now(), world.monotonic());
        let ago = |ms: i64| now.plus_ms(-ms);
        let coming = health::coming(vitals, limits);
        self.runs.sights.saw(Sight {
            run: self.run,
            last_sign: ago(vitals.quiet_ms),
            in_hand_since: vitals.in_hand_ms.map(ago),
            tool: self.signs.tool.as_ref().map(|(name, _)| name.clone()),
            tool_since: self.signs.tool.as_ref().map(|(_, since)| ago(age(*since, steady))),
            requests: self.runs.gateway.in_flight(self.run),
            last_work: match vitals.at_work {
                AtWork::Unseen => None,
                AtWork::Asking => Some(now),
                AtWork::Ago(ms) => Some(ago(ms)),
            },
            ends_at: coming.as_ref().map(|(ms, _)| now.plus_ms(*ms)),
            ends_how: coming.as_ref().and_then(|(_, verdict)| match verdict {
                Verdict::Fine { .. } => None,
                Verdict::Close { .. } => Some(EndsHow::Closed),
                Verdict::Stop { .. } => Some(EndsHow::Stopped),
                Verdict::Kill { .. } => Some(EndsHow::Killed),
            }),
            ends_why: coming.map(|(_, verdict)| health::reason(&verdict).to_owned()),
        });
    }

    pub(super) async fn ask_close(&mut self, why: &str) {
        if self.leaving.ask(Some(why), self.runs.machine.world.monotonic()) {
            tracing::info!(why, evidence = self.evidence().in_words(), "closing");
            if let Err(error) = self.runs.store.run_closing(self.run, self.runs.machine.world.now()).await {
                tracing::error!(error = %chain(&error), "recording a close failed");
            }
        }
        self.assert_close().await;
    }

    pub(super) async fn assert_close(&mut self) {
        if let Some(asked) = self.leaving.asked() {
            asked.last = Some(self.runs.machine.world.monotonic());
        }
        let Ok(boxes) = self.runs.boxes.of(&self.group) else { return };
        let asked =
            self.runs.machine.world.blocking(move || boxes.ask_close().map_err(|e| e.to_string())).await;
        if let Ok(Err(error)) = asked {
            tracing::warn!(error, "asking a runner to leave failed; it is tried again");
        }
    }

    /// Whether its agent is up.
    pub(super) fn is_up(&self) -> bool {
        matches!(self.reached, Reached::Ready(_))
    }

    pub(super) async fn kill(&self, container: &str) {
        if let Err(error) = self.runs.sandbox.kill(container).await {
            tracing::warn!(error = %chain(&error), "killing a container failed");
        }
    }
}
