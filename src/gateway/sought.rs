//! Finds secrets in what passes, and puts stars of the same length in their place. Pure.
//!
//! A secret is looked for as it is, in hex and in base64; each in any case of its letters, and with any of its letters escaped
//! as JSON (`\u0073`, `\/`) or an address (`%73`) does. One that was taken apart or turned around is not found.

use std::{fmt::Write as _, ops::Range};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};
use regex::bytes::{Regex, RegexBuilder};

/// The largest pattern, bytes: some twenty spellings of the longest keys that are taken need a tenth of it.
const LARGEST: usize = 64 << 20;
/// The byte in the place of each byte of a secret.
const FILLER: u8 = b'*';
/// How many backslashes may stand before one escape: a JSON text within a text within a text has four.
const BACKSLASHES: usize = 4;
/// The longest escape, bytes: such as `\\\\u0073`.
const LONGEST_ESCAPE: usize = BACKSLASHES + 5;

/// The spellings of some secrets.
pub(super) struct Sought {
    /// In small letters.
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

    /// Whether a secret stands in a header: also cut by blanks or commas.
    pub(super) fn is_in_header(&self, bytes: &[u8]) -> bool {
        let joined: Vec<u8> =
            bytes.iter().copied().filter(|byte| !byte.is_ascii_whitespace() && *byte != b',').collect();
        self.replace(&mut bytes.to_vec()) + self.replace(&mut joined.clone()) > 0
    }

    /// Puts the filler in the place of every secret in `bytes`; returns how many there were.
    fn replace(&self, bytes: &mut [u8]) -> u64 {
        let Some(any) = &self.any else { return 0 };
        let mut found = 0;
        let mut fill = |bytes: &mut [u8], range: Range<usize>| {
            if let Some(secret) = bytes.get_mut(range) {
                secret.fill(FILLER);
                found += 1;
            }
        };
        for range in any.find_iter(&bytes.to_ascii_lowercase()).map(|found| found.range()) {
            fill(bytes, range);
        }
        if let Some(said) = Resolved::of(bytes) {
            for range in any.find_iter(&said.bytes).map(|found| found.range()) {
                fill(bytes, said.begins(range.start)..said.begins(range.end));
            }
        }
        found
    }

    /// How many of the last bytes may be the beginning of a secret.
    fn begun(&self, bytes: &[u8]) -> usize {
        if self.any.is_none() {
            return 0;
        }
        let as_it_is = self.begun_in(&last(bytes, self.longest).to_ascii_lowercase());
        let escaped = Resolved::of(last(bytes, self.longest * LONGEST_ESCAPE)).map_or(0, |said| {
            let begun = self.begun_in(&said.bytes);
            said.whole + said.cut - said.begins(said.bytes.len() - begun)
        });
        as_it_is.max(escaped)
    }

    /// The same of bytes in small letters, without escapes.
    fn begun_in(&self, bytes: &[u8]) -> usize {
        let most = self.longest.saturating_sub(1).min(bytes.len());
        let is_begun = |end: &[u8]| {
            self.spellings.iter().any(|spelling| spelling.len() > end.len() && spelling.starts_with(end))
        };
        (1..=most).rev().find(|n| is_begun(last(bytes, *n))).unwrap_or(0)
    }
}

/// Returns the last bytes, `most` of them.
fn last(bytes: &[u8], most: usize) -> &[u8] {
    bytes.get(bytes.len().saturating_sub(most)..).unwrap_or_default()
}

/// What bytes say when the escapes in them are resolved, in small letters.
struct Resolved {
    bytes: Vec<u8>,
    /// Where each of them begins in what it was read from.
    at: Vec<usize>,
    /// How many bytes it was read from, without an escape at the end that is not whole.
    whole: usize,
    /// How many bytes that has.
    cut: usize,
}

impl Resolved {
    /// `None`: there are no escapes.
    fn of(bytes: &[u8]) -> Option<Self> {
        bytes.iter().find(|byte| matches!(byte, b'\\' | b'%'))?;
        let mut this = Self { bytes: Vec::with_capacity(bytes.len()), at: Vec::new(), whole: 0, cut: 0 };
        let mut rest = bytes;
        while let Some((first, behind)) = rest.split_first() {
            let (byte, length) = match Escape::at(rest) {
                Escape::None => (*first, 1),
                Escape::Whole(byte, length) => (byte, length),
                Escape::Cut => break,
            };
            this.at.push(this.whole);
            this.bytes.push(byte.to_ascii_lowercase());
            this.whole += length;
            rest = behind.get(length - 1..).unwrap_or_default();
        }
        this.cut = rest.len();
        Some(this)
    }

    /// Where the byte of this number begins in what it was read from; of the one behind the last, where that ends.
    fn begins(&self, n: usize) -> usize {
        self.at.get(n).copied().unwrap_or(self.whole)
    }
}

/// An escape at the beginning of some bytes.
enum Escape {
    None,
    /// The byte that it stands for, and its length.
    Whole(u8, usize),
    /// It may become one with the bytes that come next.
    Cut,
}

impl Escape {
    fn at(bytes: &[u8]) -> Self {
        match bytes.first() {
            Some(b'%') => Self::hex(bytes, 1, 2),
            Some(b'\\') => {
                let slashes = bytes.iter().take(BACKSLASHES).take_while(|byte| **byte == b'\\').count();
                match bytes.get(slashes) {
                    None => Self::Cut,
                    Some(b'u') => Self::hex(bytes, slashes + 1, 4),
                    Some(b'/') => Self::Whole(b'/', slashes + 1),
                    Some(_) => Self::None,
                }
            }
            Some(_) | None => Self::None,
        }
    }

    /// The escape of a character by its number: hex digits that begin at `from`.
    fn hex(bytes: &[u8], from: usize, digits: usize) -> Self {
        let behind = bytes.get(from..).unwrap_or_default();
        let given = behind.get(..digits.min(behind.len())).unwrap_or_default();
        if !given.iter().all(u8::is_ascii_hexdigit) {
            return Self::None;
        }
        if given.len() < digits {
            return Self::Cut;
        }
        let value = std::str::from_utf8(given).ok().and_then(|given| u32::from_str_radix(given, 16).ok());
        match value.and_then(|value| u8::try_from(value).ok()).filter(u8::is_ascii) {
            Some(byte) => Self::Whole(byte, from + digits),
            None => Self::None,
        }
    }
}

/// Looks for secrets in a body that comes in pieces.
#[derive(Default)]
pub(super) struct Filter {
    /// What may be the beginning of a secret; shorter than the longest of them is with all of it escaped.
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

/// The ways in which a whole secret is written, in small letters and without escapes.
fn spellings(secret: &str) -> Vec<Vec<u8>> {
    let hex = secret.bytes().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    let mut all = vec![secret.as_bytes().to_vec(), hex.into_bytes()];
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
    all.into_iter().map(|spelling| spelling.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;

    use super::{super::credentials::LONGEST_KEY, *};

    const KEY: &str = "sk-ant-api03-a+b/c_d";

    /// Passes `body` on in pieces that end at `cuts`.
    fn passed(body: &[u8], cuts: &[usize]) -> (Vec<u8>, u64) {
        static SOUGHT: std::sync::LazyLock<Sought> = std::sync::LazyLock::new(|| Sought::new([KEY]));
        let sought = &*SOUGHT;
        let (mut filter, mut out, mut from) = (Filter::default(), Vec::new(), 0);
        for cut in cuts.iter().copied().chain([body.len()]) {
            out.extend(filter.push(sought, &body[from..cut], End::NotYet));
            assert!(filter.held() < sought.longest * LONGEST_ESCAPE);
            from = cut;
        }
        out.extend(filter.push(sought, &[], End::Reached));
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
        let every = |form: &dyn Fn(u8) -> String| KEY.bytes().map(form).collect::<String>();
        let some = |form: &dyn Fn(u8) -> String| -> String {
            let one =
                |(n, byte): (usize, u8)| if n % 3 == 0 { form(byte) } else { char::from(byte).to_string() };
            KEY.bytes().enumerate().map(one).collect()
        };
        let json = |byte: u8| format!("\\u{byte:04X}");
        let percent = |byte: u8| format!("%{byte:02x}");
        let in_base64 = STANDARD.encode(KEY).replace('=', "%3D");
        let echoes = [
            every(&json),
            every(&percent),
            some(&json),
            some(&percent),
            some(&|byte| format!("\\\\\\\\u{byte:04x}")),
            format!("{}{}", &every(&json)[..30], &KEY[5..]),
            every(&|byte| format!("{byte:02x}")),
            every(&|byte| format!("{byte:02X}")),
            KEY.to_uppercase(),
            in_base64.to_lowercase().replace('q', "\\u0071"),
        ];
        for echo in echoes {
            let body = format!("{{\"a\\n\":\"100 % {echo}\"}}");
            for cut in 0..body.len() {
                let (out, found) = passed(body.as_bytes(), &[cut]);
                let out = String::from_utf8(out).unwrap();
                assert_eq!((out.len(), found), (body.len(), 1), "{echo} cut after {cut}: {out}");
                assert!(out.starts_with("{\"a\\n\":\"100 % *") && out.ends_with("\"}"), "{out}");
            }
            let each: Vec<usize> = (0..body.len()).collect();
            assert_eq!(passed(body.as_bytes(), &each).1, 1, "{echo} byte by byte");
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
        // Escapes of other letters, or that are none.
        let delta = br#"{"text":"a\nb \u00e9 \u0041 100 %, %zz \"","#;
        assert_eq!(filter.push(&sought, delta, End::NotYet), delta);
        assert_eq!(filter.push(&sought, br"a\u00", End::NotYet), b"a");
        assert_eq!(filter.push(&sought, b"41", End::NotYet), br"\u0041");
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
