//! Texts as platforms take them.

use channel_protocol::{Format, Unit};

use crate::{
    adapt::{adapted, of_page},
    parse::parse,
    span::{Span, Text},
    split::{LEAST, Lines, pieces},
};

mod entities;
mod html;
mod lines;
mod marks;
mod terminal;

pub use terminal::{Colours, for_terminal};

/// What is sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rendered {
    /// With the platform's marks, if it has any.
    pub text: String,
    /// Of [`Format::Spans`] only.
    pub spans: Vec<channel_protocol::Span>,
    /// Of [`Format::Matrix`] only: the `formatted_body`.
    pub html: Option<String>,
}

/// Telegram looks at no more than this many entities of a message.
const MOST_ENTITIES: usize = 100;

impl Rendered {
    /// Returns what counts towards a limit: the text, and the HTML beside it.
    #[must_use]
    pub fn size(&self, unit: Unit) -> usize {
        unit.of(&self.text) + self.html.as_deref().map_or(0, |html| unit.of(html))
    }
}

/// Returns a text as one message, however long.
#[must_use]
pub fn render(text: &Text, format: Format) -> Rendered {
    written(&adapted(text, format, usize::MAX), format)
}

/// Returns what an agent wrote as the messages that a platform takes, each at most `limit` long in `unit`.
///
/// A limit below [`LEAST`] counts as that. No part is empty; no parts come from an empty text only.
#[must_use]
pub fn parts(markdown: &str, format: Format, limit: usize, unit: Unit) -> Vec<Rendered> {
    parts_of(&parse(markdown), format, limit, unit)
}

/// Returns a text as the messages that a platform takes, as [`parts`] does.
#[must_use]
pub fn parts_of(text: &Text, format: Format, limit: usize, unit: Unit) -> Vec<Rendered> {
    let limit = limit.max(LEAST);
    let text = adapted(text, format, limit);
    let lines = if format == Format::Irc { Lines::Alone } else { Lines::Together };
    pieces(&text, limit, unit, lines, |part| {
        let rendered = written(part, format);
        let size = rendered.size(unit);
        let by_entities = limit * rendered.spans.len() / MOST_ENTITIES;
        if size.max(by_entities) > limit { Err(size.max(by_entities)) } else { Ok(rendered) }
    })
}

/// Returns what an agent wrote as HTML for a page of our own: every word of it is escaped, no tag of its own is left, nothing in it
/// is loaded from elsewhere, and its links say nothing of the page.
///
/// What may hide among the words is the caller's to take out, of the HTML.
#[must_use]
pub fn for_page(markdown: &str) -> String {
    html::written(&of_page(&parse(markdown)), html::Reader::Page)
}

/// Returns an adapted text in its format.
pub(crate) fn written(text: &Text, format: Format) -> Rendered {
    let alone = |text| Rendered { text, ..Rendered::default() };
    match format {
        Format::Spans => entities::written(text),
        Format::Discord => alone(marks::written(text, &marks::DISCORD)),
        Format::Slack => alone(marks::written(text, &marks::SLACK)),
        Format::Whatsapp => alone(marks::written(text, &marks::WHATSAPP)),
        Format::Matrix => {
            Rendered { html: Some(html::written(text, html::Reader::Matrix)), ..alone(lines::written(text)) }
        }
        Format::Irc | Format::Plain => alone(lines::written(text)),
    }
}

/// A step along a text.
pub(crate) enum Step<'a> {
    Open(&'a Span),
    /// Words between two ends of spans, and where they begin.
    Words(&'a str, usize),
    Close(&'a Span),
}

/// Goes along a text, in and out of its spans.
pub(crate) fn walk<'a>(text: &'a Text, mut step: impl FnMut(Step<'a>)) {
    let (mut at, mut open): (usize, Vec<&Span>) = (0, Vec::new());
    let go = |at: &mut usize, to: usize, step: &mut dyn FnMut(Step<'a>)| {
        if to > *at {
            step(Step::Words(&text.text()[*at..to], *at));
            *at = to;
        }
    };
    for span in text.spans() {
        while let Some(inner) = open.pop_if(|inner| inner.to <= span.from) {
            go(&mut at, inner.to, &mut step);
            step(Step::Close(inner));
        }
        go(&mut at, span.from, &mut step);
        step(Step::Open(span));
        open.push(span);
    }
    while let Some(inner) = open.pop() {
        go(&mut at, inner.to, &mut step);
        step(Step::Close(inner));
    }
    go(&mut at, text.text().len(), &mut step);
}
