//! What an agent says, as it may leave the host.

use crate::seen::hides;

/// The name of the tag, in any case.
const NAME: &str = "internal";

/// What leaves the host of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outbound {
    /// Without what stands in `<internal>` blocks, trimmed.
    pub text: String,
    /// Whether the last block is not closed, so that it hides all that follows.
    pub unclosed: bool,
}

/// Returns `text` without what stands in its `<internal>` blocks, trimmed.
///
/// Unlike v1, no way to write the tag lets out its text: its case does not matter, anything may stand behind its
/// name but a letter, a digit, `-` and `_` (as attributes, whose quotes may hold `<` and `>`), blocks may stand in each
/// other, only the bare closing tag closes one, and one that is never closed goes on to the end, as does a tag itself
/// that never ends. A closing tag that closes nothing is left out, and hides nothing. Blocks that v1 knew end where
/// they did, but for those that hold another one. Trimming takes what JavaScript's `trim()` takes. Time is linear.
#[must_use]
pub fn outbound(text: &str) -> Outbound {
    let mut kept = String::with_capacity(text.len());
    let mut depth = 0_usize;
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let (before, from) = rest.split_at(at);
        if depth == 0 {
            kept.push_str(before);
        }
        let length = match tag(from) {
            Some((Tag::Opens, length)) => {
                depth += 1;
                length
            }
            Some((Tag::Closes, length)) => {
                depth = depth.saturating_sub(1);
                length
            }
            None => {
                if depth == 0 {
                    kept.push('<');
                }
                1
            }
        };
        rest = &from[length..];
    }
    if depth == 0 {
        kept.push_str(rest);
    }
    Outbound { text: kept.trim_matches(is_js_space).to_owned(), unclosed: depth > 0 }
}

/// Returns the text alone of [`outbound`].
#[must_use]
pub fn strip_internal(text: &str) -> String {
    outbound(text).text
}

/// Returns what may leave the host of a text that goes on: nothing that may become a tag.
#[must_use]
pub fn so_far(text: &str) -> String {
    let begins = |tail: &str| {
        ["<internal", "</internal"]
            .iter()
            .any(|tag| tag.get(..tail.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(tail)))
    };
    let end = text.rfind('<').filter(|at| begins(&text[*at..])).unwrap_or(text.len());
    strip_internal(&text[..end])
}

/// Returns whether there is something in `text`, and all of it is in `<internal>` blocks.
#[must_use]
pub fn is_all_internal(text: &str) -> bool {
    !text.trim_matches(is_js_space).is_empty() && strip_internal(text).is_empty()
}

enum Tag {
    Opens,
    Closes,
}

/// Returns which tag `text`, which begins with `<`, begins with, and its length in bytes. An opening tag that never ends
/// is as long as the text.
fn tag(text: &str) -> Option<(Tag, usize)> {
    let inside = text.get(1..)?;
    let (tag, inside) = match inside.strip_prefix('/') {
        Some(inside) => (Tag::Closes, inside),
        None => (Tag::Opens, inside),
    };
    let name = inside.get(..NAME.len()).filter(|name| name.eq_ignore_ascii_case(NAME))?;
    let behind = &inside[name.len()..];
    if !behind.starts_with(ends_name) {
        return None;
    }
    let end = match tag {
        Tag::Opens => end_of_opening(behind).map_or(behind.len(), |end| end + 1),
        // Nothing but space: what only looks like it does not let out what follows.
        Tag::Closes => {
            let end = behind.find(|c: char| !(c.is_whitespace() || hides(c)))?;
            end + behind[end..].strip_prefix('>').map(|_| 1)?
        }
    };
    Some((tag, text.len() - behind.len() + end))
}

/// Whether a character ends the name of a tag: all do but those that names are made of. Some invisible ones count as
/// letters.
fn ends_name(c: char) -> bool {
    let is_mark = ('\u{300}'..='\u{36f}').contains(&c);
    hides(c) || is_mark || !(c.is_alphanumeric() || c == '-' || c == '_')
}

/// Returns where the `>` stands that ends an opening tag. As in HTML a quote is one behind a `=`, and hides its text.
fn end_of_opening(behind: &str) -> Option<usize> {
    let mut quote = None;
    let mut last = ' ';
    for (at, c) in behind.char_indices() {
        match (quote, c) {
            (Some(open), _) if open == c => quote = None,
            (Some(_), _) => {}
            (None, '>') => return Some(at),
            (None, '"' | '\'') if last == '=' => quote = Some(c),
            (None, _) => {}
        }
        if !c.is_whitespace() {
            last = c;
        }
    }
    None
}

/// Returns whether JavaScript's `trim()` takes the character: White_Space without NEL, and the byte order mark.
fn is_js_space(c: char) -> bool {
    c == '\u{feff}' || (c.is_whitespace() && c != '\u{85}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_goes_on_never_shows_what_may_be_internal() {
        let whole = "Hello <INTERNAL>secret</internal> a < b <b>x</b> <internally> end";
        for (at, _) in whole.char_indices() {
            let shown = so_far(&whole[..at]);
            // With a further letter it is another word.
            assert!(!shown.to_lowercase().contains("<int") || shown.contains("<internall"), "{shown}");
            assert!(!shown.contains('s') || at > whole.find("</internal>").unwrap(), "{shown}");
        }
        assert_eq!(so_far("a <"), "a");
        assert_eq!(so_far("a < b"), "a < b");
        assert_eq!(so_far(whole), strip_internal(whole));
    }

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
    fn no_way_to_write_the_tag_lets_out_what_is_in_it() {
        for (text, left) in [
            // Not closed: the rest is hidden.
            ("a <internal>b", "a"),
            ("<internal>a</internal> x <internal>b", "x"),
            ("a </internal><internal> b", "a"),
            ("<internal>a<internal>b</internal>c", ""),
            ("a <internal>b</internal", "a"),
            ("a <internal>b< /internal>c", "a"),
            ("a <internal>b</internals>c", "a"),
            // In each other.
            ("<internal>a<internal>b</internal>c</internal>d", "d"),
            ("a<internal>b<INTERNAL>c</Internal>d</internal>e", "ae"),
            // In other letters, with white space or attributes.
            ("<Internal>a</Internal>b", "b"),
            ("<INTERNAL>a</internal>b", "b"),
            ("<internal >a</internal >b", "b"),
            ("<internal\n>a</internal\t>b", "b"),
            ("<internal why=\"x\">a</internal>b", "b"),
            ("<internal note=\"a<b\">SECRET</internal>c", "c"),
            ("<internal a='<internal>' b = \"x>y\">SECRET</internal>c", "c"),
            ("<internal it's=it's>SECRET</internal>c", "c"),
            ("<internal\u{a0}>SECRET</internal>c", "c"),
            ("<internal\u{3000}x>SECRET</internal\u{2003}>c", "c"),
            ("<internal\u{200b}>SECRET</internal>c", "c"),
            ("<internal\u{fe0f}>SECRET</internal>c", "c"),
            ("<internal\u{34f}>SECRET</internal>c", "c"),
            ("<internal\u{3164}>SECRET</internal>c", "c"),
            ("<internal\u{115f}>SECRET</internal\u{ffa0}>c", "c"),
            ("<internal\u{e0020}>SECRET</internal\u{2800}>c", "c"),
            ("<internal\u{301}>SECRET</internal>c", "c"),
            ("<internal:x>SECRET</internal>c", "c"),
            ("<internal\u{345}>SECRET</internal>c", "c"),
            ("<internal>a </internal,x> SECRET</internal>c", "c"),
            ("<internal:x>a</internal:x> SECRET</internal>c", "c"),
            ("<internal,>SECRET</internal>c", "c"),
            ("<internal\">SECRET</internal>c", "c"),
            ("<internal<b>SECRET</internal>c", "c"),
            ("<internal/>SECRET</internal>c", "c"),
            ("<internal/x>SECRET</internal>c", "c"),
            // The tag itself never ends.
            ("a <internal b", "a"),
            ("a <internal <b>c", "a"),
            ("a <internal\nb</internal", "a"),
            ("a <internal note=\"b>c</internal>", "a"),
            ("a <internal/", "a"),
            // Closes nothing: the tag goes, the text stays.
            ("a </internal> b", "a  b"),
            ("a</internal></INTERNAL>b", "ab"),
            ("<internal></internal>", ""),
            ("<inter<internal></internal>nal>a</internal>", "<internal>a"),
        ] {
            assert_eq!(strip_internal(text), left, "{text}");
        }
    }

    #[test]
    fn what_is_no_such_tag_stays() {
        for text in [
            "<internals>a</internals>",
            "<internal-note>a",
            "<internal_note>a",
            "<internal2>a",
            "<internalé>a",
            "<internal",
            "<intern\u{212a}l>a",
            "< internal>a",
            "1 < 2 > 0 << <",
            "<ünternal>a",
            "&lt;internal&gt;a",
        ] {
            assert_eq!(strip_internal(text), text, "{text}");
        }
    }

    #[test]
    fn all_internal_is_what_has_something_and_shows_nothing() {
        for (text, is) in [
            ("<internal>a</internal>", true),
            (" <internal>a", true),
            ("</internal>", true),
            ("", false),
            (" \n", false),
            ("<internal>a</internal>b", false),
        ] {
            assert_eq!(is_all_internal(text), is, "{text:?}");
        }
    }

    #[test]
    fn that_a_block_is_not_closed_is_told() {
        for (text, unclosed) in [
            ("a", false),
            ("a <internal>b</internal> c", false),
            ("a</internal>", false),
            ("a <internal>b", true),
            ("a <internal b", true),
            ("a <internal>b<internal>c</internal>d", true),
        ] {
            assert_eq!(outbound(text).unclosed, unclosed, "{text}");
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
        for text in [
            "<internal>",
            "<internal ",
            "<internal:",
            "<internal\u{3164}",
            "<internal =\"",
            "</internal>",
            "</internal ",
            "</internal =\"",
            "<",
        ] {
            let many = text.repeat(1_000_000);
            let left = strip_internal(&many);
            assert!(left.is_empty() || left == many.trim_end(), "{text}");
        }
    }
}
