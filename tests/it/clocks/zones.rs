//! Instants by the clocks of zones: known hard days, and thousands against Node.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use g2::domain::{
    runs::prompt::{PromptMessage, format, local_time},
    time::zone::{ZoneData, Zones},
};
use ipc_handlers::Time;

fn at(text: &str) -> Option<Time> {
    Some(Time::from_jiff(text.parse().unwrap()))
}

fn shown(instant: &str, zone: &str) -> String {
    local_time(at(instant), &Zones::utc().of(Some(zone)).zone)
}

#[test]
fn one_instant_is_shown_by_the_clock_of_each_zone() {
    for (instant, zone, text) in [
        ("2026-02-04T18:30:00Z", "America/New_York", "Feb 4, 2026, 1:30 PM"),
        ("2026-06-15T12:00:00Z", "America/New_York", "Jun 15, 2026, 8:00 AM"),
        ("2026-06-15T12:00:00Z", "Asia/Tokyo", "Jun 15, 2026, 9:00 PM"),
        // Offsets that are no whole hours.
        ("2026-01-01T00:00:00Z", "Asia/Kathmandu", "Jan 1, 2026, 5:45 AM"),
        ("2026-01-01T00:00:00Z", "Pacific/Chatham", "Jan 1, 2026, 1:45 PM"),
        ("2026-07-01T00:00:00Z", "Pacific/Chatham", "Jul 1, 2026, 12:45 PM"),
        ("2026-01-01T00:00:00Z", "Australia/Eucla", "Jan 1, 2026, 8:45 AM"),
        ("2026-01-01T00:00:00Z", "Pacific/Marquesas", "Dec 31, 2025, 2:30 PM"),
    ] {
        assert_eq!(shown(instant, zone), text, "{instant} in {zone}");
    }
}

#[test]
fn clocks_that_are_set_are_followed_to_the_minute() {
    for (zone, before, after, texts) in [
        ("America/New_York", "2026-03-08T06:59:59Z", "2026-03-08T07:00:00Z", ["1:59 AM", "3:00 AM"]),
        ("America/New_York", "2026-11-01T05:59:59Z", "2026-11-01T06:00:00Z", ["1:59 AM", "1:00 AM"]),
        ("Europe/London", "2026-03-29T00:59:59Z", "2026-03-29T01:00:00Z", ["12:59 AM", "2:00 AM"]),
        // Half an hour.
        ("Australia/Lord_Howe", "2026-04-04T14:59:59Z", "2026-04-04T15:00:00Z", ["1:59 AM", "1:30 AM"]),
        ("Australia/Lord_Howe", "2026-10-03T15:29:59Z", "2026-10-03T15:30:00Z", ["1:59 AM", "2:30 AM"]),
        ("Pacific/Chatham", "2026-09-26T13:59:59Z", "2026-09-26T14:00:00Z", ["2:44 AM", "3:45 AM"]),
        // A whole day, which Samoa never had.
        ("Pacific/Apia", "2011-12-30T09:59:59Z", "2011-12-30T10:00:00Z", ["11:59 PM", "12:00 AM"]),
    ] {
        for (instant, text) in [before, after].into_iter().zip(texts) {
            assert!(shown(instant, zone).ends_with(&format!(", {text}")), "{instant} in {zone}: {text}");
        }
    }
    assert_eq!(shown("2011-12-30T09:59:59Z", "Pacific/Apia"), "Dec 29, 2011, 11:59 PM");
    assert_eq!(shown("2011-12-30T10:00:00Z", "Pacific/Apia"), "Dec 31, 2011, 12:00 AM");
}

#[test]
fn a_year_ends_when_it_ends_there() {
    for (zone, text) in [
        ("UTC", "Dec 31, 2024, 11:59 PM"),
        ("America/Los_Angeles", "Dec 31, 2024, 3:59 PM"),
        ("Europe/Berlin", "Jan 1, 2025, 12:59 AM"),
        ("Pacific/Kiritimati", "Jan 1, 2025, 1:59 PM"),
        ("Pacific/Pago_Pago", "Dec 31, 2024, 12:59 PM"),
    ] {
        assert_eq!(shown("2024-12-31T23:59:59.999Z", zone), text, "{zone}");
    }
    assert_eq!(shown("2024-02-29T12:00:00Z", "UTC"), "Feb 29, 2024, 12:00 PM");
}

#[test]
fn a_name_that_is_no_zone_is_shown_as_utc_and_stops_nothing() {
    for name in ["IST-2", "+05:30", "XYZ+3", "", "Mars/Olympus", "../../etc/passwd"] {
        let zone = Zones::utc().of(Some(name));
        assert_eq!(zone.name, "UTC", "{name}");
        let message = PromptMessage { at: at("2026-01-01T00:00:00Z"), ..PromptMessage::default() };
        let prompt = format(&[message], &zone.name, &zone.zone);
        assert!(prompt.starts_with("<context timezone=\"UTC\" />"), "{prompt}");
        assert!(prompt.contains("time=\"Jan 1, 2026, 12:00 AM\""), "{prompt}");
    }
}

#[test]
fn a_stamp_that_is_none_is_an_invalid_date_in_every_zone() {
    for zone in ["UTC", "Asia/Kathmandu"] {
        assert_eq!(local_time(None, &Zones::utc().of(Some(zone)).zone), "Invalid Date");
    }
    // The ends of what can be expressed are shown somehow, and stop nothing.
    for ms in [i64::MIN, i64::MAX, 0] {
        assert!(!local_time(Some(Time(ms)), &Zones::utc().of(None).zone).is_empty());
    }
}

/// Zones whose laws changed after the data of the Node that made the fixture (2025c): ours are newer and know, for instants
/// from 2026 on. That is what we want: the newest data at hand are right about tomorrow's meeting, and v1 on a newer Node
/// says the same.
const CHANGED_SINCE: [&str; 6] = [
    "Africa/Casablanca",
    "Africa/El_Aaiun",
    "America/Edmonton",
    "America/Inuvik",
    "America/Vancouver",
    "America/Winnipeg",
];

#[test]
fn five_thousand_instants_in_every_zone_read_as_node_writes_them() {
    let data = ZoneData::newest(None, None);
    let lines =
        include_str!("../../fixtures/v1_random_times.tsv").lines().filter(|line| !line.starts_with('#'));
    let (mut instants, mut unlike) = (0, Vec::new());
    for line in lines {
        let mut parts = line.split('\t');
        let name = parts.next().unwrap();
        let zone = data.get(name).unwrap_or_else(|| panic!("{name} is no zone"));
        for part in parts {
            let (ms, text) = part.split_once('=').unwrap();
            let instant = Time(ms.parse().unwrap());
            let ours = local_time(Some(instant), &zone);
            instants += 1;
            let changed = CHANGED_SINCE.contains(&name) && instant >= at("2026-01-01T00:00:00Z").unwrap();
            if ours != text && !changed {
                unlike.push(format!("{name} {ms}: {ours} for {text}"));
            }
        }
    }
    assert!(instants >= 5_000, "{instants}");
    assert!(unlike.is_empty(), "{} of {instants}: {unlike:#?}", unlike.len());
}
