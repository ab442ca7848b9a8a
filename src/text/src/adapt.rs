//! What of a text a platform can show. The rest becomes words before the text is cut, so that it counts towards the
//! limit.

use std::ops::Range;

use channel_protocol::Format;

use crate::{
    breaks::{self, BREAK},
    span::{Kind, Span, Text},
    urls,
};

type Edits = Vec<(Range<usize>, String)>;

/// Returns `text` as `format` can show it in parts of `limit`.
pub(crate) fn adapted(text: &Text, format: Format, limit: usize) -> Text {
    let text = with_links(text, format, limit);
    let text = match format {
        Format::Discord | Format::Slack | Format::Whatsapp | Format::Matrix => {
            let calls = breaks::calls(text.text()).into_iter();
            text.edited(&calls.map(|at| (at..at, BREAK.to_string())).collect::<Vec<_>>())
        }
        Format::Spans | Format::Irc | Format::Plain => text,
    };
    // Discord would end an earlier link there.
    let link = text.spans().iter().find(|s| matches!(s.kind, Kind::Link { .. }));
    let text = match link.filter(|_| format == Format::Discord) {
        Some(link) => {
            let ends = text.text()[link.to..].match_indices("](");
            let ends = ends.map(|(at, _)| link.to + at + 1);
            text.edited(&ends.map(|at| (at..at, BREAK.to_string())).collect::<Vec<_>>())
        }
        None => text,
    };
    let text = match format {
        Format::Discord | Format::Slack | Format::Whatsapp => with_code(&text, format),
        Format::Spans | Format::Matrix | Format::Irc | Format::Plain => text,
    };
    with_spans(text, format)
}

/// Returns `text` as a page of our own can show it: its links lead to http, https and mailto alone.
pub(crate) fn of_page(text: &Text) -> Text {
    with_spans(with_links(text, Format::Matrix, usize::MAX), Format::Matrix)
}

/// Keeps the links that the platform can follow. Behind the words of any other stands where it leads.
fn with_links(text: &Text, format: Format, limit: usize) -> Text {
    let schemes: &[&str] = match format {
        Format::Spans => &["https://", "http://", "tg://"],
        Format::Discord => &["https://", "http://"],
        Format::Slack | Format::Matrix => &["https://", "http://", "mailto:"],
        Format::Whatsapp | Format::Irc | Format::Plain => &[],
    };
    let (mut edits, mut spans, mut italic, mut address) = (Edits::new(), Vec::new(), 0, 0);
    for span in text.spans() {
        // Part of an address looks like the rest of it.
        if span.to <= address {
            continue;
        }
        if span.kind == Kind::Italic {
            italic = span.to;
        }
        let Kind::Link { to } = &span.kind else {
            spans.push(span.clone());
            continue;
        };
        let words = text.of(span);
        let is_bare = words == to;
        if is_bare {
            address = span.to;
        }
        let longest = match format {
            Format::Spans => 2048,
            _ if is_bare => limit / 2,
            _ => limit / 4,
        };
        // Discord shows no link whose words look like another one.
        let is_disguise = format == Format::Discord && !is_bare && words.contains("://");
        let call = if breaks::calls(to).is_empty() { "" } else { "@" };
        let to = match format {
            Format::Discord => {
                let in_marks = if is_bare { "" } else { "()" };
                let in_italic = if span.from < italic { "_" } else { "" };
                urls::encoded(to, &["\\`|*~", in_marks, in_italic, call].concat())
            }
            Format::Slack => urls::encoded(to, &["|`", call].concat()),
            Format::Matrix => urls::encoded(to, call),
            Format::Spans | Format::Whatsapp | Format::Irc | Format::Plain => urls::encoded(to, ""),
        };
        if urls::leads(&to, schemes) && to.len() <= longest && !is_disguise {
            if is_bare && to != words {
                edits.push((span.from..span.to, to.clone()));
            } else if format == Format::Discord && !is_bare {
                // Its own marks around a link's words.
                let brackets = words.match_indices(['[', ']']);
                edits.extend(brackets.map(|(at, bracket)| {
                    let wide = if bracket == "[" { '［' } else { '］' };
                    (span.from + at..span.from + at + 1, wide.to_string())
                }));
            }
            spans.push(Span::new(span.from..span.to, Kind::Link { to }));
        } else if !is_bare && words != to.trim_start_matches("mailto:") {
            edits.push((span.to..span.to, format!(" ({to})")));
        }
    }
    let text = Text::new(text.text().to_owned(), spans);
    edits.sort_by_key(|(range, _)| (range.start, range.end));
    text.edited(&edits)
}

/// Breaks runs of backticks in code that would end it.
fn with_code(text: &Text, format: Format) -> Text {
    let mut edits = Edits::new();
    for span in text.spans().iter().filter(|s| s.kind.is_code()) {
        let most = match (&span.kind, format) {
            (Kind::Code, Format::Discord) => 1,
            (Kind::Code, _) => 0,
            _ => 2,
        };
        let mut run = 0;
        for (at, c) in text.of(span).char_indices() {
            let at = span.from + at;
            run = if c == '`' { run + 1 } else { 0 };
            if run > most && most == 0 {
                edits.push((at..at + 1, alike('`').to_string()));
            } else if run > most {
                edits.push((at..at, BREAK.to_string()));
                run = 1;
            }
        }
    }
    text.edited(&edits)
}

/// Returns a character that looks like a mark and is none.
pub(crate) fn alike(mark: char) -> char {
    match mark {
        '*' => '∗',
        '_' => 'ˍ',
        '~' => '∼',
        '`' => 'ˋ',
        other => other,
    }
}

/// Keeps the spans that the platform has, in the order that it takes.
fn with_spans(text: Text, format: Format) -> Text {
    let (text, spans) = text.into_spans();
    let places = |wanted: fn(&Kind) -> bool| -> Vec<(usize, usize)> {
        let mut end = 0;
        let outer = spans.iter().filter(|s| wanted(&s.kind)).filter(|s| {
            let is_outer = s.from >= end;
            end = end.max(s.to);
            is_outer
        });
        outer.map(|s| (s.from, s.to)).collect()
    };
    let blocks = places(|kind| matches!(kind, Kind::Pre { .. }));
    let hidden = places(|kind| matches!(kind, Kind::Spoiler | Kind::Link { .. }));
    let links = places(|kind| matches!(kind, Kind::Link { .. }));
    let code = spans.iter().filter(|s| s.kind == Kind::Code && !lies_in(s, &hidden));
    let code: Vec<(usize, usize)> = code.map(|s| (s.from, s.to)).collect();
    // Discord ends a span at its mark in code, too.
    let code_with = |mark: &str| -> Vec<(usize, usize)> {
        let code = spans.iter().filter(|s| s.kind == Kind::Code && text[s.from..s.to].contains(mark));
        code.map(|s| (s.from, s.to)).collect()
    };
    let [stars, lines, waves] = ["**", "_", "~~"].map(code_with);
    let mut out = Vec::with_capacity(spans.len());
    for mut span in spans.iter().cloned() {
        if span.kind == Kind::Heading {
            span.kind = Kind::Bold;
        }
        match (format, &span.kind) {
            (Format::Irc | Format::Plain, Kind::Quote) => out.push(span),
            (Format::Irc | Format::Plain, _) | (Format::Slack | Format::Whatsapp, Kind::Spoiler) => {}
            (Format::Discord | Format::Slack | Format::Whatsapp, Kind::Quote) => {
                out.extend(without(&span, &blocks));
            }
            (Format::Discord, Kind::Bold) => out.extend(without(&span, &stars)),
            (Format::Discord, Kind::Italic) => out.extend(without(&span, &lines)),
            (Format::Discord, Kind::Strike) => out.extend(without(&span, &waves)),
            // It stays hidden.
            (Format::Discord, Kind::Code)
                if text[span.from..span.to].contains("||") && lies_in(&span, &hidden) => {}
            // Telegram: code lies in no other span but a quote. A spoiler stays hidden, a link a link.
            (Format::Spans, Kind::Code) if lies_in(&span, &hidden) => {}
            (Format::Spans, kind) if kind.is_inline() && *kind != Kind::Code => {
                out.extend(without(&span, &code));
            }
            (Format::Slack, kind)
                if !matches!(kind, Kind::Link { .. }) && lies_in(&span, &links) && {
                    // The same place as its link: it stands around it.
                    let around = links.partition_point(|(_, to)| *to < span.to);
                    links.get(around) != Some(&(span.from, span.to)) || *kind == Kind::Code
                } => {}
            (Format::Slack | Format::Whatsapp, kind) if kind.is_inline() => {
                let mut from = span.from;
                for line in text[span.from..span.to].split('\n') {
                    out.push(Span::new(from..from + line.len(), span.kind.clone()));
                    from += line.len() + 1;
                }
            }
            _ => out.push(span),
        }
    }
    Text::new(text, out)
}

/// Returns whether a span lies in one of `places`, which are in order and don't overlap.
fn lies_in(span: &Span, places: &[(usize, usize)]) -> bool {
    let next = places.partition_point(|(_, to)| *to < span.to);
    places.get(next).is_some_and(|(from, _)| *from <= span.from)
}

/// Returns what of a span is left around `holes`, which are in order and don't overlap.
fn without(span: &Span, holes: &[(usize, usize)]) -> Vec<Span> {
    let first = holes.partition_point(|(_, to)| *to <= span.from);
    let mut from = span.from;
    let mut left = Vec::new();
    for (start, end) in holes[first..].iter().take_while(|(start, _)| *start < span.to) {
        left.push(from..*start.max(&from));
        from = *end;
    }
    left.push(from..span.to.max(from));
    left.into_iter().filter(|r| !r.is_empty()).map(|r| Span::new(r, span.kind.clone())).collect()
}
