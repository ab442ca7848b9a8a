//! Marks beside Chinese, Japanese and Korean. Markdown knows a mark by the spaces around words, which these scripts do not write:
//! in `**「…」**です` it sees no end. The rule here is the one of the CommonMark addition for these scripts: their own punctuation
//! keeps no mark from opening or closing, and other punctuation does not where one of their letters stands behind the mark.

use pulldown_cmark::CowStr;

/// Stands between a mark and a letter while markdown is read. Markdown takes it for punctuation, and nobody writes it.
const APART: char = '\u{a95f}';

/// Whether a text has marks that are kept apart from what stands beside them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Beside {
    has_apart: bool,
}

impl Beside {
    /// Returns `source` with [`APART`] where a mark would otherwise be words; as it is where somebody wrote that character.
    pub(crate) fn read(source: String) -> (Self, String) {
        if source.is_ascii() || source.contains(APART) {
            return (Self::default(), source);
        }
        let (mut out, mut before) = (String::with_capacity(source.len()), ' ');
        let mut rest = source.as_str();
        while let Some(c) = rest.chars().next() {
            let length = match c {
                '\\' => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
                '*' | '_' | '~' => rest.len() - rest.trim_start_matches(c).len(),
                c => c.len_utf8(),
            };
            let (word, behind) = rest.split_at(length);
            rest = behind;
            let after = rest.chars().next().unwrap_or(' ');
            // One `_` stands in addresses and names of files.
            let marks = word.len() > 1 || c != '_';
            let is_mark =
                matches!(c, '*' | '_' | '~') && marks && (is_east_asian(before) || is_east_asian(after));
            out.extend((is_mark && is_letter(before) && is_sign(after)).then_some(APART));
            out.push_str(word);
            out.extend((is_mark && is_sign(before) && is_letter(after)).then_some(APART));
            before = word.chars().next_back().unwrap_or(' ');
        }
        (Self { has_apart: out.len() > source.len() }, out)
    }

    /// Takes out what [`Self::read`] put in.
    pub(crate) fn together(self, words: CowStr<'_>) -> CowStr<'_> {
        if self.has_apart && words.contains(APART) { words.replace(APART, "").into() } else { words }
    }
}

fn is_letter(c: char) -> bool {
    !c.is_whitespace() && !is_sign(c)
}

/// Whether markdown takes it for punctuation: no letter, no digit, no space, and nothing that belongs to the character before.
fn is_sign(c: char) -> bool {
    let joins = matches!(c, '\u{300}'..='\u{36f}' | '\u{200b}'..='\u{200f}' | '\u{fe00}'..='\u{fe0f}' | '\u{3099}' | '\u{309a}');
    !c.is_alphanumeric() && !c.is_whitespace() && !joins
}

fn is_east_asian(c: char) -> bool {
    matches!(c,
        '\u{1100}'..='\u{11ff}'      // Hangul, in parts
        | '\u{2e80}'..='\u{a4cf}'    // radicals, punctuation, kana, Hangul, Han, Yi
        | '\u{a960}'..='\u{a97f}'
        | '\u{ac00}'..='\u{d7ff}'    // Hangul
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe4f}'
        | '\u{ff00}'..='\u{ffef}'    // of full and half width
        | '\u{20000}'..='\u{3ffff}')
}
