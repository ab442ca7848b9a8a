use proptest::prelude::*;

use super::*;

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

/// A container of ours that is ready, idle, and has just given a sign of life.
fn ready() -> Vitals {
    Vitals {
        runner: Runner::Two(Readiness::Ready),
        leaving: Leaving::No,
        started_ms: 10 * HOUR,
        quiet_ms: 0,
        no_record_ms: 0,
        since_tool_ms: 10 * HOUR,
        since_result_ms: None,
        in_hand_ms: None,
        tool_timeout_ms: None,
        blocked_tool: None,
        at_work: AtWork::Unseen,
        patience: Patience::WhileItLives,
    }
}

fn starting(started_ms: i64) -> Vitals {
    Vitals {
        runner: Runner::Two(Readiness::NotYet),
        started_ms,
        quiet_ms: started_ms,
        no_record_ms: started_ms,
        in_hand_ms: Some(started_ms),
        ..ready()
    }
}

fn v1(no_record_ms: i64, since_result_ms: Option<i64>) -> Vitals {
    Vitals { runner: Runner::One, since_result_ms, quiet_ms: no_record_ms, no_record_ms, ..ready() }
}

#[derive(Debug, PartialEq, Eq)]
enum Do {
    Fine(i64),
    Close,
    Stop,
    Kill,
}

#[track_caller]
fn check(vitals: Vitals, expected: Do) {
    let did = match judge(&vitals, &HealthLimits::default()) {
        Verdict::Fine { look_again_in_ms } => Do::Fine(look_again_in_ms),
        Verdict::Close { .. } => Do::Close,
        Verdict::Stop { .. } => Do::Stop,
        Verdict::Kill { .. } => Do::Kill,
    };
    assert_eq!(did, expected, "{vitals:?}");
}

#[test]
fn a_container_that_shows_life_is_left_alone_until_the_next_limit() {
    check(ready(), Do::Fine(30 * MINUTE + 1));
    check(Vitals { quiet_ms: 29 * MINUTE, no_record_ms: 29 * MINUTE, ..ready() }, Do::Fine(MINUTE + 1));
    check(
        Vitals { in_hand_ms: Some(5 * SECOND), quiet_ms: 5 * SECOND, ..ready() },
        Do::Fine(55 * SECOND + 1),
    );
    check(Vitals { in_hand_ms: Some(HOUR), quiet_ms: 2 * MINUTE, ..ready() }, Do::Fine(28 * MINUTE + 1));
}

#[test]
fn one_that_is_silent_up_to_the_ceiling_is_asked_to_leave_and_only_then() {
    check(Vitals { quiet_ms: 30 * MINUTE, ..ready() }, Do::Fine(1));
    check(Vitals { quiet_ms: 30 * MINUTE + 1, ..ready() }, Do::Close);
    let in_bash = |ms| Vitals { quiet_ms: 45 * MINUTE, tool_timeout_ms: Some(ms), ..ready() };
    check(in_bash(2 * HOUR), Do::Fine(75 * MINUTE + 1));
    check(in_bash(10 * MINUTE), Do::Close);
    check(Vitals { quiet_ms: 2 * HOUR + 1, tool_timeout_ms: Some(i64::MAX), ..ready() }, Do::Close);
}

#[test]
fn a_groups_own_timeout_replaces_the_ceiling() {
    let limits = HealthLimits { ceiling_ms: 5 * MINUTE, ..HealthLimits::default() };
    let vitals = Vitals { quiet_ms: 5 * MINUTE + 1, ..ready() };
    assert_eq!(
        judge(&vitals, &limits),
        Verdict::Close { reason: "no sign of life for 5 minutes".to_owned() }
    );
}

#[test]
fn one_that_took_a_message_and_went_silent_is_killed() {
    let took = |in_hand_ms, quiet_ms| Vitals { in_hand_ms: Some(in_hand_ms), quiet_ms, ..ready() };
    check(took(MINUTE, MINUTE), Do::Fine(1));
    check(took(MINUTE + 1, MINUTE + 1), Do::Kill);
    check(took(MINUTE + 1, 2 * MINUTE), Do::Kill);
    check(took(MINUTE + 1, MINUTE), Do::Fine(29 * MINUTE + 1));
    let in_bash = |ms| Vitals { tool_timeout_ms: Some(10 * MINUTE), ..took(ms, ms) };
    check(in_bash(5 * MINUTE), Do::Fine(5 * MINUTE + 1));
    check(in_bash(10 * MINUTE + 1), Do::Kill);
    check(Vitals { leaving: Leaving::Closing(1), ..took(MINUTE + 1, MINUTE + 1) }, Do::Kill);
}

#[test]
fn one_that_is_not_ready_is_judged_by_the_start_up_limit_alone() {
    check(starting(2 * MINUTE), Do::Fine(MINUTE + 1));
    check(starting(3 * MINUTE), Do::Fine(1));
    check(starting(3 * MINUTE + 1), Do::Kill);
}

#[test]
fn one_without_a_record_for_a_day_ends_whatever_its_heartbeat() {
    let silent = Vitals { no_record_ms: 24 * HOUR + 1, in_hand_ms: Some(24 * HOUR), ..ready() };
    check(Vitals { no_record_ms: 24 * HOUR, ..silent.clone() }, Do::Fine(1));
    check(silent.clone(), Do::Close);
    check(Vitals { leaving: Leaving::Closing(30 * SECOND), ..silent.clone() }, Do::Fine(1));
    check(Vitals { leaving: Leaving::Closing(30 * SECOND + 1), ..silent }, Do::Stop);
}

#[test]
fn one_that_does_not_leave_is_stopped_and_then_killed() {
    let closing = |ms| Vitals { leaving: Leaving::Closing(ms), ..ready() };
    check(closing(10 * SECOND), Do::Fine(20 * SECOND + 1));
    check(closing(30 * SECOND), Do::Fine(1));
    check(closing(30 * SECOND + 1), Do::Stop);
    let stopping = |ms| Vitals { leaving: Leaving::Stopping(ms), ..ready() };
    check(stopping(30 * SECOND), Do::Fine(1));
    check(stopping(30 * SECOND + 1), Do::Kill);
}

#[test]
fn one_that_was_asked_to_leave_may_finish_its_batch_while_it_shows_life() {
    let busy = |quiet_ms| Vitals {
        leaving: Leaving::Closing(5 * MINUTE),
        in_hand_ms: Some(10 * MINUTE),
        quiet_ms,
        ..ready()
    };
    check(busy(SECOND), Do::Fine(29 * SECOND + 1));
    check(busy(30 * SECOND + 1), Do::Stop);
}

#[test]
fn a_blocked_tool_that_runs_is_treated_as_stuck() {
    check(Vitals { blocked_tool: Some("AskUserQuestion".to_owned()), ..ready() }, Do::Kill);
}

#[test]
fn a_v1_runner_is_judged_by_v1s_idle_and_hard_limits() {
    check(v1(10 * MINUTE, None), Do::Fine(20 * MINUTE + 30 * SECOND + 1));
    check(v1(30 * MINUTE + 30 * SECOND + 1, None), Do::Stop);
    check(v1(0, Some(0)), Do::Fine(30 * MINUTE + 1));
    check(v1(30 * MINUTE + 1, Some(30 * MINUTE + 1)), Do::Close);
    check(v1(0, Some(30 * MINUTE + 1)), Do::Close);
    check(Vitals { in_hand_ms: Some(10 * MINUTE), ..v1(10 * MINUTE, None) }, Do::Fine(1_230_001));
    let limits = HealthLimits { ceiling_ms: 2 * HOUR, ..HealthLimits::default() };
    let verdict = judge(&v1(HOUR, None), &limits);
    assert_eq!(verdict, Verdict::Fine { look_again_in_ms: HOUR + 1 });
}

#[test]
fn only_bash_may_declare_a_time_and_no_more_than_two_hours() {
    let state = |tool: Option<&str>, ms| ContainerState {
        current_tool: tool.map(str::to_owned),
        tool_declared_timeout_ms: ms,
        tool_started_at: None,
    };
    for (state, expected) in [
        (state(Some("Bash"), Some(600_000)), Some(600_000)),
        (state(Some("Bash"), None), None),
        (state(Some("bash"), Some(1)), None),
        (state(Some("Read"), Some(1)), None),
        (state(None, Some(1)), None),
        (state(Some("Bash"), Some(u64::MAX)), Some(MAX_TOOL_TIMEOUT_MS)),
    ] {
        assert_eq!(declared_timeout_ms(&state), expected, "{state:?}");
    }
}

#[test]
fn three_kills_within_an_hour_mean_an_hours_rest() {
    let now = Time(100 * HOUR);
    let ago = |minutes: &[i64]| minutes.iter().map(|m| now.plus_ms(-m * MINUTE)).collect::<Vec<_>>();
    for (kills, expected) in [
        (vec![], KillLoop::No),
        (ago(&[1, 2]), KillLoop::No),
        (ago(&[1, 2, 3]), KillLoop::RestUntil(now.plus_ms(59 * MINUTE))),
        (ago(&[3, 1, 2, 500]), KillLoop::RestUntil(now.plus_ms(59 * MINUTE))),
        (ago(&[1, 30, 62]), KillLoop::No),
        (ago(&[60, 61, 62]), KillLoop::No),
        (ago(&[-5, 1, 2]), KillLoop::No),
    ] {
        assert_eq!(kill_loop(&kills, now), expected, "{kills:?}");
    }
}

fn any_vitals() -> impl Strategy<Value = Vitals> {
    let age = 0..2 * 24 * HOUR;
    let runner = prop_oneof![
        Just(Runner::Two(Readiness::NotYet)),
        Just(Runner::Two(Readiness::Ready)),
        Just(Runner::One),
    ];
    let leaving = prop_oneof![
        Just(Leaving::No),
        (0..2 * MINUTE).prop_map(Leaving::Closing),
        (0..2 * MINUTE).prop_map(Leaving::Stopping),
    ];
    let option = prop::option::of(0..2 * 24 * HOUR);
    let at_work =
        prop_oneof![Just(AtWork::Unseen), Just(AtWork::Asking), (0..3 * HOUR).prop_map(AtWork::Ago)];
    let options = (option.clone(), option.clone(), option);
    let records = (age.clone(), age.clone());
    (runner, leaving, age.clone(), age, records, options, at_work).prop_map(
        |(
            runner,
            leaving,
            started_ms,
            quiet_ms,
            (no_record_ms, since_tool_ms),
            (since_result_ms, in_hand_ms, tool_timeout_ms),
            at_work,
        )| Vitals {
            runner,
            leaving,
            started_ms,
            quiet_ms,
            no_record_ms,
            since_tool_ms,
            since_result_ms,
            in_hand_ms,
            tool_timeout_ms,
            blocked_tool: None,
            at_work,
            patience: Patience::WhileItLives,
        },
    )
}

/// The same container some time later, with nothing new from it.
fn later(vitals: &Vitals, ms: i64) -> Vitals {
    Vitals {
        leaving: match vitals.leaving {
            Leaving::No => Leaving::No,
            Leaving::Closing(age) => Leaving::Closing(age + ms),
            Leaving::Stopping(age) => Leaving::Stopping(age + ms),
        },
        started_ms: vitals.started_ms + ms,
        quiet_ms: vitals.quiet_ms + ms,
        no_record_ms: vitals.no_record_ms + ms,
        since_tool_ms: vitals.since_tool_ms + ms,
        since_result_ms: vitals.since_result_ms.map(|age| age + ms),
        in_hand_ms: vitals.in_hand_ms.map(|age| age + ms),
        at_work: match vitals.at_work {
            at_work @ (AtWork::Unseen | AtWork::Asking) => at_work,
            AtWork::Ago(age) => AtWork::Ago(age + ms),
        },
        ..vitals.clone()
    }
}

proptest! {
    #[test]
    fn nothing_happens_before_the_next_look_and_every_container_ends(vitals in any_vitals()) {
        let limits = HealthLimits::default();
        let mut vitals = vitals;
        for _ in 0..20 {
            match judge(&vitals, &limits) {
                Verdict::Fine { look_again_in_ms } => {
                    prop_assert!(look_again_in_ms >= 1);
                    let just_before = judge(&later(&vitals, look_again_in_ms - 1), &limits);
                    prop_assert!(matches!(just_before, Verdict::Fine { .. }), "{just_before:?}");
                    vitals = later(&vitals, look_again_in_ms);
                }
                Verdict::Close { .. } => vitals.leaving = Leaving::Closing(0),
                Verdict::Stop { .. } => vitals.leaving = Leaving::Stopping(0),
                Verdict::Kill { .. } => return Ok(()),
            }
        }
        prop_assert!(false, "still there: {vitals:?}");
    }
}

#[test]
fn an_agent_that_a_person_wants_ended_has_its_grace_and_no_longer_however_lively_it_is() {
    let busy =
        |ms| Vitals { leaving: Leaving::Closing(ms), quiet_ms: 0, in_hand_ms: Some(5 * MINUTE), ..ready() };
    let stopped = |ms| Vitals { patience: Patience::None, ..busy(ms) };
    check(busy(10 * MINUTE), Do::Fine(30 * SECOND + 1));
    check(stopped(30 * SECOND), Do::Fine(1));
    check(stopped(30 * SECOND + 1), Do::Stop);
}

#[test]
fn what_comes_next_is_known_if_nothing_changes_until_then() {
    let limits = HealthLimits::default();
    let next =
        |vitals: &Vitals| coming(vitals, &limits).map(|(ms, verdict)| (ms, reason(&verdict).to_owned()));
    let silent = Vitals { quiet_ms: 10 * MINUTE, ..ready() };
    assert_eq!(next(&silent), Some((20 * MINUTE + 1, "no sign of life for 30 minutes".to_owned())));
    let took = Vitals { in_hand_ms: Some(MINUTE / 2), quiet_ms: MINUTE / 2, ..ready() };
    let why = "took a message and gave no sign of life for 60 s";
    assert_eq!(next(&took), Some((MINUTE / 2 + 1, why.to_owned())));
    assert_eq!(next(&starting(MINUTE)), Some((2 * MINUTE + 1, "was not ready within 3 minutes".to_owned())));
    let gone = Vitals { leaving: Leaving::Stopping(MINUTE), ..ready() };
    assert_eq!(next(&gone), Some((0, "did not stop within 30 s".to_owned())));
}

#[test]
fn one_that_is_seen_at_work_is_alive_though_it_says_nothing_and_not_for_ever() {
    use AtWork::{Ago, Asking, Unseen};
    let took =
        |ms, at_work| Vitals { in_hand_ms: Some(ms), quiet_ms: ms, no_record_ms: ms, at_work, ..ready() };
    check(took(5 * MINUTE, Unseen), Do::Kill);
    check(took(5 * MINUTE, Asking), Do::Fine(25 * MINUTE + 1));
    check(took(5 * MINUTE, Ago(10 * SECOND)), Do::Fine(50 * SECOND + 1));
    check(took(5 * MINUTE, Ago(MINUTE)), Do::Fine(1));
    check(took(5 * MINUTE, Ago(MINUTE + 1)), Do::Kill);
    check(took(30 * MINUTE + 1, Asking), Do::Kill);
    check(took(30 * MINUTE + 1, Ago(0)), Do::Kill);
    let slow_start = |ms, at_work| Vitals { at_work, ..starting(ms) };
    check(slow_start(5 * MINUTE, Ago(SECOND)), Do::Fine(179 * SECOND + 1));
    check(slow_start(5 * MINUTE, Ago(3 * MINUTE + 1)), Do::Kill);
    check(slow_start(30 * MINUTE + 1, Asking), Do::Kill);
    let silent = |ms, at_work| Vitals { quiet_ms: ms, no_record_ms: ms, at_work, ..ready() };
    check(silent(HOUR, Asking), Do::Fine(HOUR + 1));
    check(silent(HOUR, Ago(MINUTE)), Do::Fine(29 * MINUTE + 1));
    check(silent(HOUR, Ago(31 * MINUTE)), Do::Close);
    check(silent(2 * HOUR + 1, Asking), Do::Close);
}

#[test]
fn one_that_does_nothing_is_asked_to_leave_and_stopped_though_its_heartbeat_goes_on() {
    let wedged = |ms| Vitals { in_hand_ms: Some(ms), no_record_ms: ms, at_work: AtWork::Ago(ms), ..ready() };
    check(wedged(30 * MINUTE), Do::Fine(1));
    check(wedged(30 * MINUTE + 1), Do::Close);
    check(Vitals { at_work: AtWork::Asking, ..wedged(HOUR) }, Do::Fine(2 * HOUR + 1));
    check(Vitals { at_work: AtWork::Unseen, ..wedged(HOUR) }, Do::Fine(30 * MINUTE + 1));
    check(Vitals { no_record_ms: MINUTE, ..wedged(HOUR) }, Do::Fine(29 * MINUTE + 1));
    check(Vitals { in_hand_ms: None, ..wedged(HOUR) }, Do::Fine(30 * MINUTE + 1));
    check(Vitals { tool_timeout_ms: Some(2 * HOUR), ..wedged(HOUR) }, Do::Fine(HOUR + 1));
    let leaving = |ms| Vitals { leaving: Leaving::Closing(ms), ..wedged(HOUR) };
    check(leaving(30 * SECOND), Do::Fine(1));
    check(leaving(30 * SECOND + 1), Do::Stop);
}

#[test]
fn one_that_is_to_leave_finishes_its_tool_or_its_work_first() {
    let leaving =
        |ms, quiet_ms| Vitals { leaving: Leaving::Closing(ms), in_hand_ms: Some(HOUR), quiet_ms, ..ready() };
    let in_bash = |ms, quiet_ms| Vitals { tool_timeout_ms: Some(10 * MINUTE), ..leaving(ms, quiet_ms) };
    check(in_bash(5 * MINUTE, 5 * MINUTE), Do::Fine(5 * MINUTE + 1));
    check(in_bash(10 * MINUTE + 1, 10 * MINUTE + 1), Do::Stop);
    check(in_bash(31 * SECOND, 31 * MINUTE), Do::Stop);
    let at_work = |ms, at_work| Vitals { at_work, ..leaving(ms, ms) };
    check(at_work(5 * MINUTE, AtWork::Ago(SECOND)), Do::Fine(29 * SECOND + 1));
    check(at_work(5 * MINUTE, AtWork::Ago(31 * SECOND)), Do::Stop);
    check(at_work(30 * MINUTE + 1, AtWork::Asking), Do::Stop);
    check(Vitals { patience: Patience::None, ..in_bash(31 * SECOND, 0) }, Do::Stop);
}

#[test]
fn one_that_has_just_ended_a_long_quiet_tool_has_done_something() {
    let ended = |since_tool_ms| Vitals {
        in_hand_ms: Some(46 * MINUTE),
        no_record_ms: 46 * MINUTE,
        at_work: AtWork::Ago(45 * MINUTE),
        since_tool_ms,
        ..ready()
    };
    check(ended(0), Do::Fine(30 * MINUTE + 1));
    check(ended(30 * MINUTE + 1), Do::Close);
    let asked = Vitals { leaving: Leaving::Closing(10 * MINUTE), ..ended(0) };
    check(asked, Do::Fine(30 * SECOND + 1));
}
