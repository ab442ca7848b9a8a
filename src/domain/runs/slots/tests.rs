use proptest::prelude::*;

use super::*;

const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;
/// 2026-03-01T12:00:00Z.
const NOON: Time = Time(1_772_366_400_000);
const ANY: Moment = Moment { now: NOON, up_since: NOON, down: SlotReason::HostDown, spacing_ms: 60_000 };

fn hours(hours: i64) -> Time {
    NOON.plus_ms(hours * HOUR)
}

fn schedule(kind: &str, value: &str) -> Schedule {
    Schedule::parse(kind, value, &TimeZone::UTC, Time(0)).unwrap()
}

static UTC: TimeZone = TimeZone::UTC;

fn rules(schedule: &Schedule, catch_up: CatchUp) -> Rules<'_> {
    Rules { schedule, zone: &UTC, catch_up, window_ms: WINDOW_MS }
}

/// What of a plan is looked at: the slot that runs, when the next is due, the slot it makes up for, and each part of those
/// that passed as (count, reason).
type Seen = (Option<Time>, Option<Time>, Option<Time>, Vec<(u64, SlotReason)>);

fn seen(plan: &Plan) -> Seen {
    let passed = plan.passed.iter().map(|passed| (passed.count, passed.reason)).collect();
    (plan.run, plan.next.map(|next| next.at), plan.next.and_then(|next| next.slot), passed)
}

#[test]
fn of_missed_slots_none_the_latest_or_the_newest_24_run() {
    use SlotReason::{HostDown, OutsideWindow, TooMany};
    let hourly = schedule("cron", "0 * * * *");
    let down = |ago: i64| hours(-ago);
    // It is up since noon and a half.
    let moment = Moment { now: NOON.plus_ms(HOUR / 2), up_since: NOON.plus_ms(HOUR / 2), ..ANY };
    let check = |catch_up, since: Time, expected: Seen| {
        let plan = plan(rules(&hourly, catch_up), Stand::Due(since), moment);
        assert_eq!(seen(&plan), expected, "{catch_up} since {since}");
    };
    let next = Some(hours(1));
    check(CatchUp::Skip, down(3), (None, next, None, vec![(4, HostDown)]));
    check(CatchUp::Latest, down(3), (Some(NOON), next, None, vec![(3, HostDown)]));
    check(CatchUp::Latest, NOON, (Some(NOON), next, None, vec![]));
    let second = (Some(moment.now.plus_ms(60_000)), Some(hours(-2)));
    check(CatchUp::All, down(3), (Some(hours(-3)), second.0, second.1, vec![]));
    check(CatchUp::All, NOON, (Some(NOON), next, None, vec![]));
    let second = (Some(moment.now.plus_ms(60_000)), Some(hours(-22)));
    check(CatchUp::All, down(30), (Some(hours(-23)), second.0, second.1, vec![(7, TooMany)]));
    let outside = (2 * 24 + 1, OutsideWindow);
    check(CatchUp::Latest, down(9 * 24), (Some(NOON), next, None, vec![outside, (7 * 24 - 1, HostDown)]));
    check(CatchUp::Skip, down(9 * 24), (None, next, None, vec![outside, (7 * 24, HostDown)]));
}

#[test]
fn slots_that_came_while_a_budget_was_used_up_are_missed_for_it_by_the_same_rules() {
    use SlotReason::Budget;
    let hourly = schedule("cron", "0 * * * *");
    // It has something left since noon and a half.
    let left = NOON.plus_ms(HOUR / 2);
    let moment = Moment { now: left, up_since: left, down: Budget, ..ANY };
    let next = Some(hours(1));
    for (catch_up, expected) in [
        (CatchUp::Skip, (None, next, None, vec![(4, Budget)])),
        (CatchUp::Latest, (Some(NOON), next, None, vec![(3, Budget)])),
        (CatchUp::All, (Some(hours(-3)), Some(left.plus_ms(60_000)), Some(hours(-2)), vec![])),
    ] {
        assert_eq!(
            seen(&plan(rules(&hourly, catch_up), Stand::Due(hours(-3)), moment)),
            expected,
            "{catch_up}"
        );
    }
    // An occurrence that was begun goes on, and so does one that somebody asked for.
    let begun =
        plan(rules(&hourly, CatchUp::Skip), Stand::Again { slot: hours(-3), accounted: hours(-3) }, moment);
    assert_eq!(seen(&begun), (Some(hours(-3)), next, None, vec![(3, Budget)]));
    let asked = plan(rules(&hourly, CatchUp::Skip), Stand::Asked(hours(-3)), moment);
    assert_eq!(asked.run, Some(hours(-3)));
}

#[test]
fn what_is_longer_ago_than_the_window_is_missed_and_what_somebody_asked_for_never_is() {
    use SlotReason::OutsideWindow;
    let once = schedule("once", "2026-02-01T00:00:00Z");
    let Schedule::Once { at, .. } = once else { panic!("a once") };
    for catch_up in [CatchUp::Latest, CatchUp::All, CatchUp::Skip] {
        let rules = rules(&once, catch_up);
        let late = seen(&plan(rules, Stand::Due(at), ANY));
        assert_eq!(late, (None, None, None, vec![(1, OutsideWindow)]), "{catch_up}");
        let asked = seen(&plan(rules, Stand::Asked(at), ANY));
        assert_eq!(asked, (Some(at), None, None, vec![]), "{catch_up}");
        let week = Rules { window_ms: 60 * DAY, ..rules };
        let skipped = catch_up == CatchUp::Skip;
        assert_eq!(plan(week, Stand::Due(at), ANY).run, (!skipped).then_some(at), "{catch_up}");
    }
}

#[test]
fn of_slots_that_came_while_it_was_up_the_first_runs_and_the_others_are_skipped() {
    let every = schedule("interval", "1000");
    for catch_up in [CatchUp::Latest, CatchUp::All, CatchUp::Skip] {
        let moment = Moment { up_since: hours(-1), ..ANY };
        let plan = plan(rules(&every, catch_up), Stand::Due(NOON.plus_ms(-4_500)), moment);
        assert_eq!(
            seen(&plan),
            (Some(NOON.plus_ms(-4_500)), Some(NOON.plus_ms(500)), None, vec![(4, SlotReason::PreviousRun)]),
            "{catch_up}"
        );
        assert_eq!(plan.accounted, NOON);
    }
}

#[test]
fn what_is_made_up_for_goes_on_after_a_failure_and_the_slots_of_its_rest_are_told_apart() {
    let hourly = schedule("cron", "0 * * * *");
    let first = plan(rules(&hourly, CatchUp::All), Stand::Due(hours(-2)), ANY);
    // It failed, and is tried again two minutes later.
    let later = Moment { now: NOON.plus_ms(120_000), ..ANY };
    let stand = Stand::Again { slot: hours(-2), accounted: first.accounted };
    let second = plan(rules(&hourly, CatchUp::All), stand, later);
    let next = (Some(later.now.plus_ms(60_000)), Some(hours(-1)));
    assert_eq!(seen(&second), (Some(hours(-2)), next.0, next.1, vec![]));
    let every = schedule("interval", "60000");
    let stand = Stand::Again { slot: hours(-1), accounted: hours(-1).plus_ms(90_000) };
    let rested = plan(rules(&every, CatchUp::Latest), stand, Moment { up_since: hours(-2), ..ANY });
    let grid = Some(NOON.plus_ms(60_000));
    assert_eq!(seen(&rested), (Some(hours(-1)), grid, None, vec![(59, SlotReason::Rest)]));
    assert_eq!(rested.passed[0].first, hours(-1).plus_ms(120_000), "on its own grid");
}

#[test]
fn a_slot_that_comes_while_missed_ones_are_made_up_for_runs_behind_them() {
    // It is up since ten to twelve, and makes up for the slot of eleven, as the last one, when that of twelve has come.
    let hourly = schedule("cron", "0 * * * *");
    let up_since = NOON.plus_ms(-10 * 60_000);
    let now = NOON.plus_ms(30_000);
    let moment = Moment { now, up_since, ..ANY };
    let last = plan(rules(&hourly, CatchUp::All), Stand::Due(hours(-1)), moment);
    assert_eq!(seen(&last), (Some(hours(-1)), Some(now.plus_ms(60_000)), Some(NOON), vec![]));
    let moment = Moment { now: now.plus_ms(60_000), ..moment };
    let then = plan(rules(&hourly, CatchUp::All), Stand::Due(NOON), moment);
    assert_eq!(seen(&then), (Some(NOON), Some(hours(1)), None, vec![]));
    // Of a task whose next slot is nearer than that, it is skipped.
    let often = schedule("cron", "* * * * *");
    let moment = Moment { now, up_since: NOON.plus_ms(-1), ..ANY };
    let last = plan(rules(&often, CatchUp::All), Stand::Due(NOON.plus_ms(-60_000)), moment);
    let skipped = vec![(1, SlotReason::PreviousRun)];
    assert_eq!(seen(&last), (Some(NOON.plus_ms(-60_000)), Some(NOON.plus_ms(60_000)), None, skipped));
}

#[test]
fn a_machine_that_slept_was_not_up() {
    let before = hours(-5);
    assert_eq!(up_since(before, NOON, 60_000, 60_000), before);
    assert_eq!(up_since(before, NOON, 60_000 + JUMP_MS, 60_000), before);
    assert_eq!(up_since(before, NOON, 60_001 + JUMP_MS, 60_000), NOON);
    // The clock was set back before the start.
    assert_eq!(up_since(hours(1), NOON, -HOUR, 60_000), NOON);
}

#[test]
fn years_of_seconds_are_counted_and_found_in_bounded_work() {
    let first = NOON.plus_ms(-400 * DAY);
    let seconds = schedule("cron", "* * * * * *");
    let found = newest(rules(&seconds, CatchUp::All), Range { first: Some(first), until: NOON }, 24);
    assert_eq!((found.len(), found[23]), (24, NOON.plus_ms(-1_000)));
    let count = passed(rules(&seconds, CatchUp::All), first, NOON, SlotReason::HostDown).unwrap();
    assert_eq!((count.count, count.at_least, count.last), (MOST_COUNTED, true, NOON));
    // Every second of one day, weeks ago: not found by the first looks, and then too many.
    let day = schedule("cron", "* * * 1 2 *");
    let found = newest(rules(&day, CatchUp::All), Range { first: Some(first), until: NOON }, 24);
    let last = Time(1_769_990_399_000);
    assert_eq!((found.len(), found[23], found[0]), (24, last, last.plus_ms(-23_000)));
    let every = schedule("interval", "1000");
    let count = passed(rules(&every, CatchUp::All), first, NOON, SlotReason::HostDown).unwrap();
    assert_eq!((count.count, count.at_least, count.last), (400 * 86_400 + 1, false, NOON));
}

proptest! {
    /// Each slot up to now either runs, is made up for later, or has passed for one reason; none is counted twice.
    #[test]
    fn every_slot_is_accounted_for_once(
        (kind, value) in prop::sample::select(vec![("interval", "60000"), ("interval", "7000"), ("cron", "*/7 * * * *"), ("cron", "15 3 * * *")]),
        catch_up in prop::sample::select(vec![CatchUp::Latest, CatchUp::All, CatchUp::Skip]),
        ago in 0_i64..2_000, up_ago in 0_i64..3_000, window in 1_i64..3_000,
    ) {
        let schedule = schedule(kind, value);
        let rules = Rules { window_ms: window * 60_000, ..rules(&schedule, catch_up) };
        let first = rules.at_or_after(hours(-48), NOON.plus_ms(-ago * 60_000)).filter(|slot| *slot <= NOON);
        let Some(first) = first else { return Ok(()) };
        let moment = Moment { up_since: NOON.plus_ms(-up_ago * 60_000), ..ANY };
        let all = counted(rules, Range { first: Some(first), until: NOON.plus_ms(1) }, SlotReason::Paused).unwrap().count;
        // What is made up for later is run at once here.
        let (mut stand, mut ran, mut passed) = (Stand::Due(first), 0, 0);
        loop {
            let plan = plan(rules, stand, moment);
            ran += u64::from(plan.run.is_some());
            passed += plan.passed.iter().map(|passed| passed.count).sum::<u64>();
            match plan.next.and_then(|next| next.slot) {
                Some(slot) => stand = Stand::Due(slot),
                None => {
                    prop_assert!(plan.next.is_some_and(|next| next.at > NOON));
                    break;
                }
            }
        }
        prop_assert_eq!(ran + passed, all);
        // Behind those that are made up for, one that came meanwhile.
        let most = rules.most().max(1) as u64 + u64::from(catch_up == CatchUp::All);
        prop_assert!(ran <= most, "{} of {}", ran, most);
    }
}
