//! HTML: of the tags that Matrix allows, or for a page of our own.

use super::{Step, walk};
use crate::span::{Kind, Span, Text};

/// Whose HTML it is.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Reader {
    #[default]
    Matrix,
    /// A browser that shows a page of ours.
    Page,
}

pub(super) fn written(text: &Text, reader: Reader) -> String {
    let mut html = Html { reader, ..Html::default() };
    walk(text, |step| match step {
        Step::Open(span) => html.open(span),
        Step::Words(words, _) => html.words(words),
        Step::Close(span) => html.close(span),
    });
    html.breaks();
    html.out
}

#[derive(Default)]
struct Html {
    reader: Reader,
    out: String,
    in_pre: bool,
    /// New lines that are due, unless a block begins.
    due: usize,
    /// A block has just ended, or nothing was written yet: new lines add nothing.
    is_after_block: bool,
}

impl Html {
    fn open(&mut self, span: &Span) {
        if span.kind.is_inline() {
            self.breaks();
        }
        self.due = 0;
        match &span.kind {
            Kind::Quote => self.out.push_str("<blockquote>"),
            Kind::Pre { lang } => {
                self.in_pre = true;
                self.out.push_str("<pre><code");
                if let Some(lang) = lang {
                    self.out.push_str(" class=\"language-");
                    escape(lang, &mut self.out);
                    self.out.push('"');
                }
                self.out.push('>');
            }
            Kind::Link { to } => {
                self.out.push_str("<a href=\"");
                escape(to, &mut self.out);
                self.out.push_str(match self.reader {
                    Reader::Matrix => "\">",
                    // Where it leads is told nothing of the page, and has no hold on it.
                    Reader::Page => "\" rel=\"noopener noreferrer nofollow\">",
                });
            }
            Kind::Heading | Kind::Bold => self.out.push_str("<strong>"),
            Kind::Italic => self.out.push_str("<em>"),
            Kind::Strike => self.out.push_str("<del>"),
            Kind::Spoiler => self.out.push_str(match self.reader {
                Reader::Matrix => "<span data-mx-spoiler>",
                Reader::Page => "<span class=\"spoiler\" tabindex=\"0\">",
            }),
            Kind::Code => self.out.push_str("<code>"),
        }
        self.is_after_block = !span.kind.is_inline();
    }

    fn close(&mut self, span: &Span) {
        self.out.push_str(match span.kind {
            Kind::Quote => "</blockquote>",
            Kind::Pre { .. } => "</code></pre>",
            Kind::Link { .. } => "</a>",
            Kind::Heading | Kind::Bold => "</strong>",
            Kind::Italic => "</em>",
            Kind::Strike => "</del>",
            Kind::Spoiler => "</span>",
            Kind::Code => "</code>",
        });
        self.in_pre = false;
        self.is_after_block = !span.kind.is_inline();
    }

    fn words(&mut self, words: &str) {
        if self.in_pre {
            return escape(words, &mut self.out);
        }
        for line in words.split_inclusive('\n') {
            let shown = line.trim_end_matches('\n');
            if !shown.is_empty() {
                self.breaks();
                // HTML would leave an indentation out.
                let blank = shown.len() - shown.trim_start_matches(' ').len();
                let indents = self.out.is_empty() || self.out.ends_with("<br>");
                self.out.push_str(&if indents { "\u{a0}" } else { " " }.repeat(blank));
                escape(&shown[blank..], &mut self.out);
            }
            self.due += usize::from(line.ends_with('\n'));
        }
    }

    fn breaks(&mut self) {
        if !std::mem::take(&mut self.is_after_block) {
            self.out.push_str(&"<br>".repeat(self.due));
        }
        self.due = 0;
    }
}

fn escape(words: &str, out: &mut String) {
    for c in words.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
}
