//! Cron against the clocks of real zones: tables, and a walker that looks at every minute of a year.

use jiff::{
    civil::{Date, DateTime, date},
    tz::{AmbiguousOffset, Offset, TimeZone},
};
use proptest::prelude::*;

use super::{
    testing::{APIA, LONDON, LORD_HOWE, NEW_YORK, time, zone},
    *,
};
use crate::reply::local;

mod walk;

/// Checks what the clocks show at the first instants after `after`, shortened to `MM-DDThh:mm±hh:mm`.
fn check(expression: &str, zone_name: &str, after: &str, expected: &[&str]) {
    let (zone, mut now) = (zone(zone_name), time(after));
    let cron = Schedule::parse("cron", expression, &zone, now).unwrap();
    let shown: Vec<String> = (0..expected.len())
        .map(|_| {
            let next = cron.next_after(now, now, &zone).unwrap();
            assert!(next > now, "{expression}");
            now = next;
            let clock = local(next, &zone);
            format!("{}{}", &clock[5..16], &clock[19..])
        })
        .collect();
    assert_eq!(shown, expected, "{expression} in {zone_name}");
}

#[test]
fn fields_mean_what_cron_parser_says() {
    // 2026-01-01 is a Thursday.
    for (expression, expected) in [
        ("* * * * *", ["01-01T00:01", "01-01T00:02", "01-01T00:03"]),
        ("*/15 * * * *", ["01-01T00:15", "01-01T00:30", "01-01T00:45"]),
        ("5/20 * * * *", ["01-01T00:05", "01-01T00:25", "01-01T00:45"]),
        ("30 */6 * * *", ["01-01T00:30", "01-01T06:30", "01-01T12:30"]),
        ("0 9 * * 1-5", ["01-01T09:00", "01-02T09:00", "01-05T09:00"]),
        ("0 0 * * 0", ["01-04T00:00", "01-11T00:00", "01-18T00:00"]),
        ("0 0 * * 7", ["01-04T00:00", "01-11T00:00", "01-18T00:00"]),
        ("0 0 * * SUN", ["01-04T00:00", "01-11T00:00", "01-18T00:00"]),
        ("0 0 * * 6-7", ["01-03T00:00", "01-04T00:00", "01-10T00:00"]),
        ("0 0 * * FRI-SUN", ["01-02T00:00", "01-03T00:00", "01-04T00:00"]),
        ("0 0 * * */2", ["01-03T00:00", "01-04T00:00", "01-06T00:00"]),
        ("0 0 * * 1/2", ["01-02T00:00", "01-04T00:00", "01-05T00:00"]),
        ("0 0 * * 6/1", ["01-03T00:00", "01-04T00:00", "01-10T00:00"]),
        ("0 0 ? * 1", ["01-05T00:00", "01-12T00:00", "01-19T00:00"]),
        ("0 0 1 * ?", ["02-01T00:00", "03-01T00:00", "04-01T00:00"]),
        // Both day fields restricted: either; a step counts as a restriction.
        ("0 0 13 * 5", ["01-02T00:00", "01-09T00:00", "01-13T00:00"]),
        ("0 0 */2 * 1", ["01-03T00:00", "01-05T00:00", "01-07T00:00"]),
        ("0 0 1-31 * 1", ["01-02T00:00", "01-03T00:00", "01-04T00:00"]),
        ("0 0 L * *", ["01-31T00:00", "02-28T00:00", "03-31T00:00"]),
        ("0 0 L,15 * *", ["01-15T00:00", "01-31T00:00", "02-15T00:00"]),
        ("0 0 L * 1", ["01-05T00:00", "01-12T00:00", "01-19T00:00"]),
        ("0 0 * * 5L", ["01-30T00:00", "02-27T00:00", "03-27T00:00"]),
        ("0 0 * * 1L,2", ["01-06T00:00", "01-13T00:00", "01-20T00:00"]),
        ("0 0 * * 1#2", ["01-12T00:00", "02-09T00:00", "03-09T00:00"]),
        ("0 0 1 * 1L", ["01-26T00:00", "02-01T00:00", "02-23T00:00"]),
        ("0 0 * JAN,mar MON", ["01-05T00:00", "01-12T00:00", "01-19T00:00"]),
        ("0 0 31 2,3 *", ["03-31T00:00", "03-31T00:00", "03-31T00:00"]),
        ("@hourly", ["01-01T01:00", "01-01T02:00", "01-01T03:00"]),
        ("@midnight", ["01-02T00:00", "01-03T00:00", "01-04T00:00"]),
        ("@weekly", ["01-04T00:00", "01-11T00:00", "01-18T00:00"]),
        ("@monthly", ["02-01T00:00", "03-01T00:00", "04-01T00:00"]),
        ("@annually", ["01-01T00:00", "01-01T00:00", "01-01T00:00"]),
        ("  0   9 *  * *  ", ["01-01T09:00", "01-02T09:00", "01-03T09:00"]),
    ] {
        let expected = expected.map(|clock| format!("{clock}+00:00"));
        check(expression, "Etc/UTC", "2026-01-01T00:00:00Z", &expected.each_ref().map(String::as_str));
    }
}

#[test]
fn a_sixth_field_in_front_is_seconds() {
    let zone = TimeZone::UTC;
    let next = |expression: &str, after: &str| {
        Cron::parse(expression).unwrap().next(time(after), &zone).unwrap().to_string()
    };
    assert_eq!(next("*/30 * * * * *", "2026-01-01T00:00:00Z"), "2026-01-01T00:00:30.000Z");
    assert_eq!(next("15 0 9 * * *", "2026-01-01T09:00:14.999Z"), "2026-01-01T09:00:15.000Z");
    assert_eq!(next("15 0 9 * * *", "2026-01-01T09:00:15Z"), "2026-01-02T09:00:15.000Z");
    assert_eq!(next("0 9 * * *", "2026-01-01T08:59:59.999Z"), "2026-01-01T09:00:00.000Z");
    assert_eq!(next("0 9 * * *", "2026-01-01T09:00:00.001Z"), "2026-01-02T09:00:00.000Z");
    assert_eq!(next("0 0 29 2 *", "2026-03-01T00:00:00Z"), "2028-02-29T00:00:00.000Z");
}

#[test]
fn rare_days_are_found_and_the_end_of_the_calendar_is_none() {
    let zone = zone(NEW_YORK);
    let next = |expression: &str, after: &str| Cron::parse(expression).unwrap().next(time(after), &zone);
    // A fifth Sunday in February.
    assert_eq!(next("0 0 * 2 0#5", "2026-01-01T00:00:00Z"), Some(time("2032-02-29T05:00:00Z")));
    assert_eq!(next("0 0 29 2 *", "2097-01-01T00:00:00Z"), None);
    assert_eq!(next("* * * * *", "2150-01-01T00:00:00Z"), None);
    assert_eq!(Cron::parse("* * * * *").unwrap().next(Time(i64::MAX), &zone), None);
    assert_eq!(Cron::parse("* * * * *").unwrap().next(Time(i64::MIN), &TimeZone::UTC), Some(Time(0)));
}

#[test]
fn by_a_clock_that_is_far_ahead_an_expression_is_refused_for_the_clock_and_an_interval_is_taken() {
    assert_eq!(CRON_ENDS, time("2100-01-01T00:00:00Z"));
    let far = time("2106-02-07T06:28:15Z");
    let refusal = Schedule::parse("cron", "0 9 * * *", &TimeZone::UTC, far).unwrap_err();
    assert!(refusal.message.starts_with("the clock shows 2106-02-07"), "{refusal:?}");
    assert!(refusal.hint.contains("set its clock"), "{refusal:?}");
    assert!(Schedule::parse("interval", "2h", &TimeZone::UTC, far).is_ok());
}

#[test]
fn a_fixed_time_in_the_gap_moves_forward_by_the_gap() {
    let after = "2026-03-07T12:00:00Z";
    check("30 2 * * *", NEW_YORK, after, &["03-08T03:30-04:00", "03-09T02:30-04:00"]);
    check("0 2 * * *", NEW_YORK, after, &["03-08T03:00-04:00", "03-09T02:00-04:00"]);
    check("0 3 * * *", NEW_YORK, after, &["03-08T03:00-04:00", "03-09T03:00-04:00"]);
    check("30 2,3 * * *", NEW_YORK, after, &["03-08T03:30-04:00", "03-09T02:30-04:00"]);
    check("*/30 2 * * *", NEW_YORK, after, &["03-08T03:00-04:00", "03-08T03:30-04:00", "03-09T02:00-04:00"]);
    check("30 2 * * 0", NEW_YORK, after, &["03-08T03:30-04:00", "03-15T02:30-04:00"]);
    check("30 1 * * *", LONDON, "2026-03-28T12:00:00Z", &["03-29T02:30+01:00", "03-30T01:30+01:00"]);
    check("0 2 * * *", LONDON, "2026-03-28T12:00:00Z", &["03-29T02:00+01:00", "03-30T02:00+01:00"]);
    // Half an hour is skipped on Lord Howe.
    check("15 2 * * *", LORD_HOWE, "2026-10-03T00:00:00Z", &["10-04T02:45+11:00", "10-05T02:15+11:00"]);
    // A whole day in Apia.
    check(
        "0 9 * * *",
        APIA,
        "2011-12-29T00:00:00Z",
        &["12-29T09:00-10:00", "12-31T09:00+14:00", "01-01T09:00+14:00"],
    );
    check("0 9 * * 5", APIA, "2011-12-29T00:00:00Z", &["12-31T09:00+14:00", "01-06T09:00+14:00"]);
}

#[test]
fn a_wildcard_hour_goes_on_through_the_gap() {
    check(
        "30 * * * *",
        NEW_YORK,
        "2026-03-08T05:45:00Z",
        &["03-08T01:30-05:00", "03-08T03:30-04:00", "03-08T04:30-04:00"],
    );
    check("0 * * * *", LONDON, "2026-03-29T00:00:00Z", &["03-29T02:00+01:00", "03-29T03:00+01:00"]);
    check("*/20 * * * *", LORD_HOWE, "2026-10-03T15:00:00Z", &["10-04T01:40+10:30", "10-04T02:40+11:00"]);
    check("0 * * * *", APIA, "2011-12-30T08:30:00Z", &["12-29T23:00-10:00", "12-31T00:00+14:00"]);
}

#[test]
fn in_the_fold_a_wildcard_hour_runs_in_both_passes_and_any_other_in_the_first() {
    let before = "2026-11-01T04:45:00Z";
    check("30 * * * *", NEW_YORK, before, &["11-01T01:30-04:00", "11-01T01:30-05:00", "11-01T02:30-05:00"]);
    check("30 1 * * *", NEW_YORK, before, &["11-01T01:30-04:00", "11-02T01:30-05:00"]);
    check("*/30 1 * * *", NEW_YORK, before, &["11-01T01:00-04:00", "11-01T01:30-04:00", "11-02T01:00-05:00"]);
    check("0 2 * * *", NEW_YORK, before, &["11-01T02:00-05:00", "11-02T02:00-05:00"]);
    // Asked from inside the second pass.
    check("30 1 * * *", NEW_YORK, "2026-11-01T06:10:00Z", &["11-02T01:30-05:00"]);
    check("30 * * * *", NEW_YORK, "2026-11-01T06:10:00Z", &["11-01T01:30-05:00", "11-01T02:30-05:00"]);
    check("30 1 * * *", LONDON, "2026-10-24T12:00:00Z", &["10-25T01:30+01:00", "10-26T01:30+00:00"]);
    check("45 1 * * *", LORD_HOWE, "2026-04-04T12:00:00Z", &["04-05T01:45+11:00", "04-06T01:45+10:30"]);
    check(
        "*/15 * * * *",
        LORD_HOWE,
        "2026-04-04T14:30:00Z",
        &["04-05T01:45+11:00", "04-05T01:30+10:30", "04-05T01:45+10:30", "04-05T02:00+10:30"],
    );
    check("0 0 * * *", "America/Havana", "2026-10-31T12:00:00Z", &["11-01T00:00-04:00", "11-02T00:00-05:00"]);
    // The last jump that the zone's data lists by itself comes after one of the rule that holds from then on.
    let juarez = "America/Ciudad_Juarez";
    check("15 23 * * *", juarez, "2022-11-29T12:00:00Z", &["11-29T23:15-06:00", "11-30T23:15-07:00"]);
    check("15 23 * * *", juarez, "2022-11-30T06:10:00Z", &["11-30T23:15-07:00"]);
}

#[test]
fn schedules_read_back_from_what_they_show() {
    let (zone, now) = (zone(NEW_YORK), Time(0));
    for (kind, value) in
        [("cron", "0 9 * * 1-5"), ("cron", "@daily"), ("interval", "60000"), ("once", "2026-12-31T18:30:00")]
    {
        let schedule = Schedule::parse(kind, value, &zone, now).unwrap();
        assert_eq!((schedule.kind().as_str(), schedule.value().as_str()), (kind, value));
    }
    let number = ScheduleValue::Number(1_767_225_600_000_i64.into());
    let once = Schedule::from_value("once", &number, &zone, now).unwrap();
    assert_eq!(once.value(), "2026-01-01T00:00:00.000Z");
    assert_eq!(Schedule::parse("once", &once.value(), &zone, now).unwrap(), once);
}

#[test]
fn once_has_a_first_run_only_and_a_cron_that_ended_none() {
    let (zone, now) = (zone(NEW_YORK), time("2026-03-01T12:00:00Z"));
    let once = Schedule::parse("once", "2020-01-01T00:00:00Z", &zone, now).unwrap();
    assert_eq!(once.first_run(now, &zone), Some(time("2020-01-01T00:00:00Z")), "overdue, so it runs at once");
    assert_eq!(once.next_after(now, now, &zone), None);
    let late = time("2150-01-01T00:00:00Z");
    assert_eq!(Schedule::parse("cron", "* * * * *", &zone, late).unwrap_err().code, Code::InvalidSchedule);
}

#[test]
fn a_clock_that_went_back_never_repeats_a_cron_slot() {
    let zone = TimeZone::UTC;
    let cron = Schedule::parse("cron", "0 9 * * *", &zone, Time(0)).unwrap();
    let next = cron.next_after(time("2026-01-02T09:00:00Z"), time("2026-01-02T08:30:00Z"), &zone);
    assert_eq!(next, Some(time("2026-01-03T09:00:00Z")));
}

/// An expression spelt out: the numbers of each field, `None` for `*`. Knows nothing of the code under test.
struct Plain {
    minutes: Vec<i8>,
    hours: Option<Vec<i8>>,
    of_month: Option<Vec<i8>>,
    /// 0 is Sunday.
    of_week: Option<Vec<i8>>,
}

impl Plain {
    fn text(&self) -> String {
        let field = |numbers: &Option<Vec<i8>>| {
            numbers.as_ref().map_or("*".to_owned(), |numbers| {
                numbers.iter().map(i8::to_string).collect::<Vec<_>>().join(",")
            })
        };
        let minutes = field(&Some(self.minutes.clone()));
        format!("{minutes} {} {} * {}", field(&self.hours), field(&self.of_month), field(&self.of_week))
    }

    fn names(&self, day: Date) -> bool {
        let of_week = day.weekday().to_sunday_zero_offset();
        match (&self.of_month, &self.of_week) {
            (None, None) => true,
            (Some(days), None) => days.contains(&day.day()),
            (None, Some(days)) => days.contains(&of_week),
            (Some(dates), Some(days)) => dates.contains(&day.day()) || days.contains(&of_week),
        }
    }

    /// The instants of a year, found by looking at every minute that clocks can show.
    fn walk(&self, zone: &TimeZone, year: i16) -> Vec<Time> {
        let mut found = Vec::new();
        let days = date(year, 1, 1).series(jiff::Span::new().days(1)).take_while(|day| day.year() == year);
        for day in days.filter(|day| self.names(*day)) {
            for (hour, minute) in (0..24).flat_map(|hour| (0..60).map(move |minute| (hour, minute))) {
                let hour_named = self.hours.as_ref().is_none_or(|hours| hours.contains(&hour));
                if hour_named && self.minutes.contains(&minute) {
                    self.instants(day.at(hour, minute, 0, 0), zone, &mut found);
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    fn instants(&self, clock: DateTime, zone: &TimeZone, found: &mut Vec<Time>) {
        let mut add = |offset: Offset| found.push(Time::from_jiff(offset.to_timestamp(clock).unwrap()));
        match zone.to_ambiguous_timestamp(clock).offset() {
            AmbiguousOffset::Unambiguous { offset } => add(offset),
            AmbiguousOffset::Fold { before, after } => {
                add(before);
                if self.hours.is_none() {
                    add(after);
                }
            }
            AmbiguousOffset::Gap { before, .. } => {
                if self.hours.is_some() {
                    add(before);
                }
            }
        }
    }
}

/// The instants of a year, found by asking for the next one again and again.
fn stepped(expression: &str, zone: &TimeZone, year: i16) -> Vec<Time> {
    let cron = Cron::parse(expression).unwrap();
    let midnight = |year| Time::from_jiff(zone.to_timestamp(date(year, 1, 1).at(0, 0, 0, 0)).unwrap());
    let mut now = Time(midnight(year).0 - 1);
    std::iter::from_fn(|| {
        let next = cron.next(now, zone).filter(|next| *next < midnight(year + 1))?;
        assert!(next > now, "{expression}");
        now = next;
        Some(next)
    })
    .collect()
}

#[test]
fn stepping_through_a_year_finds_what_looking_at_every_minute_finds() {
    for (zone_name, year) in [(NEW_YORK, 2026), (LORD_HOWE, 2026), (APIA, 2011)] {
        let zone = zone(zone_name);
        for plain in [
            Plain { minutes: vec![0, 30], hours: None, of_month: None, of_week: None },
            Plain { minutes: vec![15, 45], hours: Some(vec![1, 2, 3]), of_month: None, of_week: None },
            Plain { minutes: vec![0], hours: Some(vec![0]), of_month: None, of_week: Some(vec![5]) },
        ] {
            let expression = plain.text();
            assert_eq!(
                stepped(&expression, &zone, year),
                plain.walk(&zone, year),
                "{expression} in {zone_name}"
            );
        }
    }
}

fn numbers(min: i8, max: i8) -> impl Strategy<Value = Vec<i8>> {
    prop::collection::vec(min..=max, 1..4)
}

fn any_plain() -> impl Strategy<Value = Plain> {
    let days = (prop::option::of(numbers(1, 31)), prop::option::of(numbers(0, 6)));
    // Hours near the jumps more often than others.
    let hours = prop::option::weighted(0.8, prop_oneof![numbers(0, 3), numbers(0, 23)]);
    (prop::collection::vec(0_i8..=59, 1..3), hours, days)
        .prop_map(|(minutes, hours, (of_month, of_week))| Plain { minutes, hours, of_month, of_week })
}

impl std::fmt::Debug for Plain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text())
    }
}

fn any_field(min: u32, max: u32) -> impl Strategy<Value = String> {
    prop_oneof![
        Just("*".to_owned()),
        (min..=max).prop_map(|n| n.to_string()),
        (min..=max, min..=max).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
        (2..=max).prop_map(|n| format!("*/{n}")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(24) })]

    #[test]
    fn any_expression_agrees_with_the_walker_for_a_year(
        plain in any_plain(), zone_name in prop_oneof![Just(NEW_YORK), Just(LORD_HOWE)],
    ) {
        let zone = zone(zone_name);
        prop_assert_eq!(stepped(&plain.text(), &zone, 2026), plain.walk(&zone, 2026));
    }

    #[test]
    fn the_next_instant_is_later_and_skips_none(
        minute in any_field(0, 59), hour in any_field(0, 23), of_month in any_field(1, 28),
        from in 1_700_000_000_000_i64..1_900_000_000_000, step in 1_i64..4_000_000_000,
        zone_name in prop_oneof![Just(NEW_YORK), Just(LORD_HOWE), Just(APIA)],
    ) {
        let zone = zone(zone_name);
        let cron = Cron::parse(&format!("{minute} {hour} {of_month} * *")).unwrap();
        let early = cron.next(Time(from), &zone).unwrap();
        let late = cron.next(Time(from + step), &zone).unwrap();
        prop_assert!(early > Time(from) && late > Time(from + step) && late >= early);
        if early > Time(from + step) {
            prop_assert_eq!(early, late);
        }
    }

    #[test]
    fn no_text_makes_reading_or_stepping_panic(text in "[0-9*,/#?L@A-Z -]{0,24}") {
        if let Ok(cron) = Cron::parse(&text) {
            let _ = cron.next(Time(1_772_366_400_000), &zone(NEW_YORK));
        }
    }
}

#[test]
fn a_text_that_is_no_schedule_at_all_is_told_what_one_is() {
    for text in ["", "noon", "10y", "1.5h", "next monday", "every other day"] {
        let refusal = Schedule::guess(text, &TimeZone::UTC, Time(0)).unwrap_err();
        assert!(refusal.message.ends_with(" is no schedule"), "{refusal:?}");
        assert!(["2h", "2026-12-31 18:30", "0 9 * * 1-5"].iter().all(|way| refusal.hint.contains(way)));
    }
    for text in ["* * * *", "@fortnightly", "0 9 * *"] {
        let refusal = Schedule::guess(text, &TimeZone::UTC, Time(0)).unwrap_err();
        assert!(refusal.message.starts_with("cron "), "{refusal:?}");
    }
}
