//! From JavaScript's pattern syntax (no flags, with the web's legacy rules) to a tree.
//!
//! The pattern is read as UTF-16, as JavaScript reads it. Nothing here matches anything.

use super::{
    MAX_TEXT_CHARS, PatternError,
    class::Units,
    groups::{Groups, name_length},
    tree::{Assertion, Direction, Greed, Node, Tree, Wanted},
};

/// How deep groups may nest; the tree is walked by recursion.
const MAX_DEPTH: usize = 100;

/// Returns the pattern as a tree.
///
/// # Errors
/// `Syntax`, `Unsupported`, and `TooComplex` for groups nested too deeply.
pub(super) fn parse(pattern: &str, case: Case) -> Result<Tree, PatternError> {
    let source: Vec<u16> = pattern.encode_utf16().collect();
    let groups = Groups::find(&source);
    let mut parser = Parser {
        source: &source,
        at: 0,
        case,
        groups,
        captures: 0,
        looks: 0,
        open: vec![],
        references: 0,
        look_depth: 0,
    };
    let root = parser.either()?;
    match parser.peek(0) {
        None => Ok(Tree {
            root,
            references: parser.references,
            looks: parser.looks,
            look_depth: parser.look_depth,
        }),
        Some(_) => Err(syntax("a ')' too many")),
    }
}

pub(super) struct Parser<'p> {
    pub(super) source: &'p [u16],
    /// The unit that is read next.
    pub(super) at: usize,
    case: Case,
    pub(super) groups: Groups,
    captures: usize,
    looks: usize,
    /// The groups around the position that is read.
    pub(super) open: Vec<GroupKind>,
    pub(super) references: usize,
    look_depth: usize,
}

/// Whether letters that differ in case alone are the same, as JavaScript's flag `i` has it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Case {
    Counts,
    Ignored,
}

/// What an opening parenthesis opens.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum GroupKind {
    Plain,
    Capture,
    Look(Direction, Wanted),
}

/// A repeat, and how many units of the pattern write it.
struct Repeat {
    length: usize,
    min: usize,
    max: Option<usize>,
}

impl Parser<'_> {
    /// Alternatives, up to a `)` or the end.
    fn either(&mut self) -> Result<Node, PatternError> {
        let mut branches = vec![self.sequence()?];
        while self.peek(0).and_then(ascii) == Some('|') {
            self.at += 1;
            branches.push(self.sequence()?);
        }
        Ok(if branches.len() == 1 { branches.swap_remove(0) } else { Node::Either(branches) })
    }

    fn sequence(&mut self) -> Result<Node, PatternError> {
        let mut nodes = vec![];
        while self.peek(0).is_some_and(|unit| !matches!(ascii(unit), Some('|' | ')'))) {
            let node = self.term()?;
            nodes.push(self.repeated(node)?);
        }
        Ok(Node::Sequence(nodes))
    }

    fn term(&mut self) -> Result<Node, PatternError> {
        if self.repeat().is_some() {
            return Err(syntax("nothing to repeat"));
        }
        let unit = self.next().ok_or_else(|| syntax("it ends too early"))?;
        Ok(match ascii(unit) {
            Some('\\') => self.escape()?,
            Some('[') => self.class()?,
            Some('(') => self.group()?,
            Some('^') => Node::Assertion(Assertion::Start),
            Some('$') => Node::Assertion(Assertion::End),
            Some('.') => Node::Set(Units::line_end().complement()),
            Some(_) | None => Node::Set(self.cased(Units::one(unit))),
        })
    }

    /// Returns the units that stand for these in a text.
    pub(super) fn cased(&self, units: Units) -> Units {
        match self.case {
            Case::Counts => units,
            Case::Ignored => units.in_any_case(),
        }
    }

    /// Takes the repeat behind a term, if there is one.
    fn repeated(&mut self, node: Node) -> Result<Node, PatternError> {
        let Some(Repeat { length, min, max }) = self.repeat() else { return Ok(node) };
        // A look-ahead may be repeated, for the sake of old pages; a look-behind may not.
        if matches!(node, Node::Assertion(_) | Node::Look { direction: Direction::Behind, .. }) {
            return Err(syntax("nothing to repeat"));
        }
        self.at += length;
        let lazy = self.peek(0).and_then(ascii) == Some('?');
        self.at += usize::from(lazy);
        let greed = if lazy { Greed::Lazy } else { Greed::Greedy };
        Ok(Node::Repeat { body: Box::new(node), min, max, greed })
    }

    /// What follows an opening parenthesis, up to its end.
    fn group(&mut self) -> Result<Node, PatternError> {
        if self.open.len() == MAX_DEPTH {
            return Err(PatternError::TooComplex { why: format!("groups nest more than {MAX_DEPTH} deep") });
        }
        let kind = self.group_kind()?;
        if kind == GroupKind::Capture {
            self.captures += 1;
        }
        let number = self.captures;
        self.open.push(kind);
        let depth = self.open.iter().filter(|kind| matches!(kind, GroupKind::Look(..))).count();
        self.look_depth = self.look_depth.max(depth);
        let body = self.either()?;
        self.open.pop();
        if self.next().is_none() {
            return Err(syntax("a group is not closed"));
        }
        Ok(match kind {
            GroupKind::Plain => body,
            GroupKind::Capture => {
                self.groups.close(number);
                Node::Capture(Box::new(body))
            }
            GroupKind::Look(direction, wanted) => {
                let id = self.looks;
                self.looks += 1;
                Node::Look { id, direction, wanted, body: Box::new(body) }
            }
        })
    }

    fn group_kind(&mut self) -> Result<GroupKind, PatternError> {
        use {Direction::*, Wanted::*};
        let ahead = |at| self.peek(at).and_then(ascii);
        let (length, kind) = match (ahead(0), ahead(1), ahead(2)) {
            (Some('?'), Some(':'), _) => (2, GroupKind::Plain),
            (Some('?'), Some('='), _) => (2, GroupKind::Look(Ahead, Found)),
            (Some('?'), Some('!'), _) => (2, GroupKind::Look(Ahead, Absent)),
            (Some('?'), Some('<'), Some('=')) => (3, GroupKind::Look(Behind, Found)),
            (Some('?'), Some('<'), Some('!')) => (3, GroupKind::Look(Behind, Absent)),
            (Some('?'), Some('<'), _) => {
                self.at += 2;
                self.group_name()?;
                (0, GroupKind::Capture)
            }
            (Some('?'), _, _) => return Err(PatternError::Unsupported { what: "a modifier group" }),
            (_, _, _) => (0, GroupKind::Capture),
        };
        self.at += length;
        Ok(kind)
    }

    /// Reads a group's name up to its `>`.
    pub(super) fn group_name(&mut self) -> Result<Vec<u16>, PatternError> {
        let rest = &self.source[self.at..];
        let length = name_length(rest).ok_or_else(|| syntax("a group name is not closed"))?;
        self.at += length + 1;
        Ok(rest[..length].to_vec())
    }

    /// Returns the repeat that comes next: `*`, `+`, `?`, `{2}`, `{2,}` or `{2,3}`. Any other brace is plain.
    fn repeat(&self) -> Option<Repeat> {
        match self.peek(0).and_then(ascii)? {
            '*' => Some(Repeat { length: 1, min: 0, max: None }),
            '+' => Some(Repeat { length: 1, min: 1, max: None }),
            '?' => Some(Repeat { length: 1, min: 0, max: Some(1) }),
            '{' => self.counted_repeat(self.at + 1),
            _ => None,
        }
    }

    fn counted_repeat(&self, start: usize) -> Option<Repeat> {
        // No text has more units than this, so more rounds than this are as good as any number.
        let most = 2 * MAX_TEXT_CHARS + 1;
        let length = self.source[start..].iter().position(|unit| ascii(*unit) == Some('}'))?;
        let body = &self.source[start..start + length];
        let comma = body.iter().position(|unit| ascii(*unit) == Some(','));
        let min_end = comma.unwrap_or(length);
        let all_digits =
            |from: usize, to: usize| body[from..to].iter().all(|unit| digit(*unit, 10).is_some());
        if min_end == 0 || !all_digits(0, min_end) {
            return None;
        }
        let min = self.number(start, start + min_end).min(most);
        let max = match comma {
            None => Some(min),
            Some(comma) if comma + 1 == length => None,
            Some(comma) if !all_digits(comma + 1, length) => return None,
            Some(comma) => Some(self.number(start + comma + 1, start + length)).filter(|max| *max < most),
        };
        Some(Repeat { length: length + 2, min, max })
    }

    /// Returns the number that the digits of a part of the pattern write.
    pub(super) fn number(&self, from: usize, to: usize) -> usize {
        self.source[from..to].iter().fold(0_usize, |value, unit| {
            value.saturating_mul(10).saturating_add(digit(*unit, 10).unwrap_or_default().into())
        })
    }

    pub(super) fn peek(&self, ahead: usize) -> Option<u16> {
        self.source.get(self.at + ahead).copied()
    }

    pub(super) fn next(&mut self) -> Option<u16> {
        let unit = self.peek(0)?;
        self.at += 1;
        Some(unit)
    }
}

pub(super) fn ascii(unit: u16) -> Option<char> {
    u8::try_from(unit).ok().filter(u8::is_ascii).map(char::from)
}

pub(super) fn digit(unit: u16, radix: u32) -> Option<u16> {
    ascii(unit)?.to_digit(radix)?.try_into().ok()
}

pub(super) fn syntax(why: &str) -> PatternError {
    PatternError::Syntax { why: why.to_owned() }
}
