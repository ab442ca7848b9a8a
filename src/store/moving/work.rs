//! Lanes with their sessions, archived sessions, tasks, runs and what was used, as they move in.

use ipc_handlers::{TaskStatus, names::is_session_id};
use rusqlite::params;

use super::{Came, Door, moved_as, note};
use crate::{
    domain::{
        moved::rows::{Archive, Kind, Lane, Run, Task, Usage},
        states::RunKind,
    },
    store::{Result, talk::groups::zone_of, work::slots},
};

/// Returns how a session stands where it comes from, as it is noted that it came.
fn told_session(lane: &Lane) -> String {
    let at = lane.active_at.map_or_else(String::new, |at| at.0.to_string());
    format!("{} {at}", lane.session.as_deref().unwrap_or_default())
}

/// So much of a result is kept in a run's row, bytes; a longer one is cut.
const RESULT: usize = 16 << 10;
/// A task or an archived session with more text than this is not taken, bytes.
const LONGEST: usize = 2 << 20;

impl Door<'_> {
    pub(super) fn lane_row(&mut self, row: &Lane) -> Result<Came> {
        let Lane { group, chat, thread, sticky_at, session, active_at } = row;
        if !self.came(group)? {
            return Came::left(format!("no group {group} came along"));
        }
        self.ensure_chat(chat, self.now)?;
        let Some(lane) = self.lane(group, chat, thread)? else {
            return Came::left(format!("there is no chat {chat}"));
        };
        if let Some(at) = sticky_at {
            self.c
                .prepare_cached("UPDATE lanes SET sticky_at = coalesce(sticky_at, ?2) WHERE id = ?1")?
                .execute([lane, at.0])?;
        }
        if let Some(session) = session {
            if !is_session_id(session) {
                return Came::left("its session is called by no name that the agent could go on with");
            }
            // A conversation of here is not put aside.
            let put = self
                .c
                .prepare_cached(
                    "INSERT INTO sessions (lane_id, group_folder, chat_jid, thread, session_id, active_at, proven) VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1)
                     ON CONFLICT (lane_id) DO UPDATE SET session_id = excluded.session_id, active_at = excluded.active_at, proven = 1
                       WHERE session_id IS NULL",
                )?
                .execute(params![lane, group.as_str(), chat, thread, session, active_at.map(|at| at.0)])?;
            if put == 0 {
                self.changes.push(format!("{group} has another session in {chat}, which stays"));
            }
        }
        Ok(Came::New(told_session(row)))
    }

    /// A lane that was taken before: if its source has gone on with another session meanwhile, and nobody has gone on with the one that
    /// came, the other one takes its place.
    pub(super) fn lane_again(&mut self, key: &str, came: &str, row: &Lane) -> Result<Came> {
        let Lane { group, chat, thread, session, active_at, .. } = row;
        let told = told_session(row);
        if told == came || !session.as_deref().is_some_and(is_session_id) {
            return Ok(Came::Again);
        }
        // One that runs may write its own session down at its end.
        let changed = self
            .c
            .prepare_cached(
                "UPDATE sessions SET session_id = ?4, active_at = ?5, proven = 1 WHERE group_folder = ?1 AND chat_jid = ?2 AND thread = ?3
                   AND coalesce(session_id, '') || ' ' || coalesce(active_at, '') = ?6
                   AND NOT EXISTS (SELECT 1 FROM runs WHERE group_folder = ?1 AND status IN ('queued', 'running'))",
            )?
            .execute(params![group.as_str(), chat, thread, session, active_at.map(|at| at.0), came])?;
        let is_first = changed == 0 && came.trim().is_empty() && {
            self.lane_row(row)?;
            self.changes.is_empty()
        };
        if changed == 0 && !is_first {
            self.changes.clear();
            return Came::left(format!("{group} went on in {chat} here: that conversation stays"));
        }
        self.c
            .prepare_cached("UPDATE imported SET own = ?4 WHERE source = ?1 AND kind = ?2 AND key = ?3")?
            .execute(params![self.source, Kind::Lane.as_str(), key, told])?;
        Ok(Came::New(told))
    }

    pub(super) fn archive(&mut self, archive: &Archive) -> Result<Came> {
        let Archive { group, session, name, content, archived_at } = archive;
        if !self.came(group)? {
            return Came::left(format!("no group {group} came along"));
        }
        if content.len() > LONGEST {
            return Came::left(format!("it has more than {LONGEST} bytes of text"));
        }
        let inserted = self
            .c
            .prepare_cached(
                "INSERT INTO archives (group_folder, session_id, name, content, archived_at) VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT (group_folder, session_id, name) DO NOTHING",
            )?
            .execute(params![group.as_str(), session, name, content, archived_at.0])?;
        if inserted == 0 {
            return Ok(Came::Again);
        }
        Ok(Came::New(self.c.last_insert_rowid().to_string()))
    }

    pub(super) fn task(&mut self, task: &Task) -> Result<Came> {
        let t = task;
        if !self.has_group(&t.group)? {
            return Came::left(format!("there is no group {}", t.group));
        }
        if t.prompt.len() + t.script.as_ref().map_or(0, String::len) > LONGEST {
            return Came::left(format!("it has more than {LONGEST} bytes of text"));
        }
        let next_run = t.next_run.filter(|_| t.status != TaskStatus::Completed);
        let inserted = self
            .c
            .prepare_cached(
                "INSERT INTO tasks (id, group_folder, chat_jid, prompt, script, schedule_type, schedule_value, context_mode, catch_up, catch_up_window_ms, output, status, next_run, last_run,
                   last_result, paused_for, origin, created_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18) ON CONFLICT (id, group_folder) DO NOTHING",
            )?
            .execute(params![
                t.id, t.group.as_str(), t.chat, t.prompt, t.script, t.schedule_type.as_str(), t.schedule_value, t.context_mode.as_str(),
                t.catch_up.as_str(), t.catch_up_window_ms, t.output.as_str(), t.status.as_str(), next_run.map(|at| at.0),
                t.last_run.map(|at| at.0), t.last_result, t.paused_for, t.origin.as_str(), t.created_at.0
            ])?;
        if inserted == 0 {
            return Came::left(format!("{} has a task {} already", t.group, t.id));
        }
        if t.status == TaskStatus::Active && next_run.is_some_and(|at| at <= self.now) {
            self.pass_over(t)?;
        }
        Ok(Came::New(t.id.clone()))
    }

    /// Has a task go on with its first time after now: another program may have run it at those before.
    fn pass_over(&mut self, task: &Task) -> Result<()> {
        let zone = zone_of(self.c, &task.group, self.zones)?.zone;
        let plan = slots::standing(self.c, &task.group, &task.id)?
            .and_then(|standing| standing.pass_over(&zone, self.now));
        // One whose schedule can't be read is paused when it is due.
        let Some(plan) = plan else { return Ok(()) };
        slots::go_on(self.c, &task.group, &task.id, &plan, self.now)?;
        self.c.execute(
            "UPDATE tasks SET status = iif(next_run IS NULL, 'completed', status) WHERE id = ?1 AND group_folder = ?2",
            [&task.id, task.group.as_str()],
        )?;
        self.changes.push(match plan.next {
            Some(next) => format!("its times until now are passed over; it runs next at {}", next.at),
            None => "its only time has passed, so it is completed; `g2 tasks run` runs it".to_owned(),
        });
        Ok(())
    }

    pub(super) fn run(&mut self, run: &Run) -> Result<Came> {
        let r = run;
        if !r.status.is_over() {
            return Came::left("it is not over");
        }
        if (r.kind == RunKind::Message) != r.task.is_none()
            || (r.kind != RunKind::Message && r.slot.is_none())
        {
            return Came::left("it is for no task, or for no time of one");
        }
        let lane = match r.kind {
            // Its group may be gone.
            RunKind::Message => self.lane(&r.group, &r.chat, &r.thread)?,
            RunKind::Task | RunKind::Heartbeat => None,
        };
        let for_lane = (r.kind == RunKind::Message).then(|| lane.unwrap_or(0));
        let result = r.result.as_ref().map(|text| &text[..text.floor_char_boundary(RESULT)]);
        let error = r.error.as_ref().map(|text| &text[..text.floor_char_boundary(RESULT)]);
        let inserted = self
            .c
            .prepare_cached(
                "INSERT INTO runs (group_folder, lane_id, chat_jid, thread, kind, for_lane, for_task, slot, attempt, status, sandbox, generation, created_at, started_at, ended_at, error, result, result_bytes)
                 SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 0, ?12, ?13, ?14, ?15, ?16, ?17
                 WHERE NOT EXISTS (SELECT 1 FROM runs WHERE group_folder = ?1 AND for_task = ?7 AND slot = ?8 AND attempt = ?9 AND ?13 IS NOT NULL AND started_at IS NOT NULL)",
            )?
            .execute(params![
                r.group.as_str(), lane, r.chat, r.thread, r.kind.as_str(), for_lane, r.task, r.slot.map(|at| at.0), r.attempt.max(1),
                r.status.as_str(), r.sandbox.as_str(), r.created_at.0, r.started_at.map(|at| at.0), r.ended_at.0, error, result,
                result.map_or(0, str::len)
            ])?;
        match inserted {
            0 => Came::left("a run of that task for that time is here"),
            _ => Ok(Came::New(self.c.last_insert_rowid().to_string())),
        }
    }

    pub(super) fn usage(&mut self, usage: &Usage) -> Result<Came> {
        let u = usage;
        let run: i64 =
            match moved_as(self.c, self.source, Kind::Run, &u.run)?.and_then(|own| own.parse().ok()) {
                Some(run) => run,
                None => self.number_of_gone(u)?,
            };
        self.c
            .prepare_cached(
                "INSERT INTO usage (run_id, group_folder, model, quarter, requests, errors, refused, input_tokens, cache_creation_tokens, cache_read_tokens, output_tokens)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            )?
            .execute(params![
                run, u.group.as_str(), u.model, u.quarter.0, u.requests, u.errors, u.refused, u.input_tokens, u.cache_creation_tokens,
                u.cache_read_tokens, u.output_tokens
            ])?;
        Ok(Came::New(run.to_string()))
    }

    /// Returns a number for a run that is in no ledger any more, one that no run of here has or is given.
    fn number_of_gone(&mut self, usage: &Usage) -> Result<i64> {
        let number = self
            .c
            .prepare_cached(
                "INSERT INTO runs (group_folder, chat_jid, kind, for_lane, status, sandbox, generation, created_at, ended_at)
                 VALUES (?1, '', 'message', 0, 'cancelled', 'process', 0, 0, 0) RETURNING id",
            )?
            .query_row([usage.group.as_str()], |r| r.get::<_, i64>("id"))?;
        self.c.prepare_cached("DELETE FROM runs WHERE id = ?1")?.execute([number])?;
        note(self.c, self.source, Kind::Run, &usage.run, &number.to_string())?;
        Ok(number)
    }
}
