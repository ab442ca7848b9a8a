//! Words with a terminal's own colours and weights. What may act on a terminal has to be out of the text before.

use super::{Step, walk};
use crate::span::{Kind, Span, Text};

/// Returns a text for a terminal; without colours, marks stand only where words alone would mean less.
#[must_use]
pub fn for_terminal(text: &Text, colours: Colours) -> String {
    let mut screen = Screen { colours, ..Screen::default() };
    walk(text, |step| match step {
        Step::Open(span) => screen.open.push(span.clone()),
        Step::Words(words, _) => screen.words(words),
        Step::Close(span) => screen.close(span, text),
    });
    screen.out
}

/// Whether a terminal shows colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Colours {
    Yes,
    #[default]
    No,
}

#[derive(Default)]
struct Screen {
    out: String,
    colours: Colours,
    /// The spans around what comes next, the innermost last.
    open: Vec<Span>,
    /// Something stands in the line that is being written.
    in_line: bool,
}

impl Screen {
    fn words(&mut self, words: &str) {
        for piece in words.split_inclusive('\n') {
            let line = piece.trim_end_matches('\n');
            if !std::mem::replace(&mut self.in_line, true) {
                self.begin_line(line);
            }
            let codes = self.codes();
            match line.is_empty() || codes.is_empty() {
                true => self.out.push_str(line),
                // Each line by itself, so that nothing of it is left over where it is cut off.
                false => self.out.extend([&format!("\x1b[{codes}m"), line, "\x1b[0m"]),
            }
            if piece.ends_with('\n') {
                self.out.push('\n');
                self.in_line = false;
            }
        }
    }

    /// What stands before a line: a bar for a quote, blanks for a block of code.
    fn begin_line(&mut self, line: &str) {
        for span in &self.open {
            match span.kind {
                Kind::Quote => self.out.push_str("│ "),
                Kind::Pre { .. } if !line.is_empty() => self.out.push_str("    "),
                _ => {}
            }
        }
    }

    fn close(&mut self, span: &Span, text: &Text) {
        self.open.pop();
        let words = text.of(span);
        match &span.kind {
            Kind::Link { to } if words != to && words != to.trim_start_matches("mailto:") => {
                self.words(&format!(" ({to})"));
            }
            _ => {}
        }
    }

    /// The weights and colours of what stands here.
    fn codes(&self) -> String {
        if self.colours == Colours::No {
            return String::new();
        }
        let codes = self.open.iter().filter_map(|span| match span.kind {
            Kind::Heading => Some("1;4"),
            Kind::Bold => Some("1"),
            Kind::Italic => Some("3"),
            Kind::Strike => Some("9"),
            Kind::Link { .. } => Some("4"),
            Kind::Code | Kind::Pre { .. } => Some("36"),
            Kind::Quote => Some("2"),
            Kind::Spoiler => None,
        });
        codes.collect::<Vec<_>>().join(";")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    #[test]
    fn markdown_is_shown_with_the_means_of_a_terminal() {
        for (markdown, plain, coloured) in [
            ("a **b** `c`", "a b c", "a \x1b[1mb\x1b[0m \x1b[36mc\x1b[0m"),
            ("# Title\nmore", "Title\n\nmore", "\x1b[1;4mTitle\x1b[0m\n\nmore"),
            ("- one\n- two", "• one\n• two", "• one\n• two"),
            (
                "```rust\nlet a;\n\n  b\n```",
                "    let a;\n\n      b",
                "    \x1b[36mlet a;\x1b[0m\n\n    \x1b[36m  b\x1b[0m",
            ),
            ("> said\n> twice", "│ said\n│ twice", "│ \x1b[2msaid\x1b[0m\n│ \x1b[2mtwice\x1b[0m"),
            (
                "[here](https://a.example)",
                "here (https://a.example)",
                "\x1b[4mhere\x1b[0m (https://a.example)",
            ),
            ("https://a.example", "https://a.example", "\x1b[4mhttps://a.example\x1b[0m"),
            ("*a **b***", "a b", "\x1b[3ma \x1b[0m\x1b[3;1mb\x1b[0m"),
            (
                "| k | n |\n|---|--:|\n| a | 10 |\n| b | 2 |",
                "    k   n\n    -  --\n    a  10\n    b   2",
                "    \x1b[36mk   n\x1b[0m\n    \x1b[36m-  --\x1b[0m\n    \x1b[36ma  10\x1b[0m\n    \x1b[36mb   2\x1b[0m",
            ),
            ("two\nlines", "two\nlines", "two\nlines"),
        ] {
            assert_eq!(for_terminal(&parse(markdown), Colours::No), plain, "{markdown}");
            assert_eq!(for_terminal(&parse(markdown), Colours::Yes), coloured, "{markdown}");
        }
    }

    #[test]
    fn without_its_colours_a_text_is_the_same() {
        let text = parse("# A *b*\n\n> c `d`\n\n1. **e [f](https://g.example)**\n\n```\nh\n```\n~~i~~ ||j||");
        let mut coloured = for_terminal(&text, Colours::Yes);
        while let Some(at) = coloured.find('\x1b') {
            let end = at + coloured[at..].find('m').unwrap();
            coloured.replace_range(at..=end, "");
        }
        assert_eq!(coloured, for_terminal(&text, Colours::No));
    }
}
