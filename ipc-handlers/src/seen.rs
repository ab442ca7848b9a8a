//! Which characters are seen, and which names can be told by eye.

/// Whether a character acts on a screen, or turns the text around it: controls, and the invisible ones that format.
#[must_use]
pub fn acts(c: char) -> bool {
    // Most text is of these.
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff0}'..='\u{fffb}' | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e00ff}' | '\u{e01f0}'..='\u{e0fff}')
}

/// Whether a character leaves nothing to be seen, or a gap that is no plain space: a name with one looks like another.
/// With those that [`acts`] has, that is all of Unicode's property `Default_Ignorable_Code_Point`
/// (DerivedCoreProperties.txt), white space, and the empty Braille pattern. Letters of other scripts or widths that look
/// alike are not told apart.
#[must_use]
pub fn hides(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    acts(c)
        || (c.is_whitespace() && c != ' ')
        || matches!(c,
            '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{2800}'
            | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}' | '\u{e0100}'..='\u{e01ef}')
}

/// Whether a character that hides may stand in a name all the same: what joins letters, or chooses how a picture looks.
fn joins(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}')
}

/// Whether a name can be told by eye: something of it is seen, and nothing in it hides but what joins letters or pictures.
#[must_use]
pub fn is_seen(name: &str) -> bool {
    name.chars().any(|c| c != ' ' && !hides(c)) && !name.chars().any(|c| hides(c) && !joins(c))
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
    fn a_name_shows_something_and_hides_nothing() {
        for good in ["Family", "Aunt Mary", "1", "家族", "❤\u{fe0f} us", "👩\u{200d}🚀", "می\u{200c}خواهم"]
        {
            assert!(is_seen(good), "{good:?}");
        }
        for bad in [
            "",
            " ",
            "\u{3164}",
            "\u{115f}\u{1160}",
            "\u{ffa0}",
            "\u{2800}",
            "\u{200d}\u{fe0f}",
            "\u{e0041}Family",
            "Fam\u{3164}ily",
            "Fam\u{200b}ily",
            "Fam\nily",
            "Aunt\u{a0}Mary",
        ] {
            assert!(!is_seen(bad), "{bad:?}");
        }
    }
}
