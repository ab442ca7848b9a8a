//! The words of a mail that has HTML alone, as a person would see them. Pure.

use crate::kit::Links;

/// The longest tag that is read, bytes; a longer one is words.
const LONGEST_TAG: usize = 8 << 10;
/// How often the length of a text ends of tags are looked for; then all is words.
const LOOKS: usize = 4;
/// How many elements in one another are told apart.
const DEEPEST: usize = 256;

/// Elements whose content nobody sees.
const UNSEEN: [&str; 9] =
    ["head", "style", "script", "title", "template", "noscript", "object", "svg", "select"];
/// Elements that stand on lines of their own.
const BLOCKS: [&str; 22] = [
    "p",
    "div",
    "tr",
    "table",
    "ul",
    "ol",
    "li",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "pre",
    "blockquote",
    "section",
    "article",
    "header",
    "footer",
    "hr",
    "dt",
    "dd",
];
/// Elements without an end.
const EMPTY: [&str; 9] = ["br", "hr", "img", "input", "meta", "link", "wbr", "col", "area"];

/// An element that is open.
struct Open {
    name: String,
    /// Nobody sees what is in it.
    hides: bool,
    /// Where it leads, and where its words begin.
    link: Option<(String, usize)>,
}

struct Writer {
    out: String,
    links: Links,
    open: Vec<Open>,
    hidden: usize,
}

/// Returns the words of HTML: without what is hidden, with the addresses behind links, and with quoted lines behind `>`.
pub(super) fn words(html: &str) -> String {
    let mut writer = Writer { out: String::new(), links: Links::default(), open: Vec::new(), hidden: 0 };
    let (mut rest, mut budget) = (html, html.len().saturating_mul(LOOKS));
    while let Some(at) = rest.find('<') {
        writer.text(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("<!--") {
            rest = after.split_once("-->").map_or("", |(_, rest)| rest);
            continue;
        }
        let within = rest.floor_char_boundary(LONGEST_TAG);
        let is_tag =
            rest[1..].starts_with(|c: char| c.is_ascii_alphabetic() || c == '/' || c == '!' || c == '?');
        let end = (is_tag && budget > 0).then(|| end_of_tag(&rest[..within])).flatten();
        if is_tag {
            budget = budget.saturating_sub(end.unwrap_or(within));
        }
        match end {
            Some(end) => {
                let tag = &rest[1..end];
                rest = &rest[end + 1..];
                writer.tag(tag);
                // What stands in these is no HTML.
                if let Some(name @ ("style" | "script")) = writer.open.last().map(|open| &open.name[..]) {
                    let close = format!("</{name}");
                    let end = find_ignoring_case(rest, &close).unwrap_or(rest.len());
                    rest = &rest[end..];
                }
            }
            None => {
                writer.text("<");
                rest = &rest[1..];
            }
        }
    }
    writer.text(rest);
    tidy(&writer.out)
}

/// Returns where a tag ends; a `>` in quotes is none.
fn end_of_tag(tag: &str) -> Option<usize> {
    let mut quote = None;
    for (at, b) in tag.bytes().enumerate() {
        match (quote, b) {
            (None, b'>') => return Some(at),
            (None, b'"' | b'\'') => quote = Some(b),
            (Some(open), b) if open == b => quote = None,
            _ => {}
        }
    }
    None
}

fn find_ignoring_case(text: &str, what: &str) -> Option<usize> {
    text.as_bytes().windows(what.len()).position(|part| part.eq_ignore_ascii_case(what.as_bytes()))
}

impl Writer {
    fn text(&mut self, text: &str) {
        if self.hidden > 0 || text.is_empty() {
            return;
        }
        let text = unescaped(text);
        if self.open.iter().any(|open| open.name == "pre") {
            self.out.push_str(&text);
            return;
        }
        for (n, word) in text.split(|c: char| c.is_ascii_whitespace()).enumerate() {
            if n > 0 && !self.out.ends_with([' ', '\n']) && !self.out.is_empty() {
                self.out.push(' ');
            }
            self.out.push_str(word);
        }
    }

    fn line(&mut self) {
        if self.hidden == 0 && !self.out.is_empty() && !self.out.ends_with('\n') {
            self.out.push('\n');
        }
    }

    fn tag(&mut self, tag: &str) {
        let closes = tag.starts_with('/');
        let name = tag
            .trim_start_matches('/')
            .split(|c: char| c.is_whitespace() || c == '/')
            .next()
            .unwrap_or_default();
        let name = name.to_ascii_lowercase();
        if name.is_empty() || name.starts_with(['!', '?']) {
            return;
        }
        if name == "br" {
            if self.hidden == 0 {
                self.out.push('\n');
            }
            return;
        }
        if closes {
            self.close(&name);
            return;
        }
        if BLOCKS.contains(&&name[..]) {
            self.line();
        }
        if name == "li" && self.hidden == 0 {
            self.out.push_str("- ");
        }
        if (name == "td" || name == "th")
            && self.hidden == 0
            && !self.out.ends_with(['\n', ' '])
            && !self.out.is_empty()
        {
            self.out.push(' ');
        }
        if name == "img"
            && self.hidden == 0
            && let Some(alt) = attribute(tag, "alt")
        {
            self.text(&format!(" {} ", alt.replace('<', " ")));
        }
        if EMPTY.contains(&&name[..]) || tag.ends_with('/') || self.open.len() >= DEEPEST {
            return;
        }
        let hides = UNSEEN.contains(&&name[..]) || is_hidden(tag);
        let link = (name == "a").then(|| attribute(tag, "href")).flatten().map(|to| (to, self.out.len()));
        self.hidden += usize::from(hides);
        if name == "blockquote" && self.hidden == 0 {
            self.out.push_str(QUOTE_BEGINS);
        }
        self.open.push(Open { name, hides, link });
    }

    fn close(&mut self, name: &str) {
        let Some(at) = self.open.iter().rposition(|open| open.name == name) else { return };
        for Open { name: open, hides: hid, link } in self.open.split_off(at) {
            if let Some((to, from)) = link.filter(|_| self.hidden == 0) {
                let words = self.out.get(from..).unwrap_or_default().to_owned();
                let is_page = ["http://", "https://", "mailto:"].iter().any(|scheme| {
                    to.get(..scheme.len()).is_some_and(|head| head.eq_ignore_ascii_case(scheme))
                });
                let behind = if is_page { self.links.behind(&words, &to) } else { None };
                self.out.push_str(&behind.unwrap_or_default());
            }
            if open == "blockquote" && self.hidden == 0 {
                self.out.push_str(QUOTE_ENDS);
            }
            self.hidden -= usize::from(hid);
            if BLOCKS.contains(&&open[..]) {
                self.line();
                if open == "p" && self.hidden == 0 {
                    self.out.push('\n');
                }
            }
        }
    }
}

/// Stand in the text where a quote begins and ends; mail has none of these.
const QUOTE_BEGINS: &str = "\u{1}";
const QUOTE_ENDS: &str = "\u{2}";

/// Puts `>` before quoted lines, and leaves no more than one line empty between others.
fn tidy(text: &str) -> String {
    let (mut out, mut depth, mut empty) = (String::with_capacity(text.len()), 0_usize, 0);
    for line in text.lines() {
        depth += line.matches(QUOTE_BEGINS).count();
        let words: String = line.chars().filter(|c| !matches!(c, '\u{1}' | '\u{2}')).collect();
        let words = words.trim_end();
        empty = if words.trim().is_empty() { empty + 1 } else { 0 };
        if empty < 2 {
            if !words.trim().is_empty() {
                (0..depth.min(8)).for_each(|_| out.push_str("> "));
            }
            out.push_str(words);
            out.push('\n');
        }
        depth = depth.saturating_sub(line.matches(QUOTE_ENDS).count());
    }
    out.trim().to_owned()
}

/// Whether an element says itself that nobody sees it.
fn is_hidden(tag: &str) -> bool {
    let style: String = attribute(tag, "style").unwrap_or_default().to_ascii_lowercase();
    let style: String = style.chars().filter(|c| !c.is_whitespace()).collect();
    let says = |what: &str| style.split(';').any(|one| one.trim_end_matches("!important") == what);
    says("display:none")
        || says("visibility:hidden")
        || says("opacity:0")
        || says("font-size:0")
        || says("font-size:0px")
        || says("mso-hide:all")
        || tag
            .split_whitespace()
            .skip(1)
            .any(|word| word.trim_end_matches('/').eq_ignore_ascii_case("hidden"))
}

/// Returns the value of an attribute.
fn attribute(tag: &str, name: &str) -> Option<String> {
    let mut rest = tag;
    loop {
        let at = find_ignoring_case(rest, name)?;
        let (before, after) = (&rest[..at], &rest[at + name.len()..]);
        rest = after;
        let Some(value) = after.trim_start().strip_prefix('=') else { continue };
        if !before.ends_with(|c: char| c.is_ascii_whitespace() || c == '"' || c == '\'') {
            continue;
        }
        let value = value.trim_start();
        let value = match value.chars().next()? {
            quote @ ('"' | '\'') => value[1..].split(quote).next()?,
            _ => value.split(|c: char| c.is_ascii_whitespace()).next()?,
        };
        return Some(unescaped(value));
    }
}

/// Puts characters in the place of their names.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        let name = &after[..after.floor_char_boundary(10)];
        let name = name.split_once(';').map(|(name, _)| name);
        let meant = name.and_then(|name| match name {
            "amp" => Some('&'),
            "lt" => Some('<'),
            "gt" => Some('>'),
            "quot" => Some('"'),
            "apos" | "rsquo" | "lsquo" => Some('\''),
            "nbsp" => Some(' '),
            "ndash" => Some('–'),
            "mdash" => Some('—'),
            "hellip" => Some('…'),
            "zwnj" | "shy" => Some('\u{200b}'),
            name => {
                let number = name.strip_prefix('#')?;
                let number = match number.strip_prefix(['x', 'X']) {
                    Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                    None => number.parse().ok()?,
                };
                char::from_u32(number).filter(|c| !c.is_control() || c.is_whitespace())
            }
        });
        match (meant, name) {
            (Some(c), Some(name)) => {
                out.extend(Some(c).filter(|c| *c != '\u{200b}'));
                rest = &after[name.len() + 1..];
            }
            _ => {
                out.push('&');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out.retain(|c| !matches!(c, '\u{1}' | '\u{2}'));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn html_is_told_as_a_person_sees_it() {
        for (html, seen) in [
            ("<p>Hello <b>Ada</b>,</p><p>see&nbsp;you &amp; Bob.</p>", "Hello Ada,\n\nsee you & Bob."),
            ("a<br>b<br/>c", "a\nb\nc"),
            ("<ul><li>one</li><li>two</li></ul>", "- one\n- two"),
            ("<a href=\"https://a.example/x\">this</a> one", "this (https://a.example/x) one"),
            ("<a href='https://a.example'>a.example</a>", "a.example"),
            ("<a href=\"javascript:x\">this</a>", "this"),
            (
                "<html><head><title>t</title><style>p{}</style></head><body>x<script>if(a<b){}</script></body>",
                "x",
            ),
            ("x<div style=\"color:red; display: none !important\">obey <p>me</p></div>y", "x\ny"),
            ("x<span hidden>obey</span><span style='font-size:0px'>obey</span>", "x"),
            ("1 < 2 and <3", "1 < 2 and <3"),
            ("<p title=\"a>b\">x</p>", "x"),
            ("yes<blockquote>did you?<br>well?</blockquote>", "yes\n> did you?\n> well?"),
            ("<img src=x alt=\"a cat\">", "a cat"),
            ("<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>", "a b\nc"),
            ("<!-- no --><p>&#x41;&#66;&bogus;</p>", "AB&bogus;"),
            ("<pre>a\n  b</pre>", "a\n  b"),
            ("<style>never closed", ""),
        ] {
            assert_eq!(words(html), seen, "{html}");
        }
    }

    #[test]
    fn hostile_html_takes_no_more_work_than_its_length() {
        for hostile in [
            "<div>".repeat(50_000),
            "<blockquote>x".repeat(20_000),
            "<".repeat(100_000),
            format!("<a href=\"{}", "x".repeat(200_000)),
            "</p>".repeat(50_000),
            "<style>".repeat(20_000),
            "&".repeat(100_000),
            "<a href=https://a.example>x".repeat(5000),
            "<a".repeat(250_000),
        ] {
            assert!(words(&hostile).len() <= hostile.len() * 4 + 100);
        }
    }
}
