//! What a runner says, record by record, into the store.

use std::{sync::Arc, time::Duration};

use ipc_handlers::wire;

use super::{Halt, Speaks, Watched, noise::Noise};
use crate::{
    domain::{
        runs::{
            judge::Cause,
            lanes::{Event, Load},
            life::Reached,
        },
        shown::errors::chain,
        states::{RunKind, Via},
    },
    engine::{self, rested},
    loops::starts::What,
    root,
    sandbox::output::Parsed,
    store::{self, Recorded, StoreError, batch_name, task_batch},
    system::failpoint,
};

/// How often it is tried to read what a result of v1's runner finishes.
const UNREAD_TRIES: u32 = 60;
/// How long what may not be said yet waits before it is looked at again.
const REST: Duration = Duration::from_secs(1);

/// Why a task's result was not kept.
#[derive(Debug, thiserror::Error)]
enum NotKept {
    #[error("reading what was kept failed")]
    Store(#[from] StoreError),
    #[error("writing to data/results failed")]
    File(#[from] std::io::Error),
    #[error("our own fault: writing to data/results ended early")]
    Fault,
}

impl Watched {
    /// Applies what was heard, in order, up to a record that goes beyond what its group may say: from there on it waits. An
    /// error says why the run can't go on.
    pub(super) async fn apply(&mut self) -> Result<(), Halt> {
        while let Some(item) = self.said.heard.pop_front() {
            let record = match item {
                Parsed::Record(record) => record,
                Parsed::Garbage { reason, sample } => {
                    self.heard_garbage(&reason, &sample);
                    continue;
                }
            };
            if record.seq.is_none() && self.said.speaks == Speaks::Ours {
                self.heard_without_number();
                continue;
            }
            // Of the output nothing is left out: each record is the one after the last.
            let next = self.said.seen.saturating_add(1);
            let n = record.seq.unwrap_or(next);
            if n != next {
                self.gathered.heard(n, &record, self.runs.machine.world.now());
                return Err(Halt::Unwell(Cause::Gap { expected: next, got: n }));
            }
            let is_known = n <= self.said.known;
            let whole = record.clone();
            let record = match is_known {
                true => record,
                false => match self.in_v1_terms(record).await {
                    Some(record) => record,
                    None => {
                        self.waits(whole);
                        return Ok(());
                    }
                },
            };
            if !is_known && !self.may_go_on(&record) {
                self.waits(whole);
                return Ok(());
            }
            if !is_known {
                self.runs.starts.taking(&self.group, What::Output);
            }
            if record.kind == wire::Kind::BlockedTool {
                self.signs.blocked_tool =
                    record.result.clone().or_else(|| Some("of the blocked list".into()));
            }
            failpoint::reach_of("run.reading", self.group.as_str());
            self.gathered.heard(n, &record, self.runs.machine.world.now());
            let record = Arc::new(record);
            let (kind, status) = (record.kind, record.status);
            let recorded =
                if is_known { Recorded::Known } else { self.record(n, Arc::clone(&record)).await? };
            self.said.seen = n;
            if matches!(recorded, Recorded::Applied { .. }) {
                // All that an adopted run had said before is known.
                self.runs.starts.taken(&self.group, What::Output);
                self.said.turn = None;
            }
            failpoint::reach("run.record");
            match recorded {
                Recorded::Known => {}
                Recorded::Gap { expected } => return Err(Halt::Unwell(Cause::Gap { expected, got: n })),
                Recorded::Applied { idle, woken, .. } => {
                    self.runs.lanes.wake(&self.group, &woken);
                    // A record that is read again, after an adoption, is no sign of life; nor is a second `ready`, which
                    // only names the session.
                    let again = kind == wire::Kind::Ready && self.is_up() && self.said.speaks == Speaks::Ours;
                    if again {
                        continue;
                    }
                    self.signs.last_sign = self.runs.machine.world.monotonic();
                    self.signs.last_record = self.signs.last_sign;
                    if kind == wire::Kind::Ready {
                        self.is_ready();
                    }
                    self.signs.in_hand.retain(|batch, _| !record.handled.contains(batch));
                    if kind == wire::Kind::Result {
                        self.signs.last_result = Some(self.signs.last_sign);
                    }
                    if kind == wire::Kind::Ready {
                        self.said.speaks = Speaks::Ours;
                        self.runs.lanes.tell(Event::Ready { group: self.group.clone() });
                    }
                    self.reached = self.reached.with(if idle { Load::Idle } else { Load::Busy });
                    let group = self.group.clone();
                    self.runs.lanes.tell(if idle { Event::Idle { group } } else { Event::Busy { group } });
                    if status == wire::Status::Error && self.leaving.asked().is_none() {
                        // Its turn is over and what it has in hand is not handled: nothing more comes of it.
                        self.ask_close("its turn has failed").await;
                        self.runs.lanes.tell(Event::CloseAsked { group: self.group.clone() });
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes a record out of what its group may do in a minute, as its command files are; whether that has room for it.
    fn may_go_on(&mut self, record: &wire::Record) -> bool {
        let now = self.runs.machine.world.now();
        let messages = usize::from(record.answer().is_some_and(|text| !text.is_empty()));
        let end = record.tool_end.as_ref();
        let ends =
            end.map_or(0, |end| end.call.len() + end.tool.len() + end.about.as_ref().map_or(0, String::len));
        let texts = [&record.result, &record.error, &record.tool, &record.tool_call, &record.tool_about];
        let bytes = texts.into_iter().flatten().map(String::len).sum::<usize>() + ends;
        let may = self.runs.allowances.of(&self.group, |left| {
            let may = left.commands.available(now) > 0
                && left.messages.available(now) >= messages
                && left.bytes.available(now) > 0;
            if may {
                left.commands.take(1, now);
                left.messages.take(messages, now);
                left.bytes.take(bytes, now);
            }
            may
        });
        if !may && let Some(times) = self.said.noise.happened(Noise::TooMuch, now) {
            tracing::warn!(
                times,
                "more records than the limits allow; the rest waits in the container's log"
            );
        }
        may
    }

    /// A v1 runner says nothing until it has an answer: it counts as ready once it was started.
    pub(super) async fn ready_without_saying_so(&mut self) {
        self.said.speaks = Speaks::One;
        self.is_ready();
        if let Err(error) =
            self.runs.store.run_ready_without_saying_so(self.run, self.runs.machine.world.now()).await
        {
            tracing::error!(error = %chain(&error), "recording readiness failed");
        }
        self.runs.lanes.tell(Event::Ready { group: self.group.clone() });
    }

    /// Its agent is up, and has what came with the launch in hand.
    pub(super) fn is_ready(&mut self) {
        self.reached = Reached::Ready(Load::Busy);
        let now = self.runs.machine.world.monotonic();
        self.signs.in_hand.values_mut().for_each(|since| *since = since.or(Some(now)));
    }

    /// A record waits, and what came after it.
    fn waits(&mut self, record: wire::Record) {
        self.said.heard.push_front(Parsed::Record(record));
        self.said.heard_again = self.runs.machine.world.monotonic() + REST;
    }

    /// A runner whose records carry no numbers speaks v1: it is ready as soon as it runs, and a result finishes the
    /// batches whose input it has taken away. `None`: which these are can't be read now. Without that their messages would be handed
    /// out again, so the record waits for it a while.
    async fn in_v1_terms(&mut self, mut record: wire::Record) -> Option<wire::Record> {
        if record.seq.is_some() || self.said.speaks == Speaks::Ours {
            return Some(record);
        }
        if self.said.speaks == Speaks::NotSaid {
            self.ready_without_saying_so().await;
        }
        if record.status != wire::Status::Success || !record.handled.is_empty() {
            return Some(record);
        }
        match self.finished() {
            Ok(finished) => {
                self.said.unread = 0;
                record.handled = finished;
                Some(record)
            }
            Err(error) => {
                self.said.unread += 1;
                let is_last = self.said.unread >= UNREAD_TRIES;
                tracing::warn!(error = %chain(&error), is_last, "what a result finishes can't be read");
                is_last.then_some(record)
            }
        }
    }

    /// Returns the batches that a result of v1's runner finishes.
    fn finished(&self) -> Result<Vec<String>, engine::Error> {
        let open = self.runs.store.active_run(self.run)?;
        let boxes = self.runs.boxes.of(&self.group).map_err(|error| engine::Error::world(&error))?;
        let Some(open) = open else { return Ok(Vec::new()) };
        let of_task = (open.kind != RunKind::Message).then(|| task_batch(self.run));
        let is_taken = |batch: i64, via: Via| via == Via::Stdin || !boxes.has_input(&batch_name(batch));
        let taken = open.open.into_iter().filter(|(batch, via)| is_taken(*batch, *via));
        Ok(of_task.into_iter().chain(taken.map(|(batch, _)| batch_name(batch))).collect())
    }

    /// Puts what a task's run says into the file of its result, before its record is applied, where the row has no room.
    async fn keep_whole(&self, n: u64, record: &wire::Record) -> Result<(), NotKept> {
        if !self.is_task {
            return Ok(());
        }
        let Some(kept) = self.runs.store.kept_result(self.run)?.filter(|kept| kept.last_seq < n) else {
            return Ok(());
        };
        let Some(text) = store::result_of(record, kept.bytes).filter(|text| !kept.has_room_for(text)) else {
            return Ok(());
        };
        let (data, run) = (self.runs.root.join("data"), self.run);
        let put = move || match kept.is_in_row() {
            true if kept.bytes == 0 => root::put_result(&data, run, 0, &text),
            true => root::put_result(&data, run, 0, &format!("{}\n{text}", kept.beginning)),
            false => root::put_result(&data, run, kept.bytes as u64, &format!("\n{text}")),
        };
        self.runs.machine.world.blocking(put).await.map_err(|_| NotKept::Fault)??;
        failpoint::reach("run.result");
        Ok(())
    }

    /// Asks the store until it has the record: a disk that is full loses nothing.
    async fn record(&self, n: u64, record: Arc<wire::Record>) -> Result<Recorded, Halt> {
        loop {
            if let Err(error) = self.keep_whole(n, &record).await {
                tracing::warn!(error = %chain(&error), "a task's result can't be kept now; it is tried again");
                if rested(&self.runs.stop, REST).await {
                    return Err(Halt::LetGo);
                }
                continue;
            }
            match self
                .runs
                .store
                .record(self.run, n, Arc::clone(&record), self.runs.machine.world.now())
                .await
            {
                Ok(recorded) => return Ok(recorded),
                // The container outlives us, and the next daemon reads its output again.
                Err(error) if error.is_worlds_fault() && self.runs.stop.is_cancelled() => {
                    tracing::warn!(error = %chain(&error), "stopping before a record could be stored");
                    return Err(Halt::LetGo);
                }
                Err(error) if error.is_worlds_fault() => {
                    tracing::warn!(error = %chain(&error), "the store can't take a record now; it is tried again");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                Err(error) => {
                    return Err(Halt::Unwell(Cause::Unwell {
                        reason: format!("wrote a record that could not be stored: {}", chain(&error)),
                    }));
                }
            }
        }
    }
}
