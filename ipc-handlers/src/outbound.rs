//! What an agent says, as it may leave the host.

const OPEN: &str = "<internal>";
const CLOSE: &str = "</internal>";

/// Returns `text` without its `<internal>…</internal>` blocks, trimmed.
///
/// Exactly v1: each block ends at the first closing tag after it opens, tags are case-sensitive, a tag without
/// its counterpart stays, and trimming takes what JavaScript's `trim()` takes. Time is linear.
#[must_use]
pub fn strip_internal(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find(OPEN) {
        let inside = open + OPEN.len();
        let Some(length) = rest[inside..].find(CLOSE) else { break };
        kept.push_str(&rest[..open]);
        rest = &rest[inside + length + CLOSE.len()..];
    }
    kept.push_str(rest);
    kept.trim_matches(is_js_space).to_owned()
}

/// Returns whether JavaScript's `trim()` takes the character: White_Space without NEL, and the byte order mark.
fn is_js_space(c: char) -> bool {
    c == '\u{feff}' || (c.is_whitespace() && c != '\u{85}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_go_and_the_rest_stays_as_in_v1() {
        for (text, left) in [
            ("hello <internal>secret</internal> world", "hello  world"),
            ("hello <internal>\nsecret\nstuff\n</internal> world", "hello  world"),
            ("<internal>a</internal>hello<internal>b</internal>", "hello"),
            ("<internal>only this</internal>", ""),
            ("hello world", "hello world"),
            ("<internal>hidden</internal>", ""),
            ("<internal>thinking</internal>The answer is 42", "The answer is 42"),
        ] {
            assert_eq!(strip_internal(text), left, "{text}");
        }
    }

    #[test]
    fn tags_that_do_not_pair_stay() {
        for (text, left) in [
            ("a <internal>b", "a <internal>b"),
            ("a </internal> b", "a </internal> b"),
            ("a </internal><internal> b", "a </internal><internal> b"),
            ("<internal>a<internal>b</internal>c</internal>", "c</internal>"),
            ("<internal>a</internal> x <internal>b", "x <internal>b"),
            ("<Internal>a</Internal>", "<Internal>a</Internal>"),
            ("<internal >a</internal>", "<internal >a</internal>"),
            ("<internal></internal>", ""),
            ("<inter<internal></internal>nal>a</internal>", "<internal>a</internal>"),
        ] {
            assert_eq!(strip_internal(text), left, "{text}");
        }
    }

    #[test]
    fn trimming_takes_what_javascript_takes() {
        for space in [
            "\t", "\n", "\u{b}", "\u{c}", "\r", " ", "\u{a0}", "\u{1680}", "\u{2000}", "\u{200a}",
            "\u{2028}", "\u{2029}", "\u{202f}", "\u{205f}", "\u{3000}", "\u{feff}",
        ] {
            assert_eq!(
                strip_internal(&format!("{space}a{space}b{space}")),
                format!("a{space}b"),
                "{space:?}"
            );
        }
        for kept in ["\u{85}", "\u{200b}", "\u{180e}", "\0"] {
            assert_eq!(strip_internal(kept), kept, "{kept:?}");
        }
    }

    #[test]
    fn a_million_openings_take_no_longer_than_one() {
        let text = OPEN.repeat(100_000);
        assert_eq!(strip_internal(&text), text);
    }
}
