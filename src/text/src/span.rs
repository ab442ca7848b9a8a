//! A text and its spans. A span is trimmed, is never empty, and lies within another one or beside it.

use std::{cmp::Reverse, collections::BinaryHeap, ops::Range};

/// What a span is. In the order in which spans of one place lie within each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Quote,
    Pre { lang: Option<String> },
    Heading,
    Spoiler,
    Bold,
    Italic,
    Strike,
    Link { to: String },
    Code,
}

impl Kind {
    /// Returns whether the characters within stand for themselves.
    pub(crate) fn is_code(&self) -> bool {
        matches!(self, Kind::Code | Kind::Pre { .. })
    }

    /// Returns whether it is a run of words within a line.
    pub(crate) fn is_inline(&self) -> bool {
        !matches!(self, Kind::Quote | Kind::Pre { .. })
    }
}

/// A part of a text, in bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    pub from: usize,
    pub to: usize,
    pub kind: Kind,
}

impl Span {
    pub(crate) fn new(range: Range<usize>, kind: Kind) -> Span {
        Span { from: range.start, to: range.end, kind }
    }
}

/// Words as a person sees them, and what they look like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    text: String,
    spans: Vec<Span>,
}

impl Text {
    /// Returns a text with `spans` put in order: trimmed, those of a kind that touch made one, those that cross cut where
    /// they cross.
    pub(crate) fn new(text: String, spans: Vec<Span>) -> Text {
        let spans = nested(&text, one_of_each(trimmed(&text, spans)));
        Text { text, spans }
    }

    /// Returns words that are shown as they are written: no mark in them means anything. Control characters go.
    #[must_use]
    pub fn words(words: &str) -> Text {
        let kept = |c: &char| !c.is_control() || matches!(c, '\n' | '\t');
        Text::new(words.trim_end().chars().filter(kept).collect(), Vec::new())
    }

    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the spans by their starts, an outer one before those within it.
    #[must_use]
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// Returns the words of a span.
    pub(crate) fn of(&self, span: &Span) -> &str {
        &self.text[span.from..span.to]
    }

    /// Returns what lies in `range`, given the first span that may reach into it.
    pub(crate) fn slice(&self, range: Range<usize>, spans: &[Span]) -> Text {
        let mut out = Vec::new();
        for span in spans.iter().take_while(|s| s.from < range.end).filter(|s| s.to > range.start) {
            let (from, to) = (span.from.max(range.start), span.to.min(range.end));
            // Half an address leads nowhere.
            let is_bare = matches!(&span.kind, Kind::Link { to } if to == self.of(span));
            if !is_bare || (from, to) == (span.from, span.to) {
                out.push(Span::new(from - range.start..to - range.start, span.kind.clone()));
            }
        }
        let text = self.text[range].to_owned();
        Text { spans: trimmed(&text, out), text }
    }

    /// Returns the words alone.
    pub(crate) fn bare(&self) -> Text {
        Text { text: self.text.clone(), spans: Vec::new() }
    }

    pub(crate) fn into_spans(self) -> (String, Vec<Span>) {
        (self.text, self.spans)
    }

    /// Returns the text with other words at some places, which are in order and don't overlap.
    ///
    /// Words that are put in at the start or the end of a span are outside of it, but a quote takes the whole line.
    pub(crate) fn edited(&self, edits: &[(Range<usize>, String)]) -> Text {
        if edits.is_empty() {
            return self.clone();
        }
        let mut text = String::with_capacity(self.text.len());
        let mut at = 0;
        for (range, new) in edits {
            text.push_str(&self.text[at..range.start]);
            text.push_str(new);
            at = range.end;
        }
        text.push_str(&self.text[at..]);
        // Where each edit begins, by how much all before it moved the rest.
        let mut moved = 0_isize;
        let before: Vec<isize> = edits
            .iter()
            .map(|(range, new)| {
                let till_here = moved;
                moved += new.len().cast_signed() - range.len().cast_signed();
                till_here
            })
            .collect();
        let place = |at: usize, is_end: bool| {
            let next =
                edits.partition_point(|(r, _)| r.end < at || (r.end == at && !(is_end && r.is_empty())));
            let shift = before.get(next).copied().unwrap_or(moved);
            let new = match edits.get(next) {
                // Within words that are replaced: their start.
                Some((range, _)) if range.start < at => range.start,
                _ => at,
            };
            new.saturating_add_signed(shift)
        };
        let spans = self.spans.iter();
        let spans = spans
            .map(|s| Span::new(place(s.from, false)..place(s.to, s.kind != Kind::Quote), s.kind.clone()))
            .filter(|s| s.from < s.to);
        Text::new(text, spans.collect())
    }
}

/// Cuts whitespace off the ends of spans; those that are nothing more go. Code keeps its indentation.
fn trimmed(text: &str, spans: Vec<Span>) -> Vec<Span> {
    let trim = |mut span: Span| {
        let words = &text[span.from..span.to];
        let end = words.trim_end();
        let start = if span.kind.is_inline() {
            end.trim_start()
        } else {
            // Only whole lines go.
            let blank = end.len() - end.trim_start().len();
            &end[end[..blank].rfind('\n').map_or(0, |at| at + 1)..]
        };
        (span.from, span.to) = (span.from + end.len() - start.len(), span.from + end.len());
        (span.from < span.to).then_some(span)
    };
    spans.into_iter().filter_map(trim).collect()
}

/// Makes one span of all of a kind that touch or overlap. A link or a block that begins within another begins after
/// it.
fn one_of_each(mut spans: Vec<Span>) -> Vec<Span> {
    let class = |kind: &Kind| match kind {
        Kind::Pre { .. } => Kind::Pre { lang: None },
        Kind::Link { .. } => Kind::Link { to: String::new() },
        other => other.clone(),
    };
    spans.sort_by_key(|s| (class(&s.kind), s.from, s.to));
    let mut out: Vec<Span> = Vec::with_capacity(spans.len());
    for mut span in spans {
        if let Some(last) = out.last_mut().filter(|last| class(&last.kind) == class(&span.kind)) {
            if last.kind == span.kind && span.from <= last.to {
                last.to = last.to.max(span.to);
                continue;
            }
            span.from = span.from.max(last.to);
        }
        if span.from < span.to {
            out.push(span);
        }
    }
    out
}

/// Cuts a span at the end of an earlier one that it would cross.
fn nested(text: &str, spans: Vec<Span>) -> Vec<Span> {
    let key = |s: Span| Reverse((s.from, Reverse(s.to), s.kind));
    let mut waiting: BinaryHeap<_> = spans.into_iter().map(key).collect();
    let (mut out, mut open) = (Vec::with_capacity(waiting.len()), Vec::new());
    while let Some(Reverse((from, Reverse(to), kind))) = waiting.pop() {
        while open.last().is_some_and(|end| *end <= from) {
            open.pop();
        }
        let end = open.last().map_or(to, |end: &usize| to.min(*end));
        if end < to {
            let rest = trimmed(text, vec![Span::new(end..to, kind.clone())]);
            waiting.extend(rest.into_iter().map(key));
        }
        for span in trimmed(text, vec![Span::new(from..end, kind)]) {
            if span.from == from {
                open.push(span.to);
                out.push(span);
            } else {
                waiting.push(key(span));
            }
        }
    }
    out
}
