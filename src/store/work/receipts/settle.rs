//! One file: known already, answered already, or decided now; then its receipt.

use ipc_handlers::{
    Caller, Code, Fault, Folder, Outcome, Refusal, Rejected, RequestId, Time, envelope, reply,
};
use rusqlite::{Connection, OptionalExtension, params};

use super::{
    CommandFile, LONG_REPLY, Proof, Receipt, Rules, Settled,
    act::{Cause, act},
    proof::run_of_token,
    recall::Recall,
    receipt,
};
use crate::domain::{
    kept::prune::{DAY_MS, RECEIPT_DAYS},
    states::CommandOutcome,
};
use crate::store::{
    Result, audit,
    stored::stored_by,
    work::by_hand::{self, Note},
};

/// For how long a `requestId` is remembered, ms.
const REMEMBERED_MS: i64 = 7 * DAY_MS;
// No receipt is pruned that is needed for it.
const _: () = assert!(REMEMBERED_MS <= RECEIPT_DAYS as i64 * DAY_MS);

/// What a decision came to, before it is written down.
pub(super) struct Verdict {
    pub(super) kind: Option<String>,
    pub(super) request_id: Option<String>,
    pub(super) outcome: CommandOutcome,
    pub(super) refusal: Option<Refusal>,
    pub(super) reply: Option<Vec<u8>>,
    pub(super) replay_of: Option<i64>,
}

impl Verdict {
    pub(super) fn refused(kind: Option<String>, request_id: Option<&RequestId>, refusal: Refusal) -> Self {
        let reply = Some(reply::refused(request_id, &refusal));
        Self {
            kind,
            request_id: request_id.map(|id| id.as_str().to_owned()),
            outcome: CommandOutcome::Refused,
            refusal: Some(refusal),
            reply,
            replay_of: None,
        }
    }
}

pub(super) fn settle(
    c: &Connection,
    file: &CommandFile,
    rules: &Rules,
    recall: &mut Recall,
    now: Time,
) -> Result<Settled> {
    let digest = &file.digest;
    let may_know = recall.may_know(c, file.claim)?;
    let by_claim = if may_know { receipt(c, "claim_id = ?1", params![file.claim])? } else { None };
    let known = match by_claim {
        Some(known) => Some(known),
        // The same file, holding the same: one that was rewritten in place since is another command.
        None => receipt(
            c,
            "group_folder = ?1 AND origin = ?2 AND digest = ?3",
            params![file.group.as_str(), file.origin, digest],
        )?,
    };
    if let Some(receipt) = known {
        let reply = match &receipt.reply {
            None => answered_anew(c, file, &receipt, rules, recall, now)?,
            Some(_) => receipt.reply.clone(),
        };
        return Ok(Settled { receipt: Receipt { reply, ..receipt }, fresh: false });
    }
    let note = if may_know { by_hand::note(c, file.claim)? } else { None };
    let tried_again = matches!(note, Some(Note::RetryOf(_)));
    // The group's run of now has nothing to do with it.
    let of_nobody = tried_again.then(|| CommandFile { run: None, ..file.clone() });
    let file = of_nobody.as_ref().unwrap_or(file);
    let verdict = match &file.body {
        _ if let Some(Note::Dropped(reason)) = &note => dropped(file, reason),
        _ if let Some(refusal) = &file.refused => refused(file, refusal.clone()),
        Err(refusal) => {
            Verdict { outcome: CommandOutcome::Malformed, ..Verdict::refused(None, None, refusal.clone()) }
        }
        Ok(body) => match body.envelope() {
            Err(rejected) => rejection(rejected.clone()),
            Ok(envelope) => {
                let id = envelope.request_id.as_ref();
                // What a person has tried again is decided anew, whatever it came to before.
                let first = match id.filter(|_| !tried_again) {
                    Some(id) => first_of(c, &file.group, id, now)?,
                    None => None,
                };
                let again = match &first {
                    Some((claim, known)) if known == digest => repeat(c, *claim)?,
                    Some(_) | None => None,
                };
                // A list that is not kept any more is made anew.
                let first = first.filter(|(_, known)| again.is_some() || known != digest);
                match (again, first, run_of_token(c, file, tried_again, now)?, id) {
                    (Some(verdict), ..) => verdict,
                    (None, _, Err(refusal), _) => {
                        Verdict::refused(Some(envelope.command.type_name().to_owned()), id, refusal)
                    }
                    (None, Some((claim, _)), Ok(_), Some(id)) => Verdict {
                        replay_of: Some(claim),
                        ..Verdict::refused(None, Some(id), Refusal::request_id_reused(id))
                    },
                    (None, _, Ok(None), _) => decide(c, file, envelope, rules, recall, now)?,
                    (None, _, Ok(run), _) => {
                        // Its token knows better than whose turn it was when the file was claimed.
                        let file = CommandFile { run, ..file.clone() };
                        let verdict = decide(c, &file, envelope, rules, recall, now)?;
                        return kept(c, &file, verdict, rules, recall, now);
                    }
                }
            }
        },
    };
    kept(c, file, verdict, rules, recall, now)
}

/// Writes the receipt, and lets go of long replies of the group that are more than is kept.
fn kept(
    c: &Connection,
    file: &CommandFile,
    verdict: Verdict,
    rules: &Rules,
    recall: &mut Recall,
    now: Time,
) -> Result<Settled> {
    let settled = keep(c, file, verdict, now)?;
    crate::system::failpoint::reach_of("ipc.decided", file.group.as_str());
    recall.kept(file.claim);
    if settled.receipt.reply_bytes() >= LONG_REPLY {
        let_go(c, &file.group, rules.bounds.replies)?;
    }
    Ok(settled)
}

/// How many replies are let go of at a time; of a store of before there may be many.
const LET_GO: usize = 16;

/// Forgets the group's long replies but for the newest of `most` bytes together.
pub(super) fn let_go(c: &Connection, group: &Folder, most: u64) -> Result<()> {
    let mut long = c.prepare_cached(
        "SELECT claim_id, length(reply) AS bytes FROM receipts INDEXED BY receipts_long WHERE group_folder = ?1 AND length(reply) >= 16384 ORDER BY claim_id DESC",
    )?;
    let mut rows = long.query([group.as_str()])?;
    let (mut bytes, mut excess) = (0_u64, Vec::new());
    while let Some(row) = rows.next()?
        && excess.len() < LET_GO
    {
        bytes = bytes.saturating_add(row.get("bytes")?);
        if bytes > most {
            excess.push(row.get::<_, i64>("claim_id")?);
        }
    }
    for claim in excess {
        c.prepare_cached("UPDATE receipts SET reply = NULL WHERE claim_id = ?1")?.execute([claim])?;
    }
    Ok(())
}

/// Whether a command only reads: it can be done again.
fn only_reads(kind: Option<&str>) -> bool {
    matches!(kind, Some("list_tasks" | "search_sessions" | "refresh_groups"))
}

/// The reply to a command that was settled before and whose reply is not kept.
fn answered_anew(
    c: &Connection,
    file: &CommandFile,
    receipt: &Receipt,
    rules: &Rules,
    recall: &mut Recall,
    now: Time,
) -> Result<Option<Vec<u8>>> {
    if receipt.outcome != CommandOutcome::Applied
        || receipt.request_id.is_none()
        || !only_reads(receipt.kind.as_deref())
    {
        return Ok(None);
    }
    // What a search finds now would be seen before it is written down.
    let file = CommandFile { found: None, ..file.clone() };
    let Some(envelope) = file.envelope() else { return Ok(None) };
    match decide(c, &file, envelope, rules, recall, now) {
        Ok(verdict) => Ok(verdict.reply),
        Err(error) if error.is_worlds_fault() => Err(error),
        Err(_) => Ok(None),
    }
}

/// A person set it aside, whatever it asks for.
fn dropped(file: &CommandFile, reason: &str) -> Verdict {
    refused(file, Refusal::dropped(reason))
}

/// The refusal of a file, whatever it asks for.
pub(super) fn refused(file: &CommandFile, refusal: Refusal) -> Verdict {
    let parsed = file.body.as_ref().ok().map(|body| body.envelope());
    let (kind, id) = match parsed {
        Some(Ok(envelope)) => (Some(envelope.command.type_name().to_owned()), envelope.request_id.as_ref()),
        Some(Err(rejected)) => (rejected.type_name.clone(), rejected.request_id.as_ref()),
        None => (None, None),
    };
    Verdict::refused(kind, id, refusal)
}

/// The token's id, also of one that was refused for its run's or its group's sake.
fn token_id(file: &CommandFile) -> Option<&str> {
    match &file.proof {
        Proof::Claims(claims) => Some(claims.jti.as_str()),
        Proof::None | Proof::Missing | Proof::Bad(_) => None,
    }
}

/// Writes the receipt.
pub(super) fn keep(c: &Connection, file: &CommandFile, verdict: Verdict, now: Time) -> Result<Settled> {
    let (code, reason, hint) = match &verdict.refusal {
        Some(refusal) => (Some(refusal.code), Some(refusal.message.as_str()), Some(refusal.hint.as_str())),
        None => (None, None, None),
    };
    c.prepare_cached(
        "INSERT INTO receipts (claim_id, group_folder, box, name, type, request_id, run_id, origin, digest, outcome, code, reason, hint, reply, replay_of, at, written_at, claimed_at, token_id)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)",
    )?
    .execute(params![
        file.claim, file.group.as_str(), file.box_name, file.name, verdict.kind, verdict.request_id, file.run, file.origin,
        file.digest, verdict.outcome.as_str(), code.map(Code::as_str), reason, hint, verdict.reply, verdict.replay_of, now.0,
        file.written.map(|at| at.0), file.taken.map(|at| at.0), token_id(file)
    ])?;
    crate::system::failpoint::reach("ipc.decided");
    Ok(Settled {
        receipt: Receipt {
            claim: file.claim,
            box_name: file.box_name.clone(),
            name: file.name.clone(),
            kind: verdict.kind,
            request_id: verdict.request_id,
            outcome: verdict.outcome,
            code,
            reason: reason.map(Into::into),
            hint: hint.map(Into::into),
            reply: verdict.reply,
            at: now,
        },
        fresh: true,
    })
}

fn rejection(rejected: Rejected) -> Verdict {
    let verdict = Verdict::refused(rejected.type_name, rejected.request_id.as_ref(), rejected.refusal);
    match rejected.fault {
        Fault::Malformed => Verdict { outcome: CommandOutcome::Malformed, ..verdict },
        Fault::Refused => verdict,
    }
}

/// The same `requestId` again: the first reply for the same bytes, a conflict for others. Returns the first one with
/// its digest. What an earlier group of that name asked for is no answer, nor is a fault of ours, nor is one that a person has tried again since.
fn first_of(c: &Connection, group: &Folder, id: &RequestId, now: Time) -> Result<Option<(i64, Vec<u8>)>> {
    let since = now.0.saturating_sub(REMEMBERED_MS);
    Ok(c.prepare_cached(
            "SELECT claim_id, digest FROM receipts WHERE group_folder = ?1 AND request_id = ?2 AND at >= ?3 AND replay_of IS NULL AND code IS NOT 'internal'
               AND claim_id > coalesce((SELECT after_claim FROM begins WHERE group_folder = ?1), 0)
               AND NOT EXISTS (SELECT 1 FROM by_hand b JOIN receipts n ON n.claim_id = b.claim_id WHERE b.retry_of = receipts.claim_id)
             ORDER BY claim_id LIMIT 1",
        )?
        .query_row(params![group.as_str(), id.as_str(), since], |r| Ok((r.get("claim_id")?, r.get("digest")?)))
        .optional()?)
}

/// What a command came to that is answered once more; `None` where its reply is not kept.
fn repeat(c: &Connection, claim: i64) -> Result<Option<Verdict>> {
    let Some(first) = receipt(c, "claim_id = ?1", params![claim])? else { return Ok(None) };
    if first.reply.is_none() && only_reads(first.kind.as_deref()) {
        return Ok(None);
    }
    let refusal = match (first.code, first.reason, first.hint) {
        (Some(code), Some(reason), Some(hint)) => Some(Refusal::new(code, reason, hint)),
        (Some(_) | None, Some(_) | None, Some(_) | None) => None,
    };
    Ok(Some(Verdict {
        kind: first.kind,
        request_id: first.request_id,
        outcome: first.outcome,
        refusal,
        reply: first.reply,
        replay_of: Some(claim),
    }))
}

fn decide(
    c: &Connection,
    file: &CommandFile,
    envelope: &envelope::Envelope,
    rules: &Rules,
    recall: &mut Recall,
    now: Time,
) -> Result<Verdict> {
    let command = &envelope.command;
    let kind = Some(command.type_name().to_owned());
    let id = envelope.request_id.as_ref();
    let refused = |why: String, mend: &str| {
        Ok(Verdict::refused(kind.clone(), id, Refusal::new(Code::NotAuthorized, why, mend)))
    };
    let group = &file.group;
    let Some(is_main) = recall.is_main(c, group)? else {
        return refused(format!("group {group} is not registered"), "register it with `g2 groups add`");
    };
    if file.claim <= recall.begun_after(c, group)? {
        let why = format!("an earlier group of the name {group} asked for it, and is gone");
        return refused(why, "if it is still wanted, the group that has this name now asks for it");
    }
    if command.needs_room() {
        let stored = stored_by(c, &file.group)?;
        if stored >= rules.bounds.stored {
            return Ok(Verdict::refused(kind, id, Refusal::no_room(stored, rules.bounds.stored)));
        }
    }
    let caller = Caller {
        group: file.group.clone(),
        is_main,
        run: file.run.map(|run| recall.seat(c, run)).transpose()?.flatten(),
    };
    match act(c, &Cause::File(file), &caller, command, rules, recall, now)? {
        Ok(acted) => {
            if command.is_lasting() && recall.tells_changes_of(&file.group) {
                let who = match &caller.run {
                    Some(seat) => format!("agent of {} in run {}", file.group, seat.run),
                    None => format!("agent of {}", file.group),
                };
                let what = format!("{}, command {}", command.type_name(), file.claim);
                if !audit::append_of_agent(c, &file.group, who, what, now)? {
                    recall.told_enough_of(&file.group);
                }
            }
            Ok(Verdict {
                kind,
                request_id: id.map(|id| id.as_str().to_owned()),
                outcome: CommandOutcome::Applied,
                refusal: None,
                reply: match acted.outcomes[..] {
                    [Outcome::ToSearch] => file.found.as_deref().cloned(),
                    _ => Some(reply::accepted(envelope, &acted.outcomes, &acted.zone)),
                },
                replay_of: None,
            })
        }
        Err(refusal) => Ok(Verdict::refused(kind, id, refusal)),
    }
}
