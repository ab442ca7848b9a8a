//! The words of a mail: its own, without the mail that it answers quoted below them. Pure.

use mail_parser::{Message, PartType};

use super::html;
use crate::kit::{LONGEST_TEXT, cut};

/// How much of all texts of a mail is looked at, bytes.
const MOST: usize = 512 << 10;
/// The longest line, or pair of lines, that introduces a quote, characters.
const LONGEST_OPENING: usize = 400;
/// How the line ends that stands before a quote: mail programs write it in the language of their users.
const OPENINGS: [&str; 9] = [
    "wrote:",
    "writes:",
    "schrieb:",
    "a écrit :",
    "a écrit:",
    "escribió:",
    "ha scritto:",
    "schreef:",
    "skrev:",
];

/// Returns the words of a mail; `is_answer`: it answers another one.
pub(super) fn words(message: &Message<'_>, is_answer: bool) -> String {
    let text = of_parts(message, &message.text_body);
    let text = if text.trim().is_empty() { of_parts(message, &message.html_body) } else { text };
    let text: String =
        text.replace("\r\n", "\n").chars().filter(|c| *c == '\n' || *c == '\t' || !c.is_control()).collect();
    let own = if is_answer { without_quote(&text) } else { &text };
    cut(own.trim(), LONGEST_TEXT)
}

fn of_parts(message: &Message<'_>, parts: &[u32]) -> String {
    let mut left = MOST;
    let all = parts.iter().take(20).filter_map(|part| of_part(message, *part, &mut left));
    all.collect::<Vec<_>>().join("\n\n")
}

/// Returns the words of a part, of which no more is looked at than is left.
fn of_part(message: &Message<'_>, part: u32, left: &mut usize) -> Option<String> {
    let mut bounded = |text: &str| {
        let text = text[..text.floor_char_boundary(*left)].to_owned();
        *left -= text.len();
        text
    };
    match &message.part(part)?.body {
        PartType::Text(text) => Some(bounded(text)),
        PartType::Html(text) => Some(html::words(&bounded(text))),
        PartType::Binary(_) | PartType::InlineBinary(_) | PartType::Message(_) | PartType::Multipart(_) => {
            None
        }
    }
}

/// Returns the text above a quote that ends it: quoted lines alone, below a line such as `On Monday Ada wrote:`. All of it where
/// its own words stand below or between quoted ones, or there are none.
fn without_quote(text: &str) -> &str {
    let mut lines: Vec<(usize, &str)> = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        lines.push((at, line.trim()));
        at += line.len();
    }
    let is_quoted = |line: &str| line.is_empty() || line.starts_with('>');
    let own = lines.iter().rposition(|(_, line)| !is_quoted(line)).map_or(0, |last| last + 1);
    if !lines[own..].iter().any(|(_, line)| line.starts_with('>')) {
        return text;
    }
    // The line before it may be broken in two.
    let opening = (1..=2).find(|count| {
        own.checked_sub(*count).is_some_and(|from| {
            let joined = lines[from..own].iter().map(|(_, line)| *line).collect::<Vec<_>>().join(" ");
            let lower = joined.trim_end().to_lowercase();
            joined.chars().count() <= LONGEST_OPENING
                && OPENINGS.iter().any(|end| lower.ends_with(end))
                && (*count == 1 || !lines[own - 1].1.is_empty())
        })
    });
    let Some(count) = opening else { return text };
    // Of two lines the first one belongs to it only if it does not stand alone as a sentence of its own.
    let is_whole = |line: &str| {
        ["On ", "Am ", "Le ", "El ", "Il ", "Op ", "Den "].iter().any(|word| line.starts_with(word))
    };
    let count = if count == 1 && own >= 2 && !is_whole(lines[own - 1].1) && is_whole(lines[own - 2].1) {
        2
    } else {
        count
    };
    let above = &text[..lines[own - count].0];
    if above.trim().is_empty() { text } else { above }
}

#[cfg(test)]
mod tests {
    use mail_parser::MessageParser;

    use super::*;

    #[test]
    fn a_quote_below_the_words_is_left_out_and_any_other_stays() {
        for (text, own) in [
            ("Yes.\n\nOn Mon, 30 Nov 2026, Ada wrote:\n> Tea?\n> Or not?\n", "Yes."),
            (
                "Yes.\n\nOn Mon, 30 Nov 2026 at 10:00, Ada Lovelace <ada@example.org>\nwrote:\n\n> Tea?\n",
                "Yes.",
            ),
            ("Ja.\n\nAm 30.11.26 um 10:00 schrieb:\n> Tee?", "Ja."),
            ("> Tea?\nYes.", "> Tea?\nYes."),
            ("On Mon Ada wrote:\n> Tea?\nYes.\n> Milk?\n", "On Mon Ada wrote:\n> Tea?\nYes.\n> Milk?"),
            ("On Mon Ada wrote:\n> Tea?\n", "On Mon Ada wrote:\n> Tea?"),
            ("As the poet says\n> Tea", "As the poet says\n> Tea"),
            ("plain", "plain"),
            ("", ""),
        ] {
            assert_eq!(without_quote(text).trim(), own, "{text}");
        }
    }

    #[test]
    fn the_plain_part_counts_then_html_and_charsets_are_read() {
        let read = |raw: &[u8]| words(&MessageParser::default().parse(raw).unwrap(), false);
        let both = b"Content-Type: multipart/alternative; boundary=x\r\n\r\n--x\r\nContent-Type: text/plain\r\n\r\nplain\r\n--x\r\nContent-Type: text/html\r\n\r\n<p>html</p>\r\n--x--\r\n";
        assert_eq!(read(both), "plain");
        assert_eq!(read(b"Content-Type: text/html\r\n\r\n<p>a<span hidden>b</span></p>"), "a");
        assert_eq!(read(b"Content-Type: text/plain; charset=iso-2022-jp\r\n\r\n\x1b$B$3$s\x1b(B"), "こん");
        assert_eq!(read(b"Content-Type: text/plain; charset=latin1\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\nGr=FC=DFe=07"), "Grüße");
        assert!(read(format!("A: b\r\n\r\n{}", "x".repeat(1 << 20)).as_bytes()).len() <= LONGEST_TEXT);
    }
}
