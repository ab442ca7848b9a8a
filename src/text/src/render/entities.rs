//! Ranges beside the words, as Telegram and Signal take them. There is nothing to escape.

use channel_protocol::Style;

use super::Rendered;
use crate::span::{Kind, Text};

/// Spaces at the start are left out, as Telegram does it, but those of code.
pub(super) fn written(text: &Text) -> Rendered {
    let first = text.spans().first().map_or(usize::MAX, |span| span.from);
    let blank = text.text().len() - text.text().trim_start().len();
    let start = blank.min(first);
    let mut ends: Vec<usize> = text.spans().iter().flat_map(|s| [s.from, s.to]).collect();
    ends.sort_unstable();
    let (mut at, mut units) = (start, 0);
    let units: Vec<usize> = ends
        .iter()
        .map(|end| {
            units += text.text()[at..*end].chars().map(char::len_utf16).sum::<usize>();
            at = *end;
            units
        })
        .collect();
    let place = |at: usize| units[ends.partition_point(|end| *end < at)];
    let spans = text.spans().iter().map(|span| channel_protocol::Span {
        at: place(span.from),
        len: place(span.to) - place(span.from),
        is: style(&span.kind),
    });
    Rendered { spans: spans.collect(), text: text.text()[start..].to_owned(), html: None }
}

fn style(kind: &Kind) -> Style {
    match kind {
        Kind::Quote => Style::Quote,
        Kind::Pre { lang } => Style::Pre { lang: lang.clone() },
        Kind::Spoiler => Style::Spoiler,
        Kind::Heading | Kind::Bold => Style::Bold,
        Kind::Italic => Style::Italic,
        Kind::Strike => Style::Strike,
        Kind::Link { to } => Style::Link { to: to.clone() },
        Kind::Code => Style::Code,
    }
}
