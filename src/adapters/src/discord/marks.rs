//! Links behind words in Discord's own marks: `[words](address)`. Pure.

use crate::kit::Links;

/// The longest words that a link stands behind, bytes.
const LONGEST_WORDS: usize = 2000;
/// The longest address that is read as one, bytes.
const LONGEST_ADDRESS: usize = 4000;

/// Returns a text in which words have the address behind them, as its readers can open it. Code stays as it is.
pub(super) fn told(text: &str, links: &mut Links) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['\\', '`', '[']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let taken = match rest.as_bytes()[0] {
            b'\\' => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            b'`' => code(rest),
            _ => match link(rest) {
                Some((words, address, taken)) => {
                    let behind = links.behind(words, address);
                    out.push_str(words);
                    out.push_str(&behind.unwrap_or_default());
                    rest = &rest[taken..];
                    continue;
                }
                None => 1,
            },
        };
        out.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    out.push_str(rest);
    out
}

/// Returns how long the code is that begins here; where it has no end, its first marks.
fn code(text: &str) -> usize {
    let ticks = text.len() - text.trim_start_matches('`').len();
    let mut at = ticks;
    while let Some(found) = text[at..].find('`') {
        let start = at + found;
        let run = text[start..].len() - text[start..].trim_start_matches('`').len();
        at = start + run;
        if run == ticks {
            return at;
        }
    }
    ticks
}

/// Reads a link: its words, its address, and how long it is in all.
fn link(text: &str) -> Option<(&str, &str, usize)> {
    let words = closed(text, '[', ']', LONGEST_WORDS)?;
    let behind = &text[words.len() + 2..];
    let target = closed(behind, '(', ')', LONGEST_ADDRESS)?;
    // The address may stand in angles, and a title behind it.
    let address = match target.trim_start().strip_prefix('<') {
        Some(rest) => rest.split_once('>')?.0,
        None => target.split_whitespace().next()?,
    };
    let is_address = ["https://", "http://"]
        .iter()
        .any(|scheme| address.get(..scheme.len()).is_some_and(|head| head.eq_ignore_ascii_case(scheme)));
    (is_address && !words.trim().is_empty()).then_some((words, address, words.len() + target.len() + 4))
}

/// Returns what stands between a mark and the one that closes it.
fn closed(text: &str, open: char, close: char, most: usize) -> Option<&str> {
    let within = text.strip_prefix(open)?;
    let mut depth = 0_usize;
    for (at, c) in within.char_indices() {
        if at > most {
            return None;
        }
        if c == open {
            depth += 1;
        } else if c == close && depth == 0 {
            return Some(&within[..at]);
        } else if c == close {
            depth -= 1;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_told_with_the_address_behind_them() {
        for (text, is) in [
            (
                "read [this article](https://a.example/b) please",
                "read this article (https://a.example/b) please",
            ),
            ("[this](<https://a.example/b>)", "this (https://a.example/b)"),
            ("[this](https://a.example/b \"a title\")", "this (https://a.example/b)"),
            ("[a (b)](https://a.example/c_(d))", "a (b) (https://a.example/c_(d))"),
            (
                "[[1]](https://a.example) [2](http://b.example)",
                "[1] (https://a.example) 2 (http://b.example)",
            ),
            ("[https://a.example](https://a.example/)", "https://a.example"),
            ("[good.example](https://evil.example)", "good.example (https://evil.example)"),
            (
                "`[x](https://a.example)` [x](https://a.example)",
                "`[x](https://a.example)` x (https://a.example)",
            ),
            ("```\n[x](https://a.example)\n``` y", "```\n[x](https://a.example)\n``` y"),
            ("\\[x](https://a.example)", "\\[x](https://a.example)"),
            (
                "[x](javascript:alert) [y](/etc) [](https://a.example) [z] (https://a.example)",
                "[x](javascript:alert) [y](/etc) [](https://a.example) [z] (https://a.example)",
            ),
            ("[ü😀](https://a.example/ü) ``", "ü😀 (https://a.example/ü) ``"),
            ("[open](https://a.example", "[open](https://a.example"),
            ("", ""),
        ] {
            assert_eq!(told(text, &mut Links::default()), is, "{text}");
        }
    }

    #[test]
    fn hostile_marks_cost_little_and_lose_nothing() {
        for text in
            ["[".repeat(9999), "`".repeat(99_999), "[a](".repeat(5000), "\\".repeat(9999), "`a".repeat(9999)]
        {
            assert_eq!(told(&text, &mut Links::default()), text);
        }
        let many = "[a](https://a.example/b)".repeat(5000);
        assert!(told(&many, &mut Links::default()).len() < 5000 + (16 << 10));
    }
}
