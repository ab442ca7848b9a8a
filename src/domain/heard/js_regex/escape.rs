//! What a backslash means, outside and inside a class, with the web's legacy rules; and classes.

use super::{
    PatternError,
    class::Units,
    parse::{GroupKind, Parser, ascii, digit, syntax},
    tree::{Assertion, Direction, Node},
};

/// One member of a class.
enum Member {
    Unit(u16),
    Set(Units),
}

const BACKSLASH: u16 = b'\\' as u16;
const HYPHEN: u16 = b'-' as u16;

/// Whether an escape stands inside a class; `\b` and `\c` differ.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Inside,
    Outside,
}

impl Parser<'_> {
    /// What follows a backslash outside a class.
    pub(super) fn escape(&mut self) -> Result<Node, PatternError> {
        let assertion = match self.peek(0).and_then(ascii) {
            Some('b') => Assertion::WordBoundary,
            Some('B') => Assertion::NoWordBoundary,
            Some('1'..='9') => return self.decimal_escape(),
            Some('k') if self.groups.have_names() => return self.named_reference(),
            Some(_) | None => {
                let units = self.class_escape(Class::Outside)?.into_units();
                return Ok(Node::Set(self.cased(units)));
            }
        };
        self.at += 1;
        Ok(Node::Assertion(assertion))
    }

    /// `\12`: a back-reference if there are that many groups, else an octal escape or plain digits.
    fn decimal_escape(&mut self) -> Result<Node, PatternError> {
        let digits = self.source[self.at..].iter().take_while(|unit| digit(**unit, 10).is_some()).count();
        let number = self.number(self.at, self.at + digits);
        if number <= self.groups.count() {
            self.at += digits;
            return self.reference(vec![number]);
        }
        let unit = self.octal_or_digit();
        Ok(Node::Set(self.cased(Units::one(unit))))
    }

    /// `\k<name>`.
    fn named_reference(&mut self) -> Result<Node, PatternError> {
        self.at += 1;
        if self.next().and_then(ascii) != Some('<') {
            return Err(syntax("\\k without a group name"));
        }
        let name = self.group_name()?;
        let numbers = self.groups.named(&name);
        if numbers.is_empty() {
            return Err(syntax("\\k with the name of no group"));
        }
        self.reference(numbers)
    }

    /// A group that is not closed yet has no text, even in a loop, where each round forgets its groups.
    fn reference(&mut self, mut numbers: Vec<usize>) -> Result<Node, PatternError> {
        if self.open.iter().any(|kind| matches!(kind, GroupKind::Look(Direction::Behind, _))) {
            return Err(PatternError::Unsupported { what: "a back-reference inside a look-behind" });
        }
        numbers.retain(|number| self.groups.is_closed(*number));
        if numbers.is_empty() {
            return Ok(Node::Sequence(vec![]));
        }
        self.references += 1;
        Ok(Node::Reference(numbers))
    }

    /// `[…]`; `[]` accepts nothing and `[^]` everything.
    pub(super) fn class(&mut self) -> Result<Node, PatternError> {
        let negated = self.peek(0).and_then(ascii) == Some('^');
        if negated {
            self.at += 1;
        }
        let mut units = Units::default();
        loop {
            if self.peek(0).and_then(ascii) == Some(']') {
                self.at += 1;
                break;
            }
            let from = self.class_member()?;
            let is_range =
                self.peek(0) == Some(HYPHEN) && self.peek(1).is_some_and(|u| ascii(u) != Some(']'));
            if !is_range {
                from.join(&mut units);
                continue;
            }
            self.at += 1;
            match (from, self.class_member()?) {
                (Member::Unit(from), Member::Unit(to)) if from <= to => units.add(from, to),
                (Member::Unit(_), Member::Unit(_)) => return Err(syntax("a range out of order in a class")),
                (from, to) => {
                    from.join(&mut units);
                    Member::Unit(HYPHEN).join(&mut units);
                    to.join(&mut units);
                }
            }
        }
        let units = self.cased(units);
        Ok(Node::Set(if negated { units.complement() } else { units }))
    }

    fn class_member(&mut self) -> Result<Member, PatternError> {
        let unit = self.next().ok_or_else(|| syntax("a class is not closed"))?;
        if unit == BACKSLASH { self.class_escape(Class::Inside) } else { Ok(Member::Unit(unit)) }
    }

    /// What follows a backslash where it stands for a unit or a set of units.
    fn class_escape(&mut self, place: Class) -> Result<Member, PatternError> {
        let unit = self.peek(0).ok_or_else(|| syntax("a backslash at the end"))?;
        let Some(c) = ascii(unit) else {
            self.at += 1;
            return Ok(Member::Unit(unit));
        };
        if c.is_ascii_digit() {
            return Ok(Member::Unit(self.octal_or_digit()));
        }
        self.at += 1;
        Ok(match c {
            'd' => Member::Set(Units::digit()),
            'D' => Member::Set(Units::digit().complement()),
            'w' => Member::Set(Units::word()),
            'W' => Member::Set(Units::word().complement()),
            's' => Member::Set(Units::space()),
            'S' => Member::Set(Units::space().complement()),
            't' => Member::Unit(0x09),
            'n' => Member::Unit(0x0A),
            'v' => Member::Unit(0x0B),
            'f' => Member::Unit(0x0C),
            'r' => Member::Unit(0x0D),
            'b' if place == Class::Inside => Member::Unit(0x08),
            'x' => Member::Unit(self.hex(2).unwrap_or(unit)),
            'u' => Member::Unit(self.hex(4).unwrap_or(unit)),
            'c' => Member::Unit(self.control(place)),
            'k' if self.groups.have_names() => return Err(syntax("\\k in a class")),
            _ => Member::Unit(unit),
        })
    }

    /// `\cX`; without a fitting X the backslash was plain, and the `c` is read again.
    fn control(&mut self, place: Class) -> u16 {
        let fits =
            |c: char| c.is_ascii_alphabetic() || (place == Class::Inside && (c.is_ascii_digit() || c == '_'));
        match self.peek(0) {
            Some(unit) if ascii(unit).is_some_and(fits) => {
                self.at += 1;
                unit % 32
            }
            Some(_) | None => {
                self.at -= 1;
                BACKSLASH
            }
        }
    }

    /// `\0` to `\377` as the web has always read them; `\8` and `\9` are themselves.
    fn octal_or_digit(&mut self) -> u16 {
        let Some(first) = self.peek(0).and_then(|unit| digit(unit, 8)) else {
            return self.next().unwrap_or_default();
        };
        self.at += 1;
        let mut value = first;
        for _ in 0..if first <= 3 { 2 } else { 1 } {
            let Some(next) = self.peek(0).and_then(|unit| digit(unit, 8)) else { break };
            self.at += 1;
            value = value * 8 + next;
        }
        value
    }

    /// Takes exactly `count` hexadecimal digits, or nothing.
    fn hex(&mut self, count: usize) -> Option<u16> {
        let digits = self.source.get(self.at..self.at + count)?;
        let value = digits.iter().try_fold(0, |value, unit| Some(value * 16 + digit(*unit, 16)?))?;
        self.at += count;
        Some(value)
    }
}

impl Member {
    fn into_units(self) -> Units {
        match self {
            Self::Unit(unit) => Units::one(unit),
            Self::Set(set) => set,
        }
    }

    fn join(&self, units: &mut Units) {
        match self {
            Self::Unit(unit) => units.join(&Units::one(*unit)),
            Self::Set(set) => units.join(set),
        }
    }
}
