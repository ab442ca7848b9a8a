//! Addresses that stand behind words, as they are told beside them. Pure.

/// The longest address that is told, bytes; the rest of it is cut.
const LONGEST: usize = 2048;
/// How much the addresses of one text may add to it, bytes.
const MOST: usize = 16 << 10;

/// The addresses behind the words of one text, within bounds.
#[derive(Debug)]
pub struct Links {
    left: usize,
}

impl Default for Links {
    fn default() -> Self {
        Self { left: MOST }
    }
}

impl Links {
    /// Returns what is told behind the words of a link. `None`: the words are the address already, there is none, or the text
    /// has been given as much as it may.
    pub fn behind(&mut self, words: &str, address: &str) -> Option<String> {
        let shown: String = address.chars().filter(|c| !c.is_control() && !c.is_whitespace()).collect();
        if shown.is_empty() || bare(words.trim()).eq_ignore_ascii_case(bare(&shown)) {
            return None;
        }
        let behind = format!(" ({})", cut(&shown, LONGEST));
        self.left = self.left.checked_sub(behind.len())?;
        Some(behind)
    }
}

/// Returns an address without what people leave out of it.
fn bare(address: &str) -> &str {
    let schemes = ["https://", "http://", "mailto:", "tel:"];
    let is =
        |scheme: &&&str| address.get(..scheme.len()).is_some_and(|head| head.eq_ignore_ascii_case(scheme));
    let scheme = schemes.iter().find(is).map_or(0, |scheme| scheme.len());
    address[scheme..].trim_end_matches('/')
}

/// Returns a text of at most `most` bytes; a cut one ends with `…`.
#[must_use]
pub fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most.saturating_sub('…'.len_utf8())).rev().find(|at| text.is_char_boundary(*at));
    format!("{}…", &text[..end.unwrap_or(0)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_told_unless_the_words_are_it() {
        for (words, address, behind) in [
            ("this", "https://a.example/x", Some(" (https://a.example/x)")),
            ("a.example/x", "https://a.example/x", None),
            ("http://a.example", "HTTPS://A.example/", None),
            ("ada@a.example", "mailto:ada@a.example", None),
            ("a.example", "https://evil.example", Some(" (https://evil.example)")),
            ("this", "https://a.example/\nx y", Some(" (https://a.example/xy)")),
            ("this", " \n", None),
            ("ü", "ü", None),
        ] {
            assert_eq!(Links::default().behind(words, address).as_deref(), behind, "{words} {address}");
        }
    }

    #[test]
    fn addresses_and_texts_have_bounds() {
        let mut links = Links::default();
        let told: usize =
            (0..1000).filter_map(|_| links.behind("x", &"ü".repeat(9000))).map(|one| one.len()).sum();
        assert!((1..=MOST).contains(&told));
        assert_eq!((cut("abc", 3), cut("abcd", 3), cut("üüü", 5)), ("abc".into(), "…".into(), "ü…".into()));
        assert!((0..40).all(|most| cut(&"ü".repeat(30), most).len() <= most.max('…'.len_utf8())));
    }
}
