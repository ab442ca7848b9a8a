//! Words alone. A quote has `> ` before each line.

use super::{Step, walk};
use crate::span::{Kind, Text};

pub(super) fn written(text: &Text) -> String {
    let (mut out, mut in_quote) = (String::with_capacity(text.text().len()), false);
    walk(text, |step| match step {
        Step::Open(span) if span.kind == Kind::Quote => {
            out.push_str("> ");
            in_quote = true;
        }
        Step::Close(span) if span.kind == Kind::Quote => in_quote = false,
        Step::Words(words, _) if in_quote => out.push_str(&words.replace('\n', "\n> ")),
        Step::Words(words, _) => out.push_str(words),
        Step::Open(_) | Step::Close(_) => {}
    });
    out
}
