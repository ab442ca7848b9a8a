//! Reads JSON as it comes, in pieces that may end anywhere, and tells what stands where. Takes strict JSON in UTF-8 only, so
//! that nobody who reads the same bytes leniently finds something else in them. Its memory has a bound: the depth.

/// The deepest that values may stand in one another.
const DEEPEST: usize = 128;
/// The longest text that is told, bytes; of a longer one it is told that it is long.
pub(super) const LONGEST: usize = 64;
/// In the place of a character that no name has which matters here.
const OTHER: u8 = 0xff;

/// Why a text is not read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::gateway) enum Bad {
    #[error("it is no JSON in UTF-8, from byte {0} on")]
    NoJson(u64),
    #[error("its values stand more than {DEEPEST} deep in one another")]
    TooDeep,
}

/// A text, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Text<'a> {
    /// What it reads, its escapes resolved.
    Short(&'a [u8]),
    /// More than [`LONGEST`] bytes.
    Long,
}

/// An event of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A value begins.
    Object,
    Array,
    /// The object or array that began last ends.
    End,
    /// The name of the value that comes next.
    Name(Text<'a>),
    String(Text<'a>),
    Null,
    /// A number, `true` or `false`.
    Plain,
}

/// What may come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Value,
    /// After `[`.
    ValueOrEnd,
    /// After `{`.
    NameOrEnd,
    /// After a comma in an object.
    Name,
    Colon,
    CommaOrEnd,
    /// The document is whole.
    Nothing,
}

/// In what the next byte stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Within {
    Nothing,
    Text,
    Escape,
    /// In `\uXXXX`: digits so far, and what they come to.
    Unit(u8, u32),
    /// The rest of `true`, `false`, `null`.
    Word(&'static [u8], Plain),
    Number(Number),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plain {
    Null,
    Other,
}

/// How far a number has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Minus,
    Zero,
    Whole,
    Point,
    Fraction,
    E,
    Sign,
    Exponent,
}

impl Number {
    /// What it is after another byte; `None`: the byte is not its.
    fn with(self, byte: u8) -> Option<Self> {
        match (self, byte) {
            (Self::Minus, b'0') => Some(Self::Zero),
            (Self::Minus, b'1'..=b'9') | (Self::Whole, b'0'..=b'9') => Some(Self::Whole),
            (Self::Zero | Self::Whole, b'.') => Some(Self::Point),
            (Self::Point | Self::Fraction, b'0'..=b'9') => Some(Self::Fraction),
            (Self::Zero | Self::Whole | Self::Fraction, b'e' | b'E') => Some(Self::E),
            (Self::E, b'+' | b'-') => Some(Self::Sign),
            (Self::E | Self::Sign | Self::Exponent, b'0'..=b'9') => Some(Self::Exponent),
            _ => None,
        }
    }

    fn is_whole(self) -> bool {
        matches!(self, Self::Zero | Self::Whole | Self::Fraction | Self::Exponent)
    }
}

/// A document so far.
pub(super) struct Json {
    /// For each value that is open whether it is an object.
    open: Vec<bool>,
    next: Next,
    within: Within,
    /// The text so far is a name.
    is_name: bool,
    text: Vec<u8>,
    is_long: bool,
    /// A character that the last piece ended in.
    cut: Vec<u8>,
    /// How many bytes were read.
    read: u64,
}

impl Json {
    pub(super) fn new() -> Self {
        Self {
            open: Vec::new(),
            next: Next::Value,
            within: Within::Nothing,
            is_name: false,
            text: Vec::new(),
            is_long: false,
            cut: Vec::new(),
            read: 0,
        }
    }

    /// Reads the next piece and reports its events.
    ///
    /// # Errors
    /// [`Bad`], or what `tell` says; nothing may be read after that.
    pub(super) fn push<E: From<Bad>>(
        &mut self,
        piece: &[u8],
        tell: &mut impl FnMut(Token<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.characters(piece)?;
        let mut rest = piece;
        while let Some((byte, after)) = rest.split_first() {
            if self.within == Within::Text {
                // Most of a document is text that matters to nobody.
                let plain = rest.iter().take_while(|b| !matches!(b, b'"' | b'\\' | 0..0x20)).count();
                let (text, after) = rest.split_at(plain);
                if !text.is_empty() {
                    self.keep(text);
                    self.read += text.len() as u64;
                    rest = after;
                    continue;
                }
            }
            self.byte(*byte, tell)?;
            self.read += 1;
            rest = after;
        }
        Ok(())
    }

    /// Tells whether the document is whole.
    ///
    /// # Errors
    /// [`Bad::NoJson`] where it is not.
    pub(super) fn end(&self) -> Result<(), Bad> {
        // A number is over when something else comes, and at the top nothing does; ours are never numbers.
        if self.next == Next::Nothing && self.within == Within::Nothing && self.cut.is_empty() {
            return Ok(());
        }
        Err(Bad::NoJson(self.read))
    }

    /// Checks that the pieces together are UTF-8.
    fn characters(&mut self, mut piece: &[u8]) -> Result<(), Bad> {
        let bad = Bad::NoJson(self.read);
        while !self.cut.is_empty() {
            let Some((byte, after)) = piece.split_first() else { return Ok(()) };
            self.cut.push(*byte);
            piece = after;
            match std::str::from_utf8(&self.cut) {
                Ok(_) => self.cut.clear(),
                Err(error) if error.error_len().is_none() => {}
                Err(_) => return Err(bad),
            }
        }
        if let Err(error) = std::str::from_utf8(piece) {
            if error.error_len().is_some() {
                return Err(bad);
            }
            self.cut = piece.get(error.valid_up_to()..).unwrap_or_default().to_vec();
        }
        Ok(())
    }

    fn keep(&mut self, bytes: &[u8]) {
        let left = LONGEST - self.text.len();
        self.is_long |= bytes.len() > left;
        self.text.extend(bytes.iter().take(left));
    }

    fn byte<E: From<Bad>>(
        &mut self,
        byte: u8,
        tell: &mut impl FnMut(Token<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let bad = Bad::NoJson(self.read);
        match self.within {
            Within::Nothing => self.structure(byte, tell),
            Within::Text => match byte {
                b'"' => {
                    self.within = Within::Nothing;
                    let text = if self.is_long { Text::Long } else { Text::Short(&self.text) };
                    if self.is_name {
                        self.next = Next::Colon;
                        return tell(Token::Name(text));
                    }
                    self.next = self.after_value();
                    tell(Token::String(text))
                }
                b'\\' => {
                    self.within = Within::Escape;
                    Ok(())
                }
                _ => Err(bad.into()),
            },
            Within::Escape => {
                self.within = Within::Text;
                match byte {
                    b'"' | b'\\' | b'/' => self.keep(&[byte]),
                    b'b' | b'f' | b'n' | b'r' | b't' => self.keep(&[OTHER]),
                    b'u' => self.within = Within::Unit(0, 0),
                    _ => return Err(bad.into()),
                }
                Ok(())
            }
            Within::Unit(digits, so_far) => {
                let digit = char::from(byte).to_digit(16).ok_or(bad)?;
                let unit = so_far * 16 + digit;
                self.within = Within::Unit(digits + 1, unit);
                if digits == 3 {
                    self.within = Within::Text;
                    self.keep(&[match unit {
                        // The letters beyond ASCII that are another case of one within.
                        0x017f => b's',
                        0x212a => b'k',
                        _ => u8::try_from(unit).ok().filter(u8::is_ascii).unwrap_or(OTHER),
                    }]);
                }
                Ok(())
            }
            Within::Word(left, plain) => match left.split_first() {
                Some((expected, left)) if *expected == byte => {
                    self.within = Within::Word(left, plain);
                    if !left.is_empty() {
                        return Ok(());
                    }
                    self.within = Within::Nothing;
                    self.next = self.after_value();
                    tell(match plain {
                        Plain::Null => Token::Null,
                        Plain::Other => Token::Plain,
                    })
                }
                Some(_) | None => Err(bad.into()),
            },
            Within::Number(number) => match number.with(byte) {
                Some(number) => {
                    self.within = Within::Number(number);
                    Ok(())
                }
                None if number.is_whole() => {
                    self.within = Within::Nothing;
                    self.next = self.after_value();
                    tell(Token::Plain)?;
                    self.structure(byte, tell)
                }
                None => Err(bad.into()),
            },
        }
    }

    fn structure<E: From<Bad>>(
        &mut self,
        byte: u8,
        tell: &mut impl FnMut(Token<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let bad = Bad::NoJson(self.read);
        match (self.next, byte) {
            (_, b' ' | b'\t' | b'\n' | b'\r') => Ok(()),
            (Next::Value | Next::ValueOrEnd, b'{') => {
                self.opens(true)?;
                tell(Token::Object)
            }
            (Next::Value | Next::ValueOrEnd, b'[') => {
                self.opens(false)?;
                tell(Token::Array)
            }
            (Next::Value | Next::ValueOrEnd, b'"') => {
                self.text_begins(false);
                Ok(())
            }
            (Next::Name | Next::NameOrEnd, b'"') => {
                self.text_begins(true);
                Ok(())
            }
            (Next::Value | Next::ValueOrEnd, _) => {
                self.within = match byte {
                    b't' => Within::Word(b"rue", Plain::Other),
                    b'f' => Within::Word(b"alse", Plain::Other),
                    b'n' => Within::Word(b"ull", Plain::Null),
                    b'-' => Within::Number(Number::Minus),
                    b'0' => Within::Number(Number::Zero),
                    b'1'..=b'9' => Within::Number(Number::Whole),
                    b']' if self.next == Next::ValueOrEnd => return self.closes(tell),
                    _ => return Err(bad.into()),
                };
                Ok(())
            }
            (Next::NameOrEnd, b'}') => self.closes(tell),
            (Next::Colon, b':') => {
                self.next = Next::Value;
                Ok(())
            }
            (Next::CommaOrEnd, b',') => {
                self.next = if self.is_in_object() { Next::Name } else { Next::Value };
                Ok(())
            }
            (Next::CommaOrEnd, b'}') if self.is_in_object() => self.closes(tell),
            (Next::CommaOrEnd, b']') if !self.is_in_object() => self.closes(tell),
            _ => Err(bad.into()),
        }
    }

    fn is_in_object(&self) -> bool {
        self.open.last() == Some(&true)
    }

    fn text_begins(&mut self, is_name: bool) {
        self.within = Within::Text;
        self.is_name = is_name;
        self.text.clear();
        self.is_long = false;
    }

    fn opens(&mut self, is_object: bool) -> Result<(), Bad> {
        if self.open.len() == DEEPEST {
            return Err(Bad::TooDeep);
        }
        self.open.push(is_object);
        self.next = if is_object { Next::NameOrEnd } else { Next::ValueOrEnd };
        Ok(())
    }

    fn closes<E: From<Bad>>(&mut self, tell: &mut impl FnMut(Token<'_>) -> Result<(), E>) -> Result<(), E> {
        self.open.pop();
        self.next = self.after_value();
        tell(Token::End)
    }

    fn after_value(&self) -> Next {
        if self.open.is_empty() { Next::Nothing } else { Next::CommaOrEnd }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    /// Reads a document in two pieces; returns the events as one text.
    fn told(bytes: &[u8], cut: usize) -> Result<String, Bad> {
        let mut json = Json::new();
        let mut all = String::new();
        let mut tell = |token: Token<'_>| {
            let text = |text: Text<'_>| match text {
                Text::Short(text) => String::from_utf8_lossy(text).into_owned(),
                Text::Long => "…".to_owned(),
            };
            all.push_str(&match token {
                Token::Object => "{".to_owned(),
                Token::Array => "[".to_owned(),
                Token::End => ")".to_owned(),
                Token::Name(name) => format!("{}:", text(name)),
                Token::String(value) => format!("{:?} ", text(value)),
                Token::Null => "null ".to_owned(),
                Token::Plain => "plain ".to_owned(),
            });
            Ok::<(), Bad>(())
        };
        let (first, second) = bytes.split_at(cut);
        json.push(first, &mut tell)?;
        json.push(second, &mut tell)?;
        json.end()?;
        Ok(all)
    }

    #[test]
    fn a_document_is_told_with_its_escapes_resolved_wherever_it_is_cut() {
        let text =
            r#" {"\u0074ype" : "u\u0072l\/", "é":[1, -2.5e+3 ,true,null,{}],"x":{"y":"z\n\ud83d\ude00ü"}} "#;
        let expected = "{type:\"url/\" é:[plain plain plain null {))x:{y:\"z";
        let whole = told(text.as_bytes(), 0).unwrap();
        assert!(whole.starts_with(expected), "{whole}");
        for cut in 0..=text.len() {
            assert_eq!(told(text.as_bytes(), cut), Ok(whole.clone()), "{cut}");
        }
        let long = format!("{{\"{}\":\"{}\"}}", "k".repeat(LONGEST + 1), "v".repeat(LONGEST));
        assert_eq!(told(long.as_bytes(), 70).unwrap(), format!("{{…:{:?} )", "v".repeat(LONGEST)));
    }

    #[test]
    fn what_others_may_read_otherwise_is_refused() {
        for text in [
            "",
            "{",
            "{}{}",
            "{} x",
            "[1,]",
            "{\"a\":1,}",
            "{,}",
            "[,]",
            "{\"a\"}",
            "{'a':1}",
            "{a:1}",
            "[01]",
            "[1.]",
            "[.5]",
            "[+1]",
            "[1e]",
            "[-]",
            "[NaN]",
            "[Infinity]",
            "[nul]",
            "[True]",
            "// c\n{}",
            "{}//",
            "\u{feff}{}",
            "[\"a\nb\"]",
            "[\"\t\"]",
            "[\"\\x41\"]",
            "[\"\\u00g0\"]",
            "[\"\\u00",
            "{]",
            "[}",
            "[1 2]",
            "{\"a\" 1}",
            "[\"",
            "{\0}",
            "[1]\0",
        ] {
            for cut in 0..=text.len() {
                assert!(told(text.as_bytes(), cut).is_err(), "{text:?}");
            }
        }
        for bytes in
            [&b"[\"\xff\"]"[..], b"[\"\xc3\"]", b"[\"\xed\xa0\x80\"]", b"\xfe\xff\0{\0}", b"[\"\xc0\xaf\"]"]
        {
            for cut in 0..=bytes.len() {
                assert!(told(bytes, cut).is_err(), "{bytes:?}");
            }
        }
        let deep = |n| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(told(deep(DEEPEST).as_bytes(), 3).is_ok());
        assert_eq!(told(deep(DEEPEST + 1).as_bytes(), 3), Err(Bad::TooDeep));
    }

    proptest! {
        #[test]
        fn what_is_taken_is_what_a_whole_parser_takes(text in "[\\[\\]{}:, \"\\\\utn0-9a-f.eE+-]{0,24}", cut in 0_usize..24) {
            let cut = cut.min(text.len());
            let whole = serde_json::from_str::<Value>(&text);
            let top = whole.as_ref().is_ok_and(|value| value.is_object() || value.is_array() || value.is_string());
            // A half of a pair of units is taken: it stands for nothing that matters. So is a number of any size.
            if top {
                prop_assert!(told(text.as_bytes(), cut).is_ok(), "{text}");
            } else if !text.contains("\\u") && !text.contains(['e', 'E']) && whole.is_err() {
                prop_assert!(told(text.as_bytes(), cut).is_err(), "{text}");
            }
        }
    }
}
