//! Where a text is cut: at a paragraph, otherwise a line, a sentence, a space, a visible character.

use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation};

use channel_protocol::Unit;

use crate::span::{Kind, Span, Text};

/// A smaller limit counts as this one: marks and one character have to fit.
pub const LEAST: usize = 20;

/// Cuts a text into parts whose words are at most `limit` long.
///
/// Each part is a piece of the text, in order. Between two parts only whitespace is left out: all at the end of the one, and
/// at the start of the other all but the indentation of its first line.
#[must_use]
pub fn split(text: &Text, limit: usize, unit: Unit) -> Vec<Text> {
    let limit = limit.max(LEAST);
    let fits = |part: &Text| match unit.of(part.text()) {
        size if size > limit => Err(size),
        _ => Ok(part.clone()),
    };
    pieces(text, limit, unit, Lines::Together, fits)
}

/// Whether a part may have more than one line.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lines {
    Together,
    Alone,
}

/// Cuts a text so that `make` takes each part; it returns the size of one that is longer than `limit`.
pub(crate) fn pieces<T>(
    text: &Text,
    limit: usize,
    unit: Unit,
    lines: Lines,
    make: impl Fn(&Text) -> Result<T, usize>,
) -> Vec<T> {
    let blocks = text.spans().iter().filter(|s| matches!(s.kind, Kind::Pre { .. }));
    let cutter = Cutter { text: text.text(), unit, lines, blocks: blocks.map(|s| (s.from, s.to)).collect() };
    let mut parts = Vec::new();
    // Spans that reach beyond `at` and begin before it, and those that begin later.
    let (mut open, mut later): (Vec<Span>, &[Span]) = (Vec::new(), text.spans());
    let mut at = cutter.start(0, limit);
    while at < text.text().len() {
        let (mut budget, mut is_bare) = (limit, false);
        let (end, part) = loop {
            let (end, is_whole) = cutter.end(at, budget);
            let indent = text.text()[at..].len() - text.text()[at..].trim_start().len();
            if !is_whole && indent > 0 {
                at += indent;
                continue;
            }
            // Marks that leave no room for one visible character go.
            if !is_whole && !is_bare {
                (budget, is_bare) = (limit, true);
                continue;
            }
            let end = at + text.text()[at..end].trim_end().len();
            let near: Vec<Span> =
                open.iter().chain(later.iter().take_while(|s| s.from < end)).cloned().collect();
            let part = text.slice(at..end, &near);
            let part = if is_bare { part.bare() } else { part };
            let length = unit.of(part.text());
            match make(&part) {
                Ok(part) => break (end, Some(part)),
                Err(size) if length > 1 => {
                    // At least one visible character, as long as it has not been tried alone.
                    let first = part.text().graphemes(true).next().map_or(0, |first| unit.of(first));
                    let least = if first < length { first } else { 1 };
                    budget = (length * limit / size).clamp(least.max(1), length - 1);
                }
                Err(_) if !is_bare => (budget, is_bare) = (limit, true),
                // Longer than the limit as a single character: never, from `LEAST` on.
                Err(_) => break (end, None),
            }
        };
        parts.extend(part);
        at = cutter.start(end, limit);
        open.retain(|span| span.to > at);
        let begun = later.iter().take_while(|span| span.from < at).count();
        open.extend(later[..begun].iter().filter(|span| span.to > at).cloned());
        later = &later[begun..];
    }
    parts
}

struct Cutter<'a> {
    text: &'a str,
    unit: Unit,
    lines: Lines,
    /// Blocks of code.
    blocks: Vec<(usize, usize)>,
}

impl Cutter<'_> {
    /// Returns where the words behind `at` begin, with the indentation of their line.
    fn start(&self, at: usize, limit: usize) -> usize {
        let rest = &self.text[at..];
        let blank = &rest[..rest.len() - rest.trim_start().len()];
        let indent = match blank.rfind('\n') {
            Some(line) => &blank[line + 1..],
            None if at == 0 => blank,
            None => "",
        };
        // A line that is far to the right would leave no room for its words.
        let kept = if self.unit.of(indent) * 2 > limit { 0 } else { indent.len() };
        at + blank.len() - kept
    }

    /// Returns where a part that begins at `at` ends, and whether its last visible character is whole.
    fn end(&self, at: usize, budget: usize) -> (usize, bool) {
        let rest = &self.text[at..];
        let mut room = budget;
        let past = rest.char_indices().find(|(_, c)| match room.checked_sub(self.unit.of_char(*c)) {
            Some(left) => {
                room = left;
                self.lines == Lines::Alone && *c == '\n'
            }
            None => true,
        });
        let Some((most, c)) = past else { return (at + rest.len(), true) };
        if self.lines == Lines::Alone && c == '\n' {
            return (at + most, true);
        }
        let mut cursor = GraphemeCursor::new(most, rest.len(), true);
        let whole = match cursor.is_boundary(rest, 0) {
            Ok(true) => most,
            _ => cursor.prev_boundary(rest, 0).ok().flatten().unwrap_or(0),
        };
        if rest[..whole].trim().is_empty() {
            // Not even one visible character: it is cut inside.
            let indent = rest.len() - rest.trim_start().len();
            let first = rest[indent..].chars().next().map_or(1, char::len_utf8);
            return (at + most.max(indent + first), false);
        }
        (at + self.best(at, rest, whole), true)
    }

    /// Returns the best place to cut `rest` before `most`.
    fn best(&self, at: usize, rest: &str, most: usize) -> usize {
        let [mut paragraph, mut line, mut sentence, mut space] = [0; 4];
        let mut before = '\n';
        // The line up to here: nothing, or the prefix of an item.
        let mut is_prefix = true;
        let mut has_words = false;
        let next = rest[most..].chars().next();
        for (place, c) in rest[..most].char_indices().chain(next.map(|c| (most, c))) {
            if has_words && c == '\n' && before != '\n' {
                let is_paragraph = rest[place + 1..].starts_with('\n') && !self.is_code(at + place);
                *(if is_paragraph { &mut paragraph } else { &mut line }) = place;
            } else if has_words && c.is_whitespace() && !before.is_whitespace() && !is_prefix {
                *(if ".!?…:;".contains(before) { &mut sentence } else { &mut space }) = place;
            } else if "。！？".contains(before) && has_words {
                sentence = place;
            }
            is_prefix = match c {
                '\n' => true,
                '•' | '.' | '☐' | '☑' | '0'..='9' => is_prefix,
                c => is_prefix && c.is_whitespace(),
            };
            has_words = has_words || !c.is_whitespace();
            before = c;
        }
        let space = space.max(sentence);
        let is_far = |place: &&usize| **place * 2 >= most;
        let best = [&paragraph, &line, &sentence, &space].into_iter().find(is_far);
        let any = [paragraph.max(line), space].into_iter().find(|place| *place > 0);
        best.copied().filter(|place| *place > 0).or(any).unwrap_or(most)
    }

    fn is_code(&self, at: usize) -> bool {
        let next = self.blocks.partition_point(|(_, to)| *to <= at);
        self.blocks.get(next).is_some_and(|(from, _)| *from <= at)
    }
}
