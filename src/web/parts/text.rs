//! Texts that somebody else wrote, as a page may have them. maud escapes what they mean to a browser.

use std::borrow::Cow;

use crate::domain::host::screen::on_screen;

/// Returns a text of several lines: nothing in it hides, or turns around what stands beside it.
pub(in crate::web) fn shown(text: &str) -> Cow<'_, str> {
    on_screen(text)
}

/// Returns the beginning of a text on one line, at most `most` characters.
pub(in crate::web) fn line(text: &str, most: usize) -> String {
    // Of a long text no more is looked at than is shown.
    let head: String = text.chars().take(most + 1).collect();
    let mut line: String = on_screen(&head).split_whitespace().collect::<Vec<_>>().join(" ");
    if head.chars().count() > most {
        line = line.chars().take(most.saturating_sub(1)).collect();
        line.push('…');
    }
    line
}

/// Says how many there are of something.
pub(in crate::web) fn count<N: std::fmt::Display + PartialEq + From<u8>>(
    n: N,
    one: &str,
    more: &str,
) -> String {
    let what = if n == N::from(1) { one } else { more };
    format!("{n} {what}")
}

/// Returns a text as it stands in the query of an address.
pub(in crate::web) fn encoded(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_short_and_nothing_in_it_hides() {
        assert_eq!(line("one\n two\t three", 80), "one two three");
        assert_eq!(line("rm \u{202e}txt.fdp", 80), "rm txt.fdp");
        assert_eq!(line(&"x".repeat(1 << 20), 10), format!("{}…", "x".repeat(9)));
        assert_eq!(
            (count(1_i64, "one", "more"), count(0_usize, "one", "more")),
            ("1 one".into(), "0 more".into())
        );
        assert_eq!(encoded("tg:-1 &<"), "tg%3A-1+%26%3C");
    }
}
