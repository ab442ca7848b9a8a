//! What may reach a screen.

use std::borrow::Cow;

/// Whether a character acts on a screen, or turns the text around it: controls, and the invisible ones that format.
#[must_use]
pub fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff0}'..='\u{fffb}' | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e00ff}' | '\u{e01f0}'..='\u{e0fff}')
}

/// Returns text of several lines as a screen may have it: nothing in it moves the cursor, changes colours, asks the terminal
/// for an answer, hides, or turns what stands around it. Lines and tabs stay, and what joins letters or pictures.
#[must_use]
pub fn on_screen(text: &str) -> Cow<'_, str> {
    let stays = |c: char| !acts(c) || matches!(c, '\n' | '\t' | '\u{200c}' | '\u{200d}');
    if text.chars().all(stays) {
        return Cow::Borrowed(text);
    }
    let break_lines = |c| if matches!(c, '\u{2028}' | '\u{2029}') { '\n' } else { c };
    Cow::Owned(text.chars().map(break_lines).filter(|c| stays(*c)).collect())
}

/// Whether a character leaves nothing to be seen, or a gap that is no plain space: a name with one looks like another.
/// With those that [`acts`] has, that is all of Unicode's property `Default_Ignorable_Code_Point`
/// (DerivedCoreProperties.txt), white space, and the empty Braille pattern. Letters of other scripts or widths that look
/// alike are not told apart.
#[must_use]
pub fn hides(c: char) -> bool {
    acts(c)
        || (c.is_whitespace() && c != ' ')
        || matches!(c,
            '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{2800}'
            | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}' | '\u{e0100}'..='\u{e01ef}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_unicode_says_is_ignored_hides() {
        // DerivedCoreProperties.txt, Default_Ignorable_Code_Point, whole.
        for range in [
            '\u{ad}'..='\u{ad}',
            '\u{34f}'..='\u{34f}',
            '\u{61c}'..='\u{61c}',
            '\u{115f}'..='\u{1160}',
            '\u{17b4}'..='\u{17b5}',
            '\u{180b}'..='\u{180f}',
            '\u{200b}'..='\u{200f}',
            '\u{202a}'..='\u{202e}',
            '\u{2060}'..='\u{206f}',
            '\u{3164}'..='\u{3164}',
            '\u{fe00}'..='\u{fe0f}',
            '\u{feff}'..='\u{feff}',
            '\u{ffa0}'..='\u{ffa0}',
            '\u{fff0}'..='\u{fff8}',
            '\u{1bca0}'..='\u{1bca3}',
            '\u{1d173}'..='\u{1d17a}',
            '\u{e0000}'..='\u{e0fff}',
        ] {
            for c in range {
                assert!(hides(c), "U+{:04X}", u32::from(c));
            }
        }
        for c in ['a', ' ', 'é', 'ß', '日', 'ש', '\u{301}', '👩', '\u{1d172}', '\u{fffd}'] {
            assert!(!hides(c), "U+{:04X}", u32::from(c));
        }
    }

    #[test]
    fn nothing_on_a_screen_acts_on_it() {
        for (text, shown) in [
            ("plain, Zoë שלום 日本\n\tindented\n", "plain, Zoë שלום 日本\n\tindented\n"),
            // Colours, the title, the clipboard, a question to the terminal, another screen: as ESC or as one C1 character.
            ("\u{1b}[31mred\u{1b}[0m", "[31mred[0m"),
            ("\u{1b}]0;title\u{7}", "]0;title"),
            ("\u{1b}]52;c;cm0=\u{1b}\\", "]52;c;cm0=\\"),
            ("\u{9b}6n\u{90}q\u{9d}x\u{9c}", "6nqx"),
            ("done\rfail", "donefail"),
            ("ab\u{8}\u{8}cd\u{7f}\0\u{b}\u{c}", "abcd"),
            ("one\r\ntwo", "one\ntwo"),
            // Text that is turned around, or hidden.
            ("rm \u{202e}txt.fdp\u{202c}", "rm txt.fdp"),
            ("\u{2066}a\u{2067}b\u{2068}c\u{2069}", "abc"),
            ("a\u{200e}b\u{200f}c\u{61c}d\u{202a}e\u{202b}f\u{202d}g", "abcdefg"),
            ("pay\u{200b}pal\u{ad}\u{feff}\u{2060}", "paypal"),
            ("see\u{e0049}\u{e0047}\u{1d173}\u{1bca0}\u{e01f0}", "see"),
            ("a\u{2028}b\u{2029}c", "a\nb\nc"),
            // What joins stays.
            ("می\u{200c}خواهم 👩\u{200d}🚀 ❤\u{fe0f}", "می\u{200c}خواهم 👩\u{200d}🚀 ❤\u{fe0f}"),
        ] {
            assert_eq!(on_screen(text), shown, "{text:?}");
        }
    }
}
