//! Letters that are looked for and found as the same: without case, and without the signs over and under them.

use icu_normalizer::properties::{CanonicalDecompositionBorrowed, Decomposed};

/// Accents and the like. What other scripts combine (vowels, voicing) is another word.
const SIGNS: std::ops::RangeInclusive<char> = '\u{300}'..='\u{36f}';
/// Its parts are letters, but nobody who looks for a syllable means another that begins so.
const HANGUL: std::ops::RangeInclusive<char> = '\u{ac00}'..='\u{d7a3}';

/// Hands what a character is folded to to `each`: nothing for an accent of its own, two letters for `ß`.
pub(super) fn each(c: char, each: &mut impl FnMut(char)) {
    if c.is_ascii() {
        each(c.to_ascii_lowercase());
    } else if !SIGNS.contains(&c) {
        match CanonicalDecompositionBorrowed::new().decompose(c) {
            _ if HANGUL.contains(&c) => each(c),
            Decomposed::Default => lower(c, each),
            Decomposed::Singleton(same) => self::each(same, each),
            Decomposed::Expansion(first, second) => {
                self::each(first, each);
                self::each(second, each);
            }
        }
    }
}

/// By way of the capital, so that `ς` is `σ` and `ſ` is `s`.
fn lower(c: char, each: &mut impl FnMut(char)) {
    for low in c.to_uppercase().flat_map(char::to_lowercase).filter(|low| !SIGNS.contains(low)) {
        each(low);
    }
}

/// Returns text as it is looked for.
pub(super) fn fold(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let plain = rest.bytes().position(|byte| !byte.is_ascii()).unwrap_or(rest.len());
        let (ascii, others) = rest.split_at(plain);
        let from = folded.len();
        folded.push_str(ascii);
        if let Some(added) = folded.get_mut(from..) {
            added.make_ascii_lowercase();
        }
        let mut chars = others.chars();
        if let Some(c) = chars.next() {
            each(c, &mut |low| folded.push(low));
        }
        rest = chars.as_str();
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_and_accents_do_not_count_and_everything_else_does() {
        for (text, folded) in [
            ("Café CAFÉ cafe\u{301}", "cafe cafe cafe"),
            ("Straße STRASSE", "strasse strasse"),
            ("ΟΔΌΣ οδός", "οδοσ οδοσ"),
            ("Ёж ЁЖ", "еж еж"),
            ("İstanbul ıstanbul", "istanbul istanbul"),
            ("Trường", "truong"),
            ("が か", "か\u{3099} か"),
            ("각 가", "각 가"),
            ("日本 💥 %_\"", "日本 💥 %_\""),
            ("\u{301}", ""),
            ("K Å", "k a"),
        ] {
            assert_eq!(fold(text), folded, "{text}");
        }
    }
}
