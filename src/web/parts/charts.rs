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
            svg viewBox={ "0 0 " (width) " " (HEIGHT) } preserveAspectRatio="none" role="img" aria-label={ "Tokens a day from " (first) " to " (last) ", at most " (largest) } {
                @for (at, (day, value)) in days.iter().enumerate() {
                    @let high = scaled(*value, largest, HEIGHT);
                    rect x=(at * WIDE + (WIDE - BAR) / 2) y=(HEIGHT - high) width=(BAR) height=(high) { title { (day) ": " (value) } }
                }
            }
            figcaption.dim { span { (first) } span { (last) } }
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
}
