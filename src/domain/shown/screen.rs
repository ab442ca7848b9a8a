//! What may reach a screen.

use std::borrow::Cow;

pub use ipc_handlers::seen::{acts, hides};

/// Says how many of a thing there are: `1 run`, `2 runs`. `what` takes an `s` for more than one.
#[must_use]
pub fn counted<N: PartialEq + From<u8> + std::fmt::Display>(n: N, what: &str) -> String {
    format!("{n} {what}{}", if n == N::from(1) { "" } else { "s" })
}

/// Returns text of several lines as a screen may have it: nothing in it moves the cursor, changes colours, asks the terminal
/// for an answer, hides, or turns what stands around it. Lines and tabs stay, and what joins letters or pictures.
#[must_use]
pub fn on_screen(text: &str) -> Cow<'_, str> {
    let stays = |c: char| !acts(c) || matches!(c, '\n' | '\t' | '\u{200c}' | '\u{200d}');
    if text.chars().all(stays) {
        return Cow::Borrowed(text);
    }
    let break_lines = |c| if matches!(c, '\u{2028}' | '\u{2029}') { '\n' } else { c };
    Cow::Owned(text.chars().map(break_lines).filter(|c| stays(*c)).collect())
}

/// Returns text of one line as it may be said again: what acts on a screen or is not seen is written as an escape.
#[must_use]
pub fn escaped(text: &str) -> String {
    if !text.contains(hides) {
        return text.to_owned();
    }
    text.chars().fold(String::with_capacity(text.len()), |mut line, c| {
        if hides(c) {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
        line
    })
}

/// Returns a JSON document of one line in which nothing acts on a screen or hides: such characters stand in its strings
/// only, and are escaped there. It says the same.
#[must_use]
pub fn escaped_in_json(document: &str) -> String {
    if !document.contains(hides) {
        return document.to_owned();
    }
    document.chars().fold(String::with_capacity(document.len()), |mut line, c| {
        if hides(c) {
            line.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")));
        } else {
            line.push(c);
        }
        line
    })
}

/// Returns an address as it may be shown: without a user, a password, and what stands behind `?` or `#`. More is hidden rather
/// than less where that can't be told.
#[must_use]
pub fn address(text: &str) -> String {
    let (scheme, rest) = text.split_once("://").map_or(("", text), |(scheme, rest)| (scheme, rest));
    let (word, behind) =
        rest.split_at(rest.find(|c: char| c == '"' || c.is_whitespace()).unwrap_or(rest.len()));
    let (user, place) = word.rfind('@').map_or(("", word), |at| ("…", &word[at..]));
    let (place, query) = place.split_at(place.find(['?', '#', '&']).unwrap_or(place.len()));
    let query = if query.is_empty() { "" } else { "?…" };
    let between = if scheme.is_empty() && !text.starts_with("://") { "" } else { "://" };
    format!("{scheme}{between}{user}{place}{query}{}", addresses(behind))
}

/// The same of each address with a scheme in a text.
#[must_use]
pub fn addresses(text: &str) -> String {
    if text.contains("://") { address(text) } else { text.to_owned() }
}

/// The shortest secret that is looked for in a text, bytes. A shorter one is in many words.
const SHORTEST_SECRET: usize = 4;

/// Returns a text with `…` in the place of each of these secrets. One that the text ends within, as it was cut, is none in it
/// either.
#[must_use]
pub fn without(text: &str, secrets: &[String]) -> String {
    let mut secrets: Vec<&str> =
        secrets.iter().map(String::as_str).filter(|secret| secret.len() >= SHORTEST_SECRET).collect();
    // One may be a part of another.
    secrets.sort_unstable_by_key(|secret| std::cmp::Reverse(secret.len()));
    let mut left = secrets.iter().fold(text.to_owned(), |left, secret| left.replace(secret, "…"));
    let begun = |secret: &&str| {
        let longest = secret.len().min(left.len());
        let mut lengths = (SHORTEST_SECRET..longest).rev();
        lengths.find(|length| secret.get(..*length).is_some_and(|begin| left.ends_with(begin)))
    };
    if let Some(length) = secrets.iter().filter_map(begun).max() {
        left.truncate(left.len() - length);
        left.push('…');
    }
    left
}

/// Returns a word as it could be typed; nothing in it begins a line.
#[must_use]
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_=./:@,+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", escaped(&word.replace('\'', "'\\''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_can_be_typed_again_and_stays_on_its_line() {
        for (word, shown) in [
            ("local:main", "local:main"),
            ("", "''"),
            ("two words", "'two words'"),
            ("it's", r"'it'\''s'"),
            ("a\nb\u{1b}[2J", r"'a\nb\u{1b}[2J'"),
        ] {
            assert_eq!(quoted(word), shown);
        }
    }

    #[test]
    fn secrets_are_in_no_text_also_where_it_is_cut() {
        let secrets = ["123:AA-secret".to_owned(), "secret".to_owned(), "a".to_owned(), String::new()];
        for (text, left) in [
            (
                "401 for url https://api.telegram.org/bot123:AA-secret/getMe",
                "401 for url https://api.telegram.org/bot…/getMe",
            ),
            ("a secret: 123:AA-secret", "a …: …"),
            ("cut in 123:AA-s", "cut in …"),
            ("it ended at 123", "it ended at 123"),
            ("", ""),
        ] {
            assert_eq!(without(text, &secrets), left);
        }
    }

    #[test]
    fn an_address_is_shown_without_what_may_be_a_secret() {
        for (text, shown) in [
            ("https://api.example/v1", "https://api.example/v1"),
            ("https://ada:pw@api.example:8443/x", "https://…@api.example:8443/x"),
            ("https://ada:p/w?@api.example", "https://…@api.example"),
            ("https://api.example/?key=x", "https://api.example/?…"),
            ("https://api.example/?mail=a@b&key=x", "https://…@b?…"),
            ("https://api.example#x", "https://api.example?…"),
            ("ada:pw@api.example", "…@api.example"),
            ("[\"https://a:b@c\", \"http://d?e\"]", "[\"https://…@c\", \"http://d?…\"]"),
            ("", ""),
        ] {
            assert_eq!(address(text), shown);
        }
        for text in ["ada@example.org", "what? # &"] {
            assert_eq!(addresses(text), text);
        }
    }

    #[test]
    fn what_is_said_again_is_seen_and_acts_on_nothing() {
        assert_eq!(escaped("a\u{1b}[31m\n\u{3164}b c\\"), "a\\u{1b}[31m\\n\\u{3164}b c\\");
    }

    #[test]
    fn a_document_says_the_same_and_acts_on_nothing() {
        let said = "a\u{9b}6n\u{202e}\u{e0041}\u{7f}é\"";
        let document = serde_json::to_string(said).unwrap();
        let line = escaped_in_json(&document);
        assert_eq!(line, "\"a\\u009b6n\\u202e\\udb40\\udc41\\u007fé\\\"\"");
        assert_eq!(serde_json::from_str::<String>(&line).unwrap(), said);
    }

    #[test]
    fn nothing_on_a_screen_acts_on_it() {
        for (text, shown) in [
            ("plain, Zoë שלום 日本\n\tindented\n", "plain, Zoë שלום 日本\n\tindented\n"),
            // Colours, the title, the clipboard, a question to the terminal, another screen: as ESC or as one C1 character.
            ("\u{1b}[31mred\u{1b}[0m", "[31mred[0m"),
            ("\u{1b}]0;title\u{7}", "]0;title"),
            ("\u{1b}]52;c;cm0=\u{1b}\\", "]52;c;cm0=\\"),
            ("\u{9b}6n\u{90}q\u{9d}x\u{9c}", "6nqx"),
            ("done\rfail", "donefail"),
            ("ab\u{8}\u{8}cd\u{7f}\0\u{b}\u{c}", "abcd"),
            ("one\r\ntwo", "one\ntwo"),
            // Text that is turned around, or hidden.
            ("rm \u{202e}txt.fdp\u{202c}", "rm txt.fdp"),
            ("\u{2066}a\u{2067}b\u{2068}c\u{2069}", "abc"),
            ("a\u{200e}b\u{200f}c\u{61c}d\u{202a}e\u{202b}f\u{202d}g", "abcdefg"),
            ("pay\u{200b}pal\u{ad}\u{feff}\u{2060}", "paypal"),
            ("see\u{e0049}\u{e0047}\u{1d173}\u{1bca0}\u{e01f0}", "see"),
            ("a\u{2028}b\u{2029}c", "a\nb\nc"),
            // What joins stays.
            ("می\u{200c}خواهم 👩\u{200d}🚀 ❤\u{fe0f}", "می\u{200c}خواهم 👩\u{200d}🚀 ❤\u{fe0f}"),
        ] {
            assert_eq!(on_screen(text), shown, "{text:?}");
        }
    }
}
