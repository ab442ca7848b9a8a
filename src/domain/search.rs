//! What of archived sessions is found, in which order, and how it is shown: by their words alone, and by nobody else's.
//!
//! A session is found when each word occurs in its name or in what was said, as a part of a word too. Case and accents
//! do not count. The best comes first, by BM25 over those that are found, where a name weighs as much as four times
//! saying it; of equals the newest.

mod fold;
mod sketch;
mod snippet;

pub use sketch::sketch;

/// How many words of a query are looked for.
const WORDS: usize = 32;
/// How much of one word, characters.
const LONGEST_WORD: usize = 100;
/// How much more than in what was said a word counts in the name.
const NAME: f64 = 4.0;
/// From how often on a word hardly counts more.
const SATURATION: f64 = 1.2;
/// How much a long text counts less, 0 to 1.
const BY_LENGTH: f64 = 0.75;

/// What is looked for: all of these words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    words: Vec<String>,
}

/// A session in which all words occur.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// How often each word does, once in the name counting as [`NAME`] times.
    counts: Vec<f64>,
    /// How long it is, bytes.
    length: usize,
    /// A piece of it around what was looked for, which stands between `**` and `**`.
    pub snippet: String,
}

impl Wanted {
    /// Reads a query. No sign has a meaning but white space, which stands between words.
    #[must_use]
    pub fn new(query: &str) -> Self {
        let words = query
            .split(|c: char| c.is_whitespace() || c.is_control())
            .filter(|word| !word.is_empty())
            .take(WORDS)
            .map(|word| {
                let word: String = word.chars().take(LONGEST_WORD).collect();
                let folded = fold::fold(&word);
                // An accent by itself is no word that could be said.
                if folded.is_empty() { word } else { folded }
            })
            .collect();
        Self { words }
    }

    /// Whether everything is wanted.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.words.is_empty()
    }

    /// Whether a session may be one that is looked for, by its name and the sketch of what was said in it.
    #[must_use]
    pub fn may_be(&self, name: &str, sketch: &[u8]) -> bool {
        let folded = fold::fold(name);
        self.words.iter().all(|word| folded.contains(word) || sketch::may_have(sketch, word))
    }

    /// Looks for the words in a session.
    #[must_use]
    pub fn look(&self, name: &str, content: &str) -> Option<Hit> {
        let (name_folded, folded) = (fold::fold(name), fold::fold(content));
        if !self.words.iter().all(|word| name_folded.contains(word) || folded.contains(word)) {
            return None;
        }
        let count = |text: &str, word: &String| text.matches(word).count() as f64;
        let counts: Vec<f64> =
            self.words.iter().map(|word| NAME * count(&name_folded, word) + count(&folded, word)).collect();
        let in_content = self.is_everything() || self.words.iter().any(|word| folded.contains(word));
        let snippet = if in_content {
            snippet::of(content, &folded, &self.words)
        } else {
            snippet::of(name, &name_folded, &self.words)
        };
        Some(Hit { counts, length: name_folded.len() + folded.len(), snippet })
    }
}

/// Returns the best of sessions that come newest first, at most so many.
#[must_use]
pub fn best<T>(found: Vec<(T, Hit)>, limit: usize) -> Vec<(T, Hit)> {
    let all: usize = found.iter().map(|(_, hit)| hit.length).sum();
    let usual = (all as f64 / found.len().max(1) as f64).max(1.0);
    let mut ranked: Vec<(f64, (T, Hit))> =
        found.into_iter().map(|found| (worth(&found.1, usual), found)).collect();
    // Stable: of equals the newest stays first.
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    ranked.truncate(limit);
    ranked.into_iter().map(|(_, found)| found).collect()
}

/// BM25, but for how rare a word is: all of those that are found have all of them.
fn worth(hit: &Hit, usual: f64) -> f64 {
    let length = SATURATION * (1.0 - BY_LENGTH + BY_LENGTH * hit.length as f64 / usual);
    hit.counts.iter().map(|count| count * (SATURATION + 1.0) / (count + length)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of those that are found, best first; they come newest first.
    fn found(query: &str, sessions: &[(&'static str, &str)]) -> Vec<&'static str> {
        let wanted = Wanted::new(query);
        let hits = sessions.iter().filter_map(|(name, said)| {
            let hit = wanted.look(name, said);
            assert!(hit.is_none() || wanted.may_be(name, &sketch(said)), "{query} in {name}");
            hit.map(|hit| (*name, hit))
        });
        best(hits.collect(), 10).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn the_best_comes_first() {
        let long = format!("lisbon {}", "and so on ".repeat(100));
        let often = "lisbon ".repeat(50);
        for (query, sessions, order) in [
            // A name says more than a word in passing, and more than three of them.
            (
                "lisbon",
                vec![("misc", "to lisbon and back"), ("Lisbon", "by train we go")],
                vec!["Lisbon", "misc"],
            ),
            (
                "lisbon",
                vec![("misc", "lisbon lisbon lisbon"), ("Lisbon", "by train we went")],
                vec!["Lisbon", "misc"],
            ),
            // Twice is more than once, in as long a text.
            ("lisbon", vec![("a", "lisbon or porto"), ("b", "lisbon, lisbon!")], vec!["b", "a"]),
            // The same in a long text is less.
            ("lisbon", vec![("a", long.as_str()), ("b", "lisbon and so")], vec!["b", "a"]),
            // Each of two words once is more than one of them often.
            (
                "lisbon train",
                vec![
                    ("a", &format!("{often} train")),
                    ("b", &format!("{} train", "lisbon train ".repeat(20))),
                ],
                vec!["b", "a"],
            ),
            // Of equals the newest.
            ("lisbon", vec![("new", "lisbon"), ("old", "lisbon")], vec!["new", "old"]),
            // All words, wherever they are.
            (
                "lisbon talk",
                vec![("Lisbon", "a walk"), ("Lisbon two", "a talk"), ("x", "talk")],
                vec!["Lisbon two"],
            ),
            ("", vec![("new", ""), ("old", "x")], vec!["new", "old"]),
        ] {
            assert_eq!(found(query, &sessions), order, "{query}");
        }
    }

    #[test]
    fn parts_of_words_are_found_in_any_script_and_no_sign_means_anything() {
        let sessions = [
            ("a", "100% of it_ in C++, said \"Élodie\""),
            ("b", "東京へ行く日本の旅 Ёлка ΟΔΌΣ Straße \u{301}x"),
        ];
        for (query, which) in [
            ("lodi", vec!["a"]),
            ("ELODIE", vec!["a"]),
            ("e\u{301}lodie", vec!["a"]),
            ("100%", vec!["a"]),
            ("t_", vec!["a"]),
            ("c++", vec!["a"]),
            ("\"él", vec!["a"]),
            ("日本", vec!["b"]),
            ("旅", vec!["b"]),
            ("елка", vec!["b"]),
            ("οδος", vec!["b"]),
            ("STRASSE", vec!["b"]),
            ("OR", vec![]),
            ("%%", vec![]),
            ("*", vec![]),
            ("\u{301}", vec![]),
        ] {
            let mut names = found(query, &sessions);
            names.sort_unstable();
            assert_eq!(names, which, "{query}");
        }
    }

    #[test]
    fn a_query_is_bounded() {
        assert_eq!(Wanted::new(&"word ".repeat(5_000)).words.len(), WORDS);
        assert_eq!(Wanted::new(&"x".repeat(5_000)).words[0].len(), LONGEST_WORD);
        assert!(Wanted::new(" \n\t\0").is_everything());
    }
}
