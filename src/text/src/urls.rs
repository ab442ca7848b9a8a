//! Addresses that stand in a text, and those that a link may lead to.

use crate::span::{Kind, Span, Text};

/// What a bare address begins with.
const SCHEMES: [&str; 2] = ["https://", "http://"];

/// Returns `text` with a link at each bare address outside of links and code.
pub(crate) fn linked(text: Text) -> Text {
    if !text.text().contains("://") {
        return text;
    }
    let (text, mut spans) = text.into_spans();
    let mut around: Vec<usize> = Vec::new();
    let mut begun = 0;
    let opaque: Vec<(usize, usize)> = spans
        .iter()
        .filter(|s| s.kind.is_code() || matches!(s.kind, Kind::Link { .. }))
        .map(|s| (s.from, s.to))
        .collect();
    let (mut at, mut next, mut found) = (0, 0, Vec::new());
    while let Some(colon) = text[at..].find("://").map(|colon| at + colon) {
        at = colon + 3;
        let scheme = SCHEMES.iter().find(|scheme| text[..at].ends_with(*scheme));
        let Some(from) = scheme.map(|scheme| at - scheme.len()) else { continue };
        if text[..from].ends_with(char::is_alphanumeric) {
            continue;
        }
        while opaque.get(next).is_some_and(|(_, to)| *to <= from) {
            next += 1;
        }
        let most = match opaque.get(next) {
            Some((start, _)) if *start <= at => continue,
            Some((start, _)) => *start,
            None => text.len(),
        };
        // An address ends with the words that it stands in.
        while let Some(span) = spans.get(begun).filter(|span| span.from <= from) {
            while around.last().is_some_and(|end| *end <= span.from) {
                around.pop();
            }
            around.push(span.to);
            begun += 1;
        }
        while around.last().is_some_and(|end| *end <= from) {
            around.pop();
        }
        let most = around.last().map_or(most, |end| most.min(*end));
        let to = from + length(&text[from..most.max(from)]);
        if to > at {
            found.push(Span::new(from..to, Kind::Link { to: text[from..to].to_owned() }));
            at = to;
        }
    }
    spans.extend(found);
    Text::new(text, spans)
}

/// Returns the length of the address that `text` begins with, without the marks that end a sentence.
fn length(text: &str) -> usize {
    let ends = |c: char| c.is_whitespace() || c == '\u{200b}' || "<>[]\"`|".contains(c);
    let mut url = &text[..text.find(ends).unwrap_or(text.len())];
    let mut open = url.matches('(').count();
    let mut close = url.matches(')').count();
    while let Some(last) = url.chars().next_back() {
        match last {
            ')' if close > open => close -= 1,
            '(' => open -= 1,
            '.' | ',' | ':' | ';' | '!' | '?' | '\'' | '*' | '_' | '~' => {}
            _ => break,
        }
        url = &url[..url.len() - last.len_utf8()];
    }
    url.len()
}

/// Returns whether `to` begins with one of `schemes`.
pub(crate) fn leads(to: &str, schemes: &[&str]) -> bool {
    schemes.iter().any(|scheme| {
        to.len() > scheme.len()
            && to.is_char_boundary(scheme.len())
            && to[..scheme.len()].eq_ignore_ascii_case(scheme)
    })
}

/// Returns an address without characters that would end it where it is written, and without those of `more`.
pub(crate) fn encoded(to: &str, more: &str) -> String {
    let mut out = String::with_capacity(to.len());
    for c in to.chars() {
        if c.is_whitespace() || c.is_control() || "<>\"".contains(c) || more.contains(c) {
            let mut bytes = [0; 4];
            for byte in c.encode_utf8(&mut bytes).bytes() {
                out.push('%');
                out.extend(
                    [byte >> 4, byte & 15].map(|half| {
                        char::from_digit(u32::from(half), 16).unwrap_or('0').to_ascii_uppercase()
                    }),
                );
            }
        } else {
            out.push(c);
        }
    }
    out
}
