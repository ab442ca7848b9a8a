//! Which patterns take every message: two such wirings of a chat answer everything twice.

use crate::heard::js_regex::Pattern;

/// What a pattern that takes everything is found in.
const ANYTHING: [&str; 5] = ["", "a", "Zwei Worte.\n", "1", "\u{1f600}"];

/// Returns whether a wiring with this pattern engages on any text: `.`, one that can't be used, or one that is found in
/// everything. `None` is a wiring without a pattern.
#[must_use]
pub fn takes_everything(pattern: Option<&str>) -> bool {
    match pattern {
        None => false,
        Some(".") => true,
        Some(pattern) => Pattern::compile(pattern)
            .map_or(true, |compiled| ANYTHING.iter().all(|text| compiled.test(text) == Ok(true))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_that_is_found_in_everything_takes_everything() {
        for (pattern, everything) in [
            (Some("."), true),
            (Some(".*"), true),
            (Some("("), true),
            (Some(""), true),
            (Some("x*"), true),
            (Some("[^]*"), true),
            (Some("^$"), false),
            (Some(".+"), false),
            (Some("hi"), false),
            (Some("^"), true),
            (Some("(?!hi)"), true),
            (Some("^(?!hi)"), true),
            (None, false),
        ] {
            assert_eq!(takes_everything(pattern), everything, "{pattern:?}");
        }
    }
}
