//! A piece of a text around the words that were looked for.

use super::fold;

/// How long a piece is, characters.
const PIECE: usize = 120;
/// How much of that comes before the first word, bytes.
const BEFORE: usize = 40;
/// So many places of each word are considered.
const PLACES: usize = 64;

/// Returns the piece of `text` in which the most words occur, the first such one: each between `**` and `**`, with `…`
/// where there is more. `folded` is the whole text as it is looked for, `words` are folded too.
pub(super) fn of(text: &str, folded: &str, words: &[String]) -> String {
    let from = folded.floor_char_boundary(start(folded, words).saturating_sub(BEFORE));
    let longest = words.iter().map(String::len).max().unwrap_or_default();
    // What is found may begin before the piece, and end after it.
    let near = folded.floor_char_boundary(from.saturating_sub(longest));
    let until = folded.floor_char_boundary(from + PIECE * 4 + longest);
    let near_text = folded.get(near..until).unwrap_or_default();
    let found: Vec<std::ops::Range<usize>> = words
        .iter()
        .flat_map(|word| {
            near_text.match_indices(word.as_str()).map(|(at, _)| near + at..near + at + word.len())
        })
        .collect();
    cut(text, from, &found)
}

/// Where the most different words are near each other, for the first time.
fn start(folded: &str, words: &[String]) -> usize {
    let mut places: Vec<(usize, usize)> = words
        .iter()
        .enumerate()
        .flat_map(|(n, word)| folded.match_indices(word.as_str()).take(PLACES).map(move |(at, _)| (at, n)))
        .collect();
    places.sort_unstable();
    let mut best = (0, 0);
    let mut counts = vec![0_usize; words.len()];
    let mut ahead = places.iter().peekable();
    for (at, word) in &places {
        while let Some((_, next)) = ahead.next_if(|(next, _)| next - at < PIECE - BEFORE) {
            if let Some(count) = counts.get_mut(*next) {
                *count += 1;
            }
        }
        let different = counts.iter().filter(|count| **count > 0).count();
        if different > best.0 {
            best = (different, *at);
        }
        if let Some(count) = counts.get_mut(*word) {
            *count -= 1;
        }
    }
    best.1
}

/// Returns the characters from where `from` bytes of the folded text are passed; `found` are those of its bytes that were
/// looked for.
fn cut(text: &str, from: usize, found: &[std::ops::Range<usize>]) -> String {
    let mut piece = String::new();
    // Where each letter is one byte, those before the piece are passed over at once.
    let passed = if text.is_ascii() { from } else { 0 };
    let (mut at, mut length, mut inside) = (passed, 0, false);
    for c in text.get(passed..).unwrap_or_default().chars() {
        let here = at;
        fold::each(c, &mut |low| at += low.len_utf8());
        if here < from {
            continue;
        }
        if length == 0 && here > 0 {
            piece.push('…');
        }
        if length == PIECE {
            end(&mut piece, inside);
            piece.push('…');
            return piece;
        }
        // An accent is of the letter that it is on.
        let is_found = if at == here { inside } else { found.iter().any(|found| found.contains(&here)) };
        if is_found != inside {
            piece.push_str("**");
            inside = is_found;
        }
        piece.push(c);
        length += 1;
    }
    end(&mut piece, inside);
    piece
}

fn end(piece: &mut String, inside: bool) {
    if inside {
        piece.push_str("**");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(text: &str, words: &[&str]) -> String {
        let words: Vec<String> = words.iter().map(|word| fold::fold(word)).collect();
        of(text, &fold::fold(text), &words)
    }

    #[test]
    fn what_was_looked_for_is_shown_where_it_is() {
        for (text, words, shown) in [
            ("a long talk about Lisbon", &["talk"][..], "a long **talk** about Lisbon"),
            ("Lisbon", &["lisbon"], "**Lisbon**"),
            ("the café is Café Um", &["cafe"], "the **café** is **Café** Um"),
            ("the cafe\u{301} here", &["cafe"], "the **cafe\u{301}** here"),
            ("eine Straße", &["strasse"], "eine **Straße**"),
            ("東京の旅", &["京の"], "東**京の**旅"),
            ("holiday", &["holi", "iday"], "**holiday**"),
            ("nothing of it", &["else"], "nothing of it"),
            ("", &["x"], ""),
        ] {
            assert_eq!(piece(text, words), shown);
        }
    }

    #[test]
    fn of_a_long_text_the_piece_with_the_most_words_is_shown() {
        let text = format!("lisbon {}the train to Lisbon {}", "x ".repeat(500), "y ".repeat(500));
        let shown = piece(&text, &["lisbon", "train"]);
        assert!(shown.starts_with("…x x ") && shown.ends_with("y…") | shown.ends_with(" …"), "{shown}");
        assert!(shown.contains("the **train** to **Lisbon** y"), "{shown}");
        assert_eq!(shown.chars().filter(|c| !"*…".contains(*c)).count(), PIECE);
        assert_eq!(piece(&"é".repeat(1_000), &[]), format!("{}…", "é".repeat(PIECE)));
    }
}
