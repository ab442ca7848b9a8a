//! What the HTML beside a text says that the text does not: the addresses behind its words. Pure.

use crate::kit::Links;

/// How many links of one text are looked at.
const MOST: usize = 200;

/// A link: its words, and where it leads.
#[derive(Debug, PartialEq)]
pub(super) struct Link {
    words: String,
    to: String,
}

impl Link {
    /// Returns the person that it leads to.
    pub(super) fn person(&self) -> Option<String> {
        let to = decoded(&self.to);
        let id = match to.strip_prefix("https://matrix.to/#/") {
            Some(id) => id.to_owned(),
            None => format!("@{}", to.strip_prefix("matrix:u/")?),
        };
        let id = id.split(['?', '/']).next().unwrap_or_default();
        id.starts_with('@').then(|| id.to_owned())
    }
}

/// Returns the links of a text, without those in the quote of what it answers.
pub(super) fn links(html: &str) -> Vec<Link> {
    let mut rest = match (html.find("<mx-reply>"), html.find("</mx-reply>")) {
        (Some(0), Some(end)) => &html[end..],
        _ => html,
    };
    let mut links = Vec::new();
    while links.len() < MOST
        && let Some((_, after)) = rest.split_once("<a ")
        && let Some((tag, after)) = after.split_once('>')
        && let Some((within, after)) = after.split_once("</a>")
    {
        rest = after;
        if let Some(to) = href(tag) {
            links.push(Link { words: plain(within).trim().to_owned(), to: unescaped(to) });
        }
    }
    links
}

fn href(tag: &str) -> Option<&str> {
    let (_, value) = tag.split_once("href=")?;
    let quote = value.chars().next().filter(|c| ['"', '\''].contains(c))?;
    value[1..].split(quote).next()
}

/// Returns a text with the addresses behind its words, as the HTML beside it has them.
pub(super) fn told(body: &str, links: &[Link]) -> String {
    let (mut told, mut rest, mut behind) = (String::with_capacity(body.len()), body, Links::default());
    let mut nowhere = String::new();
    for link in links {
        let is_person = link.person().is_some();
        let address = if is_person { None } else { behind.behind(&link.words, &link.to) };
        let address = address.unwrap_or_default();
        // Some clients write the marks of their writers, others the words, and others the address itself.
        let marked = format!("[{}]({})", link.words, link.to);
        let (at, length) = match rest.find(&marked) {
            Some(at) => (at, marked.len()),
            None if address.is_empty() || link.words.is_empty() || rest.contains(&link.to) => continue,
            None => match rest.find(&link.words) {
                Some(at) => (at, link.words.len()),
                None => {
                    nowhere.push_str(&format!("\n{}{address}", link.words));
                    continue;
                }
            },
        };
        told.push_str(&rest[..at]);
        told.push_str(&link.words);
        told.push_str(&address);
        rest = &rest[at + length..];
    }
    told.push_str(rest);
    told.push_str(&nowhere);
    told
}

/// Returns the words between tags.
fn plain(html: &str) -> String {
    let mut words = String::new();
    let mut rest = html;
    while let Some((before, after)) = rest.split_once('<') {
        words.push_str(before);
        rest = after.split_once('>').map_or("", |(_, rest)| rest);
    }
    words.push_str(rest);
    unescaped(&words)
}

fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        let name = after.get(..after.len().min(10)).unwrap_or(after).split(';').next().unwrap_or_default();
        let number = name.strip_prefix('#').and_then(|number| match number.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16).ok(),
            None => number.parse().ok(),
        });
        let meant = match name {
            "amp" => Some('&'),
            "lt" => Some('<'),
            "gt" => Some('>'),
            "quot" => Some('"'),
            "apos" => Some('\''),
            "nbsp" => Some(' '),
            _ => number.and_then(char::from_u32),
        };
        match meant.filter(|_| after[name.len()..].starts_with(';')) {
            Some(c) => {
                out.push(c);
                rest = &after[name.len() + 1..];
            }
            None => {
                out.push('&');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

/// Reads what is written with `%XX`.
fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((first, more)) = rest.split_first() {
        let byte = more.get(..2).and_then(|digits| str::from_utf8(digits).ok());
        match byte.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &more[2..];
            }
            _ => {
                bytes.push(*first);
                rest = more;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_told_with_the_address_behind_them() {
        let article = r#"read <a href="https://a.example/b?x=1&amp;y=2">this <b>article</b></a> please"#;
        for (body, html, is) in [
            ("read this article please", article, "read this article (https://a.example/b?x=1&y=2) please"),
            (
                "read [this article](https://a.example/b?x=1&y=2) please",
                article,
                "read this article (https://a.example/b?x=1&y=2) please",
            ),
            ("read https://a.example/b?x=1&y=2 please", article, "read https://a.example/b?x=1&y=2 please"),
            ("other words", article, "other words\nthis article (https://a.example/b?x=1&y=2)"),
            ("a.example", "<a href='https://a.example/'>a.example</a>", "a.example"),
            ("Ada: look", r#"<a href="https://matrix.to/#/@ada:example.org">Ada</a>: look"#, "Ada: look"),
            (
                "[Ada](https://matrix.to/#/@ada:example.org): look",
                r#"<a href="https://matrix.to/#/@ada:example.org">Ada</a>: look"#,
                "Ada: look",
            ),
            (
                "one one",
                r#"<a class="x" href="https://1.example">one</a> <a href="https://2.example">one</a>"#,
                "one (https://1.example) one (https://2.example)",
            ),
            ("new", r#"<mx-reply><a href="https://a.example">In reply to</a></mx-reply>new"#, "new"),
            ("x", "<a href=https://a.example>x</a><a>y</a><a href=\"https://b.example\">x", "x"),
            (
                "&",
                r#"<a href="https://a.example">&amp;&#39;&#x41;&zz;&#9999999999;</a>"#,
                "&\n&'A&zz;&#9999999999; (https://a.example)",
            ),
        ] {
            assert_eq!(told(body, &links(html)), is, "{html}");
        }
    }

    #[test]
    fn a_link_to_a_person_is_one_however_it_is_written() {
        for (to, person) in [
            ("https://matrix.to/#/@g2:example.org", Some("@g2:example.org")),
            ("https://matrix.to/#/%40g2%3Aexample.org", Some("@g2:example.org")),
            ("https://matrix.to/#/@g2:example.org?via=x", Some("@g2:example.org")),
            ("matrix:u/g2:example.org", Some("@g2:example.org")),
            ("https://matrix.to/#/!room:example.org/$event", None),
            ("https://example.org/#/@g2:example.org", None),
            ("https://matrix.to/#/%4", None),
            ("%", None),
        ] {
            let link = Link { words: "x".into(), to: to.into() };
            assert_eq!(link.person().as_deref(), person, "{to}");
        }
    }

    #[test]
    fn hostile_html_costs_little() {
        for html in [
            "<a ".repeat(20_000),
            "<a href=\"x\">".repeat(5000),
            "<a href=\"https://a.example\">a</a>".repeat(5000),
            "&".repeat(60_000),
        ] {
            assert!(told("a", &links(&html)).len() < 64 << 10);
        }
    }
}
