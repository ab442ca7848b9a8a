//! Words as they come, and the lines between them.

use std::{mem::discriminant, ops::Range};

use crate::span::{Kind, Span, Text};

/// A nested item is moved to the right by at most this.
const WIDEST_INDENT: usize = 24;

/// Words as they are written, one after the other.
#[derive(Default)]
pub(crate) struct Flow {
    pub(crate) out: String,
    spans: Vec<Span>,
    /// Spans that are open, with their starts, and how many more of their kind are open within them.
    open: Vec<(Kind, usize, usize)>,
    /// New lines that are due before the next word.
    due: usize,
    /// The widths of the prefixes of open items.
    items: Vec<usize>,
    /// Nothing stands behind the prefix of an item yet.
    is_fresh: bool,
    /// Where `||` stands in the block.
    bars: Vec<usize>,
    /// Bars that are marks of spoilers.
    marks: Vec<(Range<usize>, String)>,
}

impl Flow {
    /// Asks for `count` new lines before the next word.
    pub(crate) fn line(&mut self, count: usize) {
        if !self.is_fresh {
            self.due = self.due.max(count);
        }
    }

    fn flush(&mut self) {
        if self.due > 0 || self.out.is_empty() {
            let count = if self.out.is_empty() { 0 } else { self.due };
            self.out.extend(std::iter::repeat_n('\n', count));
            let indent = self.items.iter().sum::<usize>().min(WIDEST_INDENT);
            self.out.extend(std::iter::repeat_n(' ', indent));
        }
        (self.due, self.is_fresh) = (0, false);
    }

    pub(crate) fn words(&mut self, words: &str) {
        if !words.is_empty() {
            self.flush();
            self.out.push_str(words);
        }
    }

    pub(crate) fn words_with_spoilers(&mut self, words: &str, is_escaped: bool, in_table: bool) {
        self.flush();
        if !in_table {
            let skipped = usize::from(is_escaped && words.starts_with('|'));
            let at = self.out.len() + skipped;
            self.bars.extend(words[skipped..].match_indices("||").map(|(bar, _)| at + bar));
        }
        self.out.push_str(words);
    }

    pub(crate) fn open(&mut self, kind: Kind) {
        let same = |open: &&mut (Kind, usize, usize)| discriminant(&open.0) == discriminant(&kind);
        match self.open.iter_mut().find(same) {
            Some((_, _, more)) => *more += 1,
            None => self.open.push((kind, self.out.len(), 0)),
        }
    }

    pub(crate) fn close(&mut self, kind: &Kind) {
        let same = |open: &(Kind, usize, usize)| discriminant(&open.0) == discriminant(kind);
        let Some(at) = self.open.iter().position(same) else { return };
        if self.open[at].2 > 0 {
            self.open[at].2 -= 1;
            return;
        }
        let (kind, from, _) = self.open.remove(at);
        let mut from = from.min(self.out.len());
        match &kind {
            Kind::Link { to } if self.out[from..].trim().is_empty() => {
                let to = to.clone();
                self.words(&to);
            }
            // A quote behind a bullet takes the whole line.
            Kind::Quote if !self.out[from..].is_empty() && !self.out[from..].starts_with('\n') => {
                from = self.out[..from].rfind('\n').map_or(0, |at| at + 1);
            }
            _ => {}
        }
        let is_link_to_nothing = matches!(&kind, Kind::Link { to } if to.is_empty());
        if !is_link_to_nothing {
            self.spans.push(Span::new(from..self.out.len(), kind));
        }
    }

    /// Begins a block that stands at the start of a line.
    pub(crate) fn begin_block(&mut self) {
        if self.is_fresh {
            self.is_fresh = false;
            self.due = 1;
        }
        self.block();
        let count = if self.out.is_empty() { 0 } else { self.due };
        self.out.extend(std::iter::repeat_n('\n', count));
        (self.due, self.is_fresh) = (0, false);
    }

    pub(crate) fn end_code(&mut self) {
        let block = self.open.iter().find(|(kind, ..)| matches!(kind, Kind::Pre { .. }));
        if let Some((Kind::Pre { lang: Some(lang) }, from, _)) = block
            && self.out[*from..].trim().is_empty()
        {
            // A language of nothing is words.
            self.out.truncate(*from);
            self.out.push_str(lang);
        }
        self.out.truncate(self.out.trim_end_matches('\n').len());
        self.close(&Kind::Pre { lang: None });
    }

    /// Ends the block before, and leaves a line between it and the next one.
    pub(crate) fn block(&mut self) {
        self.line(2);
        self.pair_bars();
    }

    pub(crate) fn item(&mut self, prefix: &str) {
        self.line(1);
        self.pair_bars();
        if !self.is_fresh {
            self.flush();
        }
        self.out.push_str(prefix);
        self.items.push(prefix.chars().count());
        self.is_fresh = true;
    }

    pub(crate) fn end_item(&mut self) {
        self.is_fresh = false;
        self.items.pop();
        self.line(1);
        self.pair_bars();
    }

    /// Makes spoilers of the bars of a block: one opens before a word, the next one behind a word closes.
    fn pair_bars(&mut self) {
        let mut opened = None;
        for bar in std::mem::take(&mut self.bars) {
            let after = self.out[bar + 2..].chars().next();
            let before = self.out[..bar].chars().next_back();
            match opened {
                Some(start) if bar > start + 2 && before.is_some_and(|c| !c.is_whitespace()) => {
                    self.marks.extend([(start..start + 2, String::new()), (bar..bar + 2, String::new())]);
                    self.spans.push(Span::new(start + 2..bar, Kind::Spoiler));
                    opened = None;
                }
                _ if after.is_some_and(|c| !c.is_whitespace()) => opened = Some(bar),
                _ => {}
            }
        }
    }

    pub(crate) fn append(&mut self, text: &Text) {
        self.begin_block();
        let at = self.out.len();
        self.out.push_str(text.text());
        let spans = text.spans().iter();
        self.spans.extend(spans.map(|s| Span::new(at + s.from..at + s.to, s.kind.clone())));
    }

    pub(crate) fn finished(mut self) -> Text {
        self.pair_bars();
        self.out.truncate(self.out.trim_end().len());
        let end = self.out.len();
        for span in &mut self.spans {
            span.to = span.to.min(end);
        }
        self.spans.retain(|span| span.from < span.to);
        Text::new(self.out, self.spans).edited(&self.marks)
    }
}
