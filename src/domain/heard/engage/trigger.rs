//! A group's trigger, found at the start of a text as v1 finds it.

use std::fmt;

use crate::heard::js_regex::trim;

/// A trigger: literal, in any case, at the start, followed by a word boundary.
///
/// The boundary is JavaScript's, between an ASCII word character and anything else. So a trigger that ends in
/// punctuation, or in a letter that is not ASCII, is found only where an ASCII word character follows it. A blank trigger is never
/// found.
#[derive(Clone, Debug)]
pub(super) struct Trigger(String);

impl Trigger {
    pub(super) fn new(trigger: &str) -> Self {
        Self(trim(trigger).to_owned())
    }

    /// Returns whether the text begins with the trigger, white space aside.
    pub(super) fn begins(&self, text: &str) -> bool {
        let mut rest = trim(text).chars();
        let mut last = None;
        for wanted in self.0.chars() {
            last = rest.next();
            if last.map(fold) != Some(fold(wanted)) {
                return false;
            }
        }
        let is_word = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
        is_word(last) != is_word(rest.next()) && !self.0.is_empty()
    }
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// Returns the character that stands for all cases of `c` in JavaScript's `i` without `u`.
fn fold(c: char) -> char {
    let mut upper = c.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(upper), None) if u32::from(c) <= 0xFFFF && (c.is_ascii() || !upper.is_ascii()) => upper,
        (_, _) => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_found_in_the_cases_that_javascript_knows() {
        for (trigger, text, found) in [
            ("@Äa", "@äA!", true),
            ("x\u{3c2}x", "X\u{3a3}X", true),
            ("kx", "\u{212a}x", false),
            ("\u{212a}x", "kx", false),
            ("ßx", "SSx", false),
            ("\u{10428}x", "\u{10400}x", false),
            ("@Ä", "@ä", false),
            ("@Ä", "@äb", true),
            ("@G2", "@G2_", false),
            ("@G2", "@G2ä", true),
        ] {
            assert_eq!(Trigger::new(trigger).begins(text), found, "{trigger} {text}");
        }
    }
}
