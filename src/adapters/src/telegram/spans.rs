//! From spans to entities that Telegram takes as they are: what it does not nest it would move, or drop in silence. Pure.

use channel_protocol::{Span, Style};
use serde_json::{Value, json};

/// How many entities of a text Telegram keeps.
const MOST: usize = 100;

/// Returns Telegram's entities of well nested spans. Code stands in no other style but a quote: the style ends before it and
/// goes on behind it; a link goes before code. A quote stands in no other one.
pub(super) fn entities(spans: &[Span]) -> Value {
    let is_in = |span: &Span, other: &Span| {
        span != other && other.at <= span.at && span.at + span.len <= other.at + other.len
    };
    let kept = |span: &&Span| {
        let beside = |of: fn(&Style) -> bool| spans.iter().any(|other| of(&other.is) && is_in(span, other));
        match span.is {
            _ if span.len == 0 => false,
            Style::Code | Style::Pre { .. } => {
                !beside(|is| matches!(is, Style::Link { .. } | Style::Code | Style::Pre { .. }))
            }
            Style::Quote => !beside(|is| matches!(is, Style::Quote)),
            _ => true,
        }
    };
    let kept: Vec<&Span> = spans.iter().filter(kept).collect();
    let code: Vec<&Span> = kept.iter().copied().filter(|span| is_code(&span.is)).collect();
    let mut cut: Vec<Span> = kept.iter().flat_map(|span| around(span, &code)).collect();
    cut.sort_by_key(|span| (span.at, std::cmp::Reverse(span.len)));
    cut.iter().take(MOST).map(entity).collect()
}

fn is_code(is: &Style) -> bool {
    matches!(is, Style::Code | Style::Pre { .. })
}

/// Returns the pieces of a span that stand beside code.
fn around(span: &Span, code: &[&Span]) -> Vec<Span> {
    let mut pieces = vec![span.clone()];
    if is_code(&span.is) || span.is == Style::Quote {
        return pieces;
    }
    for code in code {
        let (from, to) = (code.at, code.at + code.len);
        pieces = pieces
            .into_iter()
            .flat_map(|piece| {
                let end = piece.at + piece.len;
                let (before, after) = (piece.at..end.min(from), piece.at.max(to)..end);
                [before, after].map(|range| Span { at: range.start, len: range.len(), is: piece.is.clone() })
            })
            .filter(|piece| piece.len > 0)
            .collect();
    }
    pieces
}

fn entity(span: &Span) -> Value {
    let kind = match &span.is {
        Style::Bold => "bold",
        Style::Italic => "italic",
        Style::Strike => "strikethrough",
        Style::Code => "code",
        Style::Pre { .. } => "pre",
        Style::Link { .. } => "text_link",
        Style::Quote => "blockquote",
        Style::Spoiler => "spoiler",
    };
    let mut entity = json!({"type": kind, "offset": span.at, "length": span.len});
    match &span.is {
        Style::Pre { lang: Some(lang) } if !lang.is_empty() => entity["language"] = lang.as_str().into(),
        Style::Link { to } => entity["url"] = to.as_str().into(),
        _ => {}
    }
    entity
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(spans: &[(usize, usize, Style)]) -> Vec<(String, u64, u64)> {
        let spans: Vec<Span> =
            spans.iter().map(|(at, len, is)| Span { at: *at, len: *len, is: is.clone() }).collect();
        let entities = entities(&spans);
        let number = |value: &Value| value.as_u64().unwrap();
        let one =
            |e: &Value| (e["type"].as_str().unwrap().to_owned(), number(&e["offset"]), number(&e["length"]));
        entities.as_array().unwrap().iter().map(one).collect()
    }

    #[test]
    fn styles_end_before_code_and_go_on_behind_it() {
        let bold = |at, len| ("bold".to_owned(), at, len);
        let code = |at, len| ("code".to_owned(), at, len);
        for (spans, is) in [
            (vec![(0, 9, Style::Bold), (3, 2, Style::Code)], vec![bold(0, 3), code(3, 2), bold(5, 4)]),
            (vec![(0, 9, Style::Bold), (0, 9, Style::Code)], vec![code(0, 9)]),
            (
                vec![(0, 9, Style::Bold), (1, 1, Style::Code), (4, 1, Style::Code)],
                vec![bold(0, 1), code(1, 1), bold(2, 2), code(4, 1), bold(5, 4)],
            ),
            (vec![(0, 0, Style::Bold)], vec![]),
            (
                vec![(0, 9, Style::Link { to: "https://a.example".into() }), (0, 9, Style::Code)],
                vec![("text_link".to_owned(), 0, 9)],
            ),
            (
                vec![(0, 9, Style::Quote), (1, 3, Style::Quote), (2, 2, Style::Code)],
                vec![("blockquote".to_owned(), 0, 9), code(2, 2)],
            ),
        ] {
            assert_eq!(shown(&spans), is, "{spans:?}");
        }
        assert_eq!(shown(&vec![(0, 1, Style::Bold); 101]).len(), 100);
    }

    #[test]
    fn well_nested_spans_become_entities_that_never_touch_code() {
        let styles = [
            Style::Bold,
            Style::Code,
            Style::Link { to: "x".into() },
            Style::Quote,
            Style::Pre { lang: None },
        ];
        let all: Vec<(usize, usize, Style)> = (0..5)
            .flat_map(|at| (1..=5 - at).map(move |len| (at, len)))
            .flat_map(|(at, len)| styles.clone().map(|is| (at, len, is)))
            .collect();
        for a in &all {
            for b in &all {
                let (a_end, b_end) = (a.0 + a.1, b.0 + b.1);
                let nested = (a.0 <= b.0 && b_end <= a_end) || (b.0 <= a.0 && a_end <= b_end);
                let apart = a_end <= b.0 || b_end <= a.0;
                if a == b || !(nested || apart) {
                    continue;
                }
                let shown = shown(&[a.clone(), b.clone()]);
                for (n, (kind, at, len)) in shown.iter().enumerate() {
                    for (other, other_at, other_len) in &shown[n + 1..] {
                        let apart = at + len <= *other_at || other_at + other_len <= *at;
                        let is_code = |kind: &str| kind == "code" || kind == "pre";
                        let quoted = kind == "blockquote" || other == "blockquote";
                        let fine = apart || !(is_code(kind) || is_code(other)) || quoted;
                        assert!(fine, "{a:?} {b:?}: {shown:?}");
                    }
                }
            }
        }
    }
}
