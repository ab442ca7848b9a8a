//! A group's trigger, found at the start of a text as v1 finds it.

use std::fmt;

use regex::Regex;

use crate::domain::heard::js_regex::trim;

/// A trigger: literal, in any case, at the start, followed by a word boundary.
///
/// The boundary is JavaScript's, between an ASCII word character and anything else. So a trigger that ends in
/// punctuation, or in a letter that is not ASCII, is found only where an ASCII word character follows it.
#[derive(Clone, Debug)]
pub(super) struct Trigger {
    literal: String,
    /// `None` for a blank trigger, and for one too long to be compiled: neither is ever found.
    regex: Option<Regex>,
}

impl Trigger {
    pub(super) fn new(trigger: &str) -> Self {
        let literal = trim(trigger).to_owned();
        let regex = match literal.as_str() {
            "" => None,
            literal => Regex::new(&format!(r"\A(?i:{})(?-u:\b)", regex::escape(literal))).ok(),
        };
        Self { literal, regex }
    }

    /// Returns whether the text begins with the trigger, white space aside.
    pub(super) fn begins(&self, text: &str) -> bool {
        let found = self.regex.as_ref().and_then(|regex| regex.find(trim(text)));
        // Unicode's idea of case is wider than JavaScript's, which keeps the Kelvin sign and k apart.
        found.is_some_and(|found| found.as_str().chars().map(fold).eq(self.literal.chars().map(fold)))
    }
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.literal)
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
    fn no_case_that_javascript_sees_is_lost_by_the_engine() {
        // Letters newer than the engine's tables are letters to it by their code point only.
        let unknown = Regex::new(r"\p{Cn}").unwrap();
        let cased: Vec<char> = (0..=0xFFFF_u32)
            .filter_map(char::from_u32)
            .filter(|c| fold(*c) != *c && !unknown.is_match(&format!("{c}{}", fold(*c))))
            .collect();
        for chunk in cased.chunks(50) {
            let (upper, lower): (String, String) = chunk.iter().map(|c| (fold(*c), *c)).unzip();
            assert!(Trigger::new(&format!("{upper}x")).begins(&format!("{lower}X!")), "{upper} {lower}");
        }
    }
}
