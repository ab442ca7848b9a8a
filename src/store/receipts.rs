//! Commands: from the bytes of a claimed file to its receipt, in one savepoint. Whatever the outcome, there is one.

use ipc_handlers::{
    Caller, Code, Command, Effect, Facts, Fault, Folder, NotApplied, Outcome, Refusal, Rejected, RequestId,
    RunSeat, Scope, TaskRow, TaskStatus, Time,
    effect::Lanes,
    envelope,
    facts::{ChatFacts, TaskFacts},
    reply,
};
use rusqlite::{Connection, OptionalExtension, params};
use sha2::{Digest, Sha256};

use super::{
    Result, Store, folder,
    lanes::clear_sessions,
    outbox::{Say, say},
    tasks,
    writer::execute,
};
use crate::domain::rows::IpcRow;

/// A claimed file, ready to be decided.
#[derive(Clone, Debug)]
pub struct CommandFile {
    pub claim: i64,
    pub group: Folder,
    pub box_name: String,
    pub name: String,
    /// What identifies the file itself, wherever it lies.
    pub origin: Vec<u8>,
    /// The group's run when the file was claimed.
    pub run: Option<i64>,
    /// The bytes, or why there are none that could be a command.
    pub body: std::result::Result<Vec<u8>, Refusal>,
}

/// What was decided about a file, and what to do with it.
#[derive(Clone, Debug)]
pub struct Settled {
    pub receipt: Receipt,
    /// Whether this call decided it (and not an earlier one).
    pub fresh: bool,
    /// The snapshots of tasks show something else now.
    pub tasks_changed: bool,
    /// Something is to be said.
    pub said: bool,
    /// Lanes whose session was cleared, with their new generation.
    pub cleared: Vec<(i64, i64)>,
}

/// The proof that a command file was dealt with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    pub claim: i64,
    pub box_name: String,
    pub name: String,
    pub kind: Option<String>,
    pub request_id: Option<String>,
    /// `applied refused malformed`.
    pub outcome: String,
    pub code: Option<String>,
    pub reason: Option<String>,
    pub hint: Option<String>,
    pub reply: Option<Vec<u8>>,
    pub at: Time,
}

/// For how long a `requestId` is remembered, ms.
const REMEMBERED_MS: i64 = 7 * 24 * 3_600_000;

impl Store {
    /// Decides a command file and applies its effects, once: a file that was decided before gets its first outcome.
    pub fn settle(
        &self,
        file: CommandFile,
        zone: (String, jiff::tz::TimeZone),
        now: Time,
    ) -> impl Future<Output = Result<Settled>> + Send + use<> {
        self.write(move |c| settle(c, &file, &zone, now))
    }

    /// Writes down that a command was refused for a reason that lies outside it, so that it is answered and not tried
    /// for ever.
    pub async fn refuse(&self, file: CommandFile, refusal: Refusal, now: Time) -> Result<Settled> {
        self.write(move |c| {
            let envelope = file.body.as_deref().ok().and_then(|bytes| envelope::parse(bytes).ok());
            let kind = envelope.as_ref().map(|e| e.command.type_name().to_owned());
            let id = envelope.as_ref().and_then(|e| e.request_id.as_ref());
            keep(c, &file, Verdict::refused(kind, id, refusal), now)
        })
        .await
    }

    /// Returns the highest claim id of any receipt.
    pub fn last_claim(&self) -> Result<i64> {
        self.read(|c| Ok(c.query_row("SELECT coalesce(max(claim_id), 0) FROM receipts", [], |r| r.get(0))?))
    }

    /// Returns one receipt.
    pub fn receipt(&self, claim: i64) -> Result<Option<Receipt>> {
        self.read(|c| receipt(c, "claim_id = ?1", params![claim]))
    }

    /// Returns receipts as rows of `ipc list`, newest last.
    pub fn ipc_rows(&self, limit: usize, now: Time) -> Result<Vec<IpcRow>> {
        self.read(|c| {
            Ok(c.prepare_cached(
                "SELECT * FROM (SELECT claim_id, group_folder, box, name, type, request_id, outcome, at, code, reason FROM receipts ORDER BY claim_id DESC LIMIT ?1) ORDER BY claim_id",
            )?
            .query_map([limit], |r| {
                Ok(IpcRow {
                    id: r.get(0)?,
                    group: r.get(1)?,
                    box_name: r.get(2)?,
                    name: r.get(3)?,
                    kind: r.get(4)?,
                    request_id: r.get(5)?,
                    state: match r.get::<_, String>(6)?.as_str() {
                        "malformed" => "dead".into(),
                        other => other.into(),
                    },
                    age_ms: now.ms_since(Time(r.get(7)?)),
                    code: r.get(8)?,
                    reason: r.get(9)?,
                })
            })?
            .collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Counts malformed commands.
    pub fn dead_commands(&self) -> Result<i64> {
        self.read(|c| {
            Ok(c.query_row("SELECT count(*) FROM receipts WHERE outcome = 'malformed'", [], |r| r.get(0))?)
        })
    }
}

fn receipt(c: &Connection, which: &str, with: impl rusqlite::Params) -> Result<Option<Receipt>> {
    let sql = format!(
        "SELECT claim_id, box, name, type, request_id, outcome, code, reason, hint, reply, at FROM receipts WHERE {which} ORDER BY claim_id LIMIT 1"
    );
    Ok(c.prepare_cached(&sql)?
        .query_row(with, |r| {
            Ok(Receipt {
                claim: r.get(0)?,
                box_name: r.get(1)?,
                name: r.get(2)?,
                kind: r.get(3)?,
                request_id: r.get(4)?,
                outcome: r.get(5)?,
                code: r.get(6)?,
                reason: r.get(7)?,
                hint: r.get(8)?,
                reply: r.get(9)?,
                at: Time(r.get(10)?),
            })
        })
        .optional()?)
}

/// What a decision came to, before it is written down.
struct Verdict {
    kind: Option<String>,
    request_id: Option<String>,
    outcome: &'static str,
    refusal: Option<Refusal>,
    reply: Option<Vec<u8>>,
    replay_of: Option<i64>,
    tasks_changed: bool,
    said: bool,
    cleared: Vec<(i64, i64)>,
}

impl Verdict {
    fn refused(kind: Option<String>, request_id: Option<&RequestId>, refusal: Refusal) -> Self {
        let reply = Some(reply::refused(request_id, &refusal));
        Self {
            kind,
            request_id: request_id.map(|id| id.as_str().to_owned()),
            outcome: "refused",
            refusal: Some(refusal),
            reply,
            replay_of: None,
            tasks_changed: false,
            said: false,
            cleared: Vec::new(),
        }
    }
}

fn settle(
    c: &Connection,
    file: &CommandFile,
    zone: &(String, jiff::tz::TimeZone),
    now: Time,
) -> Result<Settled> {
    let digest = digest(file);
    let known = match receipt(c, "claim_id = ?1", params![file.claim])? {
        Some(known) => Some(known),
        // The same file, holding the same: one that was rewritten in place since is another command.
        None => receipt(
            c,
            "group_folder = ?1 AND origin = ?2 AND digest = ?3",
            params![file.group.as_str(), file.origin, digest],
        )?,
    };
    if let Some(receipt) = known {
        return Ok(Settled { receipt, fresh: false, tasks_changed: false, said: false, cleared: Vec::new() });
    }
    let verdict = match &file.body {
        Err(refusal) => Verdict { outcome: "malformed", ..Verdict::refused(None, None, refusal.clone()) },
        Ok(bytes) => match envelope::parse(bytes) {
            Err(rejected) => rejection(*rejected),
            Ok(envelope) => {
                let id = envelope.request_id.as_ref();
                match id.map(|id| earlier(c, &file.group, id, &digest, now)).transpose()?.flatten() {
                    Some(verdict) => verdict,
                    None => decide(c, file, &envelope, zone, now)?,
                }
            }
        },
    };
    keep(c, file, verdict, now)
}

/// What tells a repeated command from a changed one.
fn digest(file: &CommandFile) -> Vec<u8> {
    match &file.body {
        Ok(bytes) => Sha256::digest(bytes).to_vec(),
        Err(_) => Vec::new(),
    }
}

/// Writes the receipt.
fn keep(c: &Connection, file: &CommandFile, verdict: Verdict, now: Time) -> Result<Settled> {
    let (code, reason, hint) = match &verdict.refusal {
        Some(refusal) => {
            (Some(refusal.code.as_str()), Some(refusal.message.as_str()), Some(refusal.hint.as_str()))
        }
        None => (None, None, None),
    };
    c.prepare_cached(
        "INSERT INTO receipts (claim_id, group_folder, box, name, type, request_id, run_id, origin, digest, outcome, code, reason, hint, reply, replay_of, at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
    )?
    .execute(params![
        file.claim, file.group.as_str(), file.box_name, file.name, verdict.kind, verdict.request_id, file.run, file.origin,
        digest(file), verdict.outcome, code, reason, hint, verdict.reply, verdict.replay_of, now.0
    ])?;
    crate::failpoint::reach("ipc.decided");
    Ok(Settled {
        receipt: Receipt {
            claim: file.claim,
            box_name: file.box_name.clone(),
            name: file.name.clone(),
            kind: verdict.kind,
            request_id: verdict.request_id,
            outcome: verdict.outcome.into(),
            code: code.map(Into::into),
            reason: reason.map(Into::into),
            hint: hint.map(Into::into),
            reply: verdict.reply,
            at: now,
        },
        fresh: true,
        tasks_changed: verdict.tasks_changed,
        said: verdict.said,
        cleared: verdict.cleared,
    })
}

fn rejection(rejected: Rejected) -> Verdict {
    let verdict = Verdict::refused(rejected.type_name, rejected.request_id.as_ref(), rejected.refusal);
    match rejected.fault {
        Fault::Malformed => Verdict { outcome: "malformed", ..verdict },
        Fault::Refused => verdict,
    }
}

/// The same `requestId` again: the first reply for the same bytes, a conflict for others. A fault of ours is no answer.
fn earlier(
    c: &Connection,
    group: &Folder,
    id: &RequestId,
    digest: &[u8],
    now: Time,
) -> Result<Option<Verdict>> {
    let since = now.0.saturating_sub(REMEMBERED_MS);
    let known: Option<(i64, Vec<u8>)> = c
        .prepare_cached("SELECT claim_id, digest FROM receipts WHERE group_folder = ?1 AND request_id = ?2 AND at >= ?3 AND replay_of IS NULL AND code IS NOT 'internal' ORDER BY claim_id LIMIT 1")?
        .query_row(params![group.as_str(), id.as_str(), since], |r| Ok((r.get(0)?, r.get(1)?)))
        .optional()?;
    let Some((claim, first_digest)) = known else { return Ok(None) };
    if first_digest != digest {
        let refusal = Refusal::request_id_reused(id);
        return Ok(Some(Verdict { replay_of: Some(claim), ..Verdict::refused(None, Some(id), refusal) }));
    }
    let Some(first) = receipt(c, "claim_id = ?1", params![claim])? else { return Ok(None) };
    let refusal = match (&first.code, first.reason, first.hint) {
        (Some(code), Some(reason), Some(hint)) => {
            code_named(code).map(|code| Refusal::new(code, reason, hint))
        }
        (Some(_) | None, Some(_) | None, Some(_) | None) => None,
    };
    let outcome = match first.outcome.as_str() {
        "applied" => "applied",
        "malformed" => "malformed",
        _ => "refused",
    };
    Ok(Some(Verdict {
        kind: first.kind,
        request_id: first.request_id,
        outcome,
        refusal,
        reply: first.reply,
        replay_of: Some(claim),
        tasks_changed: false,
        said: false,
        cleared: Vec::new(),
    }))
}

fn decide(
    c: &Connection,
    file: &CommandFile,
    envelope: &envelope::Envelope,
    zone: &(String, jiff::tz::TimeZone),
    now: Time,
) -> Result<Verdict> {
    let command = &envelope.command;
    let kind = Some(command.type_name().to_owned());
    let id = envelope.request_id.as_ref();
    let is_main: Option<bool> = c
        .prepare_cached("SELECT is_main FROM groups WHERE folder = ?1")?
        .query_row([file.group.as_str()], |r| r.get(0))
        .optional()?;
    let Some(is_main) = is_main else {
        let refusal = Refusal::new(
            Code::NotAuthorized,
            format!("group {} is not registered", file.group),
            "register it with `g2 groups add`",
        );
        return Ok(Verdict::refused(kind, id, refusal));
    };
    let caller = Caller {
        group: file.group.clone(),
        is_main,
        run: file.run.map(|run| run_seat(c, run)).transpose()?.flatten(),
    };
    let facts = facts(c, &caller, command, zone, now)?;
    let effects = match ipc_handlers::decide(&caller, command, &facts) {
        Ok(effects) => effects,
        Err(refusal) => return Ok(Verdict::refused(kind, id, refusal)),
    };
    let mut verdict = Verdict {
        kind,
        request_id: id.map(|id| id.as_str().to_owned()),
        outcome: "applied",
        refusal: None,
        reply: None,
        replay_of: None,
        tasks_changed: false,
        said: false,
        cleared: Vec::new(),
    };
    execute(c, "SAVEPOINT effects")?;
    let mut outcomes = Vec::new();
    for effect in &effects {
        match apply(c, file, &caller, effect, &mut verdict, now)? {
            Ok(outcome) => outcomes.push(outcome),
            Err(not_applied) => {
                execute(c, "ROLLBACK TO effects")?;
                execute(c, "RELEASE effects")?;
                return Ok(Verdict::refused(verdict.kind, id, not_applied.into()));
            }
        }
    }
    execute(c, "RELEASE effects")?;
    verdict.reply = Some(reply::accepted(id, &outcomes, &facts.zone));
    Ok(verdict)
}

/// Returns the code of a name that is in a receipt.
fn code_named(name: &str) -> Option<Code> {
    Code::ALL.into_iter().find(|code| code.as_str() == name)
}

fn run_seat(c: &Connection, run: i64) -> Result<Option<RunSeat>> {
    Ok(c.prepare_cached("SELECT lane_id, chat_jid FROM runs WHERE id = ?1")?
        .query_row([run], |r| Ok((r.get::<_, Option<i64>>(0)?, r.get::<_, String>(1)?)))
        .optional()?
        .and_then(|(lane, chat_jid)| lane.map(|lane| RunSeat { run, lane, chat_jid })))
}

fn facts(
    c: &Connection,
    caller: &Caller,
    command: &Command,
    zone: &(String, jiff::tz::TimeZone),
    now: Time,
) -> Result<Facts> {
    let wants = command.wants(caller);
    let groups_of = |jid: &str| -> Result<Vec<Folder>> {
        Ok(c.prepare_cached("SELECT group_folder FROM wirings WHERE chat_jid = ?1 ORDER BY id")?
            .query_map([jid], |r| folder(r.get(0)?))?
            .collect::<rusqlite::Result<_>>()?)
    };
    let chat = match wants.chat {
        Some(jid) => {
            let known: bool = c
                .prepare_cached("SELECT EXISTS (SELECT 1 FROM chats WHERE jid = ?1)")?
                .query_row([&jid], |r| r.get(0))?;
            if known { Some(ChatFacts { groups: groups_of(&jid)?, jid }) } else { None }
        }
        None => None,
    };
    let task = match wants.task {
        Some(id) => tasks::task(c, &id)?.map(|task| TaskFacts { id: task.id, group: task.group }),
        None => None,
    };
    let folder_exists = match wants.folder {
        Some(folder) => c
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM groups WHERE folder = ?1)")?
            .query_row([folder.as_str()], |r| r.get(0))?,
        None => true,
    };
    let own_chats = c
        .prepare_cached("SELECT chat_jid FROM wirings WHERE group_folder = ?1 ORDER BY id")?
        .query_map([caller.group.as_str()], |r| r.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    Ok(Facts { now, zone: zone.1.clone(), zone_name: zone.0.clone(), chat, own_chats, task, folder_exists })
}

fn scope(scope: &Scope) -> Option<&Folder> {
    match scope {
        Scope::Group(folder) => Some(folder),
        Scope::All => None,
    }
}

/// Applies one effect. What it may touch is in its `WHERE`.
fn apply(
    c: &Connection,
    file: &CommandFile,
    caller: &Caller,
    effect: &Effect,
    verdict: &mut Verdict,
    now: Time,
) -> Result<std::result::Result<Outcome, NotApplied>> {
    Ok(match effect {
        Effect::Say { chat_jid, text, sender, reply_to } => {
            // The thread of the run that speaks, when it speaks to its own chat.
            let thread: Option<String> = match &caller.run {
                Some(seat) if seat.chat_jid == *chat_jid => c
                    .prepare_cached("SELECT thread FROM runs WHERE id = ?1")?
                    .query_row([seat.run], |r| r.get(0))
                    .optional()?,
                Some(_) | None => None,
            };
            let cause = format!("command {}", file.claim);
            let outbox_id = say(
                c,
                &Say {
                    chat_jid,
                    thread: thread.as_deref().unwrap_or_default(),
                    text,
                    sender: sender.as_deref(),
                    reply_to: reply_to.as_deref(),
                    cause: &cause,
                    run: file.run,
                },
                now,
            )?;
            verdict.said = true;
            Ok(Outcome::Said { outbox_id })
        }
        Effect::CreateTask(new) => {
            let task_id = match &new.id {
                Some(id) => id.clone(),
                None => {
                    let mut n: i64 = c
                        .prepare_cached(
                            "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'tasks'), 0) + 1",
                        )?
                        .query_row([], |r| r.get(0))?;
                    while tasks::task(c, &format!("task-{n}"))?.is_some() {
                        n += 1;
                    }
                    format!("task-{n}")
                }
            };
            let inserted = c
                .prepare_cached(
                    "INSERT INTO tasks (id, group_folder, chat_jid, prompt, script, schedule_type, schedule_value, context_mode, catch_up, output, status, next_run, created_at)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 'active', ?11, ?12) ON CONFLICT (id) DO NOTHING",
                )?
                .execute(params![
                    task_id, new.group.as_str(), new.chat_jid, new.prompt, new.script, new.schedule.type_name(), new.schedule.value(),
                    new.context_mode.as_str(), new.catch_up.as_str(), new.output.as_str(), new.next_run.0, now.0
                ])?;
            if inserted == 0 {
                return Ok(Err(NotApplied::TaskIdTaken { id: task_id }));
            }
            verdict.tasks_changed = true;
            Ok(Outcome::TaskCreated { task_id, next_run: new.next_run })
        }
        Effect::ListTasks { scope: within } => {
            let rows = tasks::tasks(c, scope(within))?;
            Ok(Outcome::Tasks(rows.into_iter().map(TaskRow::from).collect()))
        }
        Effect::CancelTask { id, scope: within } => {
            if !tasks::cancel(c, id, scope(within))? {
                return Ok(Err(NotApplied::TaskGone { id: id.clone() }));
            }
            verdict.tasks_changed = true;
            Ok(Outcome::TaskCancelled { task_id: id.clone() })
        }
        Effect::ClearSession { target, lanes, archive_as } => {
            let lane = match lanes {
                Lanes::One(lane) => Some(*lane),
                Lanes::All => None,
            };
            let archived_id = clear_sessions(c, target, lane, archive_as.as_deref(), now)?;
            verdict.cleared = c
                .prepare_cached(
                    "SELECT id, generation FROM lanes WHERE group_folder = ?1 AND (?2 IS NULL OR id = ?2)",
                )?
                .query_map(params![target.as_str(), lane], |r| Ok((r.get(0)?, r.get(1)?)))?
                .collect::<rusqlite::Result<_>>()?;
            Ok(Outcome::SessionCleared { archived_id })
        }
    })
}

impl From<crate::domain::rows::Task> for TaskRow {
    fn from(task: crate::domain::rows::Task) -> Self {
        Self {
            id: task.id,
            group_folder: task.group.to_string(),
            prompt: task.prompt,
            script: task.script,
            schedule_type: task.schedule_type,
            schedule_value: task.schedule_value,
            status: match task.status.as_str() {
                "paused" => TaskStatus::Paused,
                "completed" => TaskStatus::Completed,
                _ => TaskStatus::Active,
            },
            next_run: task.next_run,
        }
    }
}
