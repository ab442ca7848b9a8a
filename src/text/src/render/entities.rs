//! Ranges beside the words, as Telegram and Signal take them. There is nothing to escape.

use super::{Entity, Rendered};
use crate::span::Text;

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
    let entities = text.spans().iter().map(|span| Entity {
        offset: place(span.from),
        length: place(span.to) - place(span.from),
        kind: span.kind.clone(),
    });
    Rendered { entities: entities.collect(), text: text.text()[start..].to_owned(), html: None }
}
