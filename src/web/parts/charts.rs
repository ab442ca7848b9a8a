//! Charts, as SVG made on the server. Each says in words what it shows.

use maud::{Markup, html};

/// The height of the chart of days, and the room of a day and of its bar, in its own units.
const HEIGHT: u64 = 100;
const WIDE: usize = 14;
const BAR: usize = 10;

/// A bar for each day, with its figure behind.
pub(in crate::web) fn days(days: &[(String, u64)]) -> Markup {
    let largest = days.iter().map(|(_, value)| *value).max().unwrap_or(0).max(1);
    let width = days.len() * WIDE;
    let (first, last) = (days.first().map_or("", |(day, _)| day), days.last().map_or("", |(day, _)| day));
    html! {
        figure.chart {
            p.scale aria-hidden="true" { span { (grouped(largest)) " tokens" } span { (grouped(largest / 2)) } span { "0" } }
            svg viewBox={ "0 0 " (width) " " (HEIGHT) } preserveAspectRatio="none" role="img" aria-label={ "Tokens a day from " (first) " to " (last) ", at most " (largest) } {
                line.grid x1="0" x2=(width) y1="0" y2="0" {}
                line.grid x1="0" x2=(width) y1=(HEIGHT / 2) y2=(HEIGHT / 2) {}
                @for (at, (day, value)) in days.iter().enumerate() {
                    @let high = scaled(*value, largest, HEIGHT);
                    rect x=(at * WIDE + (WIDE - BAR) / 2) y=(HEIGHT - high) width=(BAR) height=(high) { title { (day) ": " (value) } }
                }
            }
            figcaption.dim { span { (first) } span { (last) } }
        }
    }
}

/// A bar for what is used of an amount, above its scale: nothing, a half, all.
pub(in crate::web) fn gauge(title: &str, used: f64, amount: f64) -> Markup {
    let share = if amount > 0.0 { (used / amount * 100.0).clamp(0.0, 100.0) } else { 0.0 };
    html! {
        figure.gauge {
            svg.bar viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label={ (title) ": " (used) " of " (amount) " used" } {
                rect.all width="100" height="8" {}
                rect.out[used >= amount] width=(format!("{share:.1}")) height="8" {}
            }
            figcaption.dim { span { "0" } span { (title) ": " (used) " of " (amount) } span { (amount) } }
        }
    }
}

/// A bar for a share of the largest value.
pub(in crate::web) fn bars(value: u64, largest: u64) -> Markup {
    html! {
        svg.bar viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true" { rect width=(scaled(value, largest, 100)) height="8" {} }
    }
}

/// A value on a scale of `units` units; what is not nothing is seen.
fn scaled(value: u64, largest: u64, units: u64) -> u64 {
    if value == 0 || largest == 0 {
        return 0;
    }
    let scaled = u128::from(value) * u128::from(units) / u128::from(largest);
    u64::try_from(scaled).unwrap_or(units).clamp(1, units)
}

/// A number with thin blanks between its thousands.
pub(in crate::web) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push('\u{202f}');
        }
        shown.push(digit);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_little_is_seen_and_nothing_is_nothing() {
        for (value, largest, expected) in
            [(0, 10, 0), (10, 10, 100), (5, 10, 50), (1, u64::MAX, 1), (u64::MAX, u64::MAX, 100), (1, 0, 0)]
        {
            assert_eq!(scaled(value, largest, 100), expected);
        }
    }

    #[test]
    fn thousands_stand_apart() {
        for (number, shown) in
            [(0, "0"), (999, "999"), (1_000, "1\u{202f}000"), (1_234_567, "1\u{202f}234\u{202f}567")]
        {
            assert_eq!(grouped(number), shown);
        }
    }

    #[test]
    fn a_gauge_says_what_is_used_and_its_bar_ends_where_all_is() {
        for (used, amount, width) in
            [(0.0, 10.0, "0.0"), (5.0, 10.0, "50.0"), (25.0, 10.0, "100.0"), (1.0, 0.0, "0.0")]
        {
            let html = gauge("Requests", used, amount).into_string();
            assert!(html.contains(&format!("width=\"{width}\" height=\"8\"")), "{html}");
            assert!(
                html.contains(&format!("<span>Requests: {used} of {amount}</span><span>{amount}</span>")),
                "{html}"
            );
        }
    }
}
