//! What the store says went wrong: messages that were not said, commands that were malformed, runs without an owner.

use ipc_handlers::Time;

use super::{
    Subject,
    row::{Row, chain},
};
use crate::{
    domain::{
        heard::approvals::{Approval, State},
        kept::prune::DAY_MS,
        mailbox::holds::Hold,
        problems::checks::Check,
        shown::counted::{counted, number, waiting},
    },
    store::ActiveRun,
};

pub(super) async fn check(subject: &Subject, now: Time) -> Vec<Row> {
    let Some(store) = &subject.store else { return Vec::new() };
    let failed = |check| {
        move |error: crate::store::StoreError| vec![Row::fail(check, chain(&error), "see the store's row")]
    };
    let mut rows = vec![
        Row::ok(Check::Outbox, "every text of the last 24 hours was sent, or is about to be"),
        Row::ok(Check::GivenUp, "no message was given up within the last 24 hours"),
        Row::ok(Check::RunsFail, "no group's runs keep failing"),
    ];
    let who = store.who_is_asked().await.ok().and_then(Result::ok);
    rows.extend(
        store
            .approvals(false)
            .await
            .map_or_else(failed(Check::Approvals), |open| vec![approvals(&open, who)]),
    );
    rows.extend(store.holds().map_or_else(failed(Check::Holds), |holds| vec![held(&holds)]));
    let daemon = if subject.daemon.is_some() { Daemon::Up } else { Daemon::Down };
    rows.extend(
        store
            .active_runs()
            .map_or_else(failed(Check::Runs), |active| runs(&active, daemon, crate::app::is_alive)),
    );
    let day = now.plus_ms(-DAY_MS);
    rows.extend(
        store
            .stale_recoveries(day)
            .map_or_else(failed(Check::StaleRuns), |(n, newest)| vec![stale(n, newest)]),
    );
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
            Check::Approvals,
            format!(
                "{} could not be sent to their approvers: {}",
                counted(number(unsaid.len()), "question"),
                unsaid.join(", ")
            ),
            format!(
                "`g2 approvals show {first}` says why; answer it with `g2 approvals approve {first}` or `deny {first}`"
            ),
        )
        .of("unsent questions"),
        (Some(who), [], []) => Row::ok(Check::Approvals, format!("no question waits; {who} would be asked")),
        (_, [], open) => {
            let wait = waiting(number(open.len()), "question");
            Row::ok(Check::Approvals, format!("{wait}; `g2 approvals list` shows more"))
        }
    }
}

fn held(holds: &[Hold]) -> Row {
    // A group that is set aside is a problem of the list.
    let Some(first) = holds.iter().find(|hold| !hold.aside) else {
        return Row::ok(Check::Holds, "no command is held");
    };
    let name = crate::ops::ipc::shown(first);
    let why = first.reason.as_deref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    Row::warn(
        Check::Holds,
        format!("the commands of {name} are held since {}{why}; holds in all: {}", first.at, holds.len()),
        format!("`g2 ipc release {name}` releases them; `g2 status` lists all holds"),
    )
}

/// Runs that a restart found without their container: their daemon died, or their engine lost them.
fn stale(count: i64, newest: Option<i64>) -> Row {
    let Some(newest) = newest else {
        return Row::ok(Check::StaleRuns, "no run of the last 24 hours lost its daemon or its container");
    };
    Row::warn(
        Check::StaleRuns,
        format!(
            "runs of the last 24 hours that lost their daemon or their container: {count}; the newest is {newest}"
        ),
        format!(
            "find out why the daemon or the engine died: its log and the kernel's (`journalctl -k` tells of memory that ran out) from the end of run {newest} back (`g2 runs show {newest}`); their work was tried again"
        ),
    )
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Daemon {
    Up,
    Down,
}

/// Decides on runs that have not ended. `lives` tells whether their owner does.
fn runs(active: &[ActiveRun], daemon: Daemon, lives: impl Fn(&str) -> bool) -> Vec<Row> {
    // One that nobody owns is a problem of the list.
    let bad: Vec<Row> = active
        .iter()
        .filter(|run| !run.is_unowned())
        .filter_map(|run| {
            let detail = match run.owner.as_deref() {
                None => format!("run {} of group {} ({}) has no daemon, and the group waits for its end", run.id, run.group, run.work),
                Some(owner) if !lives(owner) => {
                    format!("run {} of group {} ({}) was left by a daemon that is gone", run.id, run.group, run.work)
                }
                Some(_) => return None,
            };
            let fix = match daemon {
                Daemon::Down => format!("start the daemon with `g2 start`: it adopts the run, or ends it and tries its work again; `g2 runs show {}` says more", run.id),
                Daemon::Up => format!("the daemon takes it over once the container engine answers and its group is not set aside; `g2 runs show {}` says more", run.id),
            };
            Some(Row::warn(Check::Runs, detail, fix))
        })
        .collect();
    if bad.is_empty() {
        vec![Row::ok(Check::Runs, format!("{} live, each with its daemon", active.len()))]
    } else {
        bad
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{
        runs::{
            lanes::Work,
            life::{Life, Reached},
        },
        states::{RunKind, RunStatus, SandboxName},
    };

    fn run(owner: Option<&str>) -> ActiveRun {
        ActiveRun {
            id: 7,
            group: ipc_handlers::Folder::parse("main").unwrap(),
            lane: None,
            kind: RunKind::Task,
            work: Work::Task("t".into()),
            generation: 0,
            status: RunStatus::Queued,
            owner: owner.map(str::to_owned),
            sandbox: SandboxName::Docker,
            container: None,
            life: Life::Serving(Reached::Queued),
            handled: false,
            protocol: None,
            last_seq: 0,
            created: ipc_handlers::Time(0),
            stop: None,
            open: Vec::new(),
        }
    }

    #[test]
    fn a_run_without_a_living_owner_is_named_with_the_daemon_up_or_down() {
        for (owner, daemon, words, fix) in [
            (Some("gone"), Daemon::Down, "left by a daemon that is gone", "g2 start"),
            (Some("gone"), Daemon::Up, "left by a daemon that is gone", "once the container engine answers"),
            (None, Daemon::Up, "has no daemon", "once the container engine answers"),
        ] {
            let rows = runs(&[run(owner), run(Some("lives"))], daemon, |owner| owner == "lives");
            let [row] = rows.as_slice() else { panic!("{rows:?}") };
            let told = row.told();
            assert_eq!((told.status, told.check), ("warn", Check::Runs));
            assert!(
                told.detail.starts_with("run 7 of group main (task:t)") && told.detail.contains(words),
                "{row:?}"
            );
            assert!(told.fix.is_some_and(|text| text.contains(fix)), "{row:?}");
        }
        assert_eq!(runs(&[run(Some("lives"))], Daemon::Up, |_| true)[0].told().status, "ok");
    }
}
