//! Cuts a text into parts that a platform takes: behind a paragraph if one ends late enough, otherwise behind a line, a
//! sentence or a word, and never inside of a visible character. A block of code that is cut is closed, and opened again in the
//! next part.

use unicode_segmentation::UnicodeSegmentation as _;

use super::channels::Unit;

/// Cuts `text` into parts of at most `most` units. White space at a cut is left out. A single character that is longer
/// than that is cut all the same.
#[must_use]
pub fn split(text: &str, most: usize, unit: Unit) -> Vec<String> {
    let most = most.max(1);
    let mut parts = Vec::new();
    // Room is kept for closing whatever block is open at a cut; where there is none for that, blocks are cut like words.
    let closing = text.lines().filter_map(Fence::read).map(|fence| fence.mark.len() + 1).max().unwrap_or(0);
    let (mut rest, mut fence) = (text, None::<Fence>);
    loop {
        let opening = fence.as_ref().map(|fence| format!("{}\n", fence.line)).unwrap_or_default();
        if fits(&opening, rest, most, unit) {
            if !rest.trim().is_empty() {
                parts.push(format!("{opening}{rest}"));
            }
            return parts;
        }
        let around = unit.length(&opening) + closing;
        let (opening, room) = match most.checked_sub(around).filter(|room| *room >= most.div_ceil(2)) {
            Some(room) => (opening, room),
            None => (String::new(), most),
        };
        let keeps_blocks = room < most || closing == 0;
        let end = cut(rest, room, unit, fence.is_some());
        let (part, behind) = rest.split_at(end);
        let before = fence.take();
        let open = Fence::after(part, before.clone());
        let body = part.trim_end();
        match open.filter(|_| keeps_blocks) {
            Some(open) => {
                // A block that only just begins goes whole into the next part.
                let upto = body.rfind('\n').map_or("", |at| &body[..at]).trim_end();
                let begun = Fence::after(upto, before).is_none();
                if begun && !upto.is_empty() {
                    parts.push(format!("{opening}{upto}"));
                } else {
                    parts.push(format!("{opening}{body}\n{}", open.mark));
                }
                rest = behind.strip_prefix('\n').unwrap_or(behind);
                fence = Some(open);
            }
            None => {
                if !body.is_empty() {
                    parts.push(format!("{opening}{body}"));
                }
                rest = behind.trim_start();
            }
        }
    }
}

/// Whether a part is short enough; of a long one only the beginning is looked at.
fn fits(opening: &str, rest: &str, most: usize, unit: Unit) -> bool {
    let mut length = unit.length(opening);
    rest.chars().all(|c| {
        length += unit.length(c.encode_utf8(&mut [0; 4]));
        length <= most
    })
}

/// A block of code that is open.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fence {
    /// The marks that close it.
    mark: String,
    /// The whole line that opened it.
    line: String,
}

/// A line that opens a block is no longer than this, bytes; a longer one is cut there.
const LONGEST_LINE: usize = 64;

impl Fence {
    /// Reads a line that opens or closes a block.
    fn read(line: &str) -> Option<Self> {
        let line = line.trim();
        let marks = line.bytes().take_while(|b| *b == b'`').count().min(16);
        let info = line.get(marks..)?;
        let end = (0..=info.len().min(LONGEST_LINE)).rev().find(|at| info.is_char_boundary(*at))?;
        (marks >= 3 && !info.contains('`'))
            .then(|| Self { mark: "`".repeat(marks), line: format!("{}{}", "`".repeat(marks), &info[..end]) })
    }

    /// Returns the block that is open behind a text, where `open` is at its beginning.
    fn after(text: &str, open: Option<Self>) -> Option<Self> {
        text.lines().fold(open, |open, line| match (open, Self::read(line)) {
            (Some(open), Some(closing))
                if closing.mark.len() >= open.mark.len() && closing.line == closing.mark =>
            {
                None
            }
            (Some(open), _) => Some(open),
            (None, found) => found,
        })
    }
}

/// Returns where the first part of a text ends that is at most `room` units long, bytes; it is never 0.
fn cut(text: &str, room: usize, unit: Unit, in_block: bool) -> usize {
    let (mut length, mut end) = (0, 0);
    // The last place of each kind: paragraph, line, sentence, word.
    let mut places = [0_usize; 4];
    let mut before = "";
    for (at, grapheme) in text.grapheme_indices(true) {
        length += unit.length(grapheme);
        if length > room {
            break;
        }
        end = at + grapheme.len();
        let ends_sentence =
            matches!(before.chars().next_back(), Some('.' | '!' | '?' | '…' | '。' | '！' | '？'));
        let is_line = grapheme.ends_with('\n');
        if is_line && before.ends_with('\n') && !in_block {
            places[0] = end;
        }
        if is_line {
            places[1] = end;
        }
        if grapheme.trim().is_empty() && ends_sentence && !in_block {
            places[2] = end;
        }
        if grapheme.trim().is_empty() {
            places[3] = end;
        }
        before = grapheme;
    }
    if end == 0 {
        // One character that is longer than all the room.
        let mut chars =
            text.char_indices().map(|(at, c)| (at + c.len_utf8(), unit.length(c.encode_utf8(&mut [0; 4]))));
        let mut length = 0;
        let last = chars.by_ref().take_while(|(_, one)| {
            length += one;
            length <= room
        });
        let fits = last.last().map(|(at, _)| at);
        return fits.or_else(|| text.chars().next().map(char::len_utf8)).unwrap_or(text.len());
    }
    // A cut so early that the part would be small is no good one.
    places.into_iter().find(|at| *at >= end.div_ceil(2)).filter(|at| *at > 0).unwrap_or(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str, most: usize) -> Vec<String> {
        split(text, most, Unit::Chars)
    }

    #[test]
    fn a_text_is_cut_behind_a_paragraph_a_line_a_sentence_or_a_word() {
        assert_eq!(parts("short", 10), ["short"]);
        assert_eq!(parts("", 10), [""; 0]);
        assert_eq!(parts("one two\n\nthree four five", 16), ["one two", "three four five"]);
        assert_eq!(parts("one two three\n\nfour", 17), ["one two three", "four"]);
        assert_eq!(parts("one two three\nfour", 17), ["one two three", "four"]);
        assert_eq!(parts("One two. Three four", 14), ["One two.", "Three four"]);
        assert_eq!(parts("one two three four", 14), ["one two three", "four"]);
        assert_eq!(parts("abcdefghij", 4), ["abcd", "efgh", "ij"]);
    }

    #[test]
    fn a_character_that_is_seen_as_one_is_never_cut() {
        let family = "👨‍👩‍👧‍👦";
        assert_eq!(parts(&family.repeat(3), 8), [family; 3]);
        assert_eq!(split(&"é".repeat(5), 4, Unit::Bytes), ["éé", "éé", "é"]);
        assert_eq!(split("e\u{301}e\u{301}", 3, Unit::Bytes), ["e\u{301}", "e\u{301}"]);
        assert_eq!(split("😀😀😀", 4, Unit::Utf16), ["😀😀", "😀"]);
        // Unless it is longer than everything that is taken at once.
        let tower = format!("a{}", "\u{301}".repeat(9));
        let cut = parts(&tower, 4);
        assert_eq!((cut.len(), cut.concat()), (3, tower));
    }

    #[test]
    fn a_block_of_code_that_is_cut_is_closed_and_opened_again() {
        let text = "See:\n```rust\nlet a = 1;\nlet b = 2;\nlet c = 3;\n```\nDone.";
        let cut = parts(text, 40);
        assert_eq!(cut[0], "See:\n```rust\nlet a = 1;\nlet b = 2;\n```");
        assert_eq!(cut[1], "```rust\nlet c = 3;\n```\nDone.");
        // A block that would only be opened in a part begins in the next one.
        let cut = parts("some words before it\n```\nlong line of code\n```", 32);
        assert_eq!(cut, ["some words before it", "```\nlong line of code\n```"]);
    }

    /// Texts out of words, blocks and characters of every kind.
    fn any_text(seed: u64) -> String {
        let pieces = [
            "word ",
            "Sentence. ",
            "\n",
            "\n\n",
            "\n```\n",
            "\n```rust\n",
            "👨‍👩‍👧‍👦",
            "日本語",
            "e\u{301}",
            "\t",
            "longlonglonglonglong",
            "`x` ",
        ];
        let mut dice = seed;
        (0..200)
            .map(|_| {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                pieces[usize::try_from(dice >> 33).unwrap() % pieces.len()]
            })
            .collect()
    }

    #[test]
    fn no_part_is_too_long_nothing_is_lost_and_every_block_is_closed() {
        let bare = |text: &str| -> String {
            text.lines()
                .filter(|line| Fence::read(line).is_none())
                .flat_map(str::chars)
                .filter(|c| !c.is_whitespace())
                .collect()
        };
        for seed in 0..60 {
            let text = any_text(seed);
            for (most, unit) in
                [(40, Unit::Chars), (100, Unit::Bytes), (64, Unit::Utf16), (4096, Unit::Utf16)]
            {
                let parts = split(&text, most, unit);
                for part in &parts {
                    assert!(unit.length(part) <= most && !part.trim().is_empty(), "{seed} {most}: {part:?}");
                }
                assert_eq!(bare(&parts.join("\n")), bare(&text), "{seed} {most} {unit:?}");
                let closed =
                    parts.iter().rev().skip(1).filter(|part| Fence::after(part, None).is_some()).count();
                assert_eq!(closed, 0, "{seed} {most}: {parts:#?}");
            }
        }
    }
}
