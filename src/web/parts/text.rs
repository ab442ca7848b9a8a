//! Texts that somebody else wrote, as a page may have them. maud escapes what they mean to a browser.

use std::borrow::Cow;

use maud::{Markup, PreEscaped, html};

use crate::domain::shown::screen::on_screen;

/// Returns a text of several lines: nothing in it hides, or turns around what stands beside it.
pub(in crate::web) fn shown(text: &str) -> Cow<'_, str> {
    on_screen(text)
}

/// Returns what an agent wrote, which is markdown. Entities in it can stand for characters that hide, so they are taken out last.
pub(in crate::web) fn marked(text: &str) -> Markup {
    PreEscaped(on_screen(&g2_text::for_page(text)).into_owned())
}

/// Returns words of ours in which commands stand between backticks.
pub(in crate::web) fn advice(text: &str) -> Markup {
    let parts: Vec<&str> = text.split('`').collect();
    let paired = parts.len() % 2 == 1;
    html! {
        @for (n, part) in parts.iter().enumerate() {
            @if paired && n % 2 == 1 { code { (shown(part)) } }
            @else if n > 0 && !paired { "`" (shown(part)) }
            @else { (shown(part)) }
        }
    }
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
    fn commands_in_advice_stand_out_where_each_has_its_end() {
        for (text, html) in [
            ("", ""),
            ("wait", "wait"),
            (
                "`g2 a <b>` shows it; then `g2 c`",
                "<code>g2 a &lt;b&gt;</code> shows it; then <code>g2 c</code>",
            ),
            ("it's ` alone", "it's ` alone"),
        ] {
            assert_eq!(advice(text).into_string(), html);
        }
    }

    #[test]
    fn what_an_agent_wrote_has_its_marks_and_no_tag_of_its_own() {
        for (text, html) in [
            ("**bold** <b>x</b>", "<strong>bold</strong> &lt;b&gt;x&lt;/b&gt;"),
            ("a &#x202e;b&#8203;c", "a bc"),
            (
                "[here](https://example.org/?a=\"b\")",
                "<a href=\"https://example.org/?a=%22b%22\" rel=\"noopener noreferrer nofollow\">here</a>",
            ),
            ("[here](javascript:alert(1))", "here (javascript:alert(1))"),
            (
                "![a cat](https://example.org/cat.png)",
                "<a href=\"https://example.org/cat.png\" rel=\"noopener noreferrer nofollow\">a cat</a>",
            ),
            ("```rust\na < b\n```", "<pre><code class=\"language-rust\">a &lt; b</code></pre>"),
        ] {
            assert_eq!(marked(text).into_string(), html);
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_of_an_agent_makes_a_tag_or_attribute_that_is_not_ours(
            text in proptest::collection::vec(proptest::sample::select(vec![
                "<", ">", "\"", "'", "`", "```", "[x](", "](javascript:", "https://a.b/", ")", "![", "](data:", "onclick=", "<script>", "<img src=x>",
                "&lt;", "&#60;", "&quot;", "**", "||", "\n", "\n\n", "> ", "- ", "| a | b |\n|-|-|\n", " style=", "<a href=\"", "&#x202e;", "\u{202e}", "\\",
            ]), 0..40),
        ) {
            let html = marked(&text.concat()).into_string();
            let tags = html.split('<').skip(1);
            for tag in tags {
                let (tag, _) = tag.split_once('>').unwrap();
                let known = matches!(tag.trim_start_matches('/'), "strong" | "em" | "del" | "code" | "pre" | "blockquote" | "br" | "a" | "span")
                    || tag == "span class=\"spoiler\" tabindex=\"0\""
                    || tag.strip_prefix("code class=\"language-").and_then(|lang| lang.strip_suffix('"')).is_some_and(|lang| !lang.contains(['"', ' ']))
                    || tag.strip_prefix("a href=\"").and_then(|rest| rest.strip_suffix("\" rel=\"noopener noreferrer nofollow\"")).is_some_and(|to| {
                        !to.contains(['"', ' ']) && ["https://", "http://", "mailto:"].iter().any(|scheme| to.starts_with(scheme))
                    });
                proptest::prop_assert!(known, "<{}> in {}", tag, html);
            }
            let hides = html.contains('\u{202e}');
            proptest::prop_assert!(!hides);
        }
    }

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
