//! Times on a page: by the user's clock, with the exact one behind. They are never relative, so none gets old.

use ipc_handlers::Time;
use jiff::tz::TimeZone;
use maud::{Markup, html};

/// Shows an instant: of today the time alone.
pub(in crate::web) fn at(at: Time, now: Time, zone: &TimeZone) -> Markup {
    html! { time datetime=(at) title=(at) { (in_words(at, now, zone)) } }
}

/// The same, or a dash.
pub(in crate::web) fn at_or_dash(time: Option<Time>, now: Time, zone: &TimeZone) -> Markup {
    match time {
        Some(time) => at(time, now, zone),
        None => html! { "–" },
    }
}

fn in_words(at: Time, now: Time, zone: &TimeZone) -> String {
    let (at, now) = (at.to_jiff().to_zoned(zone.clone()), now.to_jiff().to_zoned(zone.clone()));
    let form = match (at.date() == now.date(), at.year() == now.year()) {
        (true, _) => "%H:%M:%S",
        (false, true) => "%a %-d %b %H:%M",
        (false, false) => "%-d %b %Y %H:%M",
    };
    at.strftime(form).to_string()
}

/// Says how long something took.
pub(in crate::web) fn took(ms: i64) -> String {
    match ms.max(0) {
        ms if ms < 1_000 => format!("{ms} ms"),
        ms if ms < 60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        ms if ms < 3_600_000 => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1_000),
        ms if ms < 86_400_000 => format!("{} h {} min", ms / 3_600_000, ms % 3_600_000 / 60_000),
        ms => format!("{} d {} h", ms / 86_400_000, ms % 86_400_000 / 3_600_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_short_and_a_duration_has_two_units() {
        let time = |text: &str| Time::from_jiff(text.parse().unwrap());
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let now = time("2026-11-25T01:00:00Z");
        for (text, expected) in [
            ("2026-11-24T23:30:05Z", "00:30:05"),
            ("2026-11-24T22:30:00Z", "Tue 24 Nov 23:30"),
            ("2025-03-01T12:00:00Z", "1 Mar 2025 13:00"),
        ] {
            assert_eq!(in_words(time(text), now, &zone), expected);
        }
        for (ms, expected) in [
            (-5, "0 ms"),
            (950, "950 ms"),
            (4_250, "4.2 s"),
            (61_000, "1 min 1 s"),
            (7_200_000, "2 h 0 min"),
            (90_000_000, "1 d 1 h"),
        ] {
            assert_eq!(took(ms), expected);
        }
    }
}
