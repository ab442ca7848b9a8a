//! Finds secrets in what passes, and puts stars of the same length in their place. Pure.
//!
//! A secret is looked for as it is, and as a whole in the ways in which hosts write what they echo: base64, percent-encoded,
//! with the slashes of a JSON text escaped. One that was taken apart or turned around is not found.

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};
use regex::bytes::{Regex, RegexBuilder};

/// The largest pattern, bytes: some twenty spellings of the longest keys that are taken need a tenth of it.
const LARGEST: usize = 64 << 20;
/// What stands in a secret's place, for each of its bytes.
const FILLER: u8 = b'*';

/// The spellings of some secrets.
pub(super) struct Sought {
    spellings: Vec<Vec<u8>>,
    /// Any of them; `None`: there is nothing to look for.
    any: Option<Regex>,
    /// The longest of them, bytes.
    longest: usize,
}

impl Sought {
    pub(super) fn new<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Self {
        let mut spellings: Vec<Vec<u8>> = secrets.into_iter().flat_map(spellings).collect();
        // Of two that begin alike the longer one is taken.
        spellings.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        spellings.dedup();
        let longest = spellings.first().map_or(0, Vec::len);
        let all: Vec<String> =
            spellings.iter().map(|spelling| regex::escape(&String::from_utf8_lossy(spelling))).collect();
        let any = (!all.is_empty()).then(|| {
            let pattern = RegexBuilder::new(&all.join("|")).size_limit(LARGEST).build();
            pattern.expect("escaped text of bounded length is a pattern")
        });
        Self { spellings, any, longest }
    }

    /// Whether a secret stands in a header: also cut by blanks or commas, or in other letters' case, as names are written.
    pub(super) fn is_in_header(&self, bytes: &[u8]) -> bool {
        let joined: Vec<u8> =
            bytes.iter().copied().filter(|byte| !byte.is_ascii_whitespace() && *byte != b',').collect();
        let is_in = |any: &Regex| any.is_match(bytes) || any.is_match(&joined);
        let lower = joined.to_ascii_lowercase();
        self.any.as_ref().is_some_and(is_in)
            || self.spellings.iter().any(|spelling| {
                let spelling = spelling.to_ascii_lowercase();
                lower.windows(spelling.len()).any(|part| part == spelling)
            })
    }

    /// Puts the filler in the place of every secret in `bytes`; returns how many there were.
    fn replace(&self, bytes: &mut [u8]) -> u64 {
        let Some(any) = &self.any else { return 0 };
        let found: Vec<_> = any.find_iter(bytes).map(|found| found.range()).collect();
        for range in &found {
            if let Some(secret) = bytes.get_mut(range.clone()) {
                secret.fill(FILLER);
            }
        }
        found.len() as u64
    }

    /// How many of the last bytes may be the beginning of a secret.
    fn begun(&self, bytes: &[u8]) -> usize {
        let most = self.longest.saturating_sub(1).min(bytes.len());
        (1..=most)
            .rev()
            .find(|n| {
                let end = bytes.get(bytes.len() - n..).unwrap_or_default();
                self.spellings.iter().any(|spelling| spelling.len() > *n && spelling.starts_with(end))
            })
            .unwrap_or(0)
    }
}

/// Looks for secrets in a body that comes in pieces.
#[derive(Default)]
pub(super) struct Filter {
    /// What may be the beginning of a secret; shorter than the longest of them.
    held: Vec<u8>,
    found: u64,
}

impl Filter {
    /// Returns what can be passed on: all but what may be the beginning of a secret. Nothing is held back at a body's
    /// `end`.
    pub(super) fn push(&mut self, sought: &Sought, piece: &[u8], end: End) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.held);
        bytes.extend_from_slice(piece);
        self.found += sought.replace(&mut bytes);
        let begun = match end {
            End::NotYet => sought.begun(&bytes),
            End::Reached => 0,
        };
        self.held = bytes.split_off(bytes.len() - begun);
        bytes
    }

    /// How many bytes are held back.
    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    /// How many secrets were replaced.
    pub(super) fn found(&self) -> u64 {
        self.found
    }
}

/// Whether more of a body may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    NotYet,
    Reached,
}

/// The ways in which a whole secret is written.
fn spellings(secret: &str) -> Vec<Vec<u8>> {
    let percent = |upper: bool| -> Vec<u8> {
        let hex = |byte: u8| if upper { format!("%{byte:02X}") } else { format!("%{byte:02x}") };
        let one = |byte: u8| match byte {
            b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
            byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
            byte => hex(byte),
        };
        secret.bytes().map(one).collect::<String>().into_bytes()
    };
    let mut all = vec![secret.as_bytes().to_vec(), percent(true), percent(false)];
    all.push(secret.replace('/', "\\/").into_bytes());
    // Within a longer text it begins at one of three places of a group of four letters. Letters that it shares with what
    // stands around it are left out.
    for before in 0..3 {
        let text: Vec<u8> = std::iter::repeat_n(0, before).chain(secret.bytes()).collect();
        let first = (before * 8).div_ceil(6);
        let last = text.len() * 8 / 6;
        for written in [STANDARD_NO_PAD.encode(&text), URL_SAFE_NO_PAD.encode(&text)] {
            all.extend(written.as_bytes().get(first..last).map(<[u8]>::to_vec));
        }
    }
    // A secret of a few letters would be found everywhere in such a form.
    all.retain(|spelling| !spelling.is_empty() && (spelling == secret.as_bytes() || spelling.len() >= 8));
    all
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;

    use super::{super::credentials::LONGEST_KEY, *};

    const KEY: &str = "sk-ant-api03-a+b/c_d";

    /// Passes `body` on in pieces that end at `cuts`.
    fn passed(body: &[u8], cuts: &[usize]) -> (Vec<u8>, u64) {
        let sought = Sought::new([KEY]);
        let (mut filter, mut out, mut from) = (Filter::default(), Vec::new(), 0);
        for cut in cuts.iter().copied().chain([body.len()]) {
            out.extend(filter.push(&sought, &body[from..cut], End::NotYet));
            assert!(filter.held() < sought.longest);
            from = cut;
        }
        out.extend(filter.push(&sought, &[], End::Reached));
        (out, filter.found())
    }

    #[test]
    fn a_key_is_replaced_wherever_it_is_cut_and_nothing_else_is_changed() {
        let body = format!("{{\"a\":\"sk-ant sk-{KEY}\",\"b\":\"{KEY}{KEY}\"}}");
        let expected = body.replace(KEY, &"*".repeat(KEY.len()));
        for first in 0..body.len() {
            for second in first..body.len() {
                let (out, found) = passed(body.as_bytes(), &[first, second]);
                assert_eq!((String::from_utf8(out).unwrap().as_str(), found), (expected.as_str(), 3));
            }
        }
        let each: Vec<usize> = (0..body.len()).collect();
        assert_eq!(passed(body.as_bytes(), &each).0, expected.as_bytes());
    }

    #[test]
    fn a_key_is_found_as_hosts_write_what_they_echo() {
        let percent = "sk-ant-api03-a%2Bb%2Fc_d";
        for echo in [percent.to_owned(), percent.to_lowercase(), KEY.replace('/', "\\/")] {
            let (out, found) = passed(format!("x={echo}&").as_bytes(), &[9]);
            assert_eq!((out.len(), found), (echo.len() + 3, 1), "{echo}");
        }
        for before in ["", "B", "Be", "Bea", "Bearer "] {
            let echo = STANDARD.encode(format!("{before}{KEY} and more"));
            let (out, found) = passed(echo.as_bytes(), &[7]);
            assert_eq!((out.len(), found), (echo.len(), 1), "{before}");
            assert!(!String::from_utf8_lossy(&STANDARD.decode(&out).unwrap_or_default()).contains(KEY));
        }
    }

    #[test]
    fn nothing_is_held_back_that_can_not_become_the_key() {
        let sought = Sought::new([KEY]);
        let mut filter = Filter::default();
        let event = b"data: {\"type\":\"ping\"}\n\n";
        assert_eq!(filter.push(&sought, event, End::NotYet), event);
        assert_eq!(filter.push(&sought, b"a sk-ant", End::NotYet), b"a ");
        assert_eq!(filter.push(&sought, b"s", End::NotYet), b"sk-ant");
        assert_eq!(filter.held(), 1);
        assert_eq!(filter.push(&sought, b"", End::Reached), b"s");
        assert_eq!(filter.found(), 0);
    }

    #[test]
    fn the_longest_keys_are_looked_for_too() {
        let keys = ["a", "b", "c", "d"].map(|letter| format!("/{}", letter.repeat(LONGEST_KEY - 1)));
        let sought = Sought::new(keys.iter().map(String::as_str));
        assert_eq!(sought.replace(&mut keys.concat().into_bytes()), 4);
    }

    #[test]
    fn a_header_may_not_hold_it_in_parts_or_in_small_letters() {
        let sought = Sought::new(["sk-ant-API03-xyz"]);
        for held in
            ["a sk-ant-API03-xyz b", "sk-ant- API03-xyz", "sk-ant,-API03-,xyz", "anthropic-sk-ant-api03-xyz"]
        {
            assert!(sought.is_in_header(held.as_bytes()), "{held}");
        }
        assert!(!sought.is_in_header(b"sk-ant-api03-xy"));
        assert!(!Sought::new([]).is_in_header(b"anything"));
    }
}
