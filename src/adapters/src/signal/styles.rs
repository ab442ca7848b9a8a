//! From words with spans to words with the styles that Signal has. Pure.

use channel_protocol::{Span, Style};

use crate::kit::Links;

/// How many styles of a text go out.
const MOST: usize = 250;

/// A text, and its styles as signal-cli takes them: `start:length:STYLE`, in UTF-16 code units.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Styled {
    pub(super) text: String,
    pub(super) styles: Vec<String>,
}

/// Returns a text as Signal shows it. Where a link has other words than its address, that stands behind them; quoted lines begin
/// with `> `, for Signal has neither links nor quotes within a text.
pub(super) fn styled(text: &str, spans: &[Span]) -> Styled {
    let units: Vec<u16> = text.encode_utf16().collect();
    let mut added = added(&units, spans);
    added.sort_by_key(|(at, behind, _)| (*at, !behind));
    let mut out: Vec<u16> = Vec::with_capacity(units.len());
    let mut from = 0;
    for (at, _, more) in &added {
        out.extend_from_slice(units.get(from..*at).unwrap_or_default());
        out.extend_from_slice(more);
        from = *at;
    }
    out.extend_from_slice(units.get(from..).unwrap_or_default());
    // What stands before a span moves it; what is added behind its last word, or before its first one, is none of it.
    let moved = |at: usize, is_end: bool| {
        let before = |(place, behind, _): &&(usize, bool, Vec<u16>)| {
            *place < at || (*place == at && (!is_end || (!behind && at == 0)))
        };
        at + added.iter().filter(before).map(|(_, _, more)| more.len()).sum::<usize>()
    };
    let styles = spans
        .iter()
        .filter(|span| span.len > 0 && span.at + span.len <= units.len())
        .filter_map(|span| Some((span, name(&span.is)?)))
        .take(MOST)
        .map(|(span, name)| {
            let (start, end) = (moved(span.at, false), moved(span.at + span.len, true));
            format!("{start}:{}:{name}", end.saturating_sub(start))
        })
        .collect();
    Styled { text: String::from_utf16_lossy(&out), styles }
}

fn name(style: &Style) -> Option<&'static str> {
    Some(match style {
        Style::Bold => "BOLD",
        Style::Italic => "ITALIC",
        Style::Strike => "STRIKETHROUGH",
        Style::Code | Style::Pre { .. } => "MONOSPACE",
        Style::Spoiler => "SPOILER",
        Style::Link { .. } | Style::Quote => return None,
    })
}

/// Returns what is added: where, whether it belongs to what stands before it, and what it says.
fn added(units: &[u16], spans: &[Span]) -> Vec<(usize, bool, Vec<u16>)> {
    let mut links = Links::default();
    let mut added = Vec::new();
    for span in spans {
        let end = span.at.saturating_add(span.len);
        let Some(words) = units.get(span.at..end) else { continue };
        match &span.is {
            Style::Link { to } => {
                if let Some(behind) = links.behind(&String::from_utf16_lossy(words), to) {
                    added.push((end, true, behind.encode_utf16().collect()));
                }
            }
            Style::Quote => {
                let ends = words.iter().enumerate().filter(|(_, unit)| **unit == u16::from(b'\n'));
                let lines = ends.map(|(at, _)| span.at + at + 1).filter(|at| *at < end);
                let mark: Vec<u16> = "> ".encode_utf16().collect();
                added.extend(std::iter::once(span.at).chain(lines).map(|at| (at, false, mark.clone())));
            }
            _ => {}
        }
    }
    added
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, spans: &[(usize, usize, Style)]) -> (String, Vec<String>) {
        let spans: Vec<Span> =
            spans.iter().map(|(at, len, is)| Span { at: *at, len: *len, is: is.clone() }).collect();
        let Styled { text, styles } = styled(text, &spans);
        (text, styles)
    }

    #[test]
    fn styles_are_named_with_their_places_and_what_signal_lacks_stands_in_the_text() {
        let link = |to: &str| Style::Link { to: to.into() };
        for (text, spans, shows, styles) in [
            ("🎈 bold", vec![(3, 4, Style::Bold)], "🎈 bold", vec!["3:4:BOLD"]),
            (
                "a b c d",
                vec![
                    (0, 1, Style::Italic),
                    (2, 1, Style::Strike),
                    (4, 1, Style::Code),
                    (6, 1, Style::Spoiler),
                ],
                "a b c d",
                vec!["0:1:ITALIC", "2:1:STRIKETHROUGH", "4:1:MONOSPACE", "6:1:SPOILER"],
            ),
            (
                "see this now",
                vec![(4, 4, link("https://a.example")), (4, 4, Style::Bold), (9, 3, Style::Italic)],
                "see this (https://a.example) now",
                vec!["4:4:BOLD", "29:3:ITALIC"],
            ),
            ("https://a.example", vec![(0, 17, link("https://a.example"))], "https://a.example", vec![]),
            (
                "one\ntwo\nend",
                vec![(0, 7, Style::Quote), (4, 3, Style::Bold), (8, 3, Style::Code)],
                "> one\n> two\nend",
                vec!["8:3:BOLD", "12:3:MONOSPACE"],
            ),
            ("x", vec![(0, 2, Style::Bold), (1, 0, Style::Bold), (5, 1, link("y"))], "x", vec![]),
            ("", vec![], "", vec![]),
        ] {
            let styles: Vec<String> = styles.into_iter().map(str::to_owned).collect();
            assert_eq!(shown(text, &spans), (shows.to_owned(), styles), "{text}");
        }
        assert_eq!(shown("x", &vec![(0, 1, Style::Bold); 300]).1.len(), MOST);
    }

    #[test]
    fn whatever_the_spans_are_each_style_lies_within_the_text() {
        let styles = [Style::Bold, Style::Quote, Style::Link { to: "https://b.example".into() }];
        let text = "a\nb\nc";
        for (at, len, at2, len2) in (0..6).flat_map(|a| {
            (0..6).flat_map(move |b| (0..6).flat_map(move |c| (0..6).map(move |d| (a, b, c, d))))
        }) {
            for (one, other) in styles.iter().flat_map(|one| styles.iter().map(move |other| (one, other))) {
                let (text, styles) = shown(text, &[(at, len, one.clone()), (at2, len2, other.clone())]);
                let units = text.encode_utf16().count();
                for style in styles {
                    let parts: Vec<usize> = style.split(':').filter_map(|part| part.parse().ok()).collect();
                    assert!(parts[1] > 0 && parts[0] + parts[1] <= units, "{style} {text:?}");
                }
            }
        }
    }
}
