//! Tables, in a way that every platform can show: columns side by side while they are narrow, lines otherwise.

use pulldown_cmark::Alignment;
use unicode_width::UnicodeWidthStr;

use crate::span::{Kind, Span, Text};

/// A table up to this many columns of a terminal is shown as one.
const WIDEST: usize = 60;
/// A longer heading is not said again in each row.
const LABEL: usize = 40;

/// A table as it is read: rows of cells. The first row is the head.
#[derive(Default)]
pub(crate) struct Table {
    pub(crate) columns: Vec<Alignment>,
    pub(crate) rows: Vec<Vec<Text>>,
}

impl Table {
    /// Returns what is shown of it.
    pub(crate) fn shown(&self) -> Text {
        self.aligned().unwrap_or_else(|| self.lines())
    }

    /// Returns its columns side by side, `None` if that is too wide.
    fn aligned(&self) -> Option<Text> {
        let count = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        if count * 3 > WIDEST {
            return None;
        }
        let rows: Vec<Vec<String>> =
            self.rows.iter().map(|row| row.iter().map(without_links).collect()).collect();
        let mut widths = vec![1; count];
        for row in &rows {
            for (cell, width) in row.iter().zip(&mut widths) {
                *width = (*width).max(cell.width());
            }
        }
        if widths.iter().sum::<usize>() + 2 * count > WIDEST + 2 {
            return None;
        }
        let mut text = String::new();
        for (number, row) in rows.iter().enumerate() {
            let mut line = String::new();
            for (column, width) in widths.iter().enumerate() {
                let cell = row.get(column).map_or("", String::as_str);
                let room = width - cell.width();
                let before = match self.columns.get(column) {
                    Some(Alignment::Right) => room,
                    Some(Alignment::Center) => room / 2,
                    Some(Alignment::Left | Alignment::None) | None => 0,
                };
                line.extend(std::iter::repeat_n(' ', before));
                line.push_str(cell);
                line.extend(std::iter::repeat_n(' ', room - before + 2));
            }
            text.push_str(line.trim_end());
            text.push('\n');
            if number == 0 {
                let dashes: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
                text.push_str(&dashes.join("  "));
                text.push('\n');
            }
        }
        let all = 0..text.len();
        Some(Text::new(text, vec![Span::new(all, Kind::Pre { lang: None })]))
    }

    /// Returns a line `Heading: value` for each cell that says something; with long headings a line for each row.
    fn lines(&self) -> Text {
        let (mut text, mut spans) = (String::new(), Vec::new());
        let none = Vec::new();
        let head = self.rows.first().unwrap_or(&none);
        let is_long = head.iter().any(|cell| cell.text().width() > LABEL) || self.rows.len() < 2;
        let mut add = |text: &mut String, cell: &Text, kind: Option<Kind>| {
            let from = text.len();
            text.push_str(cell.text());
            let of_cell = cell.spans().iter();
            spans.extend(of_cell.map(|s| Span::new(from + s.from..from + s.to, s.kind.clone())));
            spans.extend(kind.map(|kind| Span::new(from..text.len(), kind)));
        };
        for (number, row) in self.rows.iter().enumerate().skip(usize::from(!is_long)) {
            let mut is_first = true;
            for (column, cell) in row.iter().enumerate().filter(|(_, cell)| !cell.text().is_empty()) {
                if is_long {
                    text.push_str(if is_first { "" } else { " | " });
                    add(&mut text, cell, (number == 0).then_some(Kind::Bold));
                } else {
                    text.push_str(if is_first { "" } else { "\n" });
                    if let Some(label) = head.get(column).filter(|label| !label.text().is_empty()) {
                        add(&mut text, label, Some(Kind::Bold));
                        text.push_str(": ");
                    }
                    add(&mut text, cell, None);
                }
                is_first = false;
            }
            if !is_first {
                text.push_str(if is_long { "\n" } else { "\n\n" });
            }
        }
        text.truncate(text.trim_end().len());
        for span in &mut spans {
            span.to = span.to.min(text.len());
        }
        spans.retain(|span| span.from < span.to);
        Text::new(text, spans)
    }
}

/// Returns the words of a cell, each link followed by where it leads.
fn without_links(cell: &Text) -> String {
    let links = cell.spans().iter().filter_map(|s| match &s.kind {
        Kind::Link { to } if to != cell.of(s) => Some((s.to..s.to, format!(" ({to})"))),
        _ => None,
    });
    cell.edited(&links.collect::<Vec<_>>()).text().to_owned()
}
