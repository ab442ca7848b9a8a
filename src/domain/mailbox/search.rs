//! What a query looks for, as the index of archived sessions is asked for it: SQLite's own tokenizer compares without case and
//! accents, as far as letters and accents are apart.

use std::borrow::Cow;

use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};

/// The shortest word that the index knows, characters.
const INDEXED: usize = 3;
/// A word is looked for in pieces of this many characters: where a text says the same over and over, each one costs a look at all
/// of it.
const PIECE: usize = 16;

/// The words of a query: without accents, long ones in pieces, none that is part of another one, the longest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// Those that the index knows.
    pub long: Vec<String>,
    /// Those that are too short for it, in small letters.
    pub short: Vec<String>,
}

impl Words {
    /// Reads a query: words between white space, quotes around them left out.
    #[must_use]
    pub fn of(query: &str) -> Self {
        let mut words: Vec<String> = query
            .split(|c: char| c.is_whitespace() || c.is_control())
            .flat_map(|word| pieces(&bare(word.trim_matches(['"', '“', '”', '„']))))
            .collect();
        words.sort_by_key(|word| std::cmp::Reverse(word.len()));
        let mut kept: Vec<String> = Vec::new();
        for word in words {
            if !kept.iter().any(|other| other.contains(&word)) {
                kept.push(word);
            }
        }
        let (long, short) = kept.into_iter().partition(|word| word.chars().count() >= INDEXED);
        Self { long, short }
    }

    /// Whether nothing is looked for, so that everything fits.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.long.is_empty() && self.short.is_empty()
    }
}

/// Returns a word in small letters and without accents.
fn bare(word: &str) -> Vec<char> {
    let is_accent = |c: &char| ('\u{300}'..='\u{36f}').contains(c);
    apart(word).to_lowercase().chars().filter(|c| !is_accent(c)).collect()
}

/// Cuts a word into what it is looked for by; an end that is too short for the index is left out.
fn pieces(word: &[char]) -> Vec<String> {
    let pieces = word.chunks(PIECE).enumerate().filter(|(n, piece)| *n == 0 || piece.len() >= INDEXED);
    pieces.map(|(_, piece)| piece.iter().collect()).collect()
}

/// Returns a text with its letters and their accents apart.
#[must_use]
pub fn apart(text: &str) -> Cow<'_, str> {
    DecomposingNormalizerBorrowed::new_nfd().normalize(text)
}

/// Returns a text with its letters and their accents in one, as they are usually written.
#[must_use]
pub fn in_one(text: &str) -> Cow<'_, str> {
    ComposingNormalizerBorrowed::new_nfc().normalize(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_words_without_case_accents_or_quotes() {
        let words = |query: &str| {
            let Words { long, short } = Words::of(query);
            (long.join(" "), short.join(" "))
        };
        let is = |long: &str, short: &str| (long.to_owned(), short.to_owned());
        assert_eq!(words("Äpfel  “und” né\t\0x"), is("apfel und", "ne x"));
        assert_eq!(words(" \"\" \u{301} "), is("", ""));
        assert_eq!(words("ЁЛКА Мой a\"b* OR"), is("елка мои a\"b*", "or"));
        assert_eq!(words("京都庁 日本"), is("京都庁", "日本"));
        assert!(Words::of(" \"\" ").is_everything());
    }

    #[test]
    fn what_is_part_of_another_word_is_not_looked_for_again_and_a_long_word_in_pieces() {
        let words = Words::of("aaa aaaa b aa aaaab");
        assert_eq!((words.long, words.short), (vec!["aaaab".to_owned()], vec![]));
        assert_eq!(Words::of(&"x".repeat(100)).long, ["x".repeat(16)]);
        assert_eq!(Words::of("https://example.com/page/77").long, ["https://example.", "com/page/77"]);
        assert_eq!(Words::of("incomprehensibility").long, ["incomprehensibil", "ity"]);
    }

    #[test]
    fn letters_and_accents_are_put_together_again() {
        for text in ["Äpfel né", "мой λόγος", "한국어 東京"] {
            assert_eq!(in_one(&apart(text)), text);
        }
    }
}
