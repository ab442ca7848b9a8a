//! What a query looks for, how well a text fits it, and the piece of it that is shown. The index only says which texts may
//! hold the longest word: whether a text fits is decided here, and what is counted is bounded, whatever was said how often.

use icu_normalizer::DecomposingNormalizerBorrowed;

/// The shortest word that the index knows, characters.
const INDEXED: usize = 3;
/// The index is asked for the beginning of a word, characters: each one more takes memory.
const ASKED: usize = 12;
/// A word that is said more often counts no more.
const COUNTED: usize = 64;
/// What a word in the name counts, of one in the text.
const IN_THE_NAME: f64 = 4.0;
/// BM25's own constants: how soon more of a word adds nothing, and how much a long text is held against it.
const SATURATION: f64 = 1.2;
const LENGTH: f64 = 0.75;
/// So much of a text is looked at in one go for its first place that fits, bytes.
const PIECE: usize = 64 << 10;
/// How far pieces overlap, bytes: more than a word can have.
const OVERLAP: usize = 2 << 10;
/// How much is shown before the first place that fits and after it, characters.
const BEFORE: usize = 20;
const AFTER: usize = 100;

/// The words of a query, as texts are compared with them: without case and accents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    words: Vec<String>,
    /// What the index of [folded](fold) texts is asked for: the beginning of the longest word. Empty where all are too short
    /// for it.
    pub for_the_index: String,
}

impl Wanted {
    /// Reads a query: words between white space, quotes around them left out.
    #[must_use]
    pub fn new(query: &str) -> Self {
        let words: Vec<String> = query
            .split(|c: char| c.is_whitespace() || c.is_control())
            .map(|word| fold(word.trim_matches(['"', '“', '”', '„'])))
            .filter(|word| !word.is_empty())
            .collect();
        let longest = words.iter().max_by_key(|word| word.chars().count());
        let asked: String = longest.into_iter().flat_map(|word| word.chars()).take(ASKED).collect();
        let for_the_index = match asked.chars().count() {
            0..INDEXED => String::new(),
            // No text that anybody writes is part of its syntax.
            _ => format!("\"{}\"", asked.replace('"', "\"\"")),
        };
        Self { words, for_the_index }
    }

    /// Whether nothing is looked for, so that everything fits.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.words.is_empty()
    }

    fn all(&self) -> impl Iterator<Item = &str> {
        self.words.iter().map(String::as_str)
    }

    /// Returns how often what is looked for is said, or `None` where a word is missing.
    #[must_use]
    pub fn tally(&self, name: &str, text: &str) -> Option<Tally> {
        if self.words.is_empty() {
            return Some(Tally { said: Vec::new(), length: 0.0 });
        }
        let (name, text) = (fold(name), fold(text));
        if !self.all().all(|word| name.contains(word) || text.contains(word)) {
            return None;
        }
        let count = |text: &str, word: &str| text.match_indices(word).take(COUNTED).count() as f64;
        let said = self.all().map(|word| IN_THE_NAME * count(&name, word) + count(&text, word));
        Some(Tally { said: said.collect(), length: (name.len() + text.len()) as f64 })
    }

    /// Returns the piece of a text in which a word comes first, with the words marked `**so**`; where there is none, that
    /// of the name; else how the text begins.
    #[must_use]
    pub fn snippet(&self, name: &str, text: &str) -> String {
        let shown = |text: &str, at: usize| {
            let start = text[..at].char_indices().rev().nth(BEFORE - 1).map_or(0, |(start, _)| start);
            let end = text[at..].char_indices().nth(AFTER).map_or(text.len(), |(end, _)| at + end);
            let more = |is: bool| if is { "…" } else { "" };
            format!("{}{}{}", more(start > 0), self.marked(&text[start..end]), more(end < text.len()))
        };
        match (self.first(text), self.first(name)) {
            (Some(at), _) => shown(text, at),
            (None, Some(at)) => shown(name, at),
            (None, None) => shown(text, 0),
        }
    }

    /// Where the first of the words begins, in bytes.
    fn first(&self, text: &str) -> Option<usize> {
        if self.words.is_empty() {
            return None;
        }
        let mut start = 0;
        while start < text.len() {
            let end = text.floor_char_boundary(start + PIECE);
            let piece = Folded::new(&text[start..end]);
            if let Some(at) = self.all().filter_map(|word| piece.text.find(word)).min() {
                return Some(start + piece.origin(at));
            }
            if end == text.len() {
                return None;
            }
            start = text.floor_char_boundary(end - OVERLAP);
        }
        None
    }

    fn marked(&self, piece: &str) -> String {
        let folded = Folded::new(piece);
        let mut places: Vec<(usize, usize)> = self
            .all()
            .flat_map(|word| folded.text.match_indices(word).map(|(at, word)| (at, at + word.len())))
            .map(|(start, end)| (folded.origin(start), folded.origin(end)))
            .collect();
        places.sort_unstable();
        let (mut marked, mut done) = (String::new(), 0);
        let mut places = places.into_iter().peekable();
        while let Some((start, mut end)) = places.next() {
            while let Some((_, further)) = places.next_if(|(next, _)| *next <= end) {
                end = end.max(further);
            }
            marked.push_str(&piece[done..start]);
            marked.push_str("**");
            marked.push_str(&piece[start..end]);
            marked.push_str("**");
            done = end;
        }
        marked.push_str(&piece[done..]);
        marked
    }
}

/// How often each word is said in a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Tally {
    said: Vec<f64>,
    length: f64,
}

/// Returns how well texts fit, the more the better (BM25, of texts that hold all words).
#[must_use]
pub fn scores(tallies: &[&Tally]) -> Vec<f64> {
    let usual = tallies.iter().map(|tally| tally.length).sum::<f64>() / tallies.len().max(1) as f64;
    let score = |tally: &&Tally| {
        let long = SATURATION * (1.0 - LENGTH + LENGTH * tally.length / usual.max(1.0));
        tally.said.iter().map(|said| said * (SATURATION + 1.0) / (said + long)).sum()
    };
    tallies.iter().map(score).collect()
}

/// A text without case and accents, and where each byte of it comes from.
struct Folded {
    text: String,
    /// `None` where they are the same.
    origins: Option<Vec<usize>>,
}

impl Folded {
    fn new(piece: &str) -> Self {
        if piece.is_ascii() {
            return Self { text: piece.to_ascii_lowercase(), origins: None };
        }
        let (mut text, mut origins) = (String::with_capacity(piece.len()), Vec::new());
        for (at, c) in piece.char_indices() {
            fold_char(c, &mut text);
            origins.resize(text.len(), at);
        }
        origins.push(piece.len());
        Self { text, origins: Some(origins) }
    }

    /// Where the character begins that this byte is made from; the end's is the end.
    fn origin(&self, at: usize) -> usize {
        self.origins.as_ref().map_or(at, |origins| origins.get(at).copied().unwrap_or(0))
    }
}

/// Returns a text without case and accents.
#[must_use]
pub fn fold(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let mut folded = String::with_capacity(text.len());
    text.chars().for_each(|c| fold_char(c, &mut folded));
    folded
}

fn fold_char(c: char, into: &mut String) {
    if c.is_ascii() {
        return into.push(c.to_ascii_lowercase());
    }
    let parts = DecomposingNormalizerBorrowed::new_nfd().normalize_iter(std::iter::once(c));
    for letter in parts.filter(|part| !is_mark(*part)).flat_map(char::to_lowercase) {
        // Of two small letters with one capital the usual one.
        into.push(match letter {
            'ς' => 'σ',
            'ſ' => 's',
            other => other,
        });
    }
}

/// Whether it stands above or below a letter.
fn is_mark(c: char) -> bool {
    ('\u{300}'..='\u{36f}').contains(&c)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_query_is_words_without_case_accents_or_quotes() {
        let words = |query: &str| Wanted::new(query).words.join(" ");
        assert_eq!(words("Äpfel  “und” né\t\0x"), "apfel und ne x");
        assert_eq!(words(" \"\" \u{301} "), "");
        assert_eq!(words("ne\u{301}e ΛΌΓΟΣ λόγος"), "nee λογοσ λογοσ");
        let asked = |query: &str| Wanted::new(query).for_the_index;
        assert_eq!(asked("to 京都庁 x"), "\"京都庁\"");
        assert_eq!(asked("a\"b* OR"), "\"a\"\"b*\"");
        assert_eq!(asked("Мой"), "\"мои\"");
        assert_eq!(asked("the incomprehensible"), "\"incomprehens\"");
        assert_eq!(asked("né ne\u{301} x"), "", "too short for it");
    }

    #[test]
    fn the_piece_that_fits_is_shown_with_its_words_marked() {
        let shown = |query: &str, text: &str| Wanted::new(query).snippet("The name", text);
        assert_eq!(shown("bus 7", "by Bus no 7"), "by **Bus** no **7**");
        assert_eq!(shown("apfel", "viele Äpfel hier"), "viele **Äpfel** hier");
        assert_eq!(shown("name", "nothing"), "The **name**");
        assert_eq!(shown("other", "nothing"), "nothing");
        assert_eq!(shown("", "nothing"), "nothing");
        assert_eq!(shown("aaa", "baaaaab"), "b**aaa**aab", "places that are apart from each other");
        assert_eq!(shown("abc bcd", "xabcdx"), "x**abcd**x");
        let long = format!("{}needle{}", "é".repeat(100_000), "ß".repeat(300));
        assert_eq!(shown("needle", &long), format!("…{}**needle**{}…", "é".repeat(20), "ß".repeat(94)));
    }

    #[test]
    fn what_fits_better_is_worth_more() {
        let wanted = Wanted::new("lisbon");
        let in_order = [
            ("Lisbon", "where to stay"),
            ("travel", "Lisbon, Lisbon, Lisbon"),
            ("groceries", "a word about Lisbon, and much more about other things than that"),
        ];
        let tallies: Vec<_> = in_order.iter().map(|(name, text)| wanted.tally(name, text).unwrap()).collect();
        let scores = scores(&tallies.iter().collect::<Vec<_>>());
        assert!(scores.is_sorted_by(|a, b| a > b), "{scores:?}");
        assert_eq!(Wanted::new("lisbon porto").tally("Lisbon", "where to stay"), None, "a word is missing");
    }

    #[test]
    fn what_is_said_very_often_counts_so_far_and_no_further() {
        let wanted = Wanted::new("aaa aa a");
        let tally = wanted.tally("", &"a".repeat(1 << 20)).unwrap();
        assert_eq!(tally.said, [64.0; 3]);
        assert!(wanted.snippet("", &"a".repeat(1 << 20)).len() < 1_000);
    }

    proptest! {
        #[test]
        fn a_snippet_is_a_piece_of_its_text_whatever_that_is(query in "\\PC{0,12}", text in "(?s).{0,200}") {
            let wanted = Wanted::new(&query);
            let shown = wanted.snippet("", &text);
            let bare = shown.replace("**", "");
            prop_assert!(text.replace("**", "").contains(bare.trim_matches('…')) || text.contains('*') || text.contains('…'));
            let _ = wanted.tally(&query, &text);
        }

        #[test]
        fn a_word_of_a_text_is_found_in_it(before in "\\PC{0,50}", word in "[a-zäöüßéñ]{1,10}", after in "\\PC{0,50}") {
            let text = format!("{before} {word} {after}");
            let wanted = Wanted::new(&word.to_uppercase());
            prop_assume!(word.to_uppercase().to_lowercase() == word);
            prop_assert!(wanted.snippet("", &text).contains("**"), "{}", wanted.snippet("", &text));
        }
    }
}
