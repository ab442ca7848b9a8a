//! What holds for any text that an agent writes.

use channel_protocol::Style;
use proptest::prelude::*;
use unicode_segmentation::UnicodeSegmentation;

use super::read;
use crate::{
    Format, Kind, Rendered, Text, Unit,
    adapt::adapted,
    breaks::{BREAK, calls},
    parse, parts,
    render::written,
    split,
    split::{Lines, pieces},
};

const FORMATS: [Format; 7] = [
    Format::Spans,
    Format::Discord,
    Format::Slack,
    Format::Whatsapp,
    Format::Matrix,
    Format::Irc,
    Format::Plain,
];

/// Pieces of markdown, and of what looks like it.
const PIECES: [&str; 66] = [
    "a",
    "b ",
    " ",
    "  ",
    "    ",
    "\n",
    "\n\n",
    "\n",
    "**",
    "**",
    "*",
    "*",
    "_",
    "__",
    "~~",
    "~",
    "||",
    "||",
    "`",
    "``",
    "```",
    "\n```\n",
    "\n```rust\n",
    "> ",
    ">",
    "\n> ",
    "- ",
    "\n- ",
    "\n  - ",
    "\n1. ",
    "# ",
    "\n## ",
    "[",
    "]",
    "](https://x.y/z)",
    "](b)",
    "](<c d>)",
    "![",
    "\n[x]: https://q.r\n",
    "[x]",
    "]: ",
    "https://a.b/c_d*e",
    "(http://x.y/(z)).",
    "\\",
    "|",
    "\n|a|b|\n|-|-:|\n|c|d|\n",
    "<b>",
    "</b>",
    "<br>",
    "<!-- ",
    "&",
    "&amp;",
    "@everyone",
    "@here <@!12> @room",
    "👩‍👩‍👧",
    "𝒳",
    "e\u{301}",
    "字。",
    "「",
    "」",
    "です",
    "굵게(",
    "\t",
    "\u{1b}",
    "-",
    "1.",
];

fn markdown() -> impl Strategy<Value = String> {
    proptest::collection::vec(0..PIECES.len() + 6, 0..40).prop_map(|pieces| {
        let word = |(number, piece): (usize, usize)| match PIECES.get(piece) {
            Some(piece) => (*piece).to_owned(),
            None => format!("w{number}x"),
        };
        pieces.into_iter().enumerate().map(word).collect()
    })
}

fn format() -> impl Strategy<Value = Format> {
    prop::sample::select(FORMATS.to_vec())
}

fn unit() -> impl Strategy<Value = Unit> {
    prop::sample::select(vec![Unit::Utf16, Unit::Chars, Unit::Bytes])
}

/// Returns the texts that parts are made of, each with its part.
fn cut(whole: &Text, format: Format, limit: usize, unit: Unit) -> Vec<(Text, Rendered)> {
    let lines = if format == Format::Irc { Lines::Alone } else { Lines::Together };
    pieces(whole, limit, unit, lines, |part| {
        let rendered = written(part, format);
        match rendered.size(unit) {
            size if size > limit => Err(size),
            _ => Ok((part.clone(), rendered)),
        }
    })
}

/// Returns where each part lies in the whole. Between two of them is whitespace, and nothing more.
fn places(whole: &str, parts: &[&str]) -> Vec<(usize, usize)> {
    let mut at = 0;
    let found = parts.iter().map(|part| {
        let words = part.trim_start();
        let blank = part.len() - words.len();
        let rest = &whole[at..];
        let start = at + rest.len() - rest.trim_start().len();
        assert!(whole[start..].starts_with(words), "{part:?} is not next in {:?}", &whole[at..]);
        assert!(start - at >= blank && whole[..start].ends_with(&part[..blank]), "{part:?} in {whole:?}");
        at = start + words.len();
        (start - blank, at)
    });
    let found = found.collect();
    assert!(whole[at..].trim().is_empty(), "{:?} is in no part", &whole[at..]);
    found
}

/// Spans lie in the text, on characters, in order, within each other or beside.
fn well_nested(text: &Text) {
    let mut open: Vec<usize> = Vec::new();
    let mut last = (0, usize::MAX);
    for span in text.spans() {
        let words = &text.text()[span.from..span.to];
        assert!(!words.trim().is_empty(), "{text:?}");
        if span.kind.is_inline() {
            assert_eq!(words.trim(), words, "{text:?}");
        }
        assert!(last.0 < span.from || last.0 == span.from && last.1 >= span.to, "{text:?}");
        while open.last().is_some_and(|end| *end <= span.from) {
            open.pop();
        }
        assert!(open.last().is_none_or(|end| span.to <= *end), "{text:?}");
        open.push(span.to);
        last = (span.from, span.to);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_word_is_lost(source in markdown()) {
        let text = parse(&source);
        well_nested(&text);
        for word in source.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| w.starts_with('w')) {
            let is_target = |kind: &Kind| match kind {
                Kind::Link { to } => to.contains(word),
                Kind::Pre { lang: Some(lang) } => lang.contains(word),
                _ => false,
            };
            let is_there = text.text().contains(word) || text.spans().iter().any(|s| is_target(&s.kind));
            prop_assert!(is_there, "{word} is lost in {text:?}");
        }
    }

    #[test]
    fn parts_are_the_whole_text_within_the_limit(
        source in markdown(), format in format(), limit in 20..200_usize, unit in unit(),
    ) {
        let whole = adapted(&parse(&source), format, limit);
        well_nested(&whole);
        let cut = cut(&whole, format, limit, unit);
        let texts: Vec<&str> = cut.iter().map(|(part, _)| part.text()).collect();
        let places = places(whole.text(), &texts);
        for (part, rendered) in &cut {
            well_nested(part);
            prop_assert!(rendered.size(unit) <= limit, "{rendered:?}");
            prop_assert!(!rendered.text.trim().is_empty(), "{rendered:?}");
            prop_assert!(format != Format::Irc || !rendered.text.contains('\n'));
        }
        // A visible character is cut only if it is too long by itself.
        let longest = whole.text().graphemes(true).map(|g| unit.of(g)).max().unwrap_or(0);
        if longest * 2 + 4 <= limit {
            let bounds: Vec<usize> = whole.text().grapheme_indices(true).map(|(at, _)| at).collect();
            for (from, to) in places {
                prop_assert!(bounds.contains(&from) && (to == whole.text().len() || bounds.contains(&to)));
            }
        }
        prop_assert_eq!(cut.is_empty(), source.chars().all(|c| c.is_whitespace() || c.is_control()), "{:?}", whole);
    }

    #[test]
    fn a_text_is_split_at_its_own_length(source in markdown(), limit in 20..60_usize, unit in unit()) {
        let whole = parse(&source);
        let parts = split(&whole, limit, unit);
        places(whole.text(), &parts.iter().map(Text::text).collect::<Vec<_>>());
        for part in &parts {
            well_nested(part);
            prop_assert!(unit.of(part.text()) <= limit);
        }
    }

    #[test]
    fn discord_reads_what_was_meant(source in markdown(), limit in prop::sample::select(vec![20, 60, 200, 2000])) {
        let whole = adapted(&parse(&source), Format::Discord, limit);
        for (part, rendered) in cut(&whole, Format::Discord, limit, Unit::Chars) {
            prop_assert_eq!(read::discord(&rendered.text), read::expected(&part), "{}", rendered.text);
        }
    }

    #[test]
    fn matrix_reads_what_was_meant(source in markdown(), limit in prop::sample::select(vec![20, 60, 200, 30_000])) {
        let whole = adapted(&parse(&source), Format::Matrix, limit);
        for (part, rendered) in cut(&whole, Format::Matrix, limit, Unit::Bytes) {
            let html = rendered.html.unwrap();
            prop_assert_eq!(read::html(&html), read::expected(&part), "{}", html);
        }
    }

    #[test]
    fn nothing_calls_everybody(source in markdown(), limit in 20..2000_usize) {
        for format in [Format::Discord, Format::Slack, Format::Whatsapp, Format::Matrix] {
            for part in parts(&source, format, limit, Unit::Chars) {
                let all = part.text + &part.html.unwrap_or_default();
                prop_assert!(calls(&all).is_empty(), "{format:?}: {all}");
                prop_assert!(format != Format::Slack || !all.contains("<!"), "{all}");
            }
        }
    }

    #[test]
    fn entities_keep_telegrams_rules(source in markdown(), limit in 20..300_usize) {
        for part in parts(&source, Format::Spans, limit, Unit::Utf16) {
            let units: Vec<u16> = part.text.encode_utf16().collect();
            let code = |is: &Style| matches!(is, Style::Code | Style::Pre { .. });
            let is_block = |is: &Style| matches!(is, Style::Quote | Style::Pre { .. });
            for (number, one) in part.spans.iter().enumerate() {
                let end = one.at + one.len;
                let words = String::from_utf16(&units[one.at..end]).expect("whole characters");
                prop_assert!(!words.trim().is_empty() && words.trim_end() == words, "{part:?}");
                prop_assert!(is_block(&one.is) || words.trim_start() == words, "{part:?}");
                for other in &part.spans[number + 1..] {
                    let is_within = other.at < end;
                    prop_assert!(!is_within || other.at + other.len <= end, "{part:?}");
                    prop_assert!(!is_within || !code(&one.is), "{part:?}");
                    prop_assert!(!is_within || !code(&other.is) || one.is == Style::Quote, "{part:?}");
                    prop_assert!(!is_within || one.is != other.is, "{part:?}");
                }
            }
        }
    }

    #[test]
    fn slack_and_whatsapp_see_no_fence_that_is_open(source in markdown(), limit in 20..300_usize) {
        for format in [Format::Slack, Format::Whatsapp] {
            for part in parts(&source, format, limit, Unit::Chars) {
                prop_assert_eq!(part.text.matches("```").count() % 2, 0, "{}", part.text);
                let outside: String = part.text.split("```").step_by(2).collect();
                prop_assert_eq!(outside.matches('`').count() % 2, 0, "{}", part.text);
            }
        }
    }

    #[test]
    fn any_characters_at_all_are_taken(source in any::<String>(), format in format(), unit in unit()) {
        for part in parts(&source, format, 20, unit) {
            prop_assert!(part.size(unit) <= 20 && !part.text.replace(BREAK, "x").is_empty());
        }
    }
}
