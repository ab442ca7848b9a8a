//! Commands: each has one receipt, one effect, and at most one reply.

use super::{Case, questions, rows};
use crate::{Asked, Wants, agent::is_answer, plan::PLATFORMS, template};

pub(super) fn judge(case: &Case<'_>, broken: &mut Vec<String>) {
    for command in case.asked {
        let request = &command.request;
        let receipts: Vec<(String, Option<String>)> =
            rows(case.c, "SELECT outcome, code FROM receipts WHERE request_id = ?1", [request], |r| {
                Ok((r.get("outcome")?, r.get("code")?))
            });
        if receipts.len() != 1 {
            broken.push(format!("the command {request} has {} receipts: {receipts:?}", receipts.len()));
        }
        is_settled_soon(case, command, broken);
        // A command over which our own work panics is refused, and kept for people.
        let may_be_refused = case.plan.panics_at_file.iter().any(Option::is_some);
        let is_refused = receipts.iter().any(|(_, code)| code.as_deref() == Some("internal"));
        if may_be_refused && is_refused {
            continue;
        }
        if let Some((outcome, code)) = receipts.first().filter(|(outcome, _)| outcome != "applied") {
            broken.push(format!("the command {request} was {outcome}: {code:?}"));
        }
        match &command.wants {
            Wants::Tasks(_) => {}
            Wants::Answer(token) => questions::judge(case, request, token, broken),
            Wants::File { text, n } => is_shown(case, command, (text, *n), broken),
            Wants::Text(text) => {
                let said: i64 = case
                    .c
                    .query_row("SELECT count(*) FROM outbox WHERE text = ?1", [text], |r| r.get(0))
                    .unwrap_or(-1);
                if said != 1 {
                    broken.push(format!("what the command {request} says is said {said} times"));
                }
                let seen = case
                    .shown
                    .iter()
                    .filter(|(kind, shown)| case.counts(kind) && shown.text == *text)
                    .count();
                if seen > 1 {
                    broken.push(format!("what the command {request} says is shown {seen} times"));
                }
            }
            Wants::Task(token) => {
                let of_it = |text: &str| is_answer(text, token);
                let seen =
                    case.shown.iter().filter(|(kind, shown)| case.counts(kind) && of_it(&shown.text)).count();
                if seen > 1 {
                    broken.push(format!("the task of the command {request} is answered {seen} times"));
                }
                let runs: i64 = case
                    .c
                    .query_row(
                        "SELECT count(*) FROM runs WHERE source IN (SELECT 'task:' || id FROM tasks WHERE prompt = ?1)",
                        [format!("do {token}")],
                        |r| r.get(0),
                    )
                    .unwrap_or(-1);
                if runs < 1 {
                    broken.push(format!("the task of the command {request} was begun {runs} times"));
                }
            }
        }
        if command.replies.len() > 1 {
            broken.push(format!("the command {request} has {} replies", command.replies.len()));
        }
    }
}

/// A file is there once, with its bytes, where its platform takes files.
fn is_shown(case: &Case<'_>, command: &Asked, (text, n): (&str, u64), broken: &mut Vec<String>) {
    let request = &command.request;
    let said: Vec<(i64, String)> =
        rows(case.c, "SELECT id, status FROM outbox WHERE text = ?1", [text], |r| {
            Ok((r.get("id")?, r.get("status")?))
        });
    let [(row, status)] = &said[..] else {
        broken.push(format!("what the command {request} says is said {} times", said.len()));
        return;
    };
    let wanted = template::file(&command.group, n);
    let seen = case.shown.iter().filter(|(kind, shown)| kind.files > 0 && shown.row == *row);
    let files: Vec<&Vec<u8>> = seen.flat_map(|(_, shown)| &shown.files).collect();
    if files.iter().any(|bytes| **bytes != wanted) {
        broken.push(format!("the file of the command {request} has other bytes where it is shown"));
    }
    let takes = PLATFORMS.iter().any(|kind| kind.files > 0 && command.chat.starts_with(kind.name));
    if takes && (files.len() > 1 || (status == "sent" && files.is_empty())) {
        broken
            .push(format!("the file of the command {request} is {status}, and shown {} times", files.len()));
    }
}

/// The longest time from when a command is there to its receipt, ms. It is seen within 2 s.
const SOON_MS: i64 = 60_000;

/// A command is taken in soon, whatever was heard of it, unless something failed meanwhile.
fn is_settled_soon(case: &Case<'_>, command: &Asked, broken: &mut Vec<String>) {
    let plan = case.plan;
    let asked = i64::try_from(command.at).unwrap_or(i64::MAX);
    let is_near =
        |at: u64| i64::try_from(at).is_ok_and(|at| (asked - SOON_MS..asked + 2 * SOON_MS).contains(&at));
    // After a panic work rests, and times by a clock that was set say nothing.
    if plan.panics_at_file.iter().any(Option::is_some) || plan.jumps.iter().any(|(at, _)| is_near(*at)) {
        return;
    }
    let was_set: i64 = plan.jumps.iter().filter(|(at, _)| *at < command.at).map(|(_, by)| by).sum();
    let settled: Vec<i64> =
        rows(case.c, "SELECT at FROM receipts WHERE request_id = ?1", [&command.request], |r| r.get(0));
    for settled in settled.iter().map(|at| at - plan.begins - was_set) {
        let died = case.deaths.iter().any(|at| (asked..=settled).contains(at));
        if settled - asked > SOON_MS && !died {
            broken.push(format!("the command {} of {asked} is settled at {settled}", command.request));
        }
    }
}
