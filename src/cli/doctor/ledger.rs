//! What the store says went wrong: messages that were not said, commands that were malformed, runs without an owner.

use super::{
    Subject,
    row::{Row, chain},
};
use crate::{
    domain::{
        heard::approvals::{Approval, State},
        mailbox::holds::Hold,
    },
    store::ActiveRun,
};

pub(super) async fn check(subject: &Subject) -> Vec<Row> {
    let Some(store) = &subject.store else { return Vec::new() };
    let failed = |check: &'static str| {
        move |error: crate::store::StoreError| vec![Row::fail(check, chain(&error), "see the store's row")]
    };
    let mut rows: Vec<Row> = [
        subject.all_is_well("outbox", "every text of the last 24 hours was sent, or is about to be"),
        subject.all_is_well("given_up", "no message was given up within the last 24 hours"),
        subject.all_is_well("runs_fail", "no group's runs keep failing"),
    ]
    .into_iter()
    .flatten()
    .collect();
    rows.extend(store.dead_commands().map_or_else(failed("commands"), |dead| vec![commands(dead)]));
    let who = store.who_is_asked().await.ok().and_then(Result::ok);
    rows.extend(store.approvals(false).await.map_or_else(failed("approvals"), |open| {
        let row = approvals(&open, who);
        let told = row.fix.is_none() && subject.has_problem("approvals");
        if told { Vec::new() } else { vec![row] }
    }));
    rows.extend(store.holds().map_or_else(failed("holds"), |holds| vec![held(&holds)]));
    rows.extend(store.active_runs().map_or_else(failed("runs"), |active| {
        runs(&active, |owner| subject.daemon.is_some() || crate::app::is_alive(owner))
    }));
    rows
}

/// The questions that are open, and who would be asked the next one.
fn approvals(open: &[Approval], who: Option<String>) -> Row {
    let unsaid: Vec<String> = open
        .iter()
        .filter(|approval| approval.state == State::Undeliverable)
        .map(|q| q.id.to_string())
        .collect();
    match (who, unsaid.as_slice(), open) {
        (_, [first, ..], _) => Row::warn(
            "approvals",
            format!("{} questions could not be sent to their approvers: {}", unsaid.len(), unsaid.join(", ")),
            format!(
                "`g2 approvals show {first}` says why; answer it with `g2 approvals approve {first}` or `deny {first}`"
            ),
        ),
        (Some(who), [], []) => Row::ok("approvals", format!("no question waits; {who} would be asked")),
        (_, [], open) => {
            Row::ok("approvals", format!("{} questions wait; `g2 approvals list` shows them", open.len()))
        }
    }
}

fn commands(dead: i64) -> Row {
    if dead == 0 {
        return Row::ok("commands", "no command is dead");
    }
    Row::warn(
        "commands",
        format!("{dead} commands of agents could not be read and were set aside"),
        "`g2 ipc list --state dead` says why; their files are in data/dead/",
    )
}

fn held(holds: &[Hold]) -> Row {
    // A group that is set aside is a problem of the list.
    let Some(first) = holds.iter().find(|hold| !hold.aside) else {
        return Row::ok("holds", "no command is held");
    };
    let name = crate::ops::ipc::shown(first);
    let why = first.reason.as_deref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    Row::warn(
        "holds",
        format!("the commands of {name} are held since {}{why}; holds in all: {}", first.at, holds.len()),
        format!("`g2 ipc release {name}` releases them; `g2 status` lists all holds"),
    )
}

/// Decides on runs that have not ended. `lives` tells whether their owner does.
fn runs(active: &[ActiveRun], lives: impl Fn(&str) -> bool) -> Vec<Row> {
    let bad: Vec<Row> = active
        .iter()
        .filter_map(|run| {
            let detail = match run.owner.as_deref() {
                None => format!("run {} of group {} ({}) has no daemon, and the group waits for its end", run.id, run.group, run.source),
                Some(owner) if !lives(owner) => {
                    format!("run {} of group {} ({}) was left by a daemon that is gone", run.id, run.group, run.source)
                }
                Some(_) => return None,
            };
            Some(Row::warn("runs", detail, format!("start the daemon with `g2 serve`: it adopts the run, or ends it and tries its work again; `g2 runs show {}` says more", run.id)))
        })
        .collect();
    if bad.is_empty() {
        vec![Row::ok("runs", format!("{} live, each with its daemon", active.len()))]
    } else {
        bad
    }
}
